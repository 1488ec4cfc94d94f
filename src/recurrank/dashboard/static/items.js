// The table of all items, which the server searches, sorts and pages.

import { el } from "./dom.js";
import { count, percent } from "./format.js";
import { paged } from "./pager.js";

const row = (item) => el("tr", {},
  el("th", { scope: "row", class: "id", dir: "auto" }, item.id),
  el("td", { class: "number" }, count(item.shown)),
  el("td", { class: "number" }, count(item.clicked)),
  el("td", { class: "number" }, item.shown ? percent(item.rate) : "–"),
  el("td", { class: "number" }, item.shown ? `${percent(item.low)} – ${percent(item.high)}` : "–"));

export function items(path) {
  const table = paged(path, { search: "item-search", body: "items", total: "items-total", before: "items-before", after: "items-after" }, row);
  table.state.sort = "-rate";
  table.load();
}
