// Keys of the whole page except inside fields. Each is sent with the node that was shown when it was pressed, so that a
// key pressed twice never labels an unseen node. Also restores the focus: when the focused element is redrawn, the new
// element gets it.
const KEYS = /^[0-9a-z]$|^Arrow(Left|Right)$/;

const nameOf = (one) => one.dataset.keep ?? one.dataset.class ?? one.dataset.column ?? (one.ariaLabel || one.textContent);
const partOf = (one) => one.closest("[id]:not([id^=c])")?.id;

export default {
  template: "<span hidden></span>",
  mounted() {
    this.pressed = (event) => {
      const at = event.target, undo = event.key === "z" && (event.ctrlKey || event.metaKey);
      if (at.closest?.("input, select, textarea, [contenteditable], .grid") || event.repeat || event.defaultPrevented) return;
      if (!undo && (!KEYS.test(event.key) || event.ctrlKey || event.metaKey || event.altKey)) return;
      const shown = document.querySelector("[data-node]");
      if (!shown || shown.offsetParent === null) return;
      event.preventDefault();
      this.$emit("pressed", undo ? "u" : event.key, shown.dataset.node);
    };
    this.focused = ({ target }) => { this.last = { target, name: nameOf(target), part: partOf(target), tag: target.tagName }; };
    this.redrawn = new MutationObserver(() => {
      const { target, name, part, tag } = this.last ?? {};
      if (!target || target.isConnected || document.activeElement !== document.body || !part) return;
      const all = [...document.querySelectorAll(`#${part} ${tag}`)];
      const next = all.find((one) => nameOf(one) === name) ?? all[0] ?? document.querySelector(`#${part} :is(button, input, select)`);
      (next ?? document.querySelector(".tabs [aria-current]")).focus();
    });
    const [stopped, advice] = document.querySelectorAll("#popup span");
    stopped.textContent = "The studio does not answer. Your labels are saved.";
    advice.textContent = "If it was stopped, start it again by the same command; this page then returns by itself. Otherwise open the address that the studio prints.";
    document.addEventListener("keydown", this.pressed);
    document.addEventListener("focusin", this.focused);
    this.redrawn.observe(document.body, { childList: true, subtree: true });
  },
  unmounted() {
    document.removeEventListener("keydown", this.pressed);
    document.removeEventListener("focusin", this.focused);
    this.redrawn.disconnect();
  },
};
