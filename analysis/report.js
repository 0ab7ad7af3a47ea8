"use strict";
// Figures are drawn by plotly.js, which the page holds deflated; nothing is loaded from anywhere.
const figures = JSON.parse(document.getElementById("figures").textContent);
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
function draw(place) {
  const figure = figures[+place.dataset.figure];
  return Plotly.react(place, figure.data, themed(figure.layout), options);
}
function drawOpen(redraw) {
  const places = [...document.querySelectorAll("[data-figure]")].filter(place => place.offsetParent !== null);
  return Promise.all(places.filter(place => redraw || !place.data).map(draw));
}
function sortBy(heading) {
  const table = heading.closest("table"), column = heading.cellIndex;
  const sign = heading.getAttribute("aria-sort") === "descending" ? 1 : -1;
  const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)], difference = x - y;
    return sign * (Number.isNaN(difference) ? String(x).localeCompare(String(y)) : difference);
  });
  table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  table.tBodies[0].append(...rows);
}
document.querySelectorAll("th").forEach(heading => heading.addEventListener("click", () => sortBy(heading)));
async function main() {
  if (figures.length) {
    await loadPlotly();
    await drawOpen(false);
    document.querySelectorAll("details").forEach(one => one.addEventListener("toggle", () => drawOpen(false)));
    dark.addEventListener("change", () => drawOpen(true));
  }
  document.documentElement.dataset.ready = "yes";
}
main();
