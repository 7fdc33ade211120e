// The drawing: boxes, nodes and edges as SVG. It is made anew when a box opens; what was there before glides along.

const world = document.getElementById("world");
const GLIDE_MS = 180;
const MAX_GLIDING = 300;
const drawn = new Map(); // of each item that is shown: its element and its place in the graph
let drawnLines = [];

function render() {
  const before = new Map([...drawn].map(([key, { x, y }]) => [key, { x, y }]));
  const layout = layoutBox(model.root, cutEdges(model));
  drawn.clear();
  drawnLines = [];
  const layers = { boxes: makeSvg("g"), lines: makeSvg("g", { class: "lines" }), nodes: makeSvg("g") };
  drawBox(layout, 0, 0, layers);
  world.replaceChildren(layers.boxes, layers.lines, layers.nodes);
  Object.assign(world, { graphWidth: layout.width, graphHeight: layout.height });
  if (before.size && drawn.size <= MAX_GLIDING && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    glide(before, layers.lines);
  }
  markSelection();
  markWalk();
}

function drawBox(layout, x, y, layers) {
  for (const place of layout.places) {
    const at = { x: x + place.x, y: y + place.y };
    drawItem(place, at, place.inner ? layers.boxes : layers.nodes);
    if (place.inner) drawBox(place.inner, at.x, at.y, layers);
  }
  for (const line of layout.lines) drawLine(line, layout.ranks, x, y, layers.lines);
}

function drawItem(place, at, layer) {
  const { item, width, height } = place;
  const isBox = Boolean(place.inner);
  const kind = (item.data.kind || "plain").replaceAll(/\W/g, "-");
  const element = makeSvg("g", {
    class: `item ${item.isGroup ? (isBox ? "group open" : "group folded") : "node"} kind-${kind}`,
    "data-key": item.key, role: "button", tabindex: "-1", "aria-label": describeItem(item),
  });
  if (item.isGroup) element.setAttribute("aria-expanded", String(isBox));
  element.style.transform = `translate(${at.x}px, ${at.y}px)`;
  if (item.isGroup && !isBox) {
    element.append(makeSvg("rect", { class: "behind", x: 3, y: 4, width: width - 6, height, rx: 8 }));
  }
  const radius = kind === "leaf" || kind === "input" || kind === "constant" ? Math.min(18, height / 2) : 8;
  element.append(makeSvg("rect", { class: "shape", width, height, rx: radius }));
  for (const tag of place.tags) drawTag(element, tag);
  if (isBox) drawOpenTitle(element, item, width);
  else drawTexts(element, item, width, height);
  layer.append(element);
  drawn.set(item.key, { element, item, ...at, width, height });
}

// The name of a value that many use, at the left of an item that uses it.
function drawTag(element, { key, text, width, y, title }) {
  element.append(makeSvg("g", { class: "tag", "data-tag": key },
    makeSvg("title", {}, title),
    makeSvg("rect", { x: -width, y: y - 7, width: width - 9, height: 14, rx: 7 }),
    makeSvg("path", { d: `M-9 ${y}h4`, "marker-end": "url(#arrow)" }),
    makeSvg("text", { x: -width / 2 - 4.5, y: y + 4, "text-anchor": "middle" }, text)));
}

function drawOpenTitle(element, item, width) {
  element.append(
    makeSvg("rect", { class: "header", width, height: HEADER_HEIGHT - 4, rx: 8 }),
    makeSvg("path", { class: "fold", d: `M${12} 10l4 5 4-5z` }),
    makeSvg("text", { class: "label", x: 26, y: 17 }, item.label),
    makeSvg("text", { class: "small", x: 34 + textWidth(item.label, "label"), y: 17 }, item.data.subtitle ?? ""),
  );
}

function drawTexts(element, item, width, height) {
  const lines = itemLines(item);
  const middle = width / 2 + (item.isGroup ? 7 : 0);
  if (item.isGroup) {
    const x = middle - textWidth(item.label, "label") / 2 - 15;
    element.append(makeSvg("path", { class: "fold", d: `M${x} 9l6 4.5-6 4.5z` }));
  }
  element.append(makeSvg("text", { class: "label", x: middle, y: lines.length ? 18 : height / 2 + 4.5, "text-anchor": "middle" }, item.label));
  lines.forEach((line, i) => {
    const isBadge = i > 0 || !(item.data.subtitle || item.isGroup);
    element.append(makeSvg("text", { class: isBadge ? "badge" : "small", x: width / 2, y: 33 + i * LINE_HEIGHT, "text-anchor": "middle" }, line));
  });
  if (item.isGroup) element.append(makeSvg("rect", { class: "progress", x: 0, y: height - 4, width: 0, height: 4, "data-width": width }));
}

function describeItem(item) {
  const parts = [item.label, item.data.subtitle, item.isGroup ? countOf(item.totals.nodes, "node") : "", ...(item.data.badges ?? [])];
  return parts.filter(Boolean).join(", ");
}

function drawLine(line, ranks, x, y, layer) {
  const { piece } = line;
  const kinds = new Set(piece.edges.map((edge) => edge.kind ?? ""));
  const many = new Set(piece.edges.map((edge) => edge.source)).size;
  const element = makeSvg("g", { class: `line ${kinds.size === 1 ? [...kinds][0] : ""}` });
  element.style.transform = `translate(${x}px, ${y}px)`;
  const path = makeSvg("path", { d: linePath(line, ranks), "stroke-width": round(Math.min(4, 1.2 + Math.log2(many) * 0.6)) });
  if (line.isUpward) path.setAttribute("marker-start", "url(#arrow)");
  else if (piece.to.item && !piece.to.port) path.setAttribute("marker-end", "url(#arrow)");
  element.append(path);
  if (line.label) {
    element.append(makeSvg("text", { x: line.label.x, y: line.label.y + 4, "text-anchor": "middle" }, line.label.text));
  }
  const title = piece.edges.slice(0, 8).map((edge) => {
    const flows = [edge.label, edge.nbytes ? formatBytes(edge.nbytes) : ""].filter(Boolean).join(", ");
    return `${model.find(edge.source).label} → ${model.find(edge.target).label}${flows ? `: ${flows}` : ""}`;
  });
  if (piece.edges.length > 8) title.push(`and ${piece.edges.length - 8} more`);
  element.append(makeSvg("title", {}, title.join("\n")));
  layer.append(element);
  const [left, right] = [Math.min(...line.xs), Math.max(...line.xs)];
  drawnLines.push({ element, ends: piece.ends, edges: piece.edges, x: x + left, y: y + line.start.y, width: right - left, height: line.finish.y - line.start.y });
}

// Move what was shown before from its old place to the new one; let the rest appear.
function glide(before, lines) {
  for (const [key, { element, x, y }] of drawn) {
    const old = before.get(key);
    if (old && (old.x !== x || old.y !== y)) {
      element.animate([{ transform: `translate(${old.x}px, ${old.y}px)` }, { transform: `translate(${x}px, ${y}px)` }], { duration: GLIDE_MS, easing: "ease-out" });
    } else if (!old) {
      element.animate([{ opacity: 0 }, { opacity: 1 }], { duration: GLIDE_MS });
    }
  }
  lines.animate([{ opacity: 0 }, { opacity: 1 }], { duration: GLIDE_MS * 1.5 });
}

// Open or fold a box; the box stays where it is on the screen.
function toggleBox(key, isToOpen = !openBoxes.has(key)) {
  const item = model.find(key);
  if (!item?.isGroup || isToOpen === openBoxes.has(key)) return;
  const old = drawn.get(key);
  if (isToOpen) openBoxes.add(key);
  else openBoxes.delete(key);
  render();
  const now = drawn.get(key);
  if (old && now) camera.moveBy(old.x + old.width / 2 - now.x - now.width / 2, old.y - now.y);
  if (isToOpen && now) camera.bringIntoView(now);
}

function setAllBoxes(isToOpen) {
  for (const group of model.groups()) {
    if (isToOpen) openBoxes.add(group.key);
    else openBoxes.delete(group.key);
  }
  render();
  camera.fit();
}

// Open the boxes around an item, so that it is shown.
function reveal(item) {
  const folded = boxesAround(item).filter((box) => !openBoxes.has(box.key));
  for (const box of folded) openBoxes.add(box.key);
  if (folded.length) render();
}
