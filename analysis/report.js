// Figures and tables of a report (behind page.js).
const figures = JSON.parse(document.getElementById("figures").textContent);
function draw(place) {
  const figure = figures[+place.dataset.figure];
  return Plotly.react(place, figure.data, themed(figure.layout), options);
}
function drawOpen(redraw) {
  const places = [...document.querySelectorAll("[data-figure]")].filter(place => !place.closest("details:not([open])"));
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
