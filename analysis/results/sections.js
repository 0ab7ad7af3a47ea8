// Figures and tables of a report (behind page.js).
const figures = JSON.parse(document.getElementById("figures").textContent);
function shapeOf(place) {
  const width = paper ?? place.clientWidth;
  return width < NARROW ? "narrow" : width < CROWDED && figures[+place.dataset.figure].crowded ? "stacked" : "wide";
}
function draw(place) {
  const figure = figures[+place.dataset.figure], shape = shapeOf(place), narrow = shape === "narrow";
  const form = shape === "wide" ? figure : { ...figure, ...figure.narrow };
  place.dataset.shape = shape;
  place.style.minHeight = `${form.layout.height}px`;
  return Plotly.react(place, form.data, { ...themed(form.layout, narrow), width: paper }, options(narrow));
}
const visible = () => [...document.querySelectorAll("[data-figure]")].filter(place => !place.closest("details:not([open])"));
function drawOpen(redraw) {
  return Promise.all(visible().filter(place => redraw || !place.data).map(draw));
}
function sortBy(heading) {
  const table = heading.closest("table"), column = heading.cellIndex;
  const sign = heading.getAttribute("aria-sort") === "descending" ? 1 : -1;
  const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const number = text => text === "" ? NaN : Number.isNaN(+text) ? parseFloat(text.replace("−", "-")) : +text;
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)], difference = number(x) - number(y);
    if (x === "" || y === "") return (x === "") - (y === "");  // what is not there comes last, either way
    return sign * (Number.isNaN(difference) ? x.localeCompare(y) : difference);
  });
  table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  table.tBodies[0].append(...rows);
}
document.querySelectorAll("th").forEach(heading => heading.addEventListener("click", () => sortBy(heading)));
document.querySelectorAll("nav a").forEach(link => link.addEventListener("click", () => {
  document.querySelector(link.getAttribute("href")).open = true;
}));
async function main() {
  if (figures.length) {
    await loadPlotly();
    await drawOpen(false);
    document.querySelectorAll("details").forEach(one => one.addEventListener("toggle", () => drawOpen(false)));
    dark.addEventListener("change", () => drawOpen(true));
    addEventListener("resize", () => visible().forEach(place => {
      if (shapeOf(place) !== place.dataset.shape) draw(place);
    }));
    onPaper(() => drawOpen(true));
  }
  document.documentElement.dataset.ready = "yes";
}
main();
