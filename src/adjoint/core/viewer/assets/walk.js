// The walk: a slider goes through moments; nodes show what has run, what runs and what waits.

const walkBar = document.getElementById("walk");
const PLAY_MS = 700;
const CURVE = { width: 600, height: 34 };
let moment = -1; // -1: before the first frame
let playing = 0;
let walkStates = new Map();
let walkNotes = new Map();
let walkParts = {};

function showWalk() {
  stopPlaying();
  moment = -1;
  walkStates = new Map();
  walkNotes = new Map();
  const { walk } = model.graph;
  walkBar.hidden = !walk;
  document.body.classList.toggle("with-walk", Boolean(walk));
  if (!walk) return;
  const button = (text, label, action) => {
    const element = make("button", { type: "button", "aria-label": label, title: label }, text);
    element.addEventListener("click", action);
    return element;
  };
  const slider = make("input", { type: "range", id: "walk-slider", min: 0, max: walk.frames.length, value: 0, step: 1, "aria-label": walk.title });
  slider.addEventListener("input", () => {
    stopPlaying();
    goToMoment(Number(slider.value) - 1);
  });
  walkParts = {
    slider,
    title: make("b", { id: "walk-title" }),
    text: make("span", { class: "walk-rows" }),
    curves: makeSvg("svg", { class: "curves", viewBox: `0 0 ${CURVE.width} ${CURVE.height}`, preserveAspectRatio: "none", "aria-hidden": "true" }),
    legend: make("span", { class: "legend" }),
    play: button("▶", "Play (p)", togglePlaying),
  };
  walkBar.replaceChildren(
    make("div", { class: "walk-line" }, button("‹", "Step back (,)", () => stepWalk(-1)), walkParts.play, button("›", "Next step (.)", () => stepWalk(1)), make("div", { class: "track" }, walkParts.curves, slider), walkParts.legend),
    make("div", { class: "walk-line" }, walkParts.title, walkParts.text),
  );
  drawCurves(walk);
  goToMoment(-1, false);
}

function stepWalk(by) {
  stopPlaying();
  goToMoment(moment + by);
}

function goToMoment(wanted, isFollowed = true) {
  const { walk } = model.graph;
  if (!walk) return;
  moment = Math.max(-1, Math.min(walk.frames.length - 1, wanted));
  walkStates = new Map();
  walkNotes = new Map();
  for (const frame of walk.frames.slice(0, moment + 1)) {
    for (const [key, state] of Object.entries(frame.states ?? {})) walkStates.set(key, state);
    for (const [key, note] of Object.entries(frame.notes ?? {})) walkNotes.set(key, note);
  }
  const frame = walk.frames[moment];
  walkParts.slider.value = moment + 1;
  walkParts.title.textContent = frame ? `${moment + 1} of ${walk.frames.length}: ${frame.title}` : `${walk.title}: ${countOf(walk.frames.length, "step")}`;
  walkParts.text.replaceChildren(...(frame?.rows ?? []).map(([name, text]) => make("span", {}, make("span", { class: "dim" }, `${name} `), text)));
  showLegend(walk, frame);
  markWalk();
  if (!frame) return;
  const item = model.find(frame.node);
  if (isFollowed && item !== model.root) {
    const place = drawn.get(model.representative(item).key);
    if (place) camera.bringIntoView(place, true);
    const [line] = linesOf(item);
    if (line) scrollToLine(line);
  }
  showMoment(item, frame);
}

// Mark the nodes on the screen; a folded box shows how much of it has run.
function markWalk() {
  const { walk } = model.graph;
  if (!walk) return;
  const isRunning = moment >= 0;
  scene.classList.toggle("walking", isRunning);
  const running = isRunning ? walk.frames[moment].node : "";
  for (const [key, { element, item, width, height }] of drawn) {
    const nodes = item.isGroup ? model.nodesIn(item) : [item];
    const states = nodes.map((node) => walkStates.get(node.key) ?? "waiting");
    const done = states.filter((state) => state === "done" || state === "freed").length;
    const holds = nodes.some((node) => node.key === running);
    element.dataset.state = !isRunning ? "" : holds ? "running" : done === nodes.length ? "done" : done || states.includes("ready") ? "ready" : "waiting";
    element.querySelector(".progress")?.setAttribute("width", isRunning ? (width * done) / nodes.length : 0);
    element.querySelector(".note")?.remove();
    const note = isRunning && !item.isGroup ? walkNotes.get(key) : "";
    if (note) element.append(drawNote(note, width / 2, height));
  }
  for (const { element, edges } of drawnLines) {
    const end = walk.is_backward ? "target" : "source";
    element.classList.toggle("flowing", isRunning && edges.some((edge) => edge[end] === running));
  }
}

// A text on the lower border of a node.
function drawNote(text, x, y) {
  const width = textWidth(text, "small") + 14;
  return makeSvg("g", { class: "note" },
    makeSvg("rect", { x: x - width / 2, y: y - 7, width, height: 15, rx: 7.5 }),
    makeSvg("text", { x, y: y + 4.5, "text-anchor": "middle" }, text));
}

function showMoment(item, frame) {
  selectedKey = item.key;
  markSelection();
  showDetails(item);
  const rows = make("div", { class: "moment" }, make("h3", {}, `Step ${moment + 1}`), rowsTable(frame.rows ?? []), ...(frame.tables ?? []).map(detailTable));
  detailsPanel.querySelector("h2").after(rows);
}

function drawCurves(walk) {
  const names = [...new Set(walk.frames.flatMap((frame) => Object.keys(frame.amounts ?? {})))];
  names.forEach((name, i) => {
    const values = walk.frames.map((frame) => frame.amounts?.[name] ?? 0);
    const most = Math.max(...values, 1e-300);
    const x = (k) => round(((k + 1) * CURVE.width) / Math.max(1, walk.frames.length));
    const points = values.map((value, k) => `${x(k)},${round(CURVE.height - 2 - (value / most) * (CURVE.height - 6))}`);
    walkParts.curves.append(makeSvg("polyline", { class: `curve-${i}`, points: [`0,${points[0]?.split(",")[1]}`, ...points].join(" "), "vector-effect": "non-scaling-stroke" }));
  });
}

function showLegend(walk, frame) {
  const amounts = frame?.amounts ?? walk.frames[0]?.amounts ?? {};
  walkParts.legend.replaceChildren(...Object.entries(amounts).map(([name, amount], i) => make("span", { class: `curve-${i}` }, `${name} ${formatAmount(name, amount)}`)));
}

function togglePlaying() {
  if (playing) return stopPlaying();
  if (moment >= model.graph.walk.frames.length - 1) goToMoment(-1);
  walkParts.play.textContent = "❚❚";
  const next = () => {
    goToMoment(moment + 1);
    if (moment >= model.graph.walk.frames.length - 1) stopPlaying();
  };
  next();
  if (moment < model.graph.walk.frames.length - 1) playing = setInterval(next, PLAY_MS);
  else stopPlaying();
}

function stopPlaying() {
  clearInterval(playing);
  playing = 0;
  if (walkParts.play) walkParts.play.textContent = "▶";
}
