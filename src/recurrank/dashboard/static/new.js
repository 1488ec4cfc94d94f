// A new ranker from a file, with a preview of the file.

import { ask, json } from "./api.js";
import { byId, el, say } from "./dom.js";
import { clear, tell } from "./forms.js";
import { count, many } from "./format.js";

const form = byId("new-form");
const KINDS = { csv: "text/csv", parquet: "application/vnd.apache.parquet", npy: "application/x-npy" };
let sound = false;

const file = () => form.elements.file.files[0];
const kindOf = (chosen) => KINDS[chosen.name.split(".").pop().toLowerCase()];

/** The options of the chosen algorithm: their fields, called "algorithm.option". */
const optionsOf = (algorithm) => [...form.querySelectorAll("[data-ranker] [name]")].filter((input) => input.closest("[data-ranker]").dataset.ranker === algorithm);

function showOptions() {
  const algorithm = form.elements.algorithm.value;
  for (const part of form.querySelectorAll("[data-ranker]")) part.hidden = part.dataset.ranker !== algorithm;
  byId("no-options").hidden = optionsOf(algorithm).length > 0;
}

/** The value of an option as it is typed: a number, numbers with slashes between them, true, false or a word. */
function typed(text) {
  if (text === "true" || text === "false") return text === "true";
  if (text.includes("/")) return text.split("/").map(typed);
  return Number.isFinite(Number(text)) ? Number(text) : text;
}

/** Show a problem at its field, or at the file if the file was refused. */
function wrong(error) {
  let [field, rest] = error.parts || ["", error.message];
  const option = `${form.elements.algorithm.value}.${field}`;
  if (form.elements.namedItem(option)) field = option;
  if (field !== "file" && form.elements.namedItem(field)) tell(form, field, rest);
  else tell(form, [400, 413, 415].includes(error.status) ? "file" : "", error.message.replace(/^(body|file): /, ""));
}

async function preview() {
  clear(form);
  sound = false;
  byId("preview").hidden = true;
  const chosen = file();
  if (!chosen) return;
  if (!kindOf(chosen)) {
    tell(form, "file", `${chosen.name} cannot be read; choose a file that ends in .csv, .parquet or .npy.`);
    return;
  }
  say(byId("new-said"), "Reading the file …");
  try {
    const found = await json("/dash/preview", { method: "PUT", body: chosen, headers: { "content-type": kindOf(chosen) } });
    show(found);
    sound = true;
  } catch (error) {
    wrong(error);
  }
  say(byId("new-said"), "");
}

function show(found) {
  say(byId("preview-about"), `${many(found.items, "item")} with ${many(found.dim, "feature")} each; ${found.named ? `named by the column “${found.named}”` : "without names: they are called 0, 1, 2, …"}.${found.ignored.length ? ` Not used: ${found.ignored.join(", ")}.` : ""}`);
  byId("preview-head").replaceChildren(...found.columns.map((column) => el("th", { scope: "col" }, column.name, el("span", { class: "soft small" }, ` ${column.role}`))));
  byId("preview-body").replaceChildren(...found.rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", { class: "id", dir: "auto" }, cell)))));
  say(byId("preview-more"), found.items > found.rows.length ? `and ${count(found.items - found.rows.length)} more` : "");
  byId("preview").hidden = false;
}

form.elements.file.addEventListener("click", () => { form.elements.file.value = ""; }); // so that choosing the same file again, corrected, is a change
form.elements.file.addEventListener("change", preview);
form.elements.algorithm.addEventListener("change", showOptions);
showOptions(); // the browser may have kept another choice
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!file()) return tell(form, "file", "Choose a file first.");
  if (!sound) {
    await preview();
    if (!sound) return;
  }
  clear(form);
  const name = form.elements.name.value.trim();
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(name)) return tell(form, "name", "Give 1 to 64 letters, digits, dots, dashes or underscores.");
  const query = new URLSearchParams();
  for (const field of ["positions", "rounds", "algorithm", "window_seconds", "unreported"]) query.set(field, form.elements.namedItem(field).value.trim());
  const algorithm = form.elements.algorithm.value;
  const given = optionsOf(algorithm).filter((input) => input.value.trim()).map((input) => [input.name.slice(algorithm.length + 1), typed(input.value.trim())]);
  if (given.length) query.set("options", JSON.stringify(Object.fromEntries(given)));
  byId("create").disabled = true;
  say(byId("new-said"), "Making the ranker …");
  try {
    const answer = await ask(`/v1/rankers/${encodeURIComponent(name)}?${query}`, { method: "PUT", body: file(), headers: { "content-type": kindOf(file()) } });
    const made = await answer.json();
    say(byId("new-said"), made.created ? "Made." : "It was there already, the very same.");
    location.assign(`/rankers/${encodeURIComponent(name)}`);
  } catch (error) {
    say(byId("new-said"), "");
    wrong(error);
  }
  byId("create").disabled = false;
});
