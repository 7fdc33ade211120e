// Keys: along the edges, in and out of boxes, through the walk, and around the page.

const KEY_HELP = [
  ["↓ ↑", "along the edges: to what uses a value, to what made it"],
  ["← →", "to the neighbour in the same row"],
  ["Enter", "open or fold a box"],
  ["Backspace", "to the box around"],
  ["[  ]", "fold all boxes, open all"],
  ["/", "search"],
  [",  .  p", "step back, next step, play (where the page has a walk)"],
  ["+  −  f  0", "zoom in, zoom out, fit, the whole graph"],
  ["Esc", "select nothing"],
  ["drag, wheel", "move the graph; Ctrl or ⌘ and the wheel zoom it"],
];
const dialog = document.getElementById("keys");

function showKeys() {
  dialog.querySelector("dl").replaceChildren(...KEY_HELP.flatMap(([keys, text]) => [make("dt", {}, keys), make("dd", {}, text)]));
  dialog.showModal();
}

// The item to which an arrow key leads: along an edge, or to the nearest in the same row.
function neighbour(key) {
  const from = selectedKey && drawn.get(model.representative(model.find(selectedKey)).key);
  if (!from) return [...drawn.values()].sort((a, b) => a.y - b.y)[0]?.item;
  const shown = [...drawn.values()].filter((place) => place.item !== from.item && !isOpen(place.item));
  const centre = (place) => ({ x: place.x + place.width / 2, y: place.y + place.height / 2 });
  const here = centre(from);
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const side = key === "ArrowLeft" ? -1 : 1;
    const row = shown.filter((p) => (centre(p).x - here.x) * side > 1 && Math.abs(centre(p).y - here.y) < 60);
    return row.sort((a, b) => Math.abs(centre(a).x - here.x) - Math.abs(centre(b).x - here.x))[0]?.item;
  }
  const [near, far] = key === "ArrowDown" ? [0, 1] : [1, 0];
  const keys = new Set(drawnLines.flatMap(({ ends }) => ends.filter((pair) => pair[near] === from.item.key).map((pair) => pair[far])));
  const next = shown.filter((place) => keys.has(place.item.key));
  return next.sort((a, b) => Math.abs(centre(a).x - here.x) - Math.abs(centre(b).x - here.x))[0]?.item;
}

function goTo(item) {
  if (!item) return;
  select(item.key);
  const place = drawn.get(item.key);
  if (place) camera.bringIntoView(place);
}

const ACTIONS = {
  Enter: () => toggleBox(selectedKey),
  " ": () => toggleBox(selectedKey),
  Backspace: () => goTo(selectedKey && model.find(selectedKey).parent.key ? model.find(selectedKey).parent : null),
  Escape: () => select(""),
  "[": () => setAllBoxes(false),
  "]": () => setAllBoxes(true),
  "/": () => searchField.focus(),
  "+": () => camera.zoom(1.25),
  "=": () => camera.zoom(1.25),
  "-": () => camera.zoom(0.8),
  f: () => camera.fit(),
  0: () => camera.fitWhole(),
  ",": () => stepWalk(-1),
  ".": () => stepWalk(1),
  p: () => model.graph.walk && togglePlaying(),
  "?": showKeys,
};

window.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  if (event.target.closest?.("input, button, li.maker") && !["/", "?", "Escape", ",", "."].includes(event.key)) return;
  const action = event.key.startsWith("Arrow") ? () => goTo(neighbour(event.key)) : ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
