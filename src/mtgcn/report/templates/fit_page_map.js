// The map: who is under the pointer, the edges of a node, looking closer, and one class at a time.
{
  const sheet = document.getElementById("sheet"), hint = document.getElementById("hint");
  const ground = sheet.querySelector(".ground svg"), overlay = sheet.querySelector(".overlay");
  const size = data.map.width, ratio = data.map.height / size, REACH = 14, CLOSEST = 1 / 24, CELLS = 64;

  // Nodes by the cell of a grid they lie in, so that only few are asked how far they are.
  const cells = Array.from({ length: CELLS * CELLS }, () => []);
  const cellOf = (coordinate) => Math.min(CELLS - 1, Math.max(0, Math.floor((coordinate / size) * CELLS)));
  for (let node = 0; node < nodes.count; node++) cells[cellOf(nodes.y(node)) * CELLS + cellOf(nodes.x(node))].push(node);

  const view = { x: 0, y: 0, width: size };
  let shown = null;  // the node whose edges are drawn: the one pointed at, else the chosen one

  function nearest(x, y, reach) {
    let found = null, least = reach * reach;
    for (let row = cellOf(y - reach); row <= cellOf(y + reach); row++)
      for (let column = cellOf(x - reach); column <= cellOf(x + reach); column++)
        for (const node of cells[row * CELLS + column]) {
          if (filter.class !== "" && nodes.predicted(node) !== Number(filter.class)) continue;
          const distance = (nodes.x(node) - x) ** 2 + (nodes.y(node) - y) ** 2;
          if (distance < least) [found, least] = [node, distance];
        }
    return found;
  }

  function underPointer(event) {
    const box = sheet.getBoundingClientRect(), unit = view.width / box.width;
    const x = view.x + (event.clientX - box.left) * unit, y = view.y + (event.clientY - box.top) * unit;
    return nearest(x, y, REACH * unit);
  }

  const dot = (node) => `M${nodes.x(node).toFixed(1)},${nodes.y(node).toFixed(1)}`;

  function drawEdges(node) {
    shown = node;
    const [bonds, ends, here, core] = overlay.querySelectorAll("path");
    const others = node === null ? [] : Array.from(nodes.neighbours(node));
    bonds.setAttribute("d", others.map((one) => `${dot(node)}L${dot(one).slice(1)}`).join(""));
    ends.setAttribute("d", others.map((one) => `${dot(one)}h0`).join(""));
    here.setAttribute("d", node === null ? "" : `${dot(node)}h0`);
    core.setAttribute("d", node === null ? "" : `${dot(node)}h0`);
    if (node !== null) core.style.setProperty("--core", `var(--k${nodes.predicted(node)})`);
  }

  function neighboursInWords(node) {
    const neighbours = Array.from(nodes.neighbours(node)), few = neighbours.slice(0, 5).map(nodes.id);
    const more = nodes.degree(node) - few.length;
    if (!nodes.degree(node)) return "no neighbours";
    const names = few.length ? `: ${few.join(", ")}${more > 0 ? ` and ${more} more` : ""}` : "";
    return counted(nodes.degree(node), "neighbour") + names;
  }

  function tell(node) {
    hint.hidden = node === null;
    if (node === null) return;
    hint.replaceChildren(element("b", nodes.id(node)), element("span", verdict(node)), element("br"), element("span", neighboursInWords(node)));
    const box = sheet.getBoundingClientRect(), scale = box.width / view.width;
    const x = (nodes.x(node) - view.x) * scale, y = (nodes.y(node) - view.y) * scale;
    const left = Math.min(Math.max(6, x + 14), box.width - hint.offsetWidth - 6);
    const above = y - hint.offsetHeight - 14;
    hint.style.left = `${left}px`;
    hint.style.top = `${above > 6 ? above : Math.min(y + 14, box.height - hint.offsetHeight - 6)}px`;
  }

  function look(x, y, width) {
    view.width = Math.min(size, Math.max(size * CLOSEST, width));
    view.x = Math.min(size - view.width, Math.max(0, x));
    view.y = Math.min((size - view.width) * ratio, Math.max(0, y));
    // Names would be too small to read on a phone, so there they are a little larger beside the dots.
    const reading = Math.min(1.2, Math.max(1, (0.75 * size) / sheet.clientWidth));
    for (const picture of [ground, overlay]) {
      picture.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.width * ratio}`);
      picture.style.setProperty("--zoom", view.width / size);
      picture.style.setProperty("--reading", reading);
    }
    sheet.classList.toggle("near", view.width < size);
    tell(hint.hidden ? null : shown);
  }

  // Closer by a factor, while the place (x, y) stays where it is.
  function closer(factor, x = view.x + view.width / 2, y = view.y + (view.width * ratio) / 2) {
    const width = Math.min(size, Math.max(size * CLOSEST, view.width / factor)), share = width / view.width;
    look(x - (x - view.x) * share, y - (y - view.y) * share, width);
  }

  function place(event) {
    const box = sheet.getBoundingClientRect(), unit = view.width / box.width;
    return [view.x + (event.clientX - box.left) * unit, view.y + (event.clientY - box.top) * unit];
  }

  let dragged = null;
  sheet.addEventListener("pointerdown", (event) => {
    dragged = view.width < size ? { x: event.clientX, y: event.clientY, from: { ...view }, moved: false } : null;
  });
  sheet.addEventListener("pointermove", (event) => {
    if (dragged && event.buttons) {
      const unit = view.width / sheet.getBoundingClientRect().width;
      const across = event.clientX - dragged.x, down = event.clientY - dragged.y;
      dragged.moved ||= Math.hypot(across, down) > 4;
      if (dragged.moved) return look(dragged.from.x - across * unit, dragged.from.y - down * unit, view.width);
    }
    const node = underPointer(event);
    if (node !== shown || hint.hidden) { drawEdges(node ?? chosen); tell(node); }
    sheet.style.cursor = node !== null ? "pointer" : "";
  });
  sheet.addEventListener("pointerleave", () => { dragged = null; drawEdges(chosen); tell(null); });
  sheet.addEventListener("click", (event) => {
    if (dragged?.moved) return;
    choose(underPointer(event));
    if (chosen !== null) tell(chosen);
  });
  sheet.addEventListener("dblclick", (event) => closer(2, ...place(event)));
  sheet.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;  // the page scrolls; pinching on a touchpad comes as ctrl and wheel
    event.preventDefault();
    closer(Math.exp(-event.deltaY / 200), ...place(event));
  }, { passive: false });
  document.getElementById("closer").addEventListener("click", () => closer(1.8));
  document.getElementById("farther").addEventListener("click", () => closer(1 / 1.8));
  document.getElementById("whole").addEventListener("click", () => look(0, 0, size));

  onChoice.push((node) => {
    drawEdges(node);
    tell(null);
    if (node === null) return;
    const x = nodes.x(node), y = nodes.y(node), height = view.width * ratio;
    const inside = x >= view.x && x <= view.x + view.width && y >= view.y && y <= view.y + height;
    if (!inside) look(x - view.width / 2, y - height / 2, view.width);
  });

  const buttons = document.querySelectorAll("#classes button");
  for (const button of buttons)
    button.addEventListener("click", () => changeFilter({ class: filter.class === button.dataset.class ? "" : button.dataset.class }));
  onFilter.push(() => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.dataset.class === filter.class);
    for (const dots of ground.querySelectorAll(".dots"))
      dots.classList.toggle("aside", filter.class !== "" && !dots.classList.contains(`k${filter.class}`) && !dots.classList.contains("paper"));
  });
  new ResizeObserver(() => look(view.x, view.y, view.width)).observe(sheet);
}
