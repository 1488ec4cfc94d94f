// Results as files.

/** One line per point: ranker, rounds, regret, clicks. */
export function asCsv(run) {
  const lines = ["ranker,rounds,regret,clicks"];
  for (const [name, curve] of run.curves) curve.rounds.forEach((round, at) => lines.push([name, round, curve.regret[at], curve.clicks[at]].join(",")));
  return `${lines.join("\n")}\n`;
}

/** The settings with all results. */
export function asJson(run) {
  return `${JSON.stringify({ setup: run.setup, problem: run.start, seconds: run.seconds, curves: Object.fromEntries(run.curves), flow: run.flow }, null, 1)}\n`;
}

const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family"];

/** A picture with its styles, for use without our style sheet. */
export function standalone(picture) {
  const copy = picture.cloneNode(true);
  const here = [picture, ...picture.querySelectorAll("*")], there = [copy, ...copy.querySelectorAll("*")];
  here.forEach((element, at) => {
    const style = getComputedStyle(element);
    for (const look of LOOKS) there[at].setAttribute(look, style.getPropertyValue(look));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new XMLSerializer().serializeToString(copy);
}
