// Keys of the whole page except inside fields. Each is sent with the node shown when it was pressed, so that a key
// pressed twice never labels a node that was not seen.
const KEYS = /^[0-9]$|^(s|u|ArrowLeft|ArrowRight)$/;

export default {
  template: "<span hidden></span>",
  mounted() {
    this.pressed = (event) => {
      const at = event.target, undo = event.key === "z" && (event.ctrlKey || event.metaKey);
      if (at.closest?.("input, select, textarea, [contenteditable]") || event.repeat || event.defaultPrevented) return;
      if (!undo && (!KEYS.test(event.key) || event.ctrlKey || event.metaKey || event.altKey)) return;
      const shown = document.querySelector("[data-node]");
      if (!shown || shown.offsetParent === null) return;
      event.preventDefault();
      this.$emit("pressed", undo ? "u" : event.key, shown.dataset.node);
    };
    document.addEventListener("keydown", this.pressed);
  },
  unmounted() { document.removeEventListener("keydown", this.pressed); },
};
