// The nodes of the page, read once, and the one that is chosen: what the map and the table share.
"use strict";
document.documentElement.classList.add("js");

const data = JSON.parse(document.getElementById("data").textContent);

function unpacked(list) {
  const bytes = Uint8Array.from(atob(list.data), (letter) => letter.charCodeAt(0));
  const kind = { Uint8: Uint8Array, Uint16: Uint16Array, Uint32: Uint32Array }[list.type];
  return new kind(bytes.buffer);
}

const nodes = (() => {
  const best = unpacked(data.best), parts = unpacked(data.probabilities), places = unpacked(data.places);
  const given = unpacked(data.given), degrees = unpacked(data.degrees), edgesEach = unpacked(data.edgesEach);
  const others = unpacked(data.others);
  const count = data.ids.length, width = count ? best.length / count : 0;
  // Each edge is stored at one end; here both ends find it.
  const starts = new Uint32Array(count + 1), ends = new Uint32Array(2 * others.length);
  for (let node = 0, edge = 0; node < count; node++)
    for (let i = 0; i < edgesEach[node]; i++, edge++) { starts[node + 1]++; starts[others[edge] + 1]++; }
  for (let node = 0; node < count; node++) starts[node + 1] += starts[node];
  const next = starts.slice(0, count);
  for (let node = 0, edge = 0; node < count; node++)
    for (let i = 0; i < edgesEach[node]; i++, edge++) { ends[next[node]++] = others[edge]; ends[next[others[edge]]++] = node; }
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

function verdict(node) {
  const found = `${className(nodes.predicted(node))}, ${percent(nodes.probability(node))}`;
  if (nodes.given(node) < 0) return found;
  const given = className(nodes.given(node));
  return nodes.given(node) === nodes.predicted(node) ? `${found}; label given` : `${found}; label given: ${given}`;
}

// Names come from a person's files: they are only ever set as text, never read as HTML.
function element(kind, text, attributes = {}) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const colourOf = (number) => `--own:var(--k${number})`;

function nodeButton(node) {
  const button = element("button", undefined, { type: "button", class: "node", title: verdict(node) });
  button.append(element("i", undefined, { style: colourOf(nodes.predicted(node)) }), nodes.id(node));
  button.addEventListener("click", () => choose(node));
  return button;
}

// Whoever shows something of the chosen node, or of the chosen classes, listens to these.
const onChoice = [], onFilter = [];
let chosen = null;

function choose(node) {
  chosen = node;
  for (const listener of onChoice) listener(node);
}

const filter = { text: "", class: "", certainty: "" };

function changeFilter(change) {
  Object.assign(filter, change);
  for (const listener of onFilter) listener();
}

const MOST_LISTED = 60;
onChoice.push((node) => {
  const panel = document.getElementById("chosen");
  if (node === null) return panel.replaceChildren(element("p", "No node chosen yet.", { class: "soft" }));
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
    element("p", given < 0 ? "Its class is predicted:" : `Its label was given: ${data.classes[given]}. The model says:`, { class: "soft" }),
    shares,
    element("p", `${counted(nodes.degree(node), "neighbour")}${left > 0 && neighbours.length ? `, ${left} of them not listed` : ""}`, { class: "soft" }),
    list,
  );
});
for (const button of document.querySelectorAll("[data-suggested]"))
  button.addEventListener("click", () => {
    choose(data.suggested[button.dataset.suggested]);
    document.getElementById("sheet").scrollIntoView({ block: "nearest" });
  });
