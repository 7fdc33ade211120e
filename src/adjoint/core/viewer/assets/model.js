// The graph that is shown: its nodes and boxes as a tree, its edges, and which boxes are open.

const pageData = JSON.parse(document.getElementById("document").textContent);
const files = pageData.files ?? [];

class GraphModel {
  constructor(graph) {
    this.graph = graph;
    this.items = new Map();
    this.root = { key: "", label: graph.title, isGroup: true, children: [], parent: null, depth: 0, data: {} };
    for (const group of graph.groups ?? []) this.addItem(group, true);
    for (const node of graph.nodes) this.addItem(node, false);
    for (const item of this.items.values()) this.placeItem(item);
    this.edges = (graph.edges ?? []).filter((e) => this.items.has(e.source) && this.items.has(e.target));
    for (const edge of this.edges) {
      this.items.get(edge.source).targets.push(edge);
      this.items.get(edge.target).sources.push(edge);
    }
    this.root.children = this.root.children.filter(hasContent);
    for (const item of this.items.values()) if (item.isGroup) item.children = item.children.filter(hasContent);
    this.root.totals = sumUp(this.root);
  }

  addItem(data, isGroup) {
    const item = { key: data.key, label: data.label, data, isGroup, children: [], sources: [], targets: [] };
    this.items.set(data.key, item);
  }

  placeItem(item) {
    const parent = item.isGroup ? item.data.parent : item.data.group;
    item.parent = this.items.get(parent ?? "") ?? this.root;
    item.parent.children.push(item);
  }

  find(key) {
    return key === "" ? this.root : this.items.get(key);
  }

  // The item that stands for `item` on the screen: its outermost folded box, or itself.
  representative(item) {
    let shown = item;
    for (let box = item.parent; box !== this.root; box = box.parent) if (!openBoxes.has(box.key)) shown = box;
    return shown;
  }

  // All nodes in a box, or the node itself.
  nodesIn(item) {
    return item.isGroup ? item.children.flatMap((child) => this.nodesIn(child)) : [item];
  }

  groups() {
    return [...this.items.values()].filter((item) => item.isGroup && item.children.length);
  }
}

function hasContent(item) {
  return !item.isGroup || item.children.some(hasContent);
}

// Count the nodes of each box and add up their amounts, from the inside outwards.
function sumUp(item) {
  const totals = { nodes: 0, amounts: { ...(item.data.amounts ?? {}) } };
  if (!item.isGroup) totals.nodes = 1;
  for (const child of item.children) {
    child.totals = sumUp(child);
    totals.nodes += child.totals.nodes;
    for (const [name, amount] of Object.entries(child.totals.amounts)) {
      totals.amounts[name] = (totals.amounts[name] ?? 0) + amount;
    }
  }
  return totals;
}

// The boxes around an item, the outermost first.
function boxesAround(item) {
  const boxes = [];
  for (let box = item.parent; box && box.key !== ""; box = box.parent) boxes.unshift(box);
  return boxes;
}

const openBoxes = new Set();
const models = pageData.graphs.map(() => null);
let model = null;

// Return the model of the i-th graph; the first time a graph is shown, boxes that say so are open.
function graphModel(i) {
  if (!models[i]) {
    models[i] = new GraphModel(pageData.graphs[i]);
    for (const group of pageData.graphs[i].groups ?? []) if (group.is_open) openBoxes.add(group.key);
  }
  return models[i];
}

function formatAmount(name, amount) {
  if (name.endsWith("bytes")) return formatBytes(amount);
  if (name.endsWith("seconds")) return formatSeconds(amount);
  return amount.toLocaleString("en");
}

function formatBytes(count) {
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (count >= size) return `${(count / size).toFixed(1)} ${unit}`;
  }
  return `${count} bytes`;
}

function formatSeconds(seconds) {
  for (const [unit, size] of [["s", 1], ["ms", 1e-3]]) {
    if (seconds >= size) return `${(seconds / size).toPrecision(3)} ${unit}`;
  }
  return `${(seconds * 1e6).toFixed(1)} µs`;
}

function countOf(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

// Make an element: make("p", { class: "dim" }, "text", child).
function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
