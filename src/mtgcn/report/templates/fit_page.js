// Nodes, selection and filter, shared by the map and the table.
"use strict";
document.documentElement.classList.add("js");

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("node-data").textContent);

const nodes = (() => {
  // Edges are stored at one end; neighbours lists those of both.
  const neighbours = data.ids.map(() => []);
  data.edges.forEach((others, node) => others.forEach((other) => {
    neighbours[node].push(other);
    neighbours[other].push(node);
  }));
  return {
    count: data.ids.length,
    id: (node) => data.ids[node],
    x: (node) => data.places[node][0],
    y: (node) => data.places[node][1],
    likely: (node) => data.best[node].map((one, rank) => ({ class: one, probability: data.probabilities[node][rank] })),
    predicted: (node) => data.best[node][0],
    probability: (node) => data.probabilities[node][0],
    given: (node) => data.given[node],
    degree: (node) => data.degrees[node],
    neighbours: (node) => neighbours[node],
  };
})();

const percent = (share) => `${Math.round(100 * share)} %`;
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const className = (number) => (/^\d+$/.test(data.classes[number]) ? `class ${data.classes[number]}` : data.classes[number]);

function certainty(node) {
  if (nodes.given(node) >= 0) return "given";
  const probability = nodes.probability(node);
  return probability >= data.sure ? "sure" : probability < data.unsure ? "unsure" : "between";
}

function prediction(node) {
  const found = `${className(nodes.predicted(node))}, ${percent(nodes.probability(node))}`, given = nodes.given(node);
  if (given < 0) return found;
  return given === nodes.predicted(node) ? `${found}; labelled` : `${found}; label: ${className(given)}`;
}

// Names come from user files: children that are strings become text, never HTML.
function element(kind, attributes, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

const colourOf = (number) => `--own:var(--k${number})`;
const swatch = (number) => element("i", { style: colourOf(number) });
const soft = (text) => element("p", { class: "soft" }, text);

function nodeButton(node) {
  const button = element("button", { type: "button", class: "node", title: prediction(node) }, swatch(nodes.predicted(node)), nodes.id(node));
  button.addEventListener("click", () => select(node));
  return button;
}

// Listeners for changes of the selected node and of the filter.
const onSelect = [], onFilter = [];
let selected = null;
const filter = { text: "", class: "", certainty: "" };

function select(node) {
  selected = node;
  for (const listener of onSelect) listener(node);
}

function changeFilter(change) {
  Object.assign(filter, change);
  for (const listener of onFilter) listener();
}

const inClass = (node) => filter.class === "" || nodes.predicted(node) === Number(filter.class);

const MOST_LISTED = 60;
onSelect.push((node) => {
  if (node === null) return byId("selected").replaceChildren(soft("No node selected."));
  const shares = nodes.likely(node).flatMap((one) => [
    element("dt", {}, data.classes[one.class]),
    element("span", { class: "bar", style: `${colourOf(one.class)};width:${100 * one.probability}%` }),
    element("dd", {}, percent(one.probability)),
  ]);
  const listed = nodes.neighbours(node).slice(0, MOST_LISTED);
  const left = listed.length ? nodes.degree(node) - listed.length : 0;
  const given = nodes.given(node);
  byId("selected").replaceChildren(
    element("h3", {}, nodes.id(node)),
    soft(given < 0 ? "Predicted class:" : `Label: ${data.classes[given]}. Prediction:`),
    element("dl", { class: "shares" }, ...shares),
    soft(counted(nodes.degree(node), "neighbour") + (left > 0 ? `, ${left} not listed` : "")),
    element("ul", {}, ...listed.map((one) => element("li", {}, nodeButton(one)))),
  );
});
for (const button of document.querySelectorAll("[data-suggested]"))
  button.addEventListener("click", () => {
    select(data.suggested[button.dataset.suggested]);
    byId("sheet").scrollIntoView({ block: "nearest" });
  });

// The map: hover, edges of a node, zoom, and highlighting of one class.
{
  const sheet = byId("sheet"), hint = byId("hint");
  const ground = sheet.querySelector(".ground svg"), overlay = sheet.querySelector(".overlay");
  const size = data.map.width, ratio = data.map.height / size, REACH = 14, CLOSEST = 1 / 24;
  const view = { x: 0, y: 0, width: size };
  let shown = null;  // the node whose edges are drawn: under the pointer, else selected
  const between = (low, value, high) => Math.min(high, Math.max(low, value));
  const unit = () => view.width / sheet.clientWidth;  // map coordinates per pixel

  // The place of the pointer on the map.
  function place(event) {
    const box = sheet.getBoundingClientRect();
    return [view.x + (event.clientX - box.left) * unit(), view.y + (event.clientY - box.top) * unit()];
  }

  function underPointer(event) {
    const [x, y] = place(event);
    let found = null, least = (REACH * unit()) ** 2;
    for (let node = 0; node < nodes.count; node++) {
      const distance = (nodes.x(node) - x) ** 2 + (nodes.y(node) - y) ** 2;
      if (distance < least && inClass(node)) [found, least] = [node, distance];
    }
    return found;
  }

  function drawEdges(node) {
    shown = node;
    const at = (one) => `${nodes.x(one).toFixed(1)},${nodes.y(one).toFixed(1)}`, dot = (one) => `M${at(one)}h0`;
    const [bonds, ends, here, core] = overlay.querySelectorAll("path");
    const others = node === null ? [] : nodes.neighbours(node);
    bonds.setAttribute("d", others.map((one) => `M${at(node)}L${at(one)}`).join(""));
    ends.setAttribute("d", others.map(dot).join(""));
    for (const mark of [here, core]) mark.setAttribute("d", node === null ? "" : dot(node));
    if (node !== null) core.style.setProperty("--core", `var(--k${nodes.predicted(node)})`);
  }

  function neighboursInWords(node) {
    if (!nodes.degree(node)) return "no neighbours";
    const few = nodes.neighbours(node).slice(0, 5).map(nodes.id), more = nodes.degree(node) - few.length;
    const names = few.length ? `: ${few.join(", ")}${more > 0 ? ` and ${more} more` : ""}` : "";
    return counted(nodes.degree(node), "neighbour") + names;
  }

  function showHint(node) {
    hint.hidden = node === null;
    if (node === null) return;
    hint.replaceChildren(element("b", {}, nodes.id(node)), prediction(node), element("br", {}), neighboursInWords(node));
    const x = (nodes.x(node) - view.x) / unit(), y = (nodes.y(node) - view.y) / unit(), above = y - hint.offsetHeight - 14;
    hint.style.left = `${between(6, x + 14, sheet.clientWidth - hint.offsetWidth - 6)}px`;
    hint.style.top = `${above > 6 ? above : Math.min(y + 14, sheet.clientHeight - hint.offsetHeight - 6)}px`;
  }

  function moveTo(x, y, width) {
    view.width = between(size * CLOSEST, width, size);
    view.x = between(0, x, size - view.width);
    view.y = between(0, y, (size - view.width) * ratio);
    for (const picture of [ground, overlay]) {
      picture.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.width * ratio}`);
      picture.style.setProperty("--zoom", view.width / size);
      picture.style.setProperty("--reading", between(1, (0.75 * size) / sheet.clientWidth, 1.2));  // larger text on small screens
    }
    sheet.classList.toggle("near", view.width < size);
    showHint(hint.hidden ? null : shown);
  }

  // Zoom by a factor around (x, y).
  function zoom(factor, x = view.x + view.width / 2, y = view.y + (view.width * ratio) / 2) {
    const width = between(size * CLOSEST, view.width / factor, size), share = width / view.width;
    moveTo(x - (x - view.x) * share, y - (y - view.y) * share, width);
  }

  let dragged = null;
  sheet.addEventListener("pointerdown", (event) => {
    dragged = view.width < size ? { x: event.clientX, y: event.clientY, from: { ...view }, moved: false } : null;
  });
  sheet.addEventListener("pointermove", (event) => {
    if (dragged && event.buttons) {
      const across = event.clientX - dragged.x, down = event.clientY - dragged.y;
      dragged.moved ||= Math.hypot(across, down) > 4;
      if (dragged.moved) return moveTo(dragged.from.x - across * unit(), dragged.from.y - down * unit(), view.width);
    }
    const node = underPointer(event);
    if (node !== shown || hint.hidden) { drawEdges(node ?? selected); showHint(node); }
    sheet.style.cursor = node !== null ? "pointer" : "";
  });
  sheet.addEventListener("pointerleave", () => { dragged = null; drawEdges(selected); showHint(null); });
  sheet.addEventListener("click", (event) => {
    if (dragged?.moved) return;
    select(underPointer(event));
    showHint(selected);
  });
  sheet.addEventListener("dblclick", (event) => zoom(2, ...place(event)));
  sheet.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;  // plain wheel scrolls the page; pinching sends ctrl + wheel
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 200), ...place(event));
  }, { passive: false });
  byId("zoom-in").addEventListener("click", () => zoom(1.8));
  byId("zoom-out").addEventListener("click", () => zoom(1 / 1.8));
  byId("whole").addEventListener("click", () => moveTo(0, 0, size));

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
    for (const dots of ground.querySelectorAll(".dots:not(.paper)"))
      dots.classList.toggle("aside", filter.class !== "" && !dots.classList.contains(`k${filter.class}`));
  });
  new ResizeObserver(() => moveTo(view.x, view.y, view.width)).observe(sheet);
}

// The table: search, filters and sorting; only visible rows are in the document.
{
  const ROW = 34, SPARE = 6;  // row height in pixels, as in the style sheet; extra rows at either edge
  const frame = byId("rows"), body = frame.querySelector("tbody"), sortButtons = frame.querySelectorAll("[data-sort]");
  const search = byId("search"), ofClass = byId("of-class"), ofCertainty = byId("certainty");
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
    probability: nodes.probability,
    second: (node) => nodes.likely(node)[1]?.probability ?? 0,
    neighbours: nodes.degree,
  };
  const FIRST_DOWN = ["probability", "second", "neighbours"];  // sorted from the largest first
  let sorting = { key: "node", down: false }, listed = allNodes, drawn = "";

  function list() {
    const text = filter.text.trim().toLowerCase();
    listed = allNodes.filter((node) =>
      haystack[node].includes(text) && inClass(node) && (filter.certainty === "" || certainty(node) === filter.certainty));
    const value = Float64Array.from(allNodes, keys[sorting.key]), sign = sorting.down ? -1 : 1;
    listed.sort((a, b) => sign * (value[a] - value[b]) || idRank[a] - idRank[b]);
    byId("found").textContent = (listed.length < nodes.count ? `${listed.length} of ` : "") + counted(nodes.count, "node");
    ofClass.value = filter.class;
    frame.scrollTop = 0;
    redraw();
  }

  function space(rows) {
    const height = `height:${rows * ROW}px`;
    return element("tr", { class: "space", "aria-hidden": "true", style: height }, element("td", { style: `${height};padding:0` }));
  }

  function row(node, place) {
    const predicted = nodes.predicted(node), given = nodes.given(node), second = nodes.likely(node)[1];
    const label = given < 0 ? [] : [element("span", { class: "tag" }, given === predicted ? "label" : `label ${data.classes[given]}`)];
    const other = second ? [swatch(second.class), `${percent(second.probability)} ${data.classes[second.class]}`] : [];
    const meter = element("span", { class: "meter", style: `--share:${100 * nodes.probability(node)}%` });
    const made = element(
      "tr", { "aria-rowindex": place + 2, "aria-selected": node === selected, style: colourOf(predicted) },
      element("th", { scope: "row" }, element("button", { type: "button", title: nodes.id(node) }, nodes.id(node))),
      element("td", { title: prediction(node) }, swatch(predicted), data.classes[predicted], ...label),
      element("td", {}, meter, percent(nodes.probability(node))),
      element("td", { class: "wide" }, ...other),
      element("td", { class: "wide" }, nodes.degree(node)),
    );
    made.addEventListener("click", () => select(node));
    return made;
  }

  function draw() {
    const first = Math.max(0, Math.floor(frame.scrollTop / ROW) - SPARE);
    const last = Math.min(listed.length, Math.ceil((frame.scrollTop + frame.clientHeight) / ROW) + SPARE);
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

  frame.querySelector("table").setAttribute("aria-rowcount", nodes.count + 1);
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
  search.addEventListener("input", () => changeFilter({ text: search.value }));
  search.addEventListener("keydown", (event) => { if (event.key === "Enter" && listed.length) select(listed[0]); });
  ofClass.addEventListener("change", () => changeFilter({ class: ofClass.value }));
  ofCertainty.addEventListener("change", () => changeFilter({ certainty: ofCertainty.value }));
  onFilter.push(list);
  onSelect.push(redraw);
  list();
}
