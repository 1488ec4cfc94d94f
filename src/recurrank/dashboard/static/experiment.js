// A ranker beside a baseline: both arms, the interval of their difference over time, the brake, and the mode.

import { ask } from "./api.js";
import { COLOURS, draw } from "./charts.js";
import { byId, el, say } from "./dom.js";
import { count, rate } from "./format.js";

const name = document.body.dataset.ranker;
const path = `/v1/rankers/${encodeURIComponent(name)}/experiment`;
const VERDICTS = { ranker: ["good", "the ranker has more clicks"], baseline: ["bad", "the baseline has more clicks"], undecided: ["plain", "not decided yet"] };
let touched = false; // whether the user is editing the form

const signed = (value) => (value === null ? "–" : `${value > 0 ? "+" : ""}${value.toFixed(4)}`);

const percent = (part) => `${Number((100 * part).toPrecision(4))} %`;

function arms(now) {
  const row = (title, arm) => el("tr", {},
    el("th", { scope: "row" }, title),
    el("td", { class: "number" }, count(arm.slates)),
    el("td", { class: "number" }, count(arm.clicks)),
    el("td", { class: "number" }, arm.mean === null ? "–" : rate(arm.mean)));
  byId("experiment-arms").replaceChildren(row("Baseline", now.baseline), row("Ranker", now.ranker));
}

function brake(now) {
  const stopped = now.stopped !== null;
  byId("brake-stopped").hidden = !stopped;
  say(byId("brake-why"), stopped ? `The brake has gone back to the baseline: ${now.stopped}. It stays there until it is released.` : "");
  const growing = now.share_now < now.share ? ` The ranker has ${percent(now.share_now)} of the subjects now; it gets more as it is shown to cost at most ${percent(now.budget)} of the clicks.` : "";
  say(byId("brake-armed"), stopped || now.mode !== "share" ? "" :
    `The brake stops the ranker when it has more than ${percent(now.margin)} fewer clicks than the baseline, at alpha = ${now.alpha}.${growing}`);
}

/** The interval of the difference over time; it is valid at all times simultaneously. */
function chart(now) {
  const interleaved = now.interleaved.slates > 0;
  const points = now.history.filter((one) => (interleaved ? one.credit !== null : one.low !== null));
  byId("experiment-chart-box").hidden = points.length === 0;
  if (points.length === 0) return Promise.resolve();
  const x = points.map((one) => one.slates), line = { color: COLOURS[0], width: 2 };
  const zero = { x: [0, Math.max(...x)], y: [0, 0], mode: "lines", name: "no difference", line: { color: COLOURS[2], dash: "dash", width: 2 }, hoverinfo: "skip" };
  const traces = interleaved
    ? [{ x, y: points.map((one) => one.credit), name: "credit per slate", mode: "lines", line, hovertemplate: "%{y:.4f} after %{x:,} slates<extra></extra>" }]
    : [
      { x, y: points.map((one) => one.high), mode: "lines", line: { width: 0 }, showlegend: false, hoverinfo: "skip" },
      { x, y: points.map((one) => one.low), mode: "lines", line: { width: 0 }, fill: "tonexty", fillcolor: "rgba(47,129,214,0.22)", name: "interval at all times", hoverinfo: "skip" },
      { x, y: points.map((one) => one.ranker - one.baseline), name: "ranker minus baseline", mode: "lines", line, hovertemplate: "%{y:.4f} after %{x:,} slates<extra></extra>" },
    ];
  return draw(byId("experiment-chart"), [...traces, zero], { xaxis: { title: { text: "slates compared" }, tickformat: "~s" }, yaxis: { title: { text: interleaved ? "credit per slate" : "clicks per slate" }, rangemode: "normal" }, showlegend: true });
}

/** Show the comparison; the form follows the server until the user edits it. */
export function experiment(now) {
  const known = now.experiment, [look, verdict] = VERDICTS[known.verdict];
  byId("experiment-verdict").className = `pill ${look}`;
  say(byId("experiment-verdict"), known.mode === "full" ? "everybody gets the ranker" : known.mode === "shadow" ? "everybody gets the baseline" : verdict);
  say(byId("experiment-difference"), known.low === null ? "–" : `${signed(known.difference)} (${signed(known.low)} to ${signed(known.high)})`);
  say(byId("experiment-credit"), known.interleaved.slates ? `${signed(known.interleaved.credit)} over ${count(known.interleaved.slates)} slates, p = ${known.interleaved.p_value.toPrecision(2)}` : "–");
  say(byId("experiment-waiting"), count(known.waiting));
  if (!touched) {
    byId("experiment-mode").value = known.mode;
    byId("experiment-share").value = String(100 * known.share);
  }
  byId("experiment-counts").hidden = known.mode === "full" && known.baseline.slates + known.interleaved.slates === 0; // nothing to compare
  arms(known);
  brake(known);
  return chart(known);
}

async function change(method, where, body) {
  say(byId("experiment-error"), "");
  try {
    await ask(where, { method, body: body && JSON.stringify(body), headers: { "content-type": "application/json" } });
    touched = false;
    say(byId("experiment-said"), "Done; a new comparison begins.");
  } catch (error) {
    say(byId("experiment-error"), error.message);
  }
}

byId("experiment-form").addEventListener("input", () => { touched = true; });
byId("experiment-form").addEventListener("submit", (event) => {
  event.preventDefault();
  change("PATCH", path, { mode: byId("experiment-mode").value, share: Number(byId("experiment-share").value) / 100 });
});
byId("brake-release").addEventListener("click", () => change("POST", `${path}/release`));
