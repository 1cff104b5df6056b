// Lines over the epochs, drawn anew whenever another few epochs have passed.
const WIDTH = 420, HEIGHT = 200, LEFT = 44, RIGHT = 14, TOP = 12, BOTTOM = 30, SVG = "http://www.w3.org/2000/svg";

function element(name, attributes, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

export default {
  template: `<svg ref="picture" class="curves" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" :aria-label="title"></svg>`,
  props: { title: String, percent: Boolean, across: String },
  mounted() { this.lines = []; this.draw(); },
  methods: {
    // lines: [{ colour, points: [[x, y], …] }]
    show(lines, end) { this.lines = lines; this.end = end; this.draw(); },
    draw() {
      const points = this.lines.flatMap((line) => line.points);
      if (!points.length) return this.$refs.picture.replaceChildren();
      const last = Math.max(this.end || 0, ...points.map(([x]) => x), 1), values = points.map(([, y]) => y);
      const low = this.percent ? 0 : Math.min(0, ...values), high = this.percent ? 1 : Math.max(...values, low + 1e-9);
      const across = (x) => LEFT + ((WIDTH - LEFT - RIGHT) * x) / last;
      const up = (y) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * (y - low)) / (high - low);
      const said = (y) => (this.percent ? `${Math.round(100 * y)} %` : Number(y.toPrecision(2)).toString());
      const parts = [];
      for (const y of [low, (low + high) / 2, high]) {
        parts.push(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: up(y), y2: up(y), class: "grid" }));
        parts.push(element("text", { x: LEFT - 6, y: up(y) + 4, class: "scale end" }, said(y)));
      }
      parts.push(element("text", { x: LEFT, y: HEIGHT - 8, class: "scale" }, "0"));
      parts.push(element("text", { x: WIDTH - RIGHT, y: HEIGHT - 8, class: "scale end" }, `${last} ${this.across}`));
      for (const line of this.lines) {
        const drawn = line.points.map(([x, value]) => `${across(x).toFixed(1)},${up(value).toFixed(1)}`).join(" ");
        parts.push(element("polyline", { points: drawn, class: "line", style: `stroke: var(--${line.colour})` }));
      }
      this.$refs.picture.replaceChildren(...parts);
    },
  },
};
