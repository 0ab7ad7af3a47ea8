"use strict";
// What every page does: plotly.js, which the page holds deflated, and the look of figures. Nothing is loaded.
const dark = matchMedia("(prefers-color-scheme: dark)");
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}
async function loadPlotly() {
  const script = document.createElement("script");
  script.textContent = await inflate(document.getElementById("plotly").textContent.trim());
  document.head.append(script);
}
function themed(layout) {  // what the page knows and the figure does not
  const look = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--quiet"), activecolor: css("--accent") },
    font: { family: "system-ui, sans-serif", size: 13, color: css("--text") },
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--text") }, align: "left" } };
  const result = { ...layout, ...look };
  for (const key of Object.keys(layout).filter(key => /^[xy]axis\d*$/.test(key)))
    result[key] = { ...layout[key], gridcolor: css("--grid"), linecolor: css("--line"), tickcolor: css("--line") };
  return result;
}
const options = { responsive: true, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
