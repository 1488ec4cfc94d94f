// The key: asked for if the server requires one, kept as long as the tab is open.

import { key } from "./api.js";
import { byId, say } from "./dom.js";

const form = byId("key-form");
const given = byId("key-given");

function show(needed) {
  form.hidden = !needed;
  given.hidden = needed || !key.get();
}

document.addEventListener("key-needed", () => {
  say(byId("key-error"), key.get() ? "This key is not known here, or has not the role admin." : "");
  show(true);
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  key.set(byId("key").value.trim());
  byId("key").value = "";
  show(false);
  document.dispatchEvent(new CustomEvent("key-given"));
});
byId("key-forget").addEventListener("click", () => {
  key.set("");
  location.reload();
});
show(false);
