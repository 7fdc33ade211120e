// Cells that run in the page: a button at each executed cell, and at the program of try.html. Nothing is fetched before a
// reader presses one. Then Python comes from the folder pyodide/ of the site; if it has none, and the reader agrees, from
// a public server. A page has one Python, in which its cells share their names.
(() => {
  const PUBLIC_RUNTIME = "https://cdn.jsdelivr.net/pyodide/v0.27.7/full/";
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  const cells = [];
  let worker = null;

  const make = (tag, name, text = "") => Object.assign(document.createElement(tag), { className: name, textContent: text });

  function addCell(read, place, printed) {
    const cell = { id: cells.length + 1, read, printed, hasRun: false, finish: null };
    const bar = make("div", "live_bar"), button = make("button", "live_run", "Run");
    cell.stop = make("button", "live_stop", "Stop");
    cell.status = make("span", "live_status");
    cell.output = make("div", "live_output");
    cell.stop.hidden = true;
    bar.append(button, cell.stop, cell.status);
    place.after(bar, cell.output);
    button.onclick = () => runUpTo(cell);
    cell.stop.onclick = () => endPython("stopped; the next run begins anew");
    cells.push(cell);
  }

  // Cells above that have not run come first: their names are needed.
  async function runUpTo(cell) {
    if (cells.some(each => each.finish)) return;
    cell.stop.hidden = false;
    try {
      if (!worker && !(await startPython(cell))) return;
      for (const each of cells.filter(other => other.id < cell.id && !other.hasRun)) if (!(await run(each))) return;
      await run(cell);
    } catch (error) {
      cell.status.textContent = error.message;
    } finally {
      cell.stop.hidden = true;
    }
  }

  async function startPython(cell) {
    if (location.protocol === "file:") throw new Error("Browsers start no Python in pages from files: serve the site, for example with python3 -m http.server.");
    const own = new URL("pyodide/", root);
    const found = await fetch(new URL("pyodide-lock.json", own), { method: "HEAD" }).then(answer => answer.ok, () => false);
    if (!found && !(await agree(cell))) return false;
    worker = new Worker(new URL("_static/python_worker.js", root));
    worker.onmessage = ({ data }) => receive(data);
    worker.onerror = event => endPython(event.message || "Python could not be started");
    worker.postMessage({ start: { runtime: found ? own.href : PUBLIC_RUNTIME, library: new URL("_static/adjoint.zip", root).href } });
    return true;
  }

  function agree(cell) {
    const question = make("p", "live_question", "This site has no Python of its own. It can be fetched from cdn.jsdelivr.net, some 20 MB, which then learns your address. ");
    const yes = make("button", "live_agree", "Fetch it");
    question.append(yes);
    cell.output.replaceChildren(question);
    return new Promise(resolve => {
      yes.onclick = () => { question.remove(); resolve(true); };
      cell.stop.addEventListener("click", () => { question.remove(); resolve(false); }, { once: true });
    });
  }

  function run(cell) {
    cell.output.replaceChildren();
    if (cell.printed) cell.printed.hidden = true;
    worker.postMessage({ run: { id: cell.id, source: cell.read() } });
    return new Promise(resolve => { cell.finish = resolve; });
  }

  function receive({ id, text, html, done, status, failure }) {
    const cell = cells[id - 1];
    const waiting = cells.find(each => each.finish);
    if (failure !== undefined) endPython(failure);
    if (status !== undefined && waiting) waiting.status.textContent = status;
    if (text !== undefined && cell) {
      const last = cell.output.lastElementChild;
      const page = last?.className === "live_text" ? last : cell.output.appendChild(make("pre", "live_text"));
      page.append(text);
    }
    if (html !== undefined) cell.output.appendChild(make("div", "live_value")).innerHTML = html;
    if (done !== undefined) finish(cell, done);
  }

  function finish(cell, succeeded) {
    const resolve = cell.finish;
    cell.finish = null;
    cell.hasRun = succeeded;
    cell.output.dataset.state = succeeded ? "done" : "failed";
    resolve?.(succeeded);
  }

  function endPython(reason) {
    worker?.terminate();
    worker = null;
    for (const cell of cells) {
      if (cell.finish) { finish(cell, false); cell.status.textContent = reason; }
      cell.hasRun = false;
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const program = document.getElementById("program");
    if (program) {
      program.addEventListener("keydown", event => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); runUpTo(cells[0]); }
      });
      addCell(() => program.value, program, null);
    }
    for (const cell of document.querySelectorAll("div.cell")) {
      const code = cell.querySelector("div.cell_input");
      if (code) addCell(() => code.querySelector("pre").textContent, code, cell.querySelector("div.cell_output"));
    }
    document.documentElement.dataset.cells = cells.length;
  });
})();
