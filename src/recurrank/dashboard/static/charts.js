// Charts, by plotly from its Python package. It is large, so it is fetched after the page has been painted.

let loading = null;

/** Load plotly, once. */
export function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = document.body.dataset.plotly;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("plotly could not be fetched"));
    document.head.append(script);
  });
  return loading;
}

const own = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export const COLOURS = ["#2f81d6", "#d9722b", "#2c9a60", "#b254b8", "#c2423b", "#8a7a14", "#4b9fb3", "#7d6bd0"];

function layout(more) {
  const line = { gridcolor: own("--line"), zerolinecolor: own("--line"), linecolor: own("--line"), automargin: true };
  return {
    margin: { l: 56, r: 14, t: 10, b: 44 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: own("--ink") },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hoverlabel: { bgcolor: own("--card"), bordercolor: own("--line"), font: { color: own("--ink") } },
    ...more,
    xaxis: { ...line, ...more.xaxis },
    yaxis: { ...line, rangemode: "tozero", ...more.yaxis },
  };
}

const CONFIG = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "sendChartToCloud", "sendDataToCloud"], plotlyServerURL: "", displayModeBar: "hover" };

const shown = new Promise((resolve) => {
  const soon = () => requestAnimationFrame(() => setTimeout(resolve, 30)); // after the first paint
  if (document.readyState === "complete") soon();
  else addEventListener("load", soon);
});

/** Draw or update a chart; it follows the system's colour scheme. */
export async function draw(element, traces, more) {
  element.drawn = [traces, more];
  if (!window.Plotly) {
    if (element.waiting) return;
    element.waiting = true;
    shown.then(plotly).then(() => draw(element, ...element.drawn)).catch(() => { element.waiting = false; });
    return;
  }
  if (!element.dataset.drawn) element.replaceChildren();
  element.dataset.drawn = "true";
  await window.Plotly.react(element, traces, layout(more), CONFIG);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const element of document.querySelectorAll(".chart")) if (element.drawn) draw(element, ...element.drawn);
});

/** The chart as a file: svg or png. */
export async function save(element, format, name) {
  const Plotly = await plotly();
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  await Plotly.relayout(element, { paper_bgcolor: dark ? own("--card") : "#ffffff" });
  await Plotly.downloadImage(element, { format, filename: name, width: 1000, height: 620, scale: format === "png" ? 2 : 1 });
  await Plotly.relayout(element, { paper_bgcolor: "rgba(0,0,0,0)" });
}
