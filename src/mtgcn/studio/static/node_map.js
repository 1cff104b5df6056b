// All nodes in the plane: one canvas, drawn pixel by pixel from typed arrays.
// Coordinates arrive once, as base64; classes and confidences when they change. Events carry the number of a node.
const NO_CLASS = 65535, REACH = 14, CLOSEST = 40;

function bytes(text) {
  const raw = atob(text), array = new Uint8Array(raw.length);
  for (let place = 0; place < raw.length; place++) array[place] = raw.charCodeAt(place);
  return array.buffer;
}

export default {
  template: `<div class="map-frame">
    <canvas ref="canvas" tabindex="0" role="application" :aria-label="title"></canvas>
    <div class="map-hint" ref="hint" hidden></div>
    <div class="map-tools">
      <button type="button" class="quiet" aria-label="Zoom in" title="Zoom in (+)" @click="zoom(1.7)">+</button>
      <button type="button" class="quiet" aria-label="Zoom out" title="Zoom out (−)" @click="zoom(1 / 1.7)">−</button>
      <button type="button" class="quiet" title="Show all nodes (Home)" @click="whole">All</button>
    </div>
  </div>`,
  props: { x: String, y: String, ids: Array, title: String },
  created() {
    // Not data of the component, which Vue would observe; every array would be slow.
    Object.assign(this, {
      xs: new Float32Array(bytes(this.x)), ys: new Float32Array(bytes(this.y)),
      classes: null, confidence: null, labelled: null, selected: -1, neighbours: [], pointed: -1, only: -1,
      view: { x: 0.5, y: 0.5, scale: 1 }, lastBrush: null, names: [], frame: 0, frames: 0,
    });
  },
  mounted() {
    const canvas = this.$refs.canvas;
    this.order = new Uint32Array(this.xs.length).map((_, place) => place);
    this.resized = new ResizeObserver(() => this.fit());
    this.resized.observe(canvas);
    this.night = matchMedia("(prefers-color-scheme: dark)");
    this.recoloured = () => { this.lastBrush = null; this.draw(); };
    this.night.addEventListener("change", this.recoloured);
    this.listen(canvas);
    window.studioMap = this;
  },
  unmounted() {
    this.resized.disconnect();
    this.night.removeEventListener("change", this.recoloured);
    if (window.studioMap === this) delete window.studioMap;
  },
  methods: {
    // ---- called by the server
    colour(classes, confidence, labelled, names) {
      const numbers = new Uint16Array(bytes(classes)), levels = new Uint8Array(bytes(confidence)), own = new Uint8Array(bytes(labelled));
      Object.assign(this, { classes: numbers, confidence: levels, labelled: own, names, lastBrush: null });
      // Low confidence at the bottom, high confidence above, labelled nodes on top.
      const rank = (node) => own[node] * 1000 + (numbers[node] === NO_CLASS ? -1 : levels[node]);
      this.order = Uint32Array.from(this.order).sort((one, other) => rank(one) - rank(other));
      this.draw();
    },
    // Moves the nodes to new coordinates.
    moveNodes(x, y) {
      const from = [this.xs, this.ys];
      const to = [new Float32Array(bytes(x)), new Float32Array(bytes(y))];
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden, began = performance.now();
      const step = (now) => {
        const done = still ? 1 : Math.min(1, Math.max(0, now - began) / 700), share = done * done * (3 - 2 * done);
        [this.xs, this.ys] = from.map((old, axis) => done === 1 ? to[axis] : old.map((value, node) => value + (to[axis][node] - value) * share));
        this.draw();
        if (done < 1) requestAnimationFrame(step);
      };
      step(began);
    },
    select(node, neighbours) {
      this.selected = node;
      this.neighbours = neighbours;
      if (node >= 0) this.scrollTo(node);
      this.draw();
    },
    showOnly(number) { this.only = number; this.draw(); },
    whole() { this.view = { x: 0.5, y: 0.5, scale: 1 }; this.draw(); },

    // ---- geometry
    fit() {
      const canvas = this.$refs.canvas, ratio = devicePixelRatio || 1;
      canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
      canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
      this.lastBrush = null;
      this.draw();
    },
    side() { return Math.min(this.$refs.canvas.width, this.$refs.canvas.height) - 28 * (devicePixelRatio || 1); },
    // From the plane (0 to 1) to pixels of the canvas, and back.
    place(node) {
      const { view, xs, ys } = this, unit = this.side() * view.scale, canvas = this.$refs.canvas;
      return [canvas.width / 2 + (xs[node] - view.x) * unit, canvas.height / 2 + (ys[node] - view.y) * unit];
    },
    inPlane(clientX, clientY) {
      const canvas = this.$refs.canvas, box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
      const { view } = this, unit = this.side() * view.scale;
      return [view.x + ((clientX - box.left) * ratio - canvas.width / 2) / unit, view.y + ((clientY - box.top) * ratio - canvas.height / 2) / unit];
    },
    nearest(clientX, clientY) {
      const { xs, ys } = this, [x, y] = this.inPlane(clientX, clientY);
      let found = -1, least = ((REACH * (devicePixelRatio || 1)) / (this.side() * this.view.scale)) ** 2;
      for (let node = 0; node < xs.length; node++) {
        const distance = (xs[node] - x) ** 2 + (ys[node] - y) ** 2;
        if (distance < least) [found, least] = [node, distance];
      }
      return found;
    },
    look(x, y, scale) {
      const view = this.view, half = scale > 1 ? 0.52 - 0.5 / scale : 0;
      view.scale = scale;
      view.x = Math.min(0.5 + half, Math.max(0.5 - half, x));
      view.y = Math.min(0.5 + half, Math.max(0.5 - half, y));
      this.$refs.canvas.classList.toggle("near", scale > 1);
      this.draw();
    },
    // Zooms by a factor around the pointer.
    zoom(factor, at = null) {
      const { view } = this, scale = Math.min(CLOSEST, Math.max(1, view.scale * factor)), share = view.scale / scale;
      const [x, y] = at ?? [view.x, view.y];
      this.look(x - (x - view.x) * share, y - (y - view.y) * share, scale);
    },
    scrollTo(node) {
      const canvas = this.$refs.canvas, [x, y] = this.place(node), edge = 24;
      if (x < edge || y < edge || x > canvas.width - edge || y > canvas.height - edge)
        this.look(this.xs[node], this.ys[node], this.view.scale);
    },

    // ---- drawing
    draw() {
      if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.paint(); });
    },
    ink(name) { return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(); },
    // To draw points: background, a colour per class, and the share of each pixel that a point of this radius
    // covers.
    brush(radius) {
      if (this.lastBrush?.radius === radius) return this.lastBrush;
      const rgb = (name) => {
        const text = this.ink(name);
        return [1, 3, 5].map((place) => parseInt(text.slice(place, place + 2), 16));
      };
      const reach = Math.ceil(radius + 0.5), cover = [];
      for (let down = -reach; down <= reach; down++)
        for (let across = -reach; across <= reach; across++) {
          const share = Math.min(1, Math.max(0, radius + 0.5 - Math.hypot(across, down)));
          if (share > 0) cover.push(across, down, Math.round(256 * share));
        }
      const colours = this.names.map((_, number) => rgb(`k${number}`));
      return (this.lastBrush = { radius, reach, cover: Int32Array.from(cover), colours, none: rgb("soft"), paper: rgb("paper") });
    },
    // Sets pixels directly: a canvas call per point would take longer than a frame for 20 000 nodes.
    paintPoints(pen, radius, left, top, unit) {
      const { xs, ys, classes, confidence, order, only } = this, { width, height } = pen.canvas;
      const { reach, cover, colours, none, paper } = this.brush(radius);
      const image = pen.createImageData(width, height), data = image.data;
      new Uint32Array(data.buffer).fill((255 << 24) | (paper[2] << 16) | (paper[1] << 8) | paper[0]);
      for (const node of order) {
        const x = Math.round(left + xs[node] * unit), y = Math.round(top + ys[node] * unit);
        if (x < reach || y < reach || x >= width - reach || y >= height - reach) continue;
        const number = classes ? classes[node] : NO_CLASS;
        if (only >= 0 && number !== only) continue;
        const [red, green, blue] = colours[number] ?? none;
        // Pale where the confidence is low.
        const strength = number === NO_CLASS ? 0.45 : 0.25 + (0.75 * confidence[node]) / 255;
        for (let part = 0; part < cover.length; part += 3) {
          const at = 4 * ((y + cover[part + 1]) * width + x + cover[part]), share = cover[part + 2] * strength;
          data[at] += ((red - data[at]) * share) / 256;
          data[at + 1] += ((green - data[at + 1]) * share) / 256;
          data[at + 2] += ((blue - data[at + 2]) * share) / 256;
        }
      }
      pen.putImageData(image, 0, 0);
    },
    paint() {
      const canvas = this.$refs.canvas;
      if (!canvas || canvas.width < 2) return;
      const pen = canvas.getContext("2d", { alpha: false }), ratio = devicePixelRatio || 1, { view } = this;
      const unit = this.side() * view.scale, left = canvas.width / 2 - view.x * unit, top = canvas.height / 2 - view.y * unit;
      const density = Math.sqrt(1500 / Math.max(300, this.xs.length));
      const radius = Math.round(2 * Math.min(7, Math.max(1.5, 3.4 * density) * Math.sqrt(view.scale)) * ratio) / 2;
      this.paintPoints(pen, radius, left, top, unit);
      const { labelled, classes, only, selected, neighbours, pointed } = this, ink = this.ink("ink"), paper = this.ink("paper");
      for (let node = 0; node < (labelled?.length ?? 0); node++) {
        if (!labelled[node] || (only >= 0 && classes[node] !== only)) continue;
        this.circle(pen, node, radius + 2 * ratio, paper, ink, ratio);
        this.circle(pen, node, radius + 0.5 * ratio, this.ink(`k${classes[node]}`));
      }
      if (selected >= 0) {
        pen.strokeStyle = ink;
        pen.lineWidth = ratio;
        pen.globalAlpha = 0.5;
        pen.beginPath();
        for (const one of neighbours) { pen.moveTo(...this.place(selected)); pen.lineTo(...this.place(one)); }
        pen.stroke();
        pen.globalAlpha = 1;
        const number = classes ? classes[selected] : NO_CLASS;
        this.circle(pen, selected, Math.max(8 * ratio, radius + 4 * ratio), paper, ink, 2.5 * ratio);
        this.circle(pen, selected, Math.max(4.5 * ratio, radius), this.ink(number === NO_CLASS ? "soft" : `k${number}`));
      }
      if (pointed >= 0 && pointed !== selected) this.circle(pen, pointed, radius + 3 * ratio, null, ink, 1.5 * ratio);
      this.frames += 1;
    },
    circle(pen, node, radius, fill, line = null, width = 0) {
      pen.beginPath();
      pen.arc(...this.place(node), radius, 0, 7);
      if (fill) { pen.fillStyle = fill; pen.fill(); }
      if (line) { pen.strokeStyle = line; pen.lineWidth = width; pen.stroke(); }
    },

    // ---- pointer and keys
    showHint(node) {
      const hint = this.$refs.hint;
      this.pointed = node;
      hint.hidden = node < 0;
      this.draw();
      if (node < 0) return;
      const number = this.classes ? this.classes[node] : NO_CLASS;
      const text = number === NO_CLASS ? "no prediction yet"
        : this.labelled[node] ? `${this.names[number]}, your label`
        : `${this.names[number]}, ${Math.round((100 * this.confidence[node]) / 255)} %`;
      const name = document.createElement("b");
      name.textContent = this.ids[node];
      hint.replaceChildren(name, text);
      const canvas = this.$refs.canvas, shrink = canvas.clientWidth / canvas.width, [x, y] = this.place(node).map((one) => one * shrink);
      hint.style.left = `${Math.min(Math.max(6, x + 12), canvas.clientWidth - hint.offsetWidth - 6)}px`;
      hint.style.top = `${y > hint.offsetHeight + 18 ? y - hint.offsetHeight - 12 : y + 14}px`;
    },
    listen(canvas) {
      const pointers = new Map();
      let drag = null;
      canvas.addEventListener("pointerdown", (event) => {
        pointers.set(event.pointerId, event);
        drag = { x: event.clientX, y: event.clientY, view: { ...this.view }, moved: pointers.size > 1 };
      });
      canvas.addEventListener("pointermove", (event) => {
        const before = pointers.get(event.pointerId);
        if (before && pointers.size === 2) {
          const [still] = [...pointers.values()].filter((one) => one.pointerId !== event.pointerId);
          const apart = (one) => Math.hypot(one.clientX - still.clientX, one.clientY - still.clientY) || 1;
          this.zoom(apart(event) / apart(before), this.inPlane((event.clientX + still.clientX) / 2, (event.clientY + still.clientY) / 2));
        } else if (before && drag) {
          const across = event.clientX - drag.x, down = event.clientY - drag.y;
          drag.moved ||= Math.hypot(across, down) > 4;
          const unit = (this.side() * this.view.scale) / (canvas.width / canvas.clientWidth);
          if (drag.moved) this.look(drag.view.x - across / unit, drag.view.y - down / unit, this.view.scale);
        } else if (event.pointerType === "mouse") {
          const node = this.nearest(event.clientX, event.clientY);
          if (node !== this.pointed) this.showHint(node);
          canvas.style.cursor = node >= 0 ? "pointer" : "";
        }
        if (before) pointers.set(event.pointerId, event);
      });
      const lifted = (event) => pointers.delete(event.pointerId);
      canvas.addEventListener("pointerup", (event) => {
        lifted(event);
        if (!drag?.moved) {
          const node = this.nearest(event.clientX, event.clientY);
          if (node >= 0) this.$emit("node", node);
        }
      });
      canvas.addEventListener("pointercancel", lifted);
      canvas.addEventListener("pointerleave", (event) => { lifted(event); this.showHint(-1); });
      canvas.addEventListener("wheel", (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 300), this.inPlane(event.clientX, event.clientY));
      }, { passive: false });
      canvas.addEventListener("keydown", (event) => {
        const step = 0.15 / this.view.scale, { x, y, scale } = this.view;
        const moves = {
          ArrowLeft: () => this.look(x - step, y, scale), ArrowRight: () => this.look(x + step, y, scale),
          ArrowUp: () => this.look(x, y - step, scale), ArrowDown: () => this.look(x, y + step, scale),
          "+": () => this.zoom(1.4), "=": () => this.zoom(1.4), "-": () => this.zoom(1 / 1.4), Home: () => this.whole(),
        };
        if (!moves[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        event.stopPropagation();
        moves[event.key]();
      });
    },
  },
};
