// Tables that the server searches, sorts and pages: their common part.

import { json } from "./api.js";
import { byId, calmly, say } from "./dom.js";
import { count } from "./format.js";

/**
 * @param path address that answers ?search=&sort=&page= with {rows, total, page, pages}
 * @param names ids of the elements: search, body, total, before, after
 * @param row makes a <tr> of a row
 */
export function paged(path, names, row) {
  const state = { search: "", sort: "", page: 1 };
  const at = Object.fromEntries(Object.entries(names).map(([what, id]) => [what, byId(id)]));
  let turn = 0;

  async function load() {
    const mine = ++turn;
    const query = new URLSearchParams({ search: state.search, sort: state.sort, page: state.page });
    const found = await json(`${path}?${query}`);
    if (mine !== turn) return null; // another page was requested meanwhile
    state.page = found.page;
    const focused = at.body.contains(document.activeElement) && document.activeElement.getAttribute("href");
    at.body.replaceChildren(...found.rows.map(row));
    if (focused) at.body.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
    const range = found.pages > 1 ? `, page ${count(found.page)} of ${count(found.pages)}` : "";
    say(at.total, `${count(found.total)} ${state.search ? "found" : "in all"}${range}`);
    at.before.disabled = found.page <= 1;
    at.after.disabled = found.page >= found.pages;
    return found;
  }

  const again = () => load().catch((error) => say(at.total, error.message));
  at.search.addEventListener("input", calmly(() => {
    state.search = at.search.value;
    state.page = 1;
    again();
  }));
  at.before.addEventListener("click", () => { state.page -= 1; again(); });
  at.after.addEventListener("click", () => { state.page += 1; again(); });
  for (const button of at.body.closest("table").querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const heading = button.closest("th");
      const down = heading.getAttribute("aria-sort") !== (heading.dataset.first || "descending");
      const order = down ? heading.dataset.first || "descending" : heading.dataset.first === "ascending" ? "descending" : "ascending";
      for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", order);
      state.sort = `${order === "descending" ? "-" : ""}${heading.dataset.sort}`;
      state.page = 1;
      again();
    });
  }
  document.addEventListener("key-given", again);
  return { load: again, state };
}
