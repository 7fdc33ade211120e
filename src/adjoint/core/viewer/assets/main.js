// The page begins: the first graph, its tabs, its tools.

const graphSlider = document.getElementById("graph-slider");

function showGraph(i) {
  const previous = selectedKey;
  model = graphModel(i);
  indexLines();
  showSource();
  drawn.clear();
  selectedKey = model.items.has(previous) ? previous : "";
  render();
  showWalk();
  if (moment < 0) showDetails(model.find(selectedKey));
  graphSlider.value = i;
  document.getElementById("graph-title").textContent = `${i + 1} of ${models.length}: ${model.graph.title}`;
}

// Another graph lies elsewhere: show the whole of it, or what stays selected.
function goToGraph(i) {
  showGraph(i);
  camera.fit();
  const place = selectedKey && drawn.get(model.representative(model.find(selectedKey)).key);
  if (place) camera.bringIntoView(place, true);
}

// Go to the last graph that has an item with one of these keys, and return the key; undefined if none has.
function goToGraphWith(keys) {
  for (let i = models.length - 1; i >= 0; i -= 1) {
    const key = keys.find((each) => graphModel(i).items.has(each));
    if (key) {
      goToGraph(i);
      return key;
    }
  }
  return undefined;
}

function connectTools() {
  const on = (id, action) => document.getElementById(id).addEventListener("click", action);
  on("fold-all", () => setAllBoxes(false));
  on("unfold-all", () => setAllBoxes(true));
  on("zoom-in", () => camera.zoom(1.25));
  on("zoom-out", () => camera.zoom(0.8));
  on("fit", () => camera.fit());
  on("help", showKeys);
  const step = (by) => goToGraph(Math.max(0, Math.min(models.length - 1, Number(graphSlider.value) + by)));
  on("graph-before", () => step(-1));
  on("graph-after", () => step(1));
  graphSlider.addEventListener("input", () => goToGraph(Number(graphSlider.value)));
  graphSlider.max = models.length - 1;
  document.getElementById("graphs").hidden = models.length < 2;
}

connectTools();
showTabs();
showGraph(pageData.first ?? 0);
Object.assign(camera, { width: canvas.clientWidth, height: canvas.clientHeight });
camera.fit();
document.documentElement.dataset.ready = "true";
