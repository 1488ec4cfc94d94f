// One ranker, live: updates from the server, about one per second with changes, go to the parts of the page.

import { COLOURS, draw } from "./charts.js";
import { byId, el, say, svg } from "./dom.js";
import { experiment } from "./experiment.js";
import { blockRows, drawFlow } from "./flow.js";
import { follow } from "./follow.js";
import { count, many, percent, rate, time } from "./format.js";
import { items } from "./items.js";
import { requests } from "./requests.js";
import "./actions.js";

const name = document.body.dataset.ranker;
const path = `/dash/rankers/${encodeURIComponent(name)}`;

function facts(now) {
  say(byId("about"), `${now.algorithm} · ${many(now.items, "item")} with ${many(now.dim, "feature")} · ${many(now.positions, "position")} · planned for ${many(now.rounds, "slate")}`);
  say(byId("fact-learned"), count(now.learned));
  say(byId("fact-served"), `of ${many(now.served, "slate")} served`);
  say(byId("fact-start"), rate(now.rate.start));
  say(byId("fact-now"), rate(now.rate.now));
  byId("fact-now").classList.toggle("up", now.rate.now > now.rate.start * 1.02);
  say(byId("fact-perfect"), `${now.rate.margin === null ? "" : `± ${rate(now.rate.margin)}, `}last ${count(now.rate.span)} slates${now.truth ? `; ${perfect(now.rate, now.truth.total)}` : ""}`);
  say(byId("fact-exploring"), percent(now.exploration));
  say(byId("fact-open"), count(now.open));
  say(byId("fact-dropped"), count(now.dropped));
  say(byId("fact-late"), `${count(now.late)} reported late`);
  say(byId("fact-lag"), count(now.lag));
  const wrong = byId("broken");
  wrong.hidden = !now.broken;
  say(wrong, now.broken ? `This ranker cannot learn: ${now.broken}` : "");
}

/** A limited number of slates cannot distinguish a nearly perfect ranking from a perfect one. */
function perfect({ now, margin }, total) {
  return now + margin >= total ? `within chance of a perfect ranking's ${rate(total)}` : `${percent(now / total)} of a perfect ranking's ${rate(total)}`;
}

/** The blocks: all so far, or only the current ones if the algorithm keeps no history. */
function flow({ flow: { boxes, history }, positions }) {
  byId("flow-card").hidden = boxes.length === 0;
  say(byId("flow-title"), history ? "How it got here" : "What competes now");
  for (const part of document.querySelectorAll("[data-history]")) part.hidden = !history;
  for (const part of document.querySelectorAll("[data-present]")) part.hidden = history;
  if (boxes.length === 0) return;
  drawFlow(byId("flow"), boxes, positions, history);
  byId("blocks").replaceChildren(...blockRows(boxes));
}

function interval(row, most) {
  const x = (value) => (100 * value) / most;
  return svg("svg", { class: "interval", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "base", x: 0, y: 4, width: 100, height: 2 }),
    svg("rect", { class: "range", x: x(row.low), y: 2, width: Math.max(0.5, x(row.high - row.low)), height: 6 }),
    svg("rect", { class: "middle", x: Math.max(0, x(row.rate ?? 0) - 0.7), y: 0, width: 1.4, height: 10 }));
}

function certainty(row) {
  const positions = row.last > row.first ? `${row.first}–${row.last}` : `${row.first}`;
  if (row.certain === "place") return el("span", { class: "pill good" }, "certain");
  if (row.certain === "shown") return el("span", { class: "pill plain" }, `certainly among ${positions}`);
  if (row.certain === null) return el("span", { class: "soft" }, "not known");
  return el("span", { class: "pill warn" }, `${many(row.competing, "item")} compete for ${positions}`);
}

function ranking(now) {
  const most = Math.max(0.02, ...now.ranking.filter((row) => row.shown > 0).map((row) => row.high));
  say(byId("ranking-about"), now.ranking_about);
  byId("ranking-card").hidden = now.ranking.length === 0; // a ranker of requests may have no items, or no ranking for all visitors
  byId("ranking").replaceChildren(...now.ranking.map((row) => el("tr", {},
    el("td", { class: "number" }, String(row.position)),
    el("th", { scope: "row", class: "id", dir: "auto" }, row.id),
    el("td", { class: "number" }, row.shown ? percent(row.rate) : "–"),
    el("td", { class: "with-interval" }, row.shown ? interval(row, most) : null, el("span", { class: "soft small" }, row.shown ? `${percent(row.low)} to ${percent(row.high)}` : "not shown yet")),
    el("td", {}, certainty(row)))));
}

function happened(event) {
  const clicks = event.kind === "learned" || event.kind === "reported" ? event.clicks.length ? event.clicks.join(", ") : "none" : "";
  return el("tr", {},
    el("td", {}, time(event.at)),
    el("td", {}, event.kind),
    el("td", {}, clicks),
    el("td", { class: "id", dir: "auto" }, event.items.join(" · "), event.more ? el("span", { class: "soft" }, ` and ${count(event.more)} more`) : null),
    el("td", { class: "number" }, count(event.seq)));
}

/** Clicks per slate over time: one point for several bins, to reduce noise. */
function curve(now) {
  const { width, clicks } = now.curve;
  const together = Math.max(1, Math.ceil(clicks.length / 64)), x = [], y = [];
  for (let at = 0; at < clicks.length; at += together) {
    const bins = clicks.slice(at, at + together);
    const slates = Math.min(now.learned, (at + bins.length) * width) - at * width;
    if (x.length && slates < (together * width) / 2) continue; // too few slates for a point
    x.push(at * width + slates / 2);
    y.push(bins.reduce((sum, seen) => sum + seen, 0) / slates);
  }
  const traces = [{ x, y, name: "clicks per slate", mode: "lines", line: { color: COLOURS[0], width: 2 }, hovertemplate: "%{y:.3f} clicks per slate around slate %{x:,.0f}<extra></extra>" }];
  if (now.truth && x.length) {
    const ends = [0, Math.max(now.learned, 1)];
    traces.push({ x: ends, y: ends.map(() => now.truth.total), name: "a perfect ranking", mode: "lines", line: { color: COLOURS[2], dash: "dash", width: 2 }, hovertemplate: "%{y:.3f}<extra>a perfect ranking</extra>" });
  }
  return draw(byId("curve"), traces, { xaxis: { title: { text: "slates learned from" }, tickformat: "~s" }, yaxis: { title: { text: "clicks per slate" } }, showlegend: true });
}

function byPosition(now) {
  const positions = now.by_position.map((_, at) => at + 1);
  const traces = [{ type: "bar", x: positions, y: now.by_position, name: "so far", marker: { color: COLOURS[0] }, hovertemplate: "position %{x}: %{y:.1%}<extra></extra>" }];
  if (now.truth) traces.push({ x: positions, y: now.truth.by_position, name: "a perfect ranking", mode: "markers", marker: { color: COLOURS[2], symbol: "line-ew-open", size: 22, line: { width: 3 } }, hovertemplate: "position %{x}: %{y:.1%}<extra>a perfect ranking</extra>" });
  return draw(byId("by-position"), traces, { xaxis: { title: { text: "position" }, dtick: positions.length > 12 ? undefined : 1 }, yaxis: { title: { text: "click rate" }, tickformat: ".0%" }, showlegend: Boolean(now.truth) });
}

function tables(now) {
  const rows = now.by_position.map((share, at) => el("tr", {}, el("th", { scope: "row" }, String(at + 1)), el("td", { class: "number" }, percent(share)), el("td", { class: "number" }, now.truth ? percent(now.truth.by_position[at]) : "–")));
  byId("by-position-rows").replaceChildren(...rows);
}

let shown = null; // when the page was last updated, in seconds since 1970

function show(now) {
  shown = Date.now() / 1000;
  facts(now);
  flow(now);
  ranking(now);
  tables(now);
  byId("events").replaceChildren(...now.events.map(happened));
  document.body.dataset.version = now.version;
  Promise.all([curve(now), byPosition(now), requests(now), experiment(now)]).catch((error) => say(byId("charts-failed"), error.message))
    .then(() => { document.body.dataset.complete = now.version; });
}

const LOST = { 404: "there is no such ranker any more", 401: "a key is needed", 403: "a key with the role admin is needed" };

items(`${path}/items`);
follow(`${path}/live`, (event) => { if (event.name === "ranker") show(event.data); }, (state, status) => {
  byId("connection").classList.toggle("lost", state === "lost");
  document.body.classList.toggle("stale", state === "lost");
  say(byId("connection"), state === "live" ? "live" : LOST[status] || `connection lost, trying again; ${shown ? `as of ${time(shown)}` : "nothing to show yet"}`);
});
