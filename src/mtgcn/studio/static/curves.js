// A line over the epochs, redrawn as they pass.
const WIDTH = 420, HEIGHT = 200, LEFT = 44, RIGHT = 14, TOP = 12, BOTTOM = 30, SVG = "http://www.w3.org/2000/svg";

function element(name, attributes, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

export default {
  template: `<svg ref="picture" class="curves" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" :aria-label="title"></svg>`,
  props: { title: String, unit: String },
  methods: {
    // points: [[epoch, value], …]
    show(colour, points) {
      if (!points.length) return this.$refs.picture.replaceChildren();
      const last = Math.max(...points.map(([x]) => x), 1), values = points.map(([, y]) => y);
      const low = Math.min(0, ...values), high = Math.max(...values, low + 1e-9);
      const across = (x) => LEFT + ((WIDTH - LEFT - RIGHT) * x) / last;
      const up = (y) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * (y - low)) / (high - low);
      const parts = [];
      for (const y of [low, (low + high) / 2, high]) {
        parts.push(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: up(y), y2: up(y), class: "grid" }));
        parts.push(element("text", { x: LEFT - 6, y: up(y) + 4, class: "scale end" }, Number(y.toPrecision(2)).toString()));
      }
      parts.push(element("text", { x: LEFT, y: HEIGHT - 8, class: "scale" }, "0"));
      parts.push(element("text", { x: WIDTH - RIGHT, y: HEIGHT - 8, class: "scale end" }, `${last} ${this.unit}s`));
      const line = points.map(([x, y]) => `${across(x).toFixed(1)},${up(y).toFixed(1)}`).join(" ");
      parts.push(element("polyline", { points: line, class: "line", style: `stroke: var(--${colour})` }));
      this.$refs.picture.replaceChildren(...parts);
    },
  },
};
