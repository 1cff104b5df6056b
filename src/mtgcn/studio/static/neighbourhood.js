// A node, its neighbours around it and the edges among them; pseudo-labels have a dashed ring.
const WIDTH = 320, HEIGHT = 250, SVG = "http://www.w3.org/2000/svg";

function element(name, attributes, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

export default {
  template: `<svg ref="picture" class="neighbourhood" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" :aria-label="title"></svg>`,
  // nodes: [{ node, class, labelled, pseudo, short, title }], the first in the centre; edges: pairs of positions
  props: { nodes: Array, edges: Array, title: String },
  mounted() { this.draw(); },
  updated() { this.draw(); },
  watch: { nodes() { this.draw(); }, edges() { this.draw(); } },
  methods: {
    places() {
      const around = this.nodes.length - 1, rings = around > 16 ? 2 : 1;
      return this.nodes.map((_, place) => {
        if (place === 0) return [WIDTH / 2, HEIGHT / 2];
        const far = rings === 1 || place % 2 ? 1 : 0.62, turn = (2 * Math.PI * (place - 1)) / around - Math.PI / 2;
        return [WIDTH / 2 + 128 * far * Math.cos(turn), HEIGHT / 2 + 94 * far * Math.sin(turn)];
      });
    },
    draw() {
      const places = this.places(), parts = [];
      for (const [one, other] of this.edges)
        parts.push(element("line", {
          x1: places[one][0], y1: places[one][1], x2: places[other][0], y2: places[other][1],
          class: one === 0 || other === 0 ? "edge" : "edge aside",
        }));
      this.nodes.forEach((node, place) => {
        const [x, y] = places[place], radius = place ? 8 : 13;
        const group = element("g", { class: "point", style: node.class === null ? "" : `--own: var(--k${node.class})` });
        group.append(element("title", {}, node.title));
        if (node.pseudo) group.append(element("circle", { cx: x, cy: y, r: radius + 4, class: "pseudo" }));
        group.append(element("circle", { cx: x, cy: y, r: radius, class: node.labelled ? "disc labelled" : "disc" }));
        if (place && this.nodes.length < 14) group.append(element("text", { x, y: y + (y < HEIGHT / 2 ? -13 : 20), class: "name" }, node.short));
        if (place) group.addEventListener("click", () => this.$emit("node", node.node));
        parts.push(group);
      });
      this.$refs.picture.replaceChildren(...parts);
    },
  },
};
