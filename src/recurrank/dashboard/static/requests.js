// Parts for rankers of requests only: beliefs about features and examination, the guard, and a form to try a request.

import { Problem, json } from "./api.js";
import { COLOURS, draw } from "./charts.js";
import { byId, el, say, svg } from "./dom.js";
import { count, rate } from "./format.js";

const name = document.body.dataset.ranker;
let last = null, touched = false;

function interval(row, most) {
  const x = (value) => 50 + (50 * value) / most;
  return svg("svg", { class: "interval", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "base", x: 0, y: 4, width: 100, height: 2 }),
    svg("rect", { class: "base", x: 49.7, y: 0, width: 0.6, height: 10 }),
    svg("rect", { class: "range", x: x(row.low), y: 2, width: Math.max(0.5, x(row.high) - x(row.low)), height: 6 }),
    svg("rect", { class: "middle", x: x(row.value) - 0.7, y: 0, width: 1.4, height: 10 }));
}

/** Features of the item, then of the visitor, then products, as the ranker joins them; with names, if known. */
function called(feature, { dim, truth, requests: { context } }) {
  const item = (at) => truth?.features[at] ?? `feature ${at + 1}`, visitor = (at) => truth?.visitor[at] ?? `visitor ${at + 1}`;
  if (feature < 0) return "constant";
  if (feature < dim) return item(feature);
  if (feature < dim + context) return visitor(feature - dim);
  const product = feature - dim - context;
  return `${item(Math.floor(product / context))} × ${visitor(product % context)}`;
}

const signed = (value) => (value < 0 ? "−" : "") + rate(Math.abs(value));

function coefficients(now) {
  const rows = now.requests.coefficients;
  const most = Math.max(1e-9, ...rows.map((row) => Math.max(Math.abs(row.low), Math.abs(row.high))));
  byId("coefficients").replaceChildren(...rows.map((row) => el("tr", {},
    el("th", { scope: "row" }, called(row.feature, now)),
    el("td", { class: "number" }, signed(row.value)),
    el("td", { class: "with-interval" }, interval(row, most), el("span", { class: "soft small" }, `${signed(row.low)} to ${signed(row.high)}`)))));
}

const NOBODY = "(none named)";

function segments(now) {
  const names = [...new Set(now.requests.examination.map((row) => row.segment ?? NOBODY))];
  const select = byId("segment");
  if ([...select.options].map((option) => option.value).join("\n") === names.join("\n")) return;
  const chosen = select.value;
  const seen = (name) => now.requests.examination.some((row) => (row.segment ?? NOBODY) === name && row.without_click_above !== null);
  select.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
  select.value = names.includes(chosen) && chosen ? chosen : names.find(seen) ?? names[0];
}

function examination(now) {
  const rows = now.requests.examination.filter((row) => (row.segment ?? NOBODY) === byId("segment").value);
  byId("examination-rows").replaceChildren(...rows.map((row) => el("tr", {},
    el("th", { scope: "row" }, String(row.position + 1)),
    el("td", { class: "number" }, rate(row.without_click_above)),
    el("td", { class: "number" }, rate(row.after_click_above)))));
  const trace = (field, label, colour) => ({
    x: rows.map((row) => row.position + 1), y: rows.map((row) => row[field]), name: label, mode: "lines+markers",
    line: { color: colour, width: 2 }, hovertemplate: `position %{x}: %{y:.2f}<extra>${label}</extra>`,
  });
  return draw(byId("examination"),
    [trace("without_click_above", "no click above", COLOURS[0]), trace("after_click_above", "after a click above", COLOURS[1])],
    { xaxis: { title: { text: "position" }, dtick: rows.length > 12 ? undefined : 1 }, yaxis: { title: { text: "looked at, relative to the first" } }, showlegend: true });
}

function facts(asked) {
  say(byId("fact-requests"), asked.per_second === null ? "many" : rate(asked.per_second));
  say(byId("fact-candidates"), rate(asked.lately ?? asked.candidates));
  say(byId("fact-candidates-ever"), `${rate(asked.candidates)} over all slates`);
  const on = asked.guard.some((factor) => factor > 1.001);
  const guard = byId("fact-guard");
  guard.className = `pill ${on ? "warn" : "good"}`;
  say(guard, on ? "on" : "off");
  say(byId("fact-guard-why"), on ? `answers at lower positions count 1/${rate(asked.guard[0])}, after a click 1/${rate(asked.guard[1])}` : "lower positions agree with the first");
  say(byId("fact-changes"), asked.changes ? count(asked.changes) : "none");
}

function example(now) {
  const asked = { candidates: now.requests.some };
  if (!asked.candidates.length) {
    asked.candidates = ["a", "b", "c"].map((id, at) => ({ id, features: Array.from({ length: now.dim }, (_, i) => Number((at + i) % 3 === 0)) }));
  }
  if (now.requests.context) asked.context = Array.from({ length: now.requests.context }, (_, i) => (i === 0 ? 1 : 0));
  const lines = Object.entries(asked).map(([field, value]) => `  ${JSON.stringify(field)}: ${JSON.stringify(value)}`);
  return `{\n${lines.join(",\n")}\n}`;
}

/** Show these parts of the page, and update them. */
export function requests(now) {
  byId("request-facts").hidden = !now.requests;
  for (const part of document.querySelectorAll(".requests-only")) part.hidden = !now.requests;
  if (!now.requests) return null;
  if (!touched) byId("try-body").value = example(now); // items come and go
  last = now;
  facts(now.requests);
  coefficients(now);
  segments(now);
  return examination(now);
}

byId("try-body").addEventListener("input", () => { touched = true; });
byId("segment").addEventListener("change", () => { if (last) examination(last); });

byId("try-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = byId("try-body"), wrong = byId("try-form-error");
  say(wrong, "");
  body.removeAttribute("aria-invalid");
  byId("try-items").replaceChildren();
  say(byId("try-said"), "");
  try {
    JSON.parse(body.value);
    const began = performance.now();
    const slate = await json(`/v1/rankers/${encodeURIComponent(name)}/rank`, { method: "POST", body: body.value, headers: { "content-type": "application/json" } });
    byId("try-items").replaceChildren(...slate.items.map((item) => el("li", { dir: "auto", class: "id" }, item)));
    say(byId("try-said"), `slate ${slate.slate}, ${Math.round(performance.now() - began)} ms; it knows the log up to event ${count(slate.version)}`);
  } catch (error) {
    say(wrong, error instanceof Problem ? error.message : `Not JSON: ${error.message}`);
    body.setAttribute("aria-invalid", "true");
    body.focus();
  }
});
