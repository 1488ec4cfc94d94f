// Actions on a ranker: download its state and its log, delete it after a confirmation.

import { ask } from "./api.js";
import { byId, say } from "./dom.js";
import { keyed } from "./files.js";

const name = document.body.dataset.ranker;
const said = byId("action-said");

for (const id of ["get-state", "get-log"]) keyed(byId(id), (error) => say(said, error.message));

const dialog = byId("delete-dialog");
byId("delete").addEventListener("click", () => {
  byId("delete-name").value = "";
  say(byId("delete-error"), "");
  dialog.showModal();
});
byId("delete-cancel").addEventListener("click", () => dialog.close());
byId("delete-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const typed = byId("delete-name");
  const wrong = typed.value !== name;
  typed.setAttribute("aria-invalid", String(wrong));
  if (wrong) {
    say(byId("delete-error"), `That is not its name; type ${name}. Nothing was deleted.`);
    typed.focus();
    return;
  }
  try {
    await ask(`/v1/rankers/${encodeURIComponent(name)}`, { method: "DELETE" });
    location.assign("/");
  } catch (error) {
    say(byId("delete-error"), `${error.message} Nothing was deleted.`);
  }
});
