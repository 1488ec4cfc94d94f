// The playground: the address contains the form; a run is a stream of events that the user or the server ends.

import { ask, events } from "./api.js";
import { COLOURS, draw, plotly, save } from "./charts.js";
import { byId, el, say } from "./dom.js";
import { give } from "./files.js";
import { blockRows, drawFlow } from "./flow.js";
import { clear, tell } from "./forms.js";
import { count, percent, rate } from "./format.js";
import { asCsv, asJson, standalone } from "./results.js";

const form = byId("play-form");
let run = null; // {setup, start, curves: Map, seconds, stop}

/** The fields that apply to the current choice, as text. */
function setup() {
  const fields = new FormData(form);
  const chosen = { rankers: rankers().join(",") };
  for (const [name, value] of fields) {
    const only = form.elements.namedItem(name).closest?.("[data-problem], [data-clicks], [data-ranker]");
    if (name !== "rankers" && !only?.hidden && !(only?.dataset.ranker && !value.trim())) chosen[name] = value.trim();
  }
  return chosen;
}

/** The chosen rankers, as far as the problem allows them. */
function rankers() {
  return [...form.querySelectorAll("input[name=rankers]:checked")].filter((box) => !box.closest("label").hidden).map((box) => box.value);
}

function fit() {
  const problem = form.elements.problem.value;
  for (const part of form.querySelectorAll("[data-problem]")) part.hidden = !part.dataset.problem.split(" ").includes(problem);
  for (const part of form.querySelectorAll("[data-only]")) part.hidden = (part.dataset.only === "requests") !== (problem === "requests");
  const chosen = rankers();
  for (const part of form.querySelectorAll("[data-ranker]")) part.hidden = !chosen.includes(part.dataset.ranker);
  byId("visitors").hidden = form.elements.problem.value === "log"; // a log brings its own
  for (const part of form.querySelectorAll("[data-clicks]")) part.hidden = part.dataset.clicks !== form.elements.clicks.value;
}

function remember() {
  fit();
  history.replaceState(null, "", `/playground?${new URLSearchParams(setup())}`);
}

function colour(name) {
  return COLOURS[[...run.curves.keys()].indexOf(name) % COLOURS.length];
}

function redraw() {
  const type = byId("logarithmic").checked ? "log" : "linear";
  const traces = [...run.curves].map(([name, curve]) => ({
    x: curve.rounds.slice(type === "log" ? 1 : 0), y: curve.regret.slice(type === "log" ? 1 : 0), // copies: plotly compares references
    name, mode: "lines", line: { width: 2.5, color: colour(name) },
    hovertemplate: "%{y:,.0f} clicks lost after %{x:,.0f} rounds<extra>%{fullData.name}</extra>",
  }));
  const axis = { type, tickformat: "~s", dtick: type === "log" ? "D2" : undefined }; // D2: at 1, 2 and 5 times powers of ten
  const range = type === "linear" ? { range: [0, run.start.rounds] } : {};
  return draw(byId("regret"), traces, { xaxis: { title: { text: "rounds" }, ...axis, ...range }, yaxis: { title: { text: "regret, in clicks" }, ...axis }, showlegend: true });
}

function results() {
  byId("results").replaceChildren(...[...run.curves].map(([name, curve]) => {
    const rounds = curve.rounds.at(-1), clicks = curve.clicks.at(-1), regret = curve.regret.at(-1);
    const best = run.start.best ? rounds * run.start.best : clicks + regret; // with requests each visitor has another one
    const share = rounds ? 1 - regret / best : null;
    return el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "number" }, count(rounds)),
      el("td", { class: "number" }, count(regret)), el("td", { class: "number" }, rounds ? rate(clicks / rounds) : "–"),
      el("td", { class: "number" }, share === null ? "–" : `${(100 * share).toFixed(2)} %`), el("td", { class: "number" }, run.seconds[name] === undefined ? "–" : rate(run.seconds[name])));
  }));
  const names = run.setup.rankers.split(",");
  const done = [...run.curves.values()].reduce((sum, curve) => sum + curve.rounds.at(-1), 0);
  byId("play-progress").value = done / (names.length * run.start.rounds);
}

const heard = {
  start(now) {
    run.start = now;
    say(byId("play-warning"), now.warning ? `Careful: ${now.warning}.` : "");
  },
  ready({ ranker }) { say(byId("play-said"), `${ranker} gets ready …`); },
  points({ ranker, rounds, regret, clicks }) {
    const curve = run.curves.get(ranker) || { rounds: [], regret: [], clicks: [] };
    run.curves.set(ranker, curve);
    curve.rounds.push(...rounds);
    curve.regret.push(...regret);
    curve.clicks.push(...clicks);
    say(byId("play-said"), "Running …");
    later();
  },
  flow(now) {
    run.flow = now;
    drawFlow(byId("flow"), now.boxes, now.positions, true);
    byId("blocks").replaceChildren(...blockRows(now.boxes));
  },
  problem({ detail }) { tell(form, "", detail); run.failed = true; },
  done({ seconds }) { run.seconds = seconds; run.done = true; },
};

/** Show RecurRank's flow chart next to the curves, which then have less space. */
function beside(wanted) {
  byId("flow").replaceChildren();
  byId("blocks").replaceChildren();
  if (byId("flow-card").hidden !== wanted) return;
  byId("flow-card").hidden = !wanted;
  dispatchEvent(new Event("resize")); // plotly then measures its space
}

let waiting = false;
/** Draw new data at most once per frame, and one drawing at a time. */
function later() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(async () => {
    results();
    await redraw().catch((error) => tell(form, "", error.message));
    waiting = false;
  });
}

async function start() {
  clear(form);
  remember();
  const stop = new AbortController();
  run = { setup: setup(), start: null, curves: new Map(), seconds: {}, flow: null, stop };
  byId("play-results").hidden = false;
  beside(run.setup.rankers.split(",").includes("recurrank"));
  byId("results").replaceChildren();
  working(true);
  say(byId("play-said"), "Starting …");
  byId("play-progress").hidden = false;
  byId("play-progress").value = 0;
  document.body.dataset.run = "running";
  try {
    const body = JSON.stringify(run.setup);
    for await (const event of events("/dash/playground/run", { method: "POST", body, headers: { "content-type": "application/json" }, signal: stop.signal })) heard[event.name]?.(event.data);
    say(byId("play-said"), run.done ? "Done." : run.failed ? "" : "The connection was lost.");
  } catch (error) {
    if (error.name === "AbortError") say(byId("play-said"), "Stopped.");
    else wrong(error);
  }
  if (run.curves.size) later();
  document.body.dataset.run = run.done ? "done" : "ended";
  working(false);
}

function wrong(error) {
  say(byId("play-said"), "");
  const all = Object.entries(error.errors || {});
  for (const [field, message] of all.reverse()) tell(form, field, message);
  if (!all.length) tell(form, "", error.message);
}

function working(now) {
  byId("run").disabled = now;
  byId("stop").disabled = !now;
  const some = run.curves.size > 0;
  for (const id of ["get-csv", "get-json", "get-svg", "get-png"]) byId(id).disabled = now || !some;
}

form.addEventListener("submit", (event) => { event.preventDefault(); start(); });
form.addEventListener("change", remember);
byId("stop").addEventListener("click", () => run?.stop.abort());
addEventListener("pagehide", () => run?.stop.abort());
byId("logarithmic").addEventListener("change", () => run?.start && redraw());
byId("get-csv").addEventListener("click", () => give(asCsv(run), "regret.csv", "text/csv"));
byId("get-json").addEventListener("click", () => give(asJson(run), "regret.json", "application/json"));
byId("get-svg").addEventListener("click", () => save(byId("regret"), "svg", "regret"));
byId("get-png").addEventListener("click", () => save(byId("regret"), "png", "regret"));
byId("get-flow").addEventListener("click", () => give(standalone(byId("flow").querySelector("svg")), "recurrank-flow.svg", "image/svg+xml"));

fit();
const warm = () => ask("/dash/playground/warm", { method: "POST" }).catch(() => {});
warm();
document.addEventListener("key-given", warm);
plotly().catch(() => {});
