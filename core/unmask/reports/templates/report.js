"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const descending = head.getAttribute("aria-sort") === "ascending";
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.cells[column];
      const value = cell.dataset.value;
      if (value === undefined || (value === "" && !head.classList.contains("number"))) return cell.textContent;
      return value === "" ? NaN : value === "inf" ? Infinity : Number(value);
    };
    const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      // What has no number comes last, whichever way.
      if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
      const order = typeof a === "number" && typeof b === "number"
        ? (a === b ? 0 : a < b ? -1 : 1)
        : String(a).localeCompare(String(b), undefined, { numeric: true });
      return descending ? -order : order;
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }));
}

const data = JSON.parse(document.getElementById("data").textContent);
const chosen = (name) => document.getElementById(`explore-${name}`);
const fill = (select, names) => names.forEach((name, i) => select.append(new Option(name, i)));
fill(chosen("model"), data.models);
fill(chosen("epsilon"), data.epsilons);
chosen("epsilon").value = data.epsilons.length - 1;

function element(kind, text, name) {
  const made = document.createElement(kind);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

const word = (p) => p === null ? "?" : p === 1 ? "R" : p === 0 ? "W" : p.toFixed(2);
const size = (d) => d === null ? "inf" : String(d);

function explore() {
  const m = Number(chosen("model").value), e = Number(chosen("epsilon").value), filter = chosen("filter").value;
  const head = document.createElement("tr");
  for (const name of ["sample", "label", "clean", ...data.attacks]) head.append(element("th", name));
  const table = document.getElementById("explore-table");
  table.tHead.replaceChildren(head);
  const rows = [];
  data.samples.forEach((sample, k) => {
    const known = data.attacks.map((_, a) => data.correct[m][a][e][k]).filter((p) => p !== null);
    const broken = known.some((p) => p < 0.5), robust = known.length > 0 && !broken;
    const split = broken && known.some((p) => p >= 0.5);
    if ((filter === "broken" && !broken) || (filter === "robust" && !robust) || (filter === "split" && !split)) return;
    const row = document.createElement("tr");
    row.append(element("th", sample), element("td", data.labels[k]));
    const clean = data.clean.correct[m][k];
    row.append(element("td", `${word(clean)} ${data.clean.prediction[m][k]}`, clean < 0.5 ? "wrong" : ""));
    data.attacks.forEach((_, a) => {
      const p = data.correct[m][a][e][k];
      const text = p === null ? data.meanings[data.status[m][a][e][k]]
        : `${word(p)} ${data.prediction[m][a][e][k]} (${size(data.distance[m][a][e][k])})`;
      const cell = element("td", text, p === null ? "unknown" : p < 0.5 ? "wrong" : "");
      cell.title = `confidence ${data.confidence[m][a][e][k]}, margin ${data.margin[m][a][e][k]}, `
        + `forwards ${data.forwards[m][a][e][k]}, ${data.meanings[data.status[m][a][e][k]]}`;
      row.append(cell);
    });
    rows.push(row);
  });
  table.tBodies[0].replaceChildren(...rows);
  const listed = data.samples.length < data.total ? ` (the first ${data.samples.length} of ${data.total} are listed)` : "";
  document.getElementById("explore-count").textContent = `${rows.length} samples${listed}`;
}
for (const name of ["model", "epsilon", "filter"]) chosen(name).addEventListener("change", explore);
explore();
