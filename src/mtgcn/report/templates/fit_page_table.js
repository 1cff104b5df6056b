// The table of all nodes: searched, filtered and sorted; only the rows that can be seen are ever drawn.
{
  const ROW = 34, SPARE = 6;  // pixels, as in the style sheet; rows drawn beyond either edge
  const frame = document.getElementById("rows"), body = frame.querySelector("tbody");
  const search = document.getElementById("search"), ofClass = document.getElementById("of-class");
  const ofCertainty = document.getElementById("certainty"), found = document.getElementById("found");
  const everybody = Array.from({ length: nodes.count }, (_, node) => node);
  const haystack = everybody.map((node) => `${nodes.id(node)}\n${data.classes[nodes.predicted(node)]}`.toLowerCase());

  // Names are compared once, as a reader would: node 9 before node 10. Sorting then compares numbers.
  const { compare } = new Intl.Collator(undefined, { numeric: true });
  const ranks = (names) => {
    const rank = new Uint32Array(names.length);
    names.map((_, place) => place).sort((a, b) => compare(names[a], names[b])).forEach((place, order) => { rank[place] = order; });
    return rank;
  };
  const idRank = ranks(data.ids), classRank = ranks(data.classes);
  const keys = {
    node: (node) => idRank[node],
    class: (node) => classRank[nodes.predicted(node)],
    probability: (node) => nodes.probability(node),
    second: (node) => nodes.likely(node)[1]?.probability ?? 0,
    neighbours: (node) => nodes.degree(node),
  };
  const FIRST_DOWN = ["probability", "second", "neighbours"];  // the largest number is what one looks for
  let sorting = { key: "node", down: false }, listed = everybody, drawn = "";

  function list() {
    const text = filter.text.trim().toLowerCase();
    listed = everybody.filter((node) =>
      (!text || haystack[node].includes(text)) &&
      (filter.class === "" || nodes.predicted(node) === Number(filter.class)) &&
      (filter.certainty === "" || certainty(node) === filter.certainty));
    const value = Float64Array.from(everybody, keys[sorting.key]), sign = sorting.down ? -1 : 1;
    listed.sort((a, b) => sign * (value[a] - value[b]) || idRank[a] - idRank[b]);
    found.textContent = listed.length === nodes.count ? counted(nodes.count, "node") : `${listed.length} of ${counted(nodes.count, "node")}`;
    drawn = "";
    draw();
  }

  function space(rows) {
    const made = element("tr", undefined, { class: "space", "aria-hidden": "true" });
    made.append(element("td", undefined, { style: `height:${rows * ROW}px;padding:0` }));
    made.style.height = `${rows * ROW}px`;
    return made;
  }

  function named(kind, number, text, attributes) {
    const made = element(kind, undefined, attributes);
    made.append(element("i", undefined, { style: colourOf(number) }), text);
    return made;
  }

  function row(node, place) {
    const made = element("tr", undefined, { "aria-rowindex": place + 2, "aria-selected": node === chosen, style: colourOf(nodes.predicted(node)) });
    const name = element("th", undefined, { scope: "row" }), button = element("button", nodes.id(node), { type: "button", title: nodes.id(node) });
    name.append(button);
    const given = nodes.given(node), probability = element("td"), second = nodes.likely(node)[1];
    const verdictCell = named("td", nodes.predicted(node), data.classes[nodes.predicted(node)], { title: verdict(node) });
    if (given >= 0) verdictCell.append(element("span", given === nodes.predicted(node) ? "given" : `given ${data.classes[given]}`, { class: "tag" }));
    probability.append(element("span", undefined, { class: "meter", style: `--share:${100 * nodes.probability(node)}%` }), percent(nodes.probability(node)));
    const other = second ? named("td", second.class, `${percent(second.probability)} ${data.classes[second.class]}`, { class: "wide" }) : element("td", "", { class: "wide" });
    made.append(name, verdictCell, probability, other, element("td", nodes.degree(node), { class: "wide" }));
    made.addEventListener("click", () => choose(node));
    return made;
  }

  function draw() {
    const first = Math.max(0, Math.floor(frame.scrollTop / ROW) - SPARE);
    const last = Math.min(listed.length, Math.ceil((frame.scrollTop + frame.clientHeight) / ROW) + SPARE);
    if (drawn === `${first} ${last}`) return;
    drawn = `${first} ${last}`;
    const rows = listed.slice(first, last).map((node, place) => row(node, first + place));
    if (!listed.length) {
      const none = element("tr", undefined, { class: "space" });
      none.append(element("td", "No node is like that.", { colspan: 3, class: "empty" }));
      rows.push(none);
    }
    body.replaceChildren(space(first), ...rows, space(listed.length - last));
  }

  frame.querySelector("table").setAttribute("aria-rowcount", nodes.count + 1);
  data.classes.forEach((name, number) => ofClass.append(element("option", name, { value: number })));
  for (const button of frame.querySelectorAll("[data-sort]"))
    button.addEventListener("click", () => {
      const key = button.dataset.sort;
      sorting = { key, down: key === sorting.key ? !sorting.down : FIRST_DOWN.includes(key) };
      for (const other of frame.querySelectorAll("[data-sort]"))
        other.parentElement.setAttribute("aria-sort", other !== button ? "none" : sorting.down ? "descending" : "ascending");
      frame.scrollTop = 0;
      list();
    });
  frame.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(frame);
  search.addEventListener("input", () => changeFilter({ text: search.value }));
  search.addEventListener("keydown", (event) => { if (event.key === "Enter" && listed.length) choose(listed[0]); });
  ofClass.addEventListener("change", () => changeFilter({ class: ofClass.value }));
  ofCertainty.addEventListener("change", () => changeFilter({ certainty: ofCertainty.value }));
  onFilter.push(() => {
    ofClass.value = filter.class;
    frame.scrollTop = 0;
    list();
  });
  onChoice.push(() => { drawn = ""; draw(); });
  list();
}
