// Nodes, selection and filter, shared by the map and the table.
document.documentElement.classList.add("js");

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("node-data").textContent);

const predictedClass = (node) => data.best[node][0];
const confidence = (node) => data.probabilities[node][0];
const likely = (node) => data.best[node].map((one, rank) => ({ class: one, probability: data.probabilities[node][rank] }));
const cells = (node) => Object.entries(data.cells).map(([name, column]) => [name, column[node]]).filter(([, cell]) => cell);
const neighbours = data.ids.map(() => []);  // at both ends of an edge, which is stored at one
data.edges.forEach((others, node) => others.forEach((other) => {
  neighbours[node].push(other);
  neighbours[other].push(node);
}));

const percent = (share) => `${Math.round(100 * share)} %`;
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const className = (number) => (/^\d+$/.test(data.classes[number]) ? `class ${data.classes[number]}` : data.classes[number]);

function certainty(node) {
  if (data.given[node] >= 0) return "given";
  const probability = confidence(node);
  return probability >= data.levels[0] ? "sure" : probability < data.levels[1] ? "unsure" : "between";
}

function prediction(node) {
  const found = `${className(predictedClass(node))}, ${percent(confidence(node))}`, given = data.given[node];
  if (given < 0) return found;
  return given === predictedClass(node) ? `${found}; labelled` : `${found}; label: ${className(given)}`;
}

// Names come from user files, so strings become text nodes, never HTML.
function element(kind, attributes, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const colourOf = (number) => `--own:var(--k${number})`;
const swatch = (number) => element("i", { style: `${colourOf(number)};clip-path:var(--s${number})` });
const soft = (text) => element("p", { class: "soft" }, text);

function nodeButton(node) {
  const button = element("button", { type: "button", class: "node", title: prediction(node) }, swatch(predictedClass(node)), data.ids[node]);
  button.addEventListener("click", () => select(node));
  return button;
}

// Listeners to changes of the selected node and of the filter.
const onSelect = [], onFilter = [];
let selected = null;
const filter = { text: "", class: "", certainty: "", lasso: null };

function select(node) {
  selected = node;
  for (const listener of onSelect) listener(node);
}

function changeFilter(change) {
  Object.assign(filter, change);
  for (const listener of onFilter) listener();
}

const inClass = (node) => filter.class === "" || predictedClass(node) === Number(filter.class);

const MOST_LISTED = 60;
onSelect.push((node) => {
  if (node === null) return byId("selected").replaceChildren(soft("No node selected."));
  const shares = likely(node).flatMap((one) => [
    element("dt", {}, data.classes[one.class]),
    element("span", { class: "bar", style: `${colourOf(one.class)};width:${100 * one.probability}%` }),
    element("dd", {}, percent(one.probability)),
  ]);
  const listed = neighbours[node].slice(0, MOST_LISTED);
  const left = listed.length ? data.degrees[node] - listed.length : 0;
  const given = data.given[node];
  byId("selected").replaceChildren(
    element("h3", {}, data.ids[node]),
    element("dl", { class: "cells" }, ...cells(node).flatMap(([name, cell]) => [element("dt", {}, name), element("dd", {}, cell)])),
    soft(given < 0 ? "Predicted class:" : `Label: ${data.classes[given]}. Prediction:`),
    element("dl", { class: "shares" }, ...shares),
    soft(counted(data.degrees[node], "neighbour") + (left > 0 ? `, ${left} not listed` : "")),
    element("ul", {}, ...listed.map((one) => element("li", {}, nodeButton(one)))),
  );
});
for (const button of document.querySelectorAll("[data-suggested]"))
  button.addEventListener("click", () => {
    select(data.suggested[button.dataset.suggested]);
    byId("chart-of-nodes").scrollIntoView({ block: "nearest" });
  });

// The map, and highlighting of one class.
{
  function neighboursInWords(node) {
    if (!data.degrees[node]) return "no neighbours";
    const few = neighbours[node].slice(0, 5).map((one) => data.ids[one]), more = data.degrees[node] - few.length;
    const names = few.length ? `: ${few.join(", ")}${more > 0 ? ` and ${more} more` : ""}` : "";
    return counted(data.degrees[node], "neighbour") + names;
  }

  const map = new NodeMap(byId("chart-of-nodes"), {
    x: Float32Array.from(data.places, ([x]) => x), y: Float32Array.from(data.places, ([, y]) => y),
    levels: data.levels, total: data.total, marks: data.suggested, neighboursOf: (node) => neighbours[node], onNode: select,
    about: (node) => [data.ids[node], prediction(node), neighboursInWords(node)],
    onLasso: (found) => changeFilter({ lasso: found.length ? new Set(found) : null }),
  });
  map.sheet.style.aspectRatio = between(1, map.extent[0] / map.extent[1], 2);
  map.colour(
    Uint16Array.from(data.given, (given, node) => (given < 0 ? predictedClass(node) : given)),
    Uint8Array.from(data.probabilities, ([probability]) => Math.round(255 * probability)),
    Uint8Array.from(data.given, (given) => given >= 0), data.classes.map((_, number) => className(number)),
  );
  onSelect.push((node) => map.select(node ?? -1, node === null ? [] : neighbours[node]));
  byId("drop-lasso").addEventListener("click", () => map.setLassoing(false));

  const buttons = document.querySelectorAll("#classes button");
  for (const button of buttons)
    button.addEventListener("click", () => changeFilter({ class: filter.class === button.dataset.class ? "" : button.dataset.class }));
  onFilter.push(() => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.class === filter.class);
    byId("drop-lasso").hidden = !filter.lasso;
    map.showOnly(filter.class === "" ? -1 : Number(filter.class));
  });
  window.page = { data, map, select };
}

// The table: search, filters and sorting; only visible rows are in the document.
{
  const ROW = 34, SPARE = 6;  // row height in pixels, as in the style sheet; extra rows at either edge
  const frame = byId("rows"), body = frame.querySelector("tbody"), sortButtons = frame.querySelectorAll("[data-sort]");
  const search = byId("search"), ofClass = byId("of-class"), ofCertainty = byId("certainty");
  const allNodes = Array.from({ length: data.ids.length }, (_, node) => node);
  const texts = (node) => [data.ids[node], data.classes[predictedClass(node)], ...cells(node).map(([, cell]) => cell)];
  const haystack = allNodes.map((node) => texts(node).join("\n").toLowerCase());

  // Ranks of the names in natural order (node 9 before node 10), so that sorting compares numbers.
  const { compare } = new Intl.Collator(undefined, { numeric: true });
  const ranks = (names) => {
    const rank = new Uint32Array(names.length);
    names.map((_, place) => place).sort((a, b) => compare(names[a], names[b])).forEach((place, order) => { rank[place] = order; });
    return rank;
  };
  const idRank = ranks(data.ids), classRank = ranks(data.classes);
  const keys = {
    node: (node) => idRank[node],
    class: (node) => classRank[predictedClass(node)],
    probability: confidence,
    second: (node) => likely(node)[1]?.probability ?? 0,
    neighbours: (node) => data.degrees[node],
  };
  const FIRST_DOWN = ["probability", "second", "neighbours"];  // columns whose first sort is descending
  let sorting = { key: "node", down: false }, listed = allNodes, drawn = "", printing = false;

  function list() {
    const text = filter.text.trim().toLowerCase();
    listed = allNodes.filter((node) =>
      haystack[node].includes(text) && inClass(node) && (filter.lasso?.has(node) ?? true) && (filter.certainty === "" || certainty(node) === filter.certainty));
    const value = Float64Array.from(allNodes, keys[sorting.key]), sign = sorting.down ? -1 : 1;
    listed.sort((a, b) => sign * (value[a] - value[b]) || idRank[a] - idRank[b]);
    byId("found").textContent = (listed.length < data.ids.length ? `${listed.length} of ` : "") + counted(data.ids.length, "node");
    ofClass.value = filter.class;
    frame.scrollTop = 0;
    redraw();
  }

  function space(rows) {
    const height = `height:${rows * ROW}px`;
    return element("tr", { class: "space", "aria-hidden": "true", style: height }, element("td", { style: `${height};padding:0` }));
  }

  function row(node, place) {
    const predicted = predictedClass(node), given = data.given[node], second = likely(node)[1];
    const label = given < 0 ? [] : [element("span", { class: "tag" }, given === predicted ? "label" : `label ${data.classes[given]}`)];
    const other = second ? [swatch(second.class), `${percent(second.probability)} ${data.classes[second.class]}`] : [];
    const meter = element("span", { class: "meter", style: `--share:${100 * confidence(node)}%` });
    const made = element(
      "tr", { "aria-rowindex": place + 2, "aria-selected": node === selected, style: colourOf(predicted) },
      element("th", { scope: "row" }, element("button", { type: "button", title: data.ids[node] }, data.ids[node])),
      element("td", { title: prediction(node) }, swatch(predicted), data.classes[predicted], ...label),
      element("td", {}, meter, percent(confidence(node))),
      element("td", { class: "wide" }, ...other),
      element("td", { class: "wide" }, data.degrees[node]),
    );
    made.addEventListener("click", () => select(node));
    return made;
  }

  function draw() {
    const first = printing ? 0 : Math.max(0, Math.floor(frame.scrollTop / ROW) - SPARE);
    const last = printing ? listed.length : Math.min(listed.length, Math.ceil((frame.scrollTop + frame.clientHeight) / ROW) + SPARE);
    if (drawn === `${first} ${last}`) return;
    drawn = `${first} ${last}`;
    const rows = listed.slice(first, last).map((node, place) => row(node, first + place));
    if (!listed.length) rows.push(element("tr", { class: "space" }, element("td", { colspan: 3, class: "empty" }, "No matching nodes.")));
    body.replaceChildren(space(first), ...rows, space(listed.length - last));
  }

  function redraw() {
    drawn = "";
    draw();
  }

  frame.querySelector("table").setAttribute("aria-rowcount", data.ids.length + 1);
  data.classes.forEach((name, number) => ofClass.append(element("option", { value: number }, name)));
  for (const button of sortButtons)
    button.addEventListener("click", () => {
      const key = button.dataset.sort;
      sorting = { key, down: key === sorting.key ? !sorting.down : FIRST_DOWN.includes(key) };
      for (const other of sortButtons)
        other.parentElement.setAttribute("aria-sort", other !== button ? "none" : sorting.down ? "descending" : "ascending");
      list();
    });
  frame.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(frame);
  for (const event of ["beforeprint", "afterprint"])
    window.addEventListener(event, () => { printing = event === "beforeprint"; redraw(); });
  search.addEventListener("input", () => changeFilter({ text: search.value }));
  search.addEventListener("keydown", (event) => { if (event.key === "Enter" && listed.length) select(listed[0]); });
  ofClass.addEventListener("change", () => changeFilter({ class: ofClass.value }));
  ofCertainty.addEventListener("change", () => changeFilter({ certainty: ofCertainty.value }));
  onFilter.push(list);
  onSelect.push(redraw);
  list();
}
