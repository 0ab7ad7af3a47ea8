// Figures and tables of a report (behind page.js).
const figures = JSON.parse(document.getElementById("figures").textContent);
function draw(place) {
  const figure = figures[+place.dataset.figure], narrow = (paper ?? place.clientWidth) < NARROW;
  const stacked = narrow || (paper && figure.narrow.data);  // heat maps beside one another need more than a paper's width
  const form = stacked ? { ...figure, ...figure.narrow } : figure;
  place.dataset.narrow = narrow;
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
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)], difference = x - y;
    return sign * (Number.isNaN(difference) ? String(x).localeCompare(String(y)) : difference);
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
      if (((paper ?? place.clientWidth) < NARROW) !== (place.dataset.narrow === "true")) draw(place);
    }));
    onPaper(() => drawOpen(true));
  }
  document.documentElement.dataset.ready = "yes";
}
main();
