// The list of rankers: one line per ranker, updated every two seconds while the page is visible.

import { json } from "./api.js";
import { byId, el, say } from "./dom.js";
import { count, many, percent, rate, time } from "./format.js";
import { paged } from "./pager.js";

const table = paged("/dash/rankers", { search: "search", body: "rankers", total: "total", before: "before", after: "after" }, line);

function line(ranker) {
  const better = ranker.start !== null && ranker.now > ranker.start * 1.02;
  return el("tr", {},
    el("th", { scope: "row" }, el("a", { href: `/rankers/${encodeURIComponent(ranker.name)}` }, ranker.name)),
    el("td", {}, health(ranker)),
    el("td", { class: "number" }, el("span", { class: better ? "pill good" : "" }, rate(ranker.now))),
    el("td", { class: "number" }, rate(ranker.start)),
    el("td", { class: "number" }, percent(ranker.exploration)),
    el("td", { class: "number" }, count(ranker.learned)),
    el("td", {}, ranker.algorithm),
    el("td", { class: "number" }, count(ranker.items)),
    el("td", { class: "number" }, count(ranker.positions)),
  );
}

/** One word, and numbers if something is wrong. */
function health(ranker) {
  if (ranker.broken) return el("span", { class: "pill bad", title: ranker.broken }, "log altered");
  const parts = [];
  if (ranker.dropped) parts.push(`${count(ranker.dropped)} dropped`);
  if (ranker.late) parts.push(`${count(ranker.late)} late`);
  const lost = ranker.served ? (ranker.dropped + ranker.late) / ranker.served : 0;
  const pill = el("span", { class: lost > 0.2 ? "pill warn" : "pill good" }, lost > 0.2 ? "losing feedback" : "healthy");
  return el("span", {}, pill, parts.length ? el("span", { class: "soft small" }, ` ${parts.join(", ")}`) : null);
}

let answered = null; // when the server last answered, in seconds since 1970

async function server() {
  const found = await json("/dash/server");
  answered = Date.now() / 1000;
  document.body.classList.remove("stale");
  say(byId("server-lag"), count(found.lag));
  say(byId("server-unknown"), count(found.unknown));
  say(byId("server-late"), count(found.late));
  say(byId("server-invalid"), count(found.invalid));
  say(byId("server-rankers"), count(found.rankers));
  say(byId("server-learning"), found.learning ? "learns" : "ranks only");
  warn(found.failed || (found.broken.length ? `${many(found.broken.length, "ranker")} cannot learn: ${found.broken.join(", ")}` : ""));
}

function warn(wrong) {
  say(byId("server-wrong"), wrong);
  byId("server-wrong").hidden = !wrong;
}

/** Say that the page may be out of date. */
function lost(error) {
  document.body.classList.add("stale");
  say(byId("server-learning"), error.status ? "–" : "does not answer");
  warn(answered === null ? error.message : `${error.message} What you see is as of ${time(answered)}.`);
}

async function renew() {
  if (document.visibilityState === "visible") {
    const [found] = await Promise.all([table.load(), server().catch(lost)]);
    if (found) byId("empty").hidden = found.total > 0 || byId("search").value !== "";
  }
  setTimeout(renew, 2000);
}

renew();
