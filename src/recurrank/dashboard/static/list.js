// The list of rankers: a line each, renewed every two seconds while somebody looks.

import { json } from "./api.js";
import { byId, el, say } from "./dom.js";
import { count, many, percent, rate } from "./format.js";
import { paged } from "./pager.js";

const table = paged("/dash/rankers", { search: "search", body: "rankers", total: "total", before: "before", after: "after" }, line);

function line(ranker) {
  const better = ranker.start !== null && ranker.now > ranker.start * 1.02;
  return el("tr", {},
    el("th", { scope: "row" }, el("a", { href: `/rankers/${encodeURIComponent(ranker.name)}` }, ranker.name)),
    el("td", {}, ranker.algorithm),
    el("td", { class: "number" }, count(ranker.items)),
    el("td", { class: "number" }, count(ranker.positions)),
    el("td", { class: "number" }, count(ranker.learned)),
    el("td", { class: "number" }, rate(ranker.start)),
    el("td", { class: "number" }, el("span", { class: better ? "pill good" : "" }, rate(ranker.now))),
    el("td", { class: "number" }, percent(ranker.exploration)),
    el("td", {}, health(ranker)),
  );
}

/** One word, and numbers where something is not as it should be. */
function health(ranker) {
  if (ranker.broken) return el("span", { class: "pill bad", title: ranker.broken }, "log altered");
  const parts = [];
  if (ranker.dropped) parts.push(`${count(ranker.dropped)} dropped`);
  if (ranker.late) parts.push(`${count(ranker.late)} late`);
  const lost = ranker.served ? (ranker.dropped + ranker.late) / ranker.served : 0;
  const pill = el("span", { class: lost > 0.2 ? "pill warn" : "pill good" }, lost > 0.2 ? "losing feedback" : "healthy");
  return el("span", {}, pill, parts.length ? el("span", { class: "soft small" }, ` ${parts.join(", ")}`) : null);
}

async function server() {
  const found = await json("/dash/server");
  say(byId("server-lag"), count(found.lag));
  say(byId("server-unknown"), count(found.unknown));
  say(byId("server-late"), count(found.late));
  say(byId("server-invalid"), count(found.invalid));
  say(byId("server-rankers"), count(found.rankers));
  say(byId("server-learning"), found.learning ? "learns" : "ranks only");
  const wrong = found.failed || (found.broken.length ? `${many(found.broken.length, "ranker")} cannot learn: ${found.broken.join(", ")}` : "");
  say(byId("server-wrong"), wrong);
  byId("server-wrong").hidden = !wrong;
}

async function renew() {
  if (document.visibilityState === "visible") {
    await Promise.all([table.load(), server().catch(() => {})]);
    byId("empty").hidden = byId("rankers").children.length > 0 || byId("search").value !== "";
  }
  setTimeout(renew, 2000);
}

renew();
