// Places. Each open box is laid out by itself with dagre, the innermost first, and is then one node of the box around
// it. A layout is kept as long as nothing in its box has changed, so opening a box costs its own layout and those of
// the few boxes around it.

const LINE_HEIGHT = 15;
const BOX_PADDING = 12;
const HEADER_HEIGHT = 30;
const PORT = 1;
const TAG_HEIGHT = 16;
const MAX_LINES = 5; // from one value, to as many items of a box
const ARROW = 7; // the last stretch of a line is straight, so that its arrow is
const layouts = new Map();
const measure = document.createElement("canvas").getContext("2d");
const FONTS = {
  label: "600 13px system-ui, sans-serif",
  small: "11px system-ui, sans-serif",
  code: "11px ui-monospace, Menlo, Consolas, monospace",
};
const widths = new Map();

function textWidth(text, font) {
  const key = `${font} ${text}`;
  if (!widths.has(key)) {
    measure.font = FONTS[font];
    widths.set(key, Math.ceil(measure.measureText(text).width));
  }
  return widths.get(key);
}

// The lines of text in a node or a folded box.
function itemLines(item) {
  const subtitle = item.data.subtitle ?? "";
  if (!item.isGroup) return [subtitle, (item.data.badges ?? []).join(" · ")].filter(Boolean);
  const count = countOf(item.totals.nodes, "node");
  return [subtitle ? `${subtitle} · ${count}` : count, (item.data.badges ?? []).join(" · ")].filter(Boolean);
}

function itemSize(item) {
  const lines = itemLines(item);
  const title = textWidth(item.label, "label") + (item.isGroup ? 24 : 0);
  const width = Math.max(44, title, ...lines.map((line) => textWidth(line, "small"))) + 20;
  return { width, height: 26 + lines.length * LINE_HEIGHT + (lines.length ? 2 : 0) };
}

// Lay out a box and all that is open in it. Places are relative to the box's upper left corner.
function layoutBox(box, levels) {
  const inner = new Map();
  for (const child of box.children) if (isOpen(child)) inner.set(child.key, layoutBox(child, levels));
  const pieces = [...(levels.get(box.key)?.values() ?? [])];
  const signature = [
    ...box.children.map((child) => `${child.key}:${inner.get(child.key)?.signature ?? ""}`),
    ...pieces.map((piece) => `${piece.key} ${pieceLabel(piece)}`),
  ].join("\n");
  const kept = layouts.get(box);
  if (kept?.signature === signature) return kept;
  const made = runDagre(box, inner, pieces);
  made.signature = signature;
  layouts.set(box, made);
  return made;
}

function runDagre(box, inner, allPieces) {
  const [pieces, tagged] = separateTags(allPieces);
  const tagsOf = groupBy(tagged, (piece) => piece.to.item);
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  const isLarge = box.children.length > 150;
  graph.setGraph({ rankdir: "TB", nodesep: 22, edgesep: 12, ranksep: 34, ranker: rankNodes });
  for (const child of box.children) {
    const size = inner.get(child.key) ?? itemSize(child);
    const tags = (tagsOf.get(child) ?? []).map(tagWidth);
    const height = Math.max(size.height, tags.length * TAG_HEIGHT);
    graph.setNode(`i${child.key}`, { width: size.width + 2 * Math.max(0, ...tags), height, size });
  }
  const ports = addPorts(graph, pieces);
  for (const piece of pieces) {
    const label = isLarge ? "" : labelOf(piece);
    const size = label ? { width: textWidth(label, "small") + 8, height: 14, labelpos: "c" } : {};
    graph.setEdge(dagreNode(piece.from, "in"), dagreNode(piece.to, "out"), { ...size, weight: 1, piece }, piece.key);
  }
  dagre.layout(graph);
  return readLayout(box, graph, inner, tagsOf, ports);
}

// A value that many items of a box use would draw as many lines: each of them gets a tag with its name instead.
function separateTags(pieces) {
  const isTagged = (group) => group.length > MAX_LINES && group.every((piece) => piece.to.item);
  const groups = [...groupBy(pieces, (piece) => endKey(piece.from)).values()];
  return [groups.filter((group) => !isTagged(group)).flat(), groups.filter(isTagged).flat()];
}

function groupBy(values, keyOf) {
  const groups = new Map();
  for (const value of values) {
    const key = keyOf(value);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(value);
  }
  return groups;
}

function tagText(piece) {
  return model.find(piece.ends[0][0]).label;
}

function tagWidth(piece) {
  return textWidth(tagText(piece), "small") + 20;
}

// A leaf shows its shape itself; an edge that crosses borders has its label in the box that holds both of its ends.
function labelOf(piece) {
  if (!piece.from.item || !piece.to.item || (!piece.from.item.isGroup && piece.from.item.data.kind === "leaf")) return "";
  return pieceLabel(piece);
}

function dagreNode(end, side) {
  return end.item ? `i${end.item.key}` : `p${side} ${end.port}`;
}

// The ports on the upper border, which are named by where they lead from, and those on the lower one.
function addPorts(graph, pieces) {
  const ports = { in: new Set(), out: new Set() };
  for (const piece of pieces) {
    if (!piece.from.item) ports.in.add(piece.from.port);
    if (!piece.to.item) ports.out.add(piece.to.port);
  }
  for (const side of ["in", "out"]) for (const port of ports[side]) graph.setNode(`p${side} ${port}`, { width: PORT, height: 0 });
  return ports;
}

// Give each node its row: as low as what uses it allows, so that weights stand next to their op; ports lie above and
// below everything else. This takes the place of dagre's own ranking, which knows no borders and is slower.
function rankNodes(graph) {
  const names = sortNodes(graph);
  const shown = names.filter((name) => name[0] === "i");
  const rankOf = (name) => graph.node(name).rank;
  for (const name of [...names].reverse()) {
    const below = graph.outEdges(name).map((edge) => rankOf(edge.w) - graph.edge(edge).minlen);
    graph.node(name).rank = Math.min(0, ...below);
  }
  for (const name of shown) {
    const above = graph.inEdges(name).filter((edge) => edge.v[0] === "i");
    if (above.length && !graph.outEdges(name).length) {
      graph.node(name).rank = Math.max(...above.map((edge) => rankOf(edge.v) + graph.edge(edge).minlen));
    }
  }
  const ranks = shown.map(rankOf);
  const [top, bottom] = [Math.min(...ranks) - 2, Math.max(...ranks) + 2];
  for (const name of shown) {
    const isAlone = !graph.outEdges(name).length && !graph.inEdges(name).some((edge) => edge.v[0] === "i");
    if (isAlone && !graph.inEdges(name).some((edge) => edge.v[0] === "p")) graph.node(name).rank = top + 2;
  }
  for (const name of names) {
    if (name.startsWith("pin")) graph.node(name).rank = top;
    else if (name.startsWith("pout")) graph.node(name).rank = bottom;
    else if (name[0] !== "i") graph.node(name).rank = top - 2;
  }
}

// Sort nodes so that each comes after those that lead to it.
function sortNodes(graph) {
  const waiting = new Map(graph.nodes().map((name) => [name, graph.inEdges(name).length]));
  const sorted = graph.nodes().filter((name) => !waiting.get(name));
  for (const name of sorted) {
    for (const { w } of graph.outEdges(name)) {
      waiting.set(w, waiting.get(w) - 1);
      if (!waiting.get(w)) sorted.push(w);
    }
  }
  return sorted;
}

function readLayout(box, graph, inner, tagsOf, ports) {
  const places = box.children.map((child) => {
    const { x, y, size: { width, height } } = graph.node(`i${child.key}`);
    const place = { item: child, x: x - width / 2, y: y - height / 2, width, height, inner: inner.get(child.key) };
    place.tags = (tagsOf.get(child) ?? []).map((piece, i, all) => {
      const top = height / 2 + (i - (all.length - 1) / 2) * TAG_HEIGHT;
      return { key: piece.ends[0][0], text: tagText(piece), width: tagWidth(piece), y: top, title: pieceLabel(piece) };
    });
    return place;
  });
  const rankHeights = findRankHeights(graph);
  const routes = graph.edges()
    .filter((edge) => graph.edge(edge).piece)
    .map((edge) => ({ piece: graph.edge(edge).piece, info: graph.edge(edge) }));
  const xs = [...places.flatMap((p) => [p.x - Math.max(0, ...p.tags.map((tag) => tag.width)), p.x + p.width]), ...routes.flatMap((r) => r.info.points.map((p) => p.x))];
  const labels = routes.filter((r) => r.info.width);
  xs.push(...labels.flatMap((r) => [r.info.x - r.info.width / 2, r.info.x + r.info.width / 2]));
  const isRoot = box.key === "";
  const left = Math.min(...xs) - BOX_PADDING;
  const top = Math.min(...places.map((p) => p.y)) - (isRoot ? BOX_PADDING : HEADER_HEIGHT + (ports.in.size ? 22 : 8));
  const bottom = Math.max(...places.map((p) => p.y + p.height)) + (ports.out.size ? 22 : BOX_PADDING);
  const title = textWidth(box.label, "label") + textWidth(box.data.subtitle ?? "", "small") + 60;
  const spread = Math.max(0, title - (Math.max(...xs) - left + BOX_PADDING));
  const shift = (x, y) => ({ x: x - left + spread / 2, y: y - top });
  for (const place of places) Object.assign(place, shift(place.x, place.y));
  const height = bottom - top;
  const placeOf = new Map(places.map((place) => [place.item, place]));
  const portX = (side, port) => shift(graph.node(`p${side} ${port}`).x, 0).x;
  const lines = routes.map(({ piece, info }) => {
    const [source, target] = [placeOf.get(piece.from.item), placeOf.get(piece.to.item)];
    const via = info.points.slice(1, -1).map(({ x, y }) => ({ ...shift(x, y), reach: (rankHeights.get(Math.round(y)) ?? 0) / 2 }));
    const label = info.width ? { ...shift(info.x, info.y), text: labelOf(piece) } : null;
    if (source && target && target.y < source.y) { // boxes may use values of each other: this line goes upwards
      const [start, finish] = [borderPoint(target, "", true), borderPoint(source, "", false)];
      for (const end of [start, finish]) end.x += Math.sign((via[0]?.x ?? 0) - end.x) * 14; // beside the lines downwards
      return { piece, isUpward: true, start, finish, via: via.reverse(), label };
    }
    const start = source ? borderPoint(source, piece.from.port, true) : { x: portX("in", piece.from.port), y: 0 };
    const finish = target ? borderPoint(target, piece.to.port, false) : { x: portX("out", piece.to.port), y: height };
    return { piece, start, finish, via, label };
  });
  spreadEnds(lines, placeOf);
  for (const line of lines) line.xs = [line.start, line.finish, ...line.via].map((point) => point.x);
  const rowOf = (side, names) => new Map([...names].map((port) => [port, portX(side, port)]));
  return {
    places, lines, height, width: Math.max(...xs) - left + BOX_PADDING + spread,
    ports: new Map([...rowOf("in", ports.in), ...rowOf("out", ports.out)]),
    ranks: [...rankHeights].map(([y, reach]) => ({ y: shift(0, y).y, reach: reach / 2 })),
  };
}

// Edges pass a rank vertically over the height of its tallest node, so that they bend only between ranks.
function findRankHeights(graph) {
  const heights = new Map();
  for (const name of graph.nodes()) {
    const { y, height } = graph.node(name);
    heights.set(Math.round(y), Math.max(heights.get(Math.round(y)) ?? 0, height));
  }
  return heights;
}

function borderPoint(place, port, isSource) {
  const portX = port ? place.inner?.ports.get(port) : undefined;
  const y = isSource ? place.y + place.height : place.y;
  return { x: place.x + (portX ?? place.width / 2), y, isFixed: portX !== undefined };
}

// Several edges that end at one node end beside each other, in the order in which they come.
function spreadEnds(lines, placeOf) {
  const ending = lines.filter((line) => !line.finish.isFixed && line.piece.to.item && !line.isUpward);
  for (const [place, group] of groupBy(ending, (line) => placeOf.get(line.piece.to.item))) {
    if (group.length < 2) continue;
    const cameFrom = (line) => (line.via.at(-1) ?? line.start).x;
    group.sort((a, b) => cameFrom(a) - cameFrom(b));
    const step = Math.min(16, (place.width * 0.7) / (group.length - 1));
    group.forEach((line, i) => {
      line.finish = { ...line.finish, x: place.x + place.width / 2 + (i - (group.length - 1) / 2) * step };
    });
  }
}

// The path of a line from its upper end, as SVG writes it: straight past ranks, curved between them.
function linePath({ start, finish, via, isUpward }, ranks) {
  const rankAt = (y) => ranks.find((rank) => Math.abs(rank.y - y) <= rank.reach + 0.5);
  const points = [start];
  const first = rankAt(start.y);
  const down = isUpward ? ARROW : 0;
  if (first || down) points.push({ x: start.x, y: Math.max(start.y, first ? first.y + first.reach : 0) + down });
  for (const { x, y, reach } of via) points.push({ x, y: y - reach }, { x, y: y + reach });
  const last = rankAt(finish.y);
  points.push({ x: finish.x, y: Math.max(points.at(-1).y, Math.min(finish.y - ARROW, last ? last.y - last.reach - ARROW : Infinity)) });
  points.push(finish);
  let path = `M${round(start.x)} ${round(start.y)}`;
  for (let i = 1; i < points.length; i += 1) {
    const [a, b] = [points[i - 1], points[i]];
    if (Math.abs(a.x - b.x) < 0.5) path += `L${round(b.x)} ${round(b.y)}`;
    else {
      const middle = (a.y + b.y) / 2;
      path += `C${round(a.x)} ${round(middle)} ${round(b.x)} ${round(middle)} ${round(b.x)} ${round(b.y)}`;
    }
  }
  return path;
}

function round(number) {
  return Math.round(number * 10) / 10;
}
