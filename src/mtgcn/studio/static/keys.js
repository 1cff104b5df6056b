// Keys that work wherever one is on the page, but for fields. Each goes with the node that was shown when it was pressed,
// so that a key pressed twice never labels a node nobody has seen.
const OURS = /^[0-9]$|^(s|u|ArrowLeft|ArrowRight)$/;

export default {
  template: "<span hidden></span>",
  mounted() {
    this.pressed = (event) => {
      const at = event.target, undo = event.key === "z" && (event.ctrlKey || event.metaKey);
      if (at.closest?.("input, select, textarea, [contenteditable]") || event.repeat || event.defaultPrevented) return;
      if (!undo && (!OURS.test(event.key) || event.ctrlKey || event.metaKey || event.altKey)) return;
      const shown = document.querySelector("[data-node]");
      if (!shown || shown.offsetParent === null) return;
      event.preventDefault();
      this.$emit("pressed", undo ? "u" : event.key, shown.dataset.node);
    };
    document.addEventListener("keydown", this.pressed);
  },
  unmounted() { document.removeEventListener("keydown", this.pressed); },
};
