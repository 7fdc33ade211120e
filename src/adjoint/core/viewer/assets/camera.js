// The camera: which part of the graph is on the screen, and how large.

const canvas = document.getElementById("canvas");
const scene = document.getElementById("scene");
const MIN_SCALE = 0.02;
const MAX_SCALE = 3;
const READABLE_SCALE = 0.45;
const MARGIN = 24;
const MAX_UNHIDDEN = 400; // items

const camera = {
  x: 0, y: 0, scale: 1,
  width: canvas.clientWidth, height: canvas.clientHeight, // known here, since asking for them lays out the whole page

  apply() {
    world.setAttribute("transform", `translate(${round(this.x)} ${round(this.y)}) scale(${this.scale})`);
    scene.classList.toggle("far", this.scale < READABLE_SCALE);
    if (drawn.size > MAX_UNHIDDEN) requestAnimationFrame(hideOutside);
  },

  // Move the content by a distance in the graph.
  moveBy(dx, dy) {
    this.x += dx * this.scale;
    this.y += dy * this.scale;
    this.apply();
  },

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const scale = Math.min(MAX_SCALE, Math.max(MIN_SCALE, this.scale * factor));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.apply();
  },

  // Show the whole graph, as long as it can be read; else its upper part, in the width of the screen.
  fit() {
    const wide = (this.width - 2 * MARGIN) / world.graphWidth;
    const high = (this.height - 2 * MARGIN) / world.graphHeight;
    const readable = this.width < 600 ? 0.8 : 0.55;
    this.scale = Math.min(1.15, Math.max(Math.min(wide, high), Math.min(wide, readable)));
    this.scale = Math.max(this.scale, MIN_SCALE);
    this.x = (this.width - world.graphWidth * this.scale) / 2;
    this.y = Math.max(MARGIN, (this.height - world.graphHeight * this.scale) / 2);
    this.apply();
  },

  fitWhole() {
    const scales = [(this.width - 2 * MARGIN) / world.graphWidth, (this.height - 2 * MARGIN) / world.graphHeight];
    this.scale = Math.max(MIN_SCALE, Math.min(1.15, ...scales));
    this.x = (this.width - world.graphWidth * this.scale) / 2;
    this.y = (this.height - world.graphHeight * this.scale) / 2;
    this.apply();
  },

  // Move as little as needed to show a place; what is larger than the screen is shown from its top.
  bringIntoView({ x, y, width, height }, isCentred = false) {
    const left = x * this.scale + this.x;
    const top = y * this.scale + this.y;
    const [w, h] = [width * this.scale, height * this.scale];
    const space = { w: this.width, h: this.height };
    if (isCentred && (left < MARGIN || top < MARGIN || left + w > space.w - MARGIN || top + h > space.h - MARGIN)) {
      this.x += space.w / 2 - left - w / 2;
      this.y += space.h / 2 - top - Math.min(h, space.h) / 2;
    } else if (!isCentred) {
      if (w > space.w || left < MARGIN) this.x += (w > space.w ? (space.w - w) / 2 : MARGIN) - left;
      else if (left + w > space.w - MARGIN) this.x += space.w - MARGIN - left - w;
      if (h > space.h || top < MARGIN) this.y += MARGIN - top;
      else if (top + h > space.h - MARGIN) this.y += space.h - MARGIN - top - h;
    }
    this.apply();
  },
};

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const box = canvas.getBoundingClientRect();
  const unit = event.deltaMode === 1 ? 16 : 1;
  if (event.ctrlKey || event.metaKey) {
    camera.zoom(Math.exp(-event.deltaY * unit * 0.006), event.clientX - box.left, event.clientY - box.top);
  } else {
    const [dx, dy] = event.shiftKey ? [event.deltaY, event.deltaX] : [event.deltaX, event.deltaY];
    camera.moveBy((-dx * unit) / camera.scale, (-dy * unit) / camera.scale);
  }
}, { passive: false });

// Of a large drawing only what is on the screen, and a margin around it, takes part: the rest would slow it down.
function hideOutside() {
  const [top, left] = [-camera.y / camera.scale, -camera.x / camera.scale];
  const [height, width] = [camera.height / camera.scale, camera.width / camera.scale];
  const isOutside = (part) =>
    part.y + part.height < top - height || part.y > top + 2 * height || part.x + part.width < left - width || part.x > left + 2 * width;
  for (const part of [...drawn.values(), ...drawnLines]) {
    const isHidden = isOutside(part);
    if (isHidden !== Boolean(part.isHidden)) {
      part.element.style.display = isHidden ? "none" : "";
      part.isHidden = isHidden;
    }
  }
}

// One pointer moves the graph, two zoom it. A pointer that has moved is no click.
const pointers = new Map();
let hasMoved = false;

canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  if (pointers.size === 1) hasMoved = false;
});

window.addEventListener("pointermove", (event) => {
  const old = pointers.get(event.pointerId);
  if (!old) return;
  const now = { x: event.clientX, y: event.clientY };
  if (pointers.size === 1) {
    if (!hasMoved && Math.hypot(now.x - old.x, now.y - old.y) < 4) return;
    hasMoved = true;
    canvas.classList.add("moving");
    camera.moveBy((now.x - old.x) / camera.scale, (now.y - old.y) / camera.scale);
  } else if (pointers.size === 2) {
    hasMoved = true;
    const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
    const box = canvas.getBoundingClientRect();
    const [before, after] = [old, now].map((p) => Math.hypot(p.x - other.x, p.y - other.y));
    camera.zoom(after / Math.max(1, before), (now.x + other.x) / 2 - box.left, (now.y + other.y) / 2 - box.top);
  }
  pointers.set(event.pointerId, now);
});

for (const name of ["pointerup", "pointercancel"]) {
  window.addEventListener(name, (event) => {
    pointers.delete(event.pointerId);
    canvas.classList.remove("moving");
  });
}

new ResizeObserver(() => {
  const oldWidth = camera.width;
  Object.assign(camera, { width: canvas.clientWidth, height: canvas.clientHeight });
  if (world.graphWidth && camera.width !== oldWidth) camera.fit();
}).observe(canvas);
