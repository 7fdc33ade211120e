// The details of what is selected, and the tabs beside the graph.

const detailsPanel = document.getElementById("panel-details");
const tabs = document.getElementById("tabs");
const MAX_ITEMS_IN_LIST = 200;

function showDetails(item) {
  const { data } = item;
  const parts = [make("h2", {}, item.label)];
  if (item === model.root) {
    parts[0].textContent = pageData.title;
    parts.push(rowsTable([...(model.graph.summary ?? [])]));
    parts.push(kindLegend());
    if (model.graph.note) parts.push(make("p", {}, model.graph.note));
    parts.push(make("p", { class: "dim" }, "Select a node or a box to see its details. A click opens a box; arrow keys go along the edges."));
  } else {
    const chips = [data.kind, ...(data.badges ?? [])].filter(Boolean).map((text) => make("span", { class: "chip" }, text));
    if (data.subtitle || chips.length) parts.push(make("p", {}, data.subtitle ?? "", " ", ...chips));
    if (data.reason) parts.push(make("p", { class: "reason" }, data.reason));
    const amounts = Object.entries(item.totals.amounts).map(([name, amount]) => [name, formatAmount(name, amount)]);
    const counted = item.isGroup ? [["nodes", item.totals.nodes.toLocaleString("en")]] : [];
    parts.push(rowsTable([...(data.details ?? []), ...counted, ...amounts]));
    parts.push(...(data.tables ?? []).map(detailTable), ...neighbourLists(item));
  }
  detailsPanel.replaceChildren(...parts.filter(Boolean));
  detailsPanel.scrollTop = 0;
}

// The kinds of nodes with their colours and how many there are; pointing at one lights up its nodes.
function kindLegend() {
  const kinds = groupBy([...model.items.values()].filter((item) => !item.isGroup && item.data.kind), (item) => item.data.kind);
  const chips = [...kinds].sort((a, b) => b[1].length - a[1].length).map(([kind, items]) => {
    const chip = make("button", { type: "button", class: `chip kind kind-${kind.replaceAll(/\W/g, "-")}` }, `${kind} ${items.length.toLocaleString("en")}`);
    chip.addEventListener("pointerenter", () => point(items.map((item) => item.key)));
    chip.addEventListener("pointerleave", () => point(null));
    chip.addEventListener("click", () => {
      searchField.value = kind;
      searchField.focus();
      showHits();
    });
    return chip;
  });
  return make("p", { class: "legend-kinds" }, ...chips);
}

function rowsTable(rows) {
  if (!rows.length) return "";
  return make("table", { class: "rows" }, ...rows.map(([name, text]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, text))));
}

function detailTable({ title, head, rows, right = [] }) {
  const cell = (tag) => (text, i) => make(tag, right.includes(i) ? { class: "figure" } : {}, text);
  const body = rows.map((row) => make("tr", {}, ...row.map(cell("td"))));
  const table = make("table", { class: "grid" }, make("thead", {}, make("tr", {}, ...head.map(cell("th")))), make("tbody", {}, ...body));
  return make("div", {}, make("h3", {}, title), make("div", { class: "wide" }, table));
}

// What flows in and out of a node or a box, as links.
function neighbourLists(item) {
  const nodes = new Set(model.nodesIn(item));
  const ends = (side, other) => {
    const edges = [...nodes].flatMap((node) => node[side]).filter((edge) => !nodes.has(model.find(edge[other])));
    return new Map(edges.map((edge) => [edge[other], edge]));
  };
  return [["from", ends("sources", "source")], ["to", ends("targets", "target")]]
    .filter(([, found]) => found.size)
    .map(([title, found]) => make("div", {}, make("h3", {}, title), itemList([...found].map(([key, edge]) => [model.find(key), edge.label ?? ""]))));
}

// A list of items as links: [item, text beside it].
function itemList(entries) {
  const list = make("ul", { class: "links" });
  for (const [item, text] of entries.slice(0, MAX_ITEMS_IN_LIST)) {
    const button = make("button", { type: "button" }, item.label);
    button.addEventListener("click", () => select(item.key, { isShown: true }));
    button.addEventListener("pointerenter", () => point([item.key]));
    button.addEventListener("pointerleave", () => point(null));
    list.append(make("li", {}, button, make("span", { class: "dim" }, ` ${text}`)));
  }
  if (entries.length > MAX_ITEMS_IN_LIST) list.append(make("li", { class: "dim" }, `and ${countOf(entries.length - MAX_ITEMS_IN_LIST, "more")}`.replace(/mores$/, "more")));
  return list;
}

function showItemsOfLine(line, items) {
  const [file, number] = line.split(":");
  detailsPanel.replaceChildren(
    make("h2", {}, `${files[file].name}:${number}`),
    make("p", {}, `${countOf(items.length, "node")} from this line`),
    itemList(items.map((item) => [item, [item.data.subtitle, boxesAround(item).map((box) => box.label).join(" › ")].filter(Boolean).join(" · ")])),
  );
}

// Tabs: the details, the source, and a tab for each pane of the document.
function showTabs() {
  const panels = [["Details", detailsPanel], ["Source", sourcePanel]];
  for (const { title, html } of pageData.panes ?? []) {
    const panel = make("section", { class: "panel pane", role: "tabpanel" });
    panel.innerHTML = html;
    connectPane(panel);
    sourcePanel.before(panel);
    panels.push([title, panel]);
  }
  for (const [title, panel] of panels) {
    const tab = make("button", { type: "button", role: "tab", "data-tab": title }, title);
    tab.addEventListener("click", () => openTab(panel));
    panel.tab = tab;
    tabs.append(tab);
  }
  if (panels.length === 2) tabs.classList.add("only-two");
  openTab(detailsPanel);
}

function openTab(panel) {
  for (const each of document.querySelectorAll(".panel")) {
    each.classList.toggle("shown", each === panel);
    each.tab?.setAttribute("aria-selected", String(each === panel));
  }
}
