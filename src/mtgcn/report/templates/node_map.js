// The map on the page of a fit and in the studio: points in WebGL; names, edges and lasso in an SVG above them.
const NO_CLASS = 65535, REACH = 14, CLOSEST = 60, MARGIN = 20, LINE = 19, CELLS = 8, SHAPES = 5;
const NONE = 0, DOUBT = 1, FAIR = 2, SURE = 3, YOURS = 4;  // kinds of points; higher numbers are drawn on top
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const VERTEX = `#version 300 es
layout(location = 0) in float x;
layout(location = 1) in float y;
layout(location = 2) in vec4 look;
uniform vec2 centre, unit;
uniform float radius, pixel;
out vec3 colour;
flat out int shape, level;
flat out float size, whole;
void main() {
  int bits = int(look.a * 255. + .5);
  shape = bits / 8;
  level = bits % 8;
  colour = look.rgb;
  size = level == ${YOURS} ? max(radius, 4. * pixel) : level == ${NONE} || level == ${FAIR} ? .7 * radius : radius;
  whole = (shape == 0 ? 1. : 1.3) * size + (level == ${YOURS} ? 3.5 * pixel : .5);
  gl_Position = vec4((vec2(x, y) - centre) * unit, 0, 1);
  gl_PointSize = 2. * whole;
}`;
// Shapes: disc, square, triangle, diamond and cross; hollow for uncertain predictions, with a ring for labels.
const FRAGMENT = `#version 300 es
precision highp float;
in vec3 colour;
flat in int shape, level;
flat in float size, whole;
uniform float pixel;
uniform vec3 ink, paper;
out vec4 shown;
void main() {
  vec2 at = (2. * gl_PointCoord - 1.) * whole, side = abs(at);
  float apart = shape == 0 ? length(at) : shape == 1 ? 1.12 * max(side.x, side.y)
    : shape == 2 ? 1.6 * max(at.y, .87 * side.x - .5 * at.y) : shape == 3 ? .8 * (side.x + side.y)
    : .85 * max(2.6 * min(side.x, side.y), max(side.x, side.y));
  #define within(radius) clamp((radius) - apart + .5, 0., 1.)
  vec3 fill = level == ${DOUBT} ? mix(colour, paper, within(size - max(pixel, .36 * size)))
    : level == ${YOURS} ? mix(mix(ink, paper, within(size + 1.5 * pixel)), colour, within(size)) : colour;
  shown = vec4(fill, 1) * within(level == ${YOURS} ? size + 3. * pixel : size);
}`;

const FRAME = `<style>
.node-map { display: flex; flex-direction: column; flex: 1; min-width: 0; min-height: 0; }
.map-sheet { position: relative; flex: 1; min-height: 0; overflow: hidden; background: var(--paper); }
.map-sheet :is(canvas, svg) { position: absolute; inset: 0; width: 100%; height: 100%; }
.map-sheet canvas { touch-action: pan-y; }
.map-sheet canvas.near { touch-action: none; cursor: grab; }
.map-sheet canvas.lasso { touch-action: none; cursor: crosshair; }
.map-sheet canvas:focus-visible { outline: 3px solid var(--focus, var(--c0)); outline-offset: -3px !important; }
.map-sheet svg { pointer-events: none; user-select: none; fill: none; stroke: var(--ink); }
.map-sheet text { fill: var(--ink); stroke: var(--paper); stroke-width: 4px; paint-order: stroke; font: 700 14px system-ui, sans-serif; text-anchor: middle; }
.map-sheet .bonds { opacity: .5; }
.map-sheet .here { fill: var(--paper); stroke-width: 2.5; }
.map-sheet .core { stroke: none; }
.map-sheet .pointed { stroke-width: 2; }
.map-sheet .lasso { fill: var(--ink); fill-opacity: .07; stroke-dasharray: 5 4; stroke-width: 1.5; }
.map-hint { position: absolute; z-index: 2; pointer-events: none; max-width: min(20rem, 80%); padding: .35rem .6rem; border-radius: 6px; background: var(--ink); color: var(--paper); font-size: .85rem; line-height: 1.4; overflow-wrap: anywhere; }
.map-hint :is(b, span) { display: block; }
.map-hint img { width: 6rem; height: 6rem; margin-top: .3rem; object-fit: contain; }
.map-foot { display: flex; flex-wrap: wrap; justify-content: space-between; align-items: center; gap: .4rem 1rem; padding: .5rem .8rem; }
.map-buttons { display: flex; gap: .3rem; }
.node-map .map-buttons button { min-width: 2.2rem; height: 2.2rem; padding: 0 .6rem; border: 1px solid var(--rule); border-radius: 6px; background: var(--paper); color: inherit; font: inherit; font-size: .9rem; cursor: pointer; }
.node-map .map-buttons [aria-pressed=true] { border-color: var(--ink); box-shadow: inset 0 0 0 1px var(--ink); }
.map-legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; font-size: .85rem; }
.map-legend svg { display: inline; width: 1.1em; height: 1.1em; vertical-align: -.2em; margin-right: .35em; fill: var(--soft); stroke-width: 2.4; overflow: visible; }
@media print { .map-buttons { display: none; } }
</style>
<div class="map-sheet">
<canvas tabindex="0" role="application"></canvas>
<svg aria-hidden="true"><path class="bonds"/><circle class="here" r="9"/><circle class="core" r="5.5"/><circle class="pointed"/><g></g><path class="lasso"/></svg>
<div class="map-hint" role="status" hidden></div>
</div>
<div class="map-foot">
<div class="map-legend"></div>
<div class="map-buttons" role="group" aria-label="Map">
<button type="button" data-tool="in" title="Zoom in (+)" aria-label="Zoom in">+</button>
<button type="button" data-tool="out" title="Zoom out (−)" aria-label="Zoom out">−</button>
<button type="button" data-tool="whole" title="Show all nodes (Home)">All</button>
<button type="button" data-tool="lasso" title="Draw around nodes to select them (Shift and drag)" aria-pressed="false">Lasso</button>
</div>
</div>`;
const icon = (...circles) => `<svg viewBox="0 0 16 16" aria-hidden="true">${circles.map(([radius, style]) => `<circle cx="8" cy="8" r="${radius}" style="${style}"/>`).join("")}</svg>`;
const HOLLOW = "fill:none;stroke:var(--soft)", RING = "fill:none;stroke:var(--ink);stroke-width:1.5";
const grouped = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");
const between = (low, value, high) => Math.min(high, Math.max(low, value));

export class NodeMap {
  // x, y: coordinates. levels: the confidence above which a prediction is sure and below which it is uncertain.
  // about(node): the lines of the hint, texts or elements, or a promise of them. onNode(node): on a click or Enter. onLasso(nodes): without nodes when the lasso is removed.
  // Optional: total: number of nodes in the graph. neighboursOf(node): shown while the pointer is on a node. marks: nodes with a
  // number. wheel: whether the wheel zooms; otherwise Ctrl and the wheel do, as pinching does.
  constructor(frame, options) {
    Object.assign(this, { marks: [], neighbours: [], names: [], classes: null, only: -1, selected: -1, pointed: -1, lasso: [], frames: 0, stale: true }, options);
    frame.classList.add("node-map");
    frame.innerHTML = FRAME;
    const find = (selector) => frame.querySelector(selector), count = this.x.length;
    [this.sheet, this.canvas, this.hint, this.texts] = [".map-sheet", "canvas", ".map-hint", "g"].map(find);
    this.drawn = Object.fromEntries(["bonds", "here", "core", "pointed", "lasso"].map((name) => [name, find(`svg .${name}`)]));
    const [sure, doubt] = this.levels.map((level) => `${Math.round(100 * level)} %`);
    const legend = [
      `${icon([6, ""])}sure (${sure} or more)`, `${icon([4, ""])}in between`, `${icon([5, HOLLOW])}in doubt (below ${doubt})`,
      `${icon([7, RING], [4.5, ""])}your label`, ...(this.total > count ? [`${grouped(count)} of ${grouped(this.total)} nodes shown`] : []),
    ];
    find(".map-legend").innerHTML = legend.map((entry) => `<span>${entry}</span>`).join("");
    this.canvas.setAttribute("aria-label", `Map of ${count} nodes. Arrow keys go from node to node, Enter selects, plus and minus zoom, Shift and arrow keys move, Home shows all.`);
    this.setUp();
    this.measure();
    this.whole();
    this.resized = new ResizeObserver(() => this.fit());
    this.resized.observe(this.sheet);
    this.night = matchMedia("(prefers-color-scheme: dark)");
    this.night.onchange = () => this.restyle();
    const tools = { in: () => this.zoom(1.7), out: () => this.zoom(1 / 1.7), whole: () => this.whole(), lasso: () => this.setLassoing(!this.lassoing) };
    for (const button of frame.querySelectorAll("[data-tool]")) button.addEventListener("click", tools[button.dataset.tool]);
    this.lassoButton = find("[data-tool=lasso]");
    this.listen();
  }
  close() {
    this.resized.disconnect();
    this.night.onchange = null;
    this.gl?.getExtension("WEBGL_lose_context")?.loseContext();
  }

  // ---- data
  // The class of each node (NO_CLASS: none), its confidence from 0 to 255, whether it is labelled, and the class names.
  colour(classes, confidence, labelled, names) {
    Object.assign(this, { classes, confidence, labelled, names });
    this.restyle();
  }
  moveNodes(x, y) {
    const from = [this.x, this.y], to = [x, y], began = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden;
    const step = (now) => {
      const done = still ? 1 : between(0, (now - began) / 700, 1), share = done * done * (3 - 2 * done);
      [this.x, this.y] = from.map((old, axis) => done === 1 ? to[axis] : old.map((value, node) => value + (to[axis][node] - value) * share));
      if (done === 1) this.measure();
      this.restyle();
      if (done < 1) requestAnimationFrame(step);
    };
    step(began);
  }
  // A node outside the sample is drawn in the middle of its neighbours, as the last node.
  select(node, neighbours) {
    const mean = (values) => neighbours.reduce((sum, one) => sum + values[one], 0) / neighbours.length;
    this.guest = node < 0 && neighbours.length ? [mean(this.x), mean(this.y)] : null;
    Object.assign(this, { selected: this.guest ? this.x.length : node, neighbours });
    if (this.selected >= 0) this.scrollTo(this.selected);
    this.draw();
  }
  showOnly(number) { this.only = number; this.restyle(); }
  hides(node) { return this.only >= 0 && this.classes?.[node] !== this.only; }
  level(node) {
    if (!this.classes || this.classes[node] === NO_CLASS || this.hides(node)) return NONE;
    const confidence = this.confidence[node] / 255;
    return this.labelled[node] ? YOURS : confidence >= this.levels[0] ? SURE : confidence < this.levels[1] ? DOUBT : FAIR;
  }

  // ---- geometry, in pixels of the page
  measure() {
    const range = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
    const ranges = [this.x, this.y].map(range);
    this.middle = ranges.map(([low, high]) => (low + high) / 2);
    this.extent = ranges.map(([low, high]) => Math.max(high - low, 1e-6));
    this.view ??= { x: 0, y: 0, scale: 1 };
  }
  fit() {
    const { canvas, sheet } = this, ratio = devicePixelRatio || 1;
    [this.width, this.height] = [sheet.clientWidth, sheet.clientHeight];
    canvas.width = Math.max(1, Math.round(this.width * ratio));
    canvas.height = Math.max(1, Math.round(this.height * ratio));
    this.draw();
  }
  unit() {
    const [width, height] = [this.width, this.height].map((side) => Math.max(1, side - 2 * MARGIN));
    return this.view.scale * Math.min(width / this.extent[0], height / this.extent[1]);
  }
  pixel(x, y) {
    const unit = this.unit();
    return [this.width / 2 + (x - this.view.x) * unit, this.height / 2 + (y - this.view.y) * unit];
  }
  at(node) { return node < this.x.length ? [this.x[node], this.y[node]] : this.guest; }
  place(node) { return this.pixel(...this.at(node)); }
  inPlane({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect(), unit = this.unit();
    return [this.view.x + (clientX - box.left - this.width / 2) / unit, this.view.y + (clientY - box.top - this.height / 2) / unit];
  }
  // The node with the smallest cost(offset from a place); -1 if none is below the limit.
  best(x, y, limit, cost) {
    let found = -1, least = limit;
    for (let node = 0; node < this.x.length; node++) {
      const value = cost(this.x[node] - x, this.y[node] - y);
      if (value < least && !this.hides(node)) [found, least] = [node, value];
    }
    return found;
  }
  nearest(x, y, limit = Infinity) { return this.best(x, y, limit ** 2, (right, down) => right * right + down * down); }
  under(event) { return this.nearest(...this.inPlane(event), REACH / this.unit()); }
  // The next node in the direction of an arrow key.
  step(right, down) {
    const from = this.pointed >= 0 ? this.pointed : this.selected;
    const node = from < 0 ? this.nearest(this.view.x, this.view.y) : this.best(...this.at(from), Infinity, (x, y) => {
      const along = x * right + y * down, aside = Math.abs(x * down) + Math.abs(y * right);
      return along > aside / 2 && along > 0 ? along + 2 * aside : Infinity;
    });
    if (node < 0) return;
    this.scrollTo(node);
    this.point(node);
  }
  look(x, y, scale) {
    const half = this.extent.map((extent) => 0.5 * extent * (1 - 1 / scale)), [right, down] = this.middle;
    this.view = { x: between(right - half[0], x, right + half[0]), y: between(down - half[1], y, down + half[1]), scale };
    this.canvas.classList.toggle("near", scale > 1);
    this.draw();
  }
  whole() { this.look(...this.middle, 1); }
  zoom(factor, [x, y] = [this.view.x, this.view.y]) {
    const { view } = this, scale = between(1, view.scale * factor, CLOSEST), share = view.scale / scale;
    this.look(x - (x - view.x) * share, y - (y - view.y) * share, scale);
  }
  scrollTo(node) {
    const [x, y] = this.place(node), edge = MARGIN / 2;
    if (x < edge || y < edge || x > this.width - edge || y > this.height - edge) this.look(...this.at(node), this.view.scale);
  }

  // ---- points
  setUp() {
    const gl = this.gl = this.canvas.getContext("webgl2", { antialias: false, preserveDrawingBuffer: true });
    if (!gl) return this.sheet.append("This browser has no WebGL 2, which the map needs.");
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.uniform = (name, ...values) => gl[`uniform${values.length}f`](gl.getUniformLocation(program, name), ...values);
    this.buffers = Array.from({ length: 4 }, () => gl.createBuffer());
  }
  restyle() { this.stale = true; this.draw(); }
  draw() { if (this.gl) this.frame ??= requestAnimationFrame(() => { this.frame = null; this.paint(); }); }
  // Colours, shapes and drawing order of the points, and the position of each class name.
  style() {
    const css = getComputedStyle(this.canvas), count = this.x.length, seen = {};
    const rgb = (name) => [1, 3, 5].map((at) => parseInt(css.getPropertyValue(`--${name}`).trim().slice(at, at + 2), 16));
    const colours = this.names.map((_, number) => {
      const colour = rgb(`k${number}`);
      seen[colour] = (seen[colour] ?? -1) + 1;  // classes with the same colour differ in shape
      return [colour, 8 * (seen[colour] % SHAPES)];
    });
    const none = [rgb(this.only < 0 ? "soft" : "rule"), 0], levels = new Uint8Array(count), looks = new Uint8Array(4 * count), starts = [0, 0, 0, 0, 0, 0];
    for (let node = 0; node < count; node++) {
      const level = levels[node] = this.level(node), [[red, green, blue], shape] = level === NONE ? none : colours[this.classes[node]] ?? none;
      looks[4 * node] = red;
      looks[4 * node + 1] = green;
      looks[4 * node + 2] = blue;
      looks[4 * node + 3] = shape + level;
      starts[level + 1] += 1;
    }
    for (let level = 1; level < starts.length; level++) starts[level] += starts[level - 1];
    const order = this.order = new Uint32Array(count);
    for (let node = 0; node < count; node++) order[starts[levels[node]]++] = node;
    Object.assign(this, { looks, levelOf: levels, ink: rgb("ink"), paper: rgb("paper"), stale: false });
    this.nameClasses();
    const { gl } = this;
    [this.x, this.y, looks, order].forEach((values, number) => {
      const target = number < 3 ? gl.ARRAY_BUFFER : gl.ELEMENT_ARRAY_BUFFER;
      gl.bindBuffer(target, this.buffers[number]);
      gl.bufferData(target, values, gl.STATIC_DRAW);
      if (number < 3) {
        gl.enableVertexAttribArray(number);
        gl.vertexAttribPointer(number, number < 2 ? 1 : 4, number < 2 ? gl.FLOAT : gl.UNSIGNED_BYTE, number === 2, 0, 0);
      }
    });
    for (const name of ["ink", "paper"]) this.uniform(name, ...this[name].map((part) => part / 255));
  }
  paint() {
    if (!this.width || !this.height) return;
    if (this.stale) this.style();
    const { canvas, gl, view } = this, ratio = canvas.width / this.width, unit = this.unit();
    const size = Math.sqrt(Math.min(1, this.width / 640) * view.scale), radius = Math.min(7, between(1, 280 / Math.sqrt(this.x.length), 4.5) * size);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clear(gl.COLOR_BUFFER_BIT);
    this.uniform("centre", view.x, view.y);
    this.uniform("unit", (2 * unit) / this.width, (-2 * unit) / this.height);
    this.uniform("radius", radius * ratio);
    this.uniform("pixel", ratio);
    gl.drawElements(gl.POINTS, this.order.length, gl.UNSIGNED_INT, 0);
    this.paintAbove(radius);
    this.frames += 1;
  }

  // ---- names, edges, lasso and hint
  // A class name is at the mean of the nodes in the densest cell of a grid; marks have numbers.
  nameClasses() {
    const { x, y, classes, extent, middle, names } = this, size = 3 * CELLS * CELLS, sums = new Float64Array(size * names.length);
    const cell = (value, axis) => Math.floor(CELLS * between(0, (value - middle[axis]) / extent[axis] + 0.5, 0.999));
    for (let node = 0; node < x.length; node++) {
      if (!classes || classes[node] >= names.length || this.hides(node)) continue;
      const at = 3 * ((classes[node] * CELLS + cell(y[node], 1)) * CELLS + cell(x[node], 0));
      sums[at] += 1;
      sums[at + 1] += x[node];
      sums[at + 2] += y[node];
    }
    const found = names.map((name, number) => {
      let best = size * number;
      for (let at = best; at < size * (number + 1); at += 3) if (sums[at] > sums[best]) best = at;
      return { name, nodes: sums[best], x: sums[best + 1] / sums[best], y: sums[best + 2] / sums[best] };
    });
    const marks = this.marks.map((node, rank) => ({ name: `${rank + 1}`, x: this.x[node], y: this.y[node], above: 12 }));
    this.labels = [...marks, ...found.filter((one) => one.nodes).sort((one, other) => other.nodes - one.nodes)];
    this.texts.replaceChildren(...this.labels.map(({ name }) => {
      const text = document.createElementNS(this.texts.namespaceURI, "text");
      text.textContent = name.length > 24 ? `${name.slice(0, 23)}…` : name;
      return text;
    }));
  }
  paintAbove(radius) {
    const { drawn, pointed, selected } = this, at = (node) => this.place(node).map((one) => one.toFixed(1)).join();
    const taken = [];
    this.labels.forEach(({ x, y, above = -5 }, number) => {
      const text = this.texts.children[number], half = 4 + 4.2 * text.textContent.length, [across, down] = this.pixel(x, y);
      const left = between(half, across, this.width - half), tops = [0, 1, -1, 2, -2, 3, -3].map((lines) => down - above + LINE * lines);
      const top = tops.find((place) => taken.every(([other, line, width]) => Math.abs(other - left) > half + width || Math.abs(line - place) >= LINE));
      const hidden = top === undefined || across < 0 || across > this.width || top < 0 || top > this.height;
      text.style.display = hidden ? "none" : "";
      if (hidden) return;
      text.setAttribute("x", left);
      text.setAttribute("y", top);
      taken.push([left, top, half]);
    });
    const centre = pointed >= 0 && this.neighboursOf ? pointed : selected, around = centre === selected ? this.neighbours : this.neighboursOf(centre);
    drawn.bonds.setAttribute("d", centre < 0 ? "" : around.map((other) => `M${at(centre)}L${at(other)}`).join(""));
    for (const [mark, node] of [[drawn.here, selected], [drawn.core, selected], [drawn.pointed, pointed === selected ? -1 : pointed]]) {
      mark.style.display = node < 0 ? "none" : "";
      if (node >= 0) ["cx", "cy"].forEach((name, axis) => mark.setAttribute(name, this.place(node)[axis]));
    }
    drawn.pointed.setAttribute("r", radius + 4);
    const number = this.classes?.[selected] ?? NO_CLASS;
    drawn.core.style.fill = `var(--${number === NO_CLASS ? "soft" : `k${number}`})`;
    drawn.lasso.setAttribute("d", this.lasso.length ? `M${this.lasso.map((corner) => this.pixel(...corner).map(Math.round)).join("L")}Z` : "");
    if (pointed < 0) return;
    const [x, y] = this.place(pointed), { hint } = this;
    hint.style.left = `${between(6, x + 14, this.width - hint.offsetWidth - 6)}px`;
    hint.style.top = `${y > hint.offsetHeight + 20 ? y - hint.offsetHeight - 14 : y + 14}px`;
  }
  async point(node) {
    const { hint } = this;
    this.pointed = node;
    hint.hidden = true;
    this.draw();
    const lines = node < 0 ? [] : await this.about(node);
    if (node !== this.pointed || !lines.length) return;
    hint.replaceChildren(...lines.map((line, number) => {
      const part = document.createElement(number ? "span" : "b");
      part.append(line);
      return part;
    }));
    hint.hidden = false;
    this.draw();
  }

  // ---- pointer and keys
  setLassoing(on) {
    this.lassoing = on;
    this.lassoButton.setAttribute("aria-pressed", on);
    this.canvas.classList.toggle("lasso", on);
    if (!on && this.lasso.length) this.dropLasso();
  }
  dropLasso() {
    this.lasso = [];
    this.onLasso?.([]);
    this.draw();
  }
  // Whether a place is inside the lasso: a ray from it crosses the lasso an odd number of times.
  encloses(x, y) {
    let inside = false;
    this.lasso.forEach(([right, down], number) => {
      const [left, up] = this.lasso.at(number - 1);
      if ((down > y) !== (up > y) && x < ((left - right) * (y - down)) / (up - down) + right) inside = !inside;
    });
    return inside;
  }
  closeLasso() {
    const found = [];
    for (let node = 0; node < this.x.length; node++) if (!this.hides(node) && this.encloses(this.x[node], this.y[node])) found.push(node);
    this.onLasso?.(found);
    this.draw();
  }
  listen() {
    const { canvas } = this, pointers = new Map(), on = (kind, act, options) => canvas.addEventListener(kind, act, options);
    let drag = null;
    const hover = (event) => {
      const node = this.under(event);
      if (node !== this.pointed) this.point(node);
      canvas.style.cursor = node >= 0 && !this.lassoing ? "pointer" : "";
    };
    const lifted = (event) => { pointers.delete(event.pointerId); if (!pointers.size) drag = null; };
    on("webglcontextlost", (event) => event.preventDefault());
    on("webglcontextrestored", () => { this.setUp(); this.restyle(); });
    on("pointerdown", (event) => {
      pointers.set(event.pointerId, event);
      canvas.setPointerCapture(event.pointerId);
      drag = { x: event.clientX, y: event.clientY, view: this.view, moved: pointers.size > 1, lasso: this.lassoing || event.shiftKey };
      if (drag.lasso) this.lasso = [this.inPlane(event)];
    });
    on("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before || !drag) return event.pointerType === "mouse" && hover(event);
      pointers.set(event.pointerId, event);
      if (pointers.size === 2) {
        const [still] = [...pointers.values()].filter((one) => one.pointerId !== event.pointerId);
        const apart = (one) => Math.hypot(one.clientX - still.clientX, one.clientY - still.clientY) || 1;
        const middle = { clientX: (event.clientX + still.clientX) / 2, clientY: (event.clientY + still.clientY) / 2 };
        return this.zoom(apart(event) / apart(before), this.inPlane(middle));
      }
      const across = event.clientX - drag.x, down = event.clientY - drag.y;
      drag.moved ||= Math.hypot(across, down) > 4;
      if (!drag.moved) return;
      if (drag.lasso) this.lasso.push(this.inPlane(event));
      else this.look(drag.view.x - across / this.unit(), drag.view.y - down / this.unit(), this.view.scale);
      this.draw();
    });
    on("pointerup", (event) => {
      const { moved, lasso } = drag ?? { moved: true };
      lifted(event);
      if (lasso && moved) return this.closeLasso();
      const node = moved ? -1 : this.under(event);
      if (node >= 0) this.onNode(node);
      else if (!moved && this.lasso.length) this.dropLasso();
    });
    on("pointercancel", lifted);
    on("pointerleave", () => { if (!drag) this.point(-1); });
    on("blur", () => this.point(-1));
    on("wheel", (event) => {
      if (!this.wheel && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), this.inPlane(event));
      hover(event);
    }, { passive: false });
    on("keydown", (event) => {
      const move = (right, down) => this.look(this.view.x + (60 * right) / this.unit(), this.view.y + (60 * down) / this.unit(), this.view.scale);
      const keys = {
        "+": () => this.zoom(1.4), "=": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4), Home: () => this.whole(),
        Enter: () => this.pointed >= 0 && this.onNode(this.pointed), Escape: () => this.setLassoing(false),
      };
      const arrow = ARROWS[event.key], act = arrow ? () => (event.shiftKey ? move : this.step.bind(this))(...arrow) : keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      act();
    });
  }
}
