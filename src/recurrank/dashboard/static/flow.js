// The paper's Figure 1, live: each box is a block of neighbouring positions; its column is when it opened.

import { el, svg } from "./dom.js";
import { count, many, percent } from "./format.js";

const WIDE = 146, GAP = 34, LEFT = 4, TOP = 8, MOST = 400;

/** What a box is: "closed" (it has split), "settled" (nothing left to find out) or "open". */
export const kind = (box) => (box.closed !== null ? "closed" : box.items <= 1 ? "settled" : "open");

/** Draw boxes {id, phase, first, last, items, parent, opened, closed, progress} into ``element``, a scrolling region; with a history there is an axis of time. */
export function drawFlow(element, boxes, positions, history) {
  const shown = boxes.slice(-MOST);
  const tall = positions <= 12 ? 36 : positions <= 30 ? 20 : 10;
  const moments = [...new Set(shown.map((box) => box.opened))].sort((a, b) => a - b);
  const column = new Map(moments.map((moment, at) => [moment, LEFT + at * (WIDE + GAP)]));
  const width = LEFT + moments.length * (WIDE + GAP), bottom = TOP + positions * tall, height = bottom + (history ? 40 : 4);
  const title = `Flow chart: ${described(shown)}`;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  const byId = new Map(shown.map((box) => [box.id, box]));
  for (const box of shown) {
    const parent = byId.get(box.parent);
    if (parent) picture.append(arrow(column.get(parent.opened) + WIDE, middle(parent, tall), column.get(box.opened), middle(box, tall)));
  }
  for (const box of shown) picture.append(drawBox(box, column.get(box.opened), tall));
  if (history) picture.append(axis(moments, column, bottom, width));
  const end = element.scrollLeft + element.clientWidth >= element.scrollWidth - 30;
  element.replaceChildren(picture);
  if (end) element.scrollLeft = element.scrollWidth;
}

function axis(moments, column, bottom, width) {
  const ticks = moments.flatMap((moment) => {
    const x = column.get(moment) + WIDE / 2;
    return [svg("line", { x1: x, y1: bottom + 8, x2: x, y2: bottom + 16, class: "arrow" }),
      svg("text", { x, y: bottom + 32, "text-anchor": "middle", class: "soft" }, count(moment))];
  });
  return svg("g", {}, svg("line", { x1: LEFT, y1: bottom + 12, x2: width - GAP / 2, y2: bottom + 12, class: "arrow" }), ...ticks);
}

const middle = (box, tall) => TOP + ((box.first + box.last - 1) / 2) * tall;

function arrow(x1, y1, x2, y2) {
  const half = (x1 + x2) / 2;
  return svg("g", {},
    svg("path", { d: `M${x1},${y1} C${half},${y1} ${half},${y2} ${x2 - 6},${y2}`, class: "arrow" }),
    svg("path", { d: `M${x2},${y2} l-7,-3.5 v7 z`, class: "head" }));
}

function drawBox(box, x, tall) {
  const y = TOP + (box.first - 1) * tall + 1.5, height = (box.last - box.first + 1) * tall - 3;
  const group = svg("g", {}, svg("title", {}, inWords(box)));
  group.append(svg("rect", { x, y, width: WIDE, height, rx: 5, class: `box ${kind(box)}` }));
  if (kind(box) === "open" && box.progress > 0) {
    group.append(svg("rect", { x: x + 1, y: y + 1, width: Math.max(0, (WIDE - 2) * box.progress), height: height - 2, rx: 4, class: "progress" }));
  }
  if (box.last > box.first) {
    group.append(svg("line", { x1: x, x2: x + WIDE, y1: y + tall - 1.5, y2: y + tall - 1.5, class: "tries" }));
    if (tall >= 20) group.append(svg("text", { x: x + 7, y: y + height - tall / 2 + 5, class: "soft" }, box.last));
  }
  if (tall >= 20) group.append(svg("text", { x: x + 7, y: y + tall / 2 + 3, class: "soft" }, box.first));
  if (tall >= 20) group.append(...label(box, x + WIDE / 2 + 6, y, height, tall));
  return group;
}

/** Phase and items, in one line or two, clear of the dashed line. */
function label(box, x, y, height, tall) {
  const items = many(box.items, "item");
  const phase = box.phase === null ? "" : `ℓ = ${box.phase}`;
  const top = box.last > box.first ? y + tall : y, centre = (top + y + height) / 2 + 4;
  const text = (at, words) => svg("text", { x, y: at, "text-anchor": "middle" }, words);
  if (box.last - box.first < 2 || !phase) return [text(centre, phase && box.items < 1e4 ? `${phase} · ${items}` : items)];
  return [text(centre - 9, phase), text(centre + 9, items)];
}

/** A box in a sentence. */
export function inWords(box) {
  const positions = box.first === box.last ? `Position ${box.first}` : `Positions ${box.first} to ${box.last}`;
  const phase = box.phase === null ? "" : `, phase ${box.phase}`;
  const what = kind(box) === "settled" ? "settled"
    : kind(box) === "closed" ? `finished at slate ${count(box.closed)}`
      : box.progress === null ? "open" : `${percent(box.progress)} of the answers of this phase are in`;
  return `${positions}${phase}: ${many(box.items, "item")}, ${what}`;
}

function described(boxes) {
  const open = boxes.filter((box) => box.closed === null);
  return `${many(boxes.length, "block")}, ${count(open.length)} at work. ${open.slice(0, 12).map(inWords).join(". ")}.`;
}

/** The blocks at work as rows of a table. */
export function blockRows(boxes) {
  return boxes.filter((box) => box.closed === null).map((box) => el("tr", {},
    el("th", { scope: "row" }, box.first === box.last ? String(box.first) : `${box.first}–${box.last}`),
    el("td", { class: "number" }, box.phase === null ? "–" : String(box.phase)),
    el("td", { class: "number" }, count(box.items)),
    el("td", { class: "number" }, kind(box) === "settled" ? "settled" : percent(box.progress)),
    el("td", { class: "number" }, count(box.opened))));
}
