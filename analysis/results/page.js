"use strict";
// What every page does: plotly.js, which the page holds deflated, and the look of figures. Nothing is loaded.
const dark = matchMedia("(prefers-color-scheme: dark)");
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const NARROW = 560;  // pixels: a figure below it has one column of panels, and short names
const CROWDED = 850;  // pixels: names or colour scales between panels need more

async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}
async function loadPlotly() {
  const script = document.createElement("script");
  script.textContent = await inflate(document.getElementById("plotly").textContent.trim());
  document.head.append(script);
}
const short = (name, most) => name.length <= most ? name :
  `${name.slice(0, Math.floor((most - 1) / 2))}…${name.slice(name.length - Math.ceil((most - 1) / 2))}`;
const wrap = (text, most) => text.split(" ").reduce((lines, word) => {
  const last = lines[lines.length - 1];
  return last && last.length + word.length < most ? [...lines.slice(0, -1), `${last} ${word}`] : [...lines, word];
}, []).join("<br>");
function themed(layout, narrow = false) {  // what the page knows and the figure does not
  const look = { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--quiet"), activecolor: css("--accent") },
    font: { family: "system-ui, sans-serif", size: narrow ? 12 : 13, color: css("--text") },
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--text") }, align: "left" } };
  const result = { ...layout, ...look };
  for (const key of Object.keys(layout).filter(key => /^[xy]axis\d*$/.test(key))) {
    const axis = result[key] = { ...layout[key], gridcolor: css("--grid"), linecolor: css("--line"), tickcolor: css("--line") };
    const names = narrow && key.startsWith("y") ? axis.ticktext ?? axis.categoryarray : undefined;
    if (names) Object.assign(axis, { tickmode: "array", tickvals: axis.tickvals ?? names, ticktext: names.map(name => short(String(name), 16)) });
    if (narrow && key.startsWith("x") && !axis.categoryarray) axis.nticks = 5;
    if (narrow && axis.title?.text) axis.title = { ...axis.title, text: wrap(axis.title.text, key.startsWith("x") ? 26 : 40) };
  }
  return result;
}
const options = narrow => ({ responsive: !paper, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], displayModeBar: !narrow });

// A page on paper is light, and all its sections are open. What is drawn meanwhile, for whatever reason, is as wide as it.
let paper;  // pixels: the width of figures while the page is printed
function onPaper(redraw) {
  const closed = () => [...document.querySelectorAll("details.section:not([open])")];
  let opened = [];
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("print");
    opened = closed();
    opened.forEach(one => { one.open = true; });
    paper = 700;
    redraw();
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("print");
    opened.forEach(one => { one.open = false; });
    paper = undefined;
    redraw();
  });
}
// A heading of a table is pressed by Enter and the space bar as by a click.
addEventListener("keydown", event => {
  if (event.target.tagName === "TH" && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    event.target.click();
  }
});
