// Show the value of a chart under the pointer, with its time. The table below the charts has the same figures.

const main = document.getElementById("main");
let last = null;

function shown(value) {
  if (value === null) return "nothing is known";
  const digits = value > 0 && value < 10 ? 1 : 0;
  return value.toLocaleString("en", { maximumFractionDigits: digits }).replaceAll(",", "\u202f");
}

function mark(figure, share) {
  const values = JSON.parse(figure.dataset.values);
  const index = Math.min(values.length - 1, Math.max(0, Math.floor(share * values.length)));
  const begin = new Date(Number(figure.dataset.begin) + index * Number(figure.dataset.column));
  const time = begin.toISOString().replace("T", " ").slice(5, 19);
  figure.querySelector(".readout").textContent = `${time}: ${shown(values[index])}`;
  figure.querySelector(".mark").setAttribute("d", `M${((index + 0.5) * 100) / values.length} 0 V100`);
}

function unmark() {
  for (const readout of main.querySelectorAll(".readout")) readout.textContent = "";
  for (const line of main.querySelectorAll(".mark")) line.setAttribute("d", "");
}

function point(event) {
  const drawing = event.target.closest?.("figure.chart svg");
  unmark();
  last = null;
  if (!drawing) return;
  const box = drawing.getBoundingClientRect();
  last = { id: drawing.parentElement.id, share: (event.clientX - box.left) / box.width };
  mark(drawing.parentElement, last.share);
}

main.addEventListener("pointermove", point);
main.addEventListener("pointerdown", point);
main.addEventListener("pointerleave", point);
main.addEventListener("shown", () => {
  const figure = last && document.getElementById(last.id);
  if (figure) mark(figure, last.share);
});
