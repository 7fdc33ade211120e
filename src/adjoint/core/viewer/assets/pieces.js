// Pieces of edges. Each open box is laid out by itself, so an edge that crosses borders is cut at them: it goes from
// its source down to a port on the border, from there to the next, and so on to its target.

// Return for each open box, by key, the pieces of edges in it. An end of a piece is a child of the box and, if this
// child is an open box, a port on its border; or a port on the border of the box itself (`item` is null).
function cutEdges(model) {
  const levels = new Map();
  for (const edge of model.edges) {
    const source = model.representative(model.find(edge.source));
    const target = model.representative(model.find(edge.target));
    if (source === target || contains(source, target) || contains(target, source)) continue;
    const above = [source, ...openBoxesAround(source)];
    const below = [target, ...openBoxesAround(target)];
    while (above.length && below.length && above.at(-1) === below.at(-1)) {
      above.pop();
      below.pop();
    }
    cutEdge(levels, edge, source, target, above, below);
  }
  return levels;
}

// `above`: the source and the boxes around it, up to the level at which the edge passes over to `below`.
function cutEdge(levels, edge, source, target, above, below) {
  const leaving = `out ${source.key}`;
  const entering = `in ${source.key}`;
  for (let i = 1; i < above.length; i += 1) {
    addPiece(levels, above[i].key, edge, source, target, end(above[i - 1], leaving), { item: null, port: leaving });
  }
  const level = above.at(-1).parent.key;
  addPiece(levels, level, edge, source, target, end(above.at(-1), leaving), end(below.at(-1), entering));
  for (let i = 1; i < below.length; i += 1) {
    addPiece(levels, below[i].key, edge, source, target, { item: null, port: entering }, end(below[i - 1], entering));
  }
}

function end(item, port) {
  return { item, port: isOpen(item) ? port : "" };
}

function isOpen(item) {
  return item.isGroup && openBoxes.has(item.key);
}

function addPiece(levels, level, edge, source, target, from, to) {
  if (!levels.has(level)) levels.set(level, new Map());
  const pieces = levels.get(level);
  const key = `${endKey(from)} → ${endKey(to)}`;
  if (!pieces.has(key)) pieces.set(key, { key, from, to, edges: [], ends: [] });
  const piece = pieces.get(key);
  piece.edges.push(edge);
  piece.ends.push([source.key, target.key]);
}

function endKey({ item, port }) {
  return `${item ? item.key : ""}|${port}`;
}

function openBoxesAround(item) {
  const boxes = [];
  for (let box = item.parent; box; box = box.parent) boxes.push(box);
  return boxes;
}

function contains(box, item) {
  for (let around = item.parent; around; around = around.parent) if (around === box) return true;
  return false;
}

// The text at a piece: what flows, and how many values if there are several.
function pieceLabel(piece) {
  const values = new Map(piece.edges.map((edge) => [edge.source, edge]));
  const labels = new Set(piece.edges.map((edge) => edge.label ?? ""));
  if (values.size > 1) return labels.size === 1 && !labels.has("") ? `${values.size} × ${[...labels][0]}` : `${values.size} values`;
  const [edge] = piece.edges;
  return edge.label ? edge.label + (edge.nbytes ? ` · ${formatBytes(edge.nbytes)}` : "") : "";
}
