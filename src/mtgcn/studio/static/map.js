// The map of the studio. It fetches arrays as bytes, one after the other, and sends the nodes in the lasso as bits.
import { NodeMap } from "/node_map.js";

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

export default {
  template: "<div></div>",
  props: { levels: Array },
  created() { this.turn = Promise.resolve(); },
  unmounted() { this.map?.close(); },
  methods: {
    inTurn(act) { this.turn = this.turn.then(act).catch(console.warn); },
    async bytes(address) { return (await fetch(address)).arrayBuffer(); },
    place(address, total) {
      this.inTurn(async () => {
        const values = new Float32Array(await this.bytes(address)), count = values.length / 2;
        const [x, y] = [values.subarray(0, count), values.subarray(count)];
        if (this.map?.x.length === count) this.map.moveNodes(x, y);
        else this.map = window.studioMap = new NodeMap(this.$el, {
          x, y, total, levels: this.levels, wheel: true, about: this.about, onLasso: this.lasso,
          onNode: (node) => this.$emit("node", node),
        });
      });
    },
    colour(address, names) {
      this.inTurn(async () => {
        const found = await this.bytes(address), count = this.map.x.length;
        if (found.byteLength !== 4 * count) return;  // colours of another sample; those of the current sample follow
        this.map.colour(new Uint16Array(found, 0, count), new Uint8Array(found, 2 * count, count), new Uint8Array(found, 3 * count), names);
      });
    },
    select(node, neighbours) { this.inTurn(() => this.map.select(node, neighbours)); },
    showOnly(number) { this.inTurn(() => this.map.showOnly(number)); },
    async about(node) {
      await pause(40);
      if (node !== this.map.pointed) return [];
      const { title, text, picture } = await (await fetch(`/map/${node}`)).json();
      return [title, text, ...(picture ? [Object.assign(new Image(), { src: picture, alt: "" })] : [])];
    },
    lasso(nodes) {
      const bits = new Uint8Array(Math.ceil(this.map.x.length / 8));
      for (const node of nodes) bits[node >> 3] |= 1 << (node & 7);
      this.$emit("lasso", Array.from(bits, (byte) => byte.toString(16).padStart(2, "0")).join(""));
    },
  },
};
