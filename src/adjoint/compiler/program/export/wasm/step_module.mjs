// A step exported by adjoint: `load()` it, then `step(…)` as often as you like; `state()` are its weights and moments.
//
//   import { load } from "./NAME.mjs";
//   const net = await load();
//   const result = net.step(x);        // numbers: an array, nested or flat, or a typed array, for each argument
//   net.state()["0.weight"];           // a typed array over the step's own memory, with a `shape`
//   net.settings.lr = 1e-4;            // Python's numbers, such as a learning rate, as they are from now on
//
// Needs WebAssembly with 128-bit vectors. Memory is the module's own; it imports nothing but functions of `Math`.

const about = ABOUT;

// The C library's functions in terms of Math, for the names that a module imports.
const single = f => (...args) => Math.fround(f(...args));
const remainder = (x, y) => x % y;
const library = { ...Object.fromEntries(Object.getOwnPropertyNames(Math).filter(name => typeof Math[name] === "function")
  .flatMap(name => [[name, Math[name]], [name + "f", single(Math[name])]])), fmod: remainder, fmodf: single(remainder) };

let latest = null; // what `load` gave last

// A copy of the step with a memory of its own. `wasm`, `image`: their bytes; by default those of the files beside this.
export async function load({ wasm, image } = {}) {
  const [code, content] = await Promise.all([wasm ?? read(about.wasm), image ?? read(about.image)]);
  if (content.byteLength !== about.imageBytes) throw new Error(`the image has ${content.byteLength} bytes, not ${about.imageBytes}: it is of another export`);
  const { instance } = await WebAssembly.instantiate(code, { env: library });
  const { memory, run } = instance.exports;
  new Uint8Array(memory.buffer).set(new Uint8Array(content.buffer ?? content, content.byteOffset ?? 0, content.byteLength), about.base);
  return (latest = new Step(memory, run));
}

export const step = (...args) => loaded().step(...args);
export const state = () => loaded().state();

function loaded() {
  if (!latest) throw new Error("the step is not loaded: await load() first");
  return latest;
}

async function read(name) {
  const url = new URL(name, import.meta.url);
  if (url.protocol !== "file:" || typeof process === "undefined") {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
    return new Uint8Array(await answer.arrayBuffer());
  }
  return (await import("node:fs")).readFileSync(url);
}

class Step {
  #memory; #run;

  constructor(memory, run) {
    [this.#memory, this.#run] = [memory, run];
    this.settings = {};
    for (const at of about.settings) {
      const cell = this.#view(at);
      Object.defineProperty(this.settings, at.name, { get: () => Number(cell[0]), set: x => write(cell, [x], at.name), enumerable: true });
    }
  }

  // One call: arguments in the order of the Python function's; what it returns, in the same containers.
  step(...args) {
    if (args.length !== about.arguments.length) throw new TypeError(`the step takes ${about.arguments.length} arguments, but got ${args.length}`);
    args.forEach((x, i) => about.arguments[i] && write(this.#view(about.arguments[i]), x, `argument ${i}`));
    const failed = this.#run();
    if (failed) throw new RangeError(about.checks[failed - 1]);
    return this.#results(about.results);
  }

  // Weights, moments, buffers, generators: each where the step reads and writes it.
  state() {
    return Object.fromEntries(about.states.map(at => [at.name, this.#view(at)]));
  }

  #view({ offset, type, parts, shape }) {
    const kind = globalThis[type];
    return Object.assign(new kind(this.#memory.buffer, about.base + offset, parts * count(shape)), { shape });
  }

  #results(tree) {
    if (tree.list) return tree.list.map(part => this.#results(part));
    if (tree.dict) return Object.fromEntries(tree.dict.map(([key, part]) => [key, this.#results(part)]));
    if (!tree.tensor) return tree.value;
    const numbers = this.#view(tree.tensor);
    return numbers.length > 1 || numbers.shape.length ? Object.assign(numbers.slice(), { shape: numbers.shape }) : numbers[0];
  }
}

const count = shape => shape.reduce((a, b) => a * b, 1);

function write(view, x, name) {
  const numbers = ArrayBuffer.isView(x) ? x : [x].flat(Infinity);
  if (numbers.length !== view.length) throw new RangeError(`${name} has ${numbers.length} numbers, not ${view.length} (of shape [${view.shape}])`);
  const long = view instanceof BigInt64Array || view instanceof BigUint64Array;
  view.set(long && typeof numbers[0] !== "bigint" ? Array.from(numbers, BigInt) : numbers);
}
