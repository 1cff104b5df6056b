// Nodes, selection and filter, shared by the map and the table.
"use strict";
document.documentElement.classList.add("js");

const data = JSON.parse(document.getElementById("node-data").textContent);

function unpacked(list) {
  const bytes = Uint8Array.from(atob(list.data), (letter) => letter.charCodeAt(0));
  const kind = { Uint8: Uint8Array, Uint16: Uint16Array, Uint32: Uint32Array }[list.type];
  return new kind(bytes.buffer);
}

const nodes = (() => {
  const best = unpacked(data.best), parts = unpacked(data.probabilities), places = unpacked(data.places);
  const given = unpacked(data.given), degrees = unpacked(data.degrees), edgeCounts = unpacked(data.edgeCounts);
  const others = unpacked(data.others);
  const count = data.ids.length, width = count ? best.length / count : 0;
  // Edges are stored at one end; build the lists of both.
  const starts = new Uint32Array(count + 1), ends = new Uint32Array(2 * others.length);
  for (let node = 0, edge = 0; node < count; node++)
    for (let i = 0; i < edgeCounts[node]; i++, edge++) { starts[node + 1]++; starts[others[edge] + 1]++; }
  for (let node = 0; node < count; node++) starts[node + 1] += starts[node];
  const next = starts.slice(0, count);
  for (let node = 0, edge = 0; node < count; node++)
    for (let i = 0; i < edgeCounts[node]; i++, edge++) { ends[next[node]++] = others[edge]; ends[next[others[edge]]++] = node; }
  const scale = data.map.width / data.steps.place;
  return {
    count,
    id: (node) => data.ids[node],
    x: (node) => scale * places[2 * node],
    y: (node) => scale * places[2 * node + 1],
    predicted: (node) => best[width * node],
    given: (node) => given[node] - 1,
    probability: (node) => parts[width * node] / data.steps.probability,
    likely: (node) => Array.from({ length: width }, (_, place) => ({
      class: best[width * node + place], probability: parts[width * node + place] / data.steps.probability,
    })),
    degree: (node) => degrees[node],
    neighbours: (node) => ends.subarray(starts[node], starts[node + 1]),
  };
})();

const percent = (share) => `${Math.round(100 * share)} %`;
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function certainty(node) {
  if (nodes.given(node) >= 0) return "given";
  const probability = nodes.probability(node);
  return probability >= data.sure ? "sure" : probability < data.unsure ? "unsure" : "between";
}

const className = (number) => (/^\d+$/.test(data.classes[number]) ? `class ${data.classes[number]}` : data.classes[number]);

function prediction(node) {
  const found = `${className(nodes.predicted(node))}, ${percent(nodes.probability(node))}`;
  if (nodes.given(node) < 0) return found;
  const given = className(nodes.given(node));
  return nodes.given(node) === nodes.predicted(node) ? `${found}; labelled` : `${found}; label: ${given}`;
}

// Names come from user files: set them as text, never as HTML.
function element(kind, text, attributes = {}) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const colourOf = (number) => `--own:var(--k${number})`;

function nodeButton(node) {
  const button = element("button", undefined, { type: "button", class: "node", title: prediction(node) });
  button.append(element("i", undefined, { style: colourOf(nodes.predicted(node)) }), nodes.id(node));
  button.addEventListener("click", () => select(node));
  return button;
}

// Listeners for changes of the selected node and of the filter.
const onSelect = [], onFilter = [];
let selected = null;

function select(node) {
  selected = node;
  for (const listener of onSelect) listener(node);
}

const filter = { text: "", class: "", certainty: "" };

function changeFilter(change) {
  Object.assign(filter, change);
  for (const listener of onFilter) listener();
}

const MOST_LISTED = 60;
onSelect.push((node) => {
  const panel = document.getElementById("selected");
  if (node === null) return panel.replaceChildren(element("p", "No node selected.", { class: "soft" }));
  const shares = element("dl", undefined, { class: "shares" });
  for (const one of nodes.likely(node)) {
    const bar = element("span", undefined, { class: "bar", style: `${colourOf(one.class)};width:${100 * one.probability}%` });
    shares.append(element("dt", data.classes[one.class]), bar, element("dd", percent(one.probability)));
  }
  const neighbours = Array.from(nodes.neighbours(node));
  const list = element("ul");
  for (const one of neighbours.slice(0, MOST_LISTED)) {
    const item = element("li");
    item.append(nodeButton(one));
    list.append(item);
  }
  const left = nodes.degree(node) - Math.min(neighbours.length, MOST_LISTED);
  const given = nodes.given(node);
  panel.replaceChildren(
    element("h3", nodes.id(node)),
    element("p", given < 0 ? "Predicted class:" : `Label: ${data.classes[given]}. Prediction:`, { class: "soft" }),
    shares,
    element("p", `${counted(nodes.degree(node), "neighbour")}${left > 0 && neighbours.length ? `, ${left} not listed` : ""}`, { class: "soft" }),
    list,
  );
});
for (const button of document.querySelectorAll("[data-suggested]"))
  button.addEventListener("click", () => {
    select(data.suggested[button.dataset.suggested]);
    document.getElementById("sheet").scrollIntoView({ block: "nearest" });
  });
// The map: hover, edges of a node, zoom, and highlighting of one class.
{
  const sheet = document.getElementById("sheet"), hint = document.getElementById("hint");
  const ground = sheet.querySelector(".ground svg"), overlay = sheet.querySelector(".overlay");
  const size = data.map.width, ratio = data.map.height / size, REACH = 14, CLOSEST = 1 / 24, CELLS = 64;

  // Nodes by grid cell, for a fast search of the nearest node.
  const cells = Array.from({ length: CELLS * CELLS }, () => []);
  const cellOf = (coordinate) => Math.min(CELLS - 1, Math.max(0, Math.floor((coordinate / size) * CELLS)));
  for (let node = 0; node < nodes.count; node++) cells[cellOf(nodes.y(node)) * CELLS + cellOf(nodes.x(node))].push(node);

  const view = { x: 0, y: 0, width: size };
  let shown = null;  // the node whose edges are drawn: under the pointer, else selected

  function nearest(x, y, reach) {
    let found = null, least = reach * reach;
    for (let row = cellOf(y - reach); row <= cellOf(y + reach); row++)
      for (let column = cellOf(x - reach); column <= cellOf(x + reach); column++)
        for (const node of cells[row * CELLS + column]) {
          if (filter.class !== "" && nodes.predicted(node) !== Number(filter.class)) continue;
          const distance = (nodes.x(node) - x) ** 2 + (nodes.y(node) - y) ** 2;
          if (distance < least) [found, least] = [node, distance];
        }
    return found;
  }

  function underPointer(event) {
    const box = sheet.getBoundingClientRect(), unit = view.width / box.width;
    const x = view.x + (event.clientX - box.left) * unit, y = view.y + (event.clientY - box.top) * unit;
    return nearest(x, y, REACH * unit);
  }

  const dot = (node) => `M${nodes.x(node).toFixed(1)},${nodes.y(node).toFixed(1)}`;

  function drawEdges(node) {
    shown = node;
    const [bonds, ends, here, core] = overlay.querySelectorAll("path");
    const others = node === null ? [] : Array.from(nodes.neighbours(node));
    bonds.setAttribute("d", others.map((one) => `${dot(node)}L${dot(one).slice(1)}`).join(""));
    ends.setAttribute("d", others.map((one) => `${dot(one)}h0`).join(""));
    here.setAttribute("d", node === null ? "" : `${dot(node)}h0`);
    core.setAttribute("d", node === null ? "" : `${dot(node)}h0`);
    if (node !== null) core.style.setProperty("--core", `var(--k${nodes.predicted(node)})`);
  }

  function neighboursInWords(node) {
    const neighbours = Array.from(nodes.neighbours(node)), few = neighbours.slice(0, 5).map(nodes.id);
    const more = nodes.degree(node) - few.length;
    if (!nodes.degree(node)) return "no neighbours";
    const names = few.length ? `: ${few.join(", ")}${more > 0 ? ` and ${more} more` : ""}` : "";
    return counted(nodes.degree(node), "neighbour") + names;
  }

  function showHint(node) {
    hint.hidden = node === null;
    if (node === null) return;
    hint.replaceChildren(element("b", nodes.id(node)), element("span", prediction(node)), element("br"), element("span", neighboursInWords(node)));
    const box = sheet.getBoundingClientRect(), scale = box.width / view.width;
    const x = (nodes.x(node) - view.x) * scale, y = (nodes.y(node) - view.y) * scale;
    const left = Math.min(Math.max(6, x + 14), box.width - hint.offsetWidth - 6);
    const above = y - hint.offsetHeight - 14;
    hint.style.left = `${left}px`;
    hint.style.top = `${above > 6 ? above : Math.min(y + 14, box.height - hint.offsetHeight - 6)}px`;
  }

  function moveTo(x, y, width) {
    view.width = Math.min(size, Math.max(size * CLOSEST, width));
    view.x = Math.min(size - view.width, Math.max(0, x));
    view.y = Math.min((size - view.width) * ratio, Math.max(0, y));
    // Text is larger on small screens.
    const reading = Math.min(1.2, Math.max(1, (0.75 * size) / sheet.clientWidth));
    for (const picture of [ground, overlay]) {
      picture.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.width * ratio}`);
      picture.style.setProperty("--zoom", view.width / size);
      picture.style.setProperty("--reading", reading);
    }
    sheet.classList.toggle("near", view.width < size);
    showHint(hint.hidden ? null : shown);
  }

  // Zoom by a factor around (x, y).
  function zoom(factor, x = view.x + view.width / 2, y = view.y + (view.width * ratio) / 2) {
    const width = Math.min(size, Math.max(size * CLOSEST, view.width / factor)), share = width / view.width;
    moveTo(x - (x - view.x) * share, y - (y - view.y) * share, width);
  }

  function place(event) {
    const box = sheet.getBoundingClientRect(), unit = view.width / box.width;
    return [view.x + (event.clientX - box.left) * unit, view.y + (event.clientY - box.top) * unit];
  }

  let dragged = null;
  sheet.addEventListener("pointerdown", (event) => {
    dragged = view.width < size ? { x: event.clientX, y: event.clientY, from: { ...view }, moved: false } : null;
  });
  sheet.addEventListener("pointermove", (event) => {
    if (dragged && event.buttons) {
      const unit = view.width / sheet.getBoundingClientRect().width;
      const across = event.clientX - dragged.x, down = event.clientY - dragged.y;
      dragged.moved ||= Math.hypot(across, down) > 4;
      if (dragged.moved) return moveTo(dragged.from.x - across * unit, dragged.from.y - down * unit, view.width);
    }
    const node = underPointer(event);
    if (node !== shown || hint.hidden) { drawEdges(node ?? selected); showHint(node); }
    sheet.style.cursor = node !== null ? "pointer" : "";
  });
  sheet.addEventListener("pointerleave", () => { dragged = null; drawEdges(selected); showHint(null); });
  sheet.addEventListener("click", (event) => {
    if (dragged?.moved) return;
    select(underPointer(event));
    if (selected !== null) showHint(selected);
  });
  sheet.addEventListener("dblclick", (event) => zoom(2, ...place(event)));
  sheet.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;  // plain wheel scrolls the page; pinching sends ctrl + wheel
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 200), ...place(event));
  }, { passive: false });
  document.getElementById("zoom-in").addEventListener("click", () => zoom(1.8));
  document.getElementById("zoom-out").addEventListener("click", () => zoom(1 / 1.8));
  document.getElementById("whole").addEventListener("click", () => moveTo(0, 0, size));

  onSelect.push((node) => {
    drawEdges(node);
    showHint(null);
    if (node === null) return;
    const x = nodes.x(node), y = nodes.y(node), height = view.width * ratio;
    const inside = x >= view.x && x <= view.x + view.width && y >= view.y && y <= view.y + height;
    if (!inside) moveTo(x - view.width / 2, y - height / 2, view.width);
  });

  const buttons = document.querySelectorAll("#classes button");
  for (const button of buttons)
    button.addEventListener("click", () => changeFilter({ class: filter.class === button.dataset.class ? "" : button.dataset.class }));
  onFilter.push(() => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.class === filter.class);
    for (const dots of ground.querySelectorAll(".dots"))
      dots.classList.toggle("aside", filter.class !== "" && !dots.classList.contains(`k${filter.class}`) && !dots.classList.contains("paper"));
  });
  new ResizeObserver(() => moveTo(view.x, view.y, view.width)).observe(sheet);
}
// The table: search, filters and sorting; only visible rows are in the document.
{
  const ROW = 34, SPARE = 6;  // row height in pixels, as in the style sheet; extra rows at either edge
  const frame = document.getElementById("rows"), body = frame.querySelector("tbody");
  const search = document.getElementById("search"), ofClass = document.getElementById("of-class");
  const ofCertainty = document.getElementById("certainty"), found = document.getElementById("found");
  const allNodes = Array.from({ length: nodes.count }, (_, node) => node);
  const haystack = allNodes.map((node) => `${nodes.id(node)}\n${data.classes[nodes.predicted(node)]}`.toLowerCase());

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
    class: (node) => classRank[nodes.predicted(node)],
    probability: (node) => nodes.probability(node),
    second: (node) => nodes.likely(node)[1]?.probability ?? 0,
    neighbours: (node) => nodes.degree(node),
  };
  const FIRST_DOWN = ["probability", "second", "neighbours"];  // sorted from the largest first
  let sorting = { key: "node", down: false }, listed = allNodes, drawn = "";

  function list() {
    const text = filter.text.trim().toLowerCase();
    listed = allNodes.filter((node) =>
      (!text || haystack[node].includes(text)) &&
      (filter.class === "" || nodes.predicted(node) === Number(filter.class)) &&
      (filter.certainty === "" || certainty(node) === filter.certainty));
    const value = Float64Array.from(allNodes, keys[sorting.key]), sign = sorting.down ? -1 : 1;
    listed.sort((a, b) => sign * (value[a] - value[b]) || idRank[a] - idRank[b]);
    found.textContent = listed.length === nodes.count ? counted(nodes.count, "node") : `${listed.length} of ${counted(nodes.count, "node")}`;
    drawn = "";
    draw();
  }

  function space(rows) {
    const made = element("tr", undefined, { class: "space", "aria-hidden": "true" });
    made.append(element("td", undefined, { style: `height:${rows * ROW}px;padding:0` }));
    made.style.height = `${rows * ROW}px`;
    return made;
  }

  function named(kind, number, text, attributes) {
    const made = element(kind, undefined, attributes);
    made.append(element("i", undefined, { style: colourOf(number) }), text);
    return made;
  }

  function row(node, place) {
    const made = element("tr", undefined, { "aria-rowindex": place + 2, "aria-selected": node === selected, style: colourOf(nodes.predicted(node)) });
    const name = element("th", undefined, { scope: "row" }), button = element("button", nodes.id(node), { type: "button", title: nodes.id(node) });
    name.append(button);
    const given = nodes.given(node), probability = element("td"), second = nodes.likely(node)[1];
    const classCell = named("td", nodes.predicted(node), data.classes[nodes.predicted(node)], { title: prediction(node) });
    if (given >= 0) classCell.append(element("span", given === nodes.predicted(node) ? "label" : `label ${data.classes[given]}`, { class: "tag" }));
    probability.append(element("span", undefined, { class: "meter", style: `--share:${100 * nodes.probability(node)}%` }), percent(nodes.probability(node)));
    const other = second ? named("td", second.class, `${percent(second.probability)} ${data.classes[second.class]}`, { class: "wide" }) : element("td", "", { class: "wide" });
    made.append(name, classCell, probability, other, element("td", nodes.degree(node), { class: "wide" }));
    made.addEventListener("click", () => select(node));
    return made;
  }

  function draw() {
    const first = Math.max(0, Math.floor(frame.scrollTop / ROW) - SPARE);
    const last = Math.min(listed.length, Math.ceil((frame.scrollTop + frame.clientHeight) / ROW) + SPARE);
    if (drawn === `${first} ${last}`) return;
    drawn = `${first} ${last}`;
    const rows = listed.slice(first, last).map((node, place) => row(node, first + place));
    if (!listed.length) {
      const none = element("tr", undefined, { class: "space" });
      none.append(element("td", "No matching nodes.", { colspan: 3, class: "empty" }));
      rows.push(none);
    }
    body.replaceChildren(space(first), ...rows, space(listed.length - last));
  }

  frame.querySelector("table").setAttribute("aria-rowcount", nodes.count + 1);
  data.classes.forEach((name, number) => ofClass.append(element("option", name, { value: number })));
  for (const button of frame.querySelectorAll("[data-sort]"))
    button.addEventListener("click", () => {
      const key = button.dataset.sort;
      sorting = { key, down: key === sorting.key ? !sorting.down : FIRST_DOWN.includes(key) };
      for (const other of frame.querySelectorAll("[data-sort]"))
        other.parentElement.setAttribute("aria-sort", other !== button ? "none" : sorting.down ? "descending" : "ascending");
      frame.scrollTop = 0;
      list();
    });
  frame.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(frame);
  search.addEventListener("input", () => changeFilter({ text: search.value }));
  search.addEventListener("keydown", (event) => { if (event.key === "Enter" && listed.length) select(listed[0]); });
  ofClass.addEventListener("change", () => changeFilter({ class: ofClass.value }));
  ofCertainty.addEventListener("change", () => changeFilter({ certainty: ofCertainty.value }));
  onFilter.push(() => {
    ofClass.value = filter.class;
    frame.scrollTop = 0;
    list();
  });
  onSelect.push(() => { drawn = ""; draw(); });
  list();
}
