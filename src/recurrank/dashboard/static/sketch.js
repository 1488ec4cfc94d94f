// A chart at once, from the same description as plotly's, for the moments until plotly is there: lines, bars and level marks.

import { svg } from "./dom.js";
import { compact, percent, rate } from "./format.js";

const LEFT = 56, RIGHT = 14, TOP = 34, BOTTOM = 44;

/** About ``many`` round numbers from 0 to ``most``. */
export function ticks(most, many = 4) {
  const rough = most / many, ten = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((part) => part * ten).find((wide) => wide >= rough) || rough;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, at) => at * step);
}

/** Draw traces {x, y, type, mode, line, marker, name}; axes begin at 0. */
export function sketch(place, traces, { xaxis = {}, yaxis = {}, showlegend = false }) {
  const width = place.clientWidth || 500, height = place.clientHeight || 272;
  const bars = traces.some((trace) => trace.type === "bar");
  const mostX = Math.max(1, ...traces.flatMap((trace) => trace.x)) + (bars ? 0.5 : 0), leastX = bars ? 0.5 : 0;
  const mostY = 1.06 * Math.max(1e-6, ...traces.flatMap((trace) => trace.y));
  const x = (value) => LEFT + ((value - leastX) / (mostX - leastX)) * (width - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - (value / mostY) * (height - TOP - BOTTOM);
  const picture = svg("svg", { width: "100%", height, viewBox: `0 0 ${width} ${height}`, class: "sketch", "aria-hidden": "true" });
  for (const value of ticks(mostY)) {
    picture.append(svg("line", { x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value), class: "grid-line" }));
    picture.append(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, yaxis.tickformat ? percent(value) : rate(value)));
  }
  for (const value of bars ? traces[0].x : ticks(mostX, 6)) {
    picture.append(svg("text", { x: x(value), y: height - BOTTOM + 18, "text-anchor": "middle" }, compact(value)));
  }
  picture.append(svg("text", { x: (LEFT + width) / 2, y: height - 6, "text-anchor": "middle" }, xaxis.title?.text || ""));
  const tall = (TOP + height - BOTTOM) / 2;
  picture.append(svg("text", { x: 14, y: tall, "text-anchor": "middle", transform: `rotate(-90 14 ${tall})` }, yaxis.title?.text || ""));
  let legend = LEFT;
  for (const trace of traces) {
    picture.append(drawn(trace, x, y));
    if (!showlegend) continue;
    picture.append(svg("line", { x1: legend, x2: legend + 22, y1: 14, y2: 14, stroke: colour(trace), "stroke-width": 3, "stroke-dasharray": trace.line?.dash ? "6 4" : null }));
    picture.append(svg("text", { x: legend + 28, y: 18 }, trace.name));
    legend += 50 + 7.2 * trace.name.length;
  }
  place.replaceChildren(picture);
}

const colour = (trace) => trace.line?.color || trace.marker?.color;

function drawn(trace, x, y) {
  const points = trace.x.map((value, at) => [x(value), y(trace.y[at])]);
  if (trace.type === "bar") {
    const half = 0.4 * (x(1) - x(0)), base = y(0);
    return svg("g", { fill: colour(trace) }, ...points.map(([px, py]) => svg("rect", { x: px - half, y: py, width: 2 * half, height: Math.max(0, base - py) })));
  }
  if (trace.mode === "markers") {
    return svg("g", { stroke: colour(trace), "stroke-width": 3 }, ...points.map(([px, py]) => svg("line", { x1: px - 11, x2: px + 11, y1: py, y2: py })));
  }
  const dash = trace.line?.dash ? "8 5" : null;
  return svg("polyline", { points: points.map((point) => point.join(",")).join(" "), fill: "none", stroke: colour(trace), "stroke-width": 2, "stroke-dasharray": dash });
}
