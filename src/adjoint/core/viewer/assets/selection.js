// Selecting and pointing: what is selected stays lit with its lines; what is pointed at is lit while it is.

let selectedKey = "";
let selectedLine = ""; // "file:line" where a line is selected instead of an item
let pointed = null; // keys of items that are pointed at, from wherever
let linesOfNodes = new Map(); // "file:line" → nodes

function indexLines() {
  linesOfNodes = new Map();
  for (const item of model.items.values()) {
    for (const [file, line] of item.isGroup ? [] : item.data.sites ?? []) {
      const key = `${file}:${line}`;
      if (!linesOfNodes.has(key)) linesOfNodes.set(key, []);
      linesOfNodes.get(key).push(item);
    }
  }
}

function itemsOfLine(line) {
  return linesOfNodes.get(line) ?? [];
}

function linesOf(item) {
  const own = (item.data.sites ?? []).map(([file, line]) => `${file}:${line}`);
  if (!item.isGroup) return new Set(own);
  return new Set([...own, ...model.nodesIn(item).flatMap((node) => [...linesOf(node)])]);
}

// Select an item; the reader sees its details, its lines, and where it is.
function select(key, { isShown = false } = {}) {
  selectedKey = key && model.items.has(key) ? key : "";
  selectedLine = "";
  const item = model.find(selectedKey);
  if (isShown && selectedKey) reveal(item);
  markSelection();
  showDetails(item);
  if (selectedKey) {
    const [first] = linesOf(item);
    if (first) scrollToLine(first);
    const place = drawn.get(model.representative(item).key);
    if (isShown && place) camera.bringIntoView(place, true);
  }
}

function selectLine(line) {
  selectedKey = "";
  selectedLine = selectedLine === line ? "" : line;
  markSelection();
  if (!selectedLine) return showDetails(model.root);
  showItemsOfLine(line, itemsOfLine(line));
  const places = itemsOfLine(line).map((item) => drawn.get(model.representative(item).key)).filter(Boolean);
  if (places.length) camera.bringIntoView(places[0], true);
}

// Light up what is selected or pointed at: items, the edges between them, lines, and elements of panes.
function markSelection() {
  const selected = selectedKey ? [model.find(selectedKey)] : itemsOfLine(selectedLine);
  const lit = pointed ? pointed.map((key) => model.find(key)).filter(Boolean) : selected;
  const shown = new Set(lit.map((item) => model.representative(item).key));
  for (const [key, { element }] of drawn) {
    element.classList.toggle("lit", shown.has(key));
    element.classList.toggle("selected", key === selectedKey);
  }
  scene.classList.toggle("focused", shown.size > 0);
  for (const { element, ends } of drawnLines) {
    const isLit = ends.some(([source, target]) => shown.has(source) || shown.has(target));
    element.classList.toggle("lit", isLit);
    for (const marker of ["marker-start", "marker-end"]) {
      if (element.firstChild.hasAttribute(marker)) element.firstChild.setAttribute(marker, `url(#arrow${isLit ? "-lit" : ""})`);
    }
  }
  const lines = new Set(lit.flatMap((item) => [...linesOf(item)]));
  if (selectedLine && !pointed) lines.add(selectedLine);
  markLines(lines);
  markPanes(lit, lines);
  document.getElementById("path").replaceChildren(...pathOf(selectedKey ? model.find(selectedKey) : null));
}

// The boxes around what is selected, as links.
function pathOf(item) {
  if (!item) return [];
  return [...boxesAround(item), item].flatMap((box, i) => {
    const link = make("button", { type: "button" }, box.label);
    link.addEventListener("click", (event) => {
      event.stopPropagation();
      select(box.key, { isShown: true });
    });
    return i ? [make("span", { class: "dim" }, " › "), link] : [link];
  });
}

function point(keys) {
  if (keys === null && pointed === null) return;
  pointed = keys;
  markSelection();
}

canvas.addEventListener("click", (event) => {
  if (hasMoved) return;
  const tag = event.target.closest(".tag");
  if (tag) return select(tag.dataset.tag, { isShown: true });
  const element = event.target.closest(".item");
  if (!element) return select("");
  const { key } = element.dataset;
  if (event.target.closest(".fold, .header") || (event.detail === 1 && isFoldedBox(key))) {
    select(key);
    toggleBox(key);
  } else select(key);
});

canvas.addEventListener("dblclick", (event) => {
  const element = event.target.closest(".item.open");
  if (element && !event.target.closest(".header, .fold")) toggleBox(element.dataset.key, false);
});

function isFoldedBox(key) {
  return model.find(key).isGroup && !openBoxes.has(key);
}

canvas.addEventListener("pointerover", (event) => {
  const element = event.target.closest?.(".item");
  if (pointers.size || event.pointerType === "touch") return;
  point(element && !element.classList.contains("open") ? [element.dataset.key] : null);
});
canvas.addEventListener("pointerleave", () => point(null));

// Elements of panes name the items or the line that they are about.
function markPanes(items, lines) {
  const keys = new Set(items.flatMap((item) => [item.key, ...(item.isGroup ? model.nodesIn(item).map((node) => node.key) : [])]));
  for (const element of document.querySelectorAll("[data-keys], [data-line]")) {
    const named = (element.dataset.keys ?? "").split(" ");
    element.classList.toggle("lit", named.some((key) => keys.has(key)) || lines.has(lineOfElement(element)));
  }
}

// "file.py:12" of a pane's element as the key of a line.
function lineOfElement(element) {
  const text = element.dataset.line ?? "";
  const cut = text.lastIndexOf(":");
  const file = files.findIndex((each) => each.path === text.slice(0, cut));
  return file < 0 ? "" : `${file}:${text.slice(cut + 1)}`;
}

function connectPane(pane) {
  const keysOf = (element) => (element.dataset.keys ? element.dataset.keys.split(" ") : itemsOfLine(lineOfElement(element)).map((item) => item.key));
  pane.addEventListener("pointerover", (event) => {
    const element = event.target.closest("[data-keys], [data-line]");
    point(element ? keysOf(element) : null);
  });
  pane.addEventListener("pointerleave", () => point(null));
  pane.addEventListener("click", (event) => {
    const element = event.target.closest("[data-keys], [data-line]");
    if (!element) return;
    const keys = keysOf(element);
    const key = keys.find((each) => model.items.has(each)) ?? goToGraphWith(keys);
    if (key) select(key, { isShown: true });
  });
}
