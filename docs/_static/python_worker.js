// A Python of its own for a page, in a worker: cells.js starts it, sends it cells, and ends it.
// Messages in: {start: {runtime, library}} once, then {run: {id, source}}. Out: {id, text | html | done}, {id: 0, status}.
const DISPLAY = `
import ast, html, io, linecache, sys, traceback

def run_cell(name, source, namespace, show):
    "Run a cell as a notebook does: the value of a last expression is shown, and so are figures."
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    try:
        tree = ast.parse(source, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
            if value is not None:
                shown = getattr(value, "_repr_html_", lambda: None)()
                show(shown or f"<pre>{html.escape(repr(value))}</pre>")
    except BaseException as error:
        entries = error.__traceback__.tb_next  # this function is not the reader's
        traceback.print_exception(error.with_traceback(entries))
        return False
    finally:
        pyplot = sys.modules.get("matplotlib.pyplot")
        for number in pyplot.get_fignums() if pyplot else ():
            picture = io.StringIO()
            pyplot.figure(number).savefig(picture, format="svg")
            show(picture.getvalue().partition("<svg")[1] + picture.getvalue().partition("<svg")[2])
            pyplot.close(number)
    return True
`;
let python, runCell, namespace, current = 0;

async function start({ runtime, library }) {
  postMessage({ id: 0, status: "Python starts …" });
  importScripts(`${runtime}pyodide.js`);
  const print = text => postMessage({ id: current, text: `${text}\n` });
  python = await loadPyodide({ indexURL: runtime, env: { MPLBACKEND: "agg", HOME: "/home/pyodide" }, stdout: print, stderr: print });
  postMessage({ id: 0, status: "NumPy is loaded …" });
  await python.loadPackage("numpy", { messageCallback: () => {} });
  const answer = await fetch(library);
  if (!answer.ok) throw new Error(`${library}: ${answer.status}`);
  python.unpackArchive(await answer.arrayBuffer(), "zip", { extractDir: "/library" });
  python.runPython(`import sys; sys.path.insert(0, "/library")`);
  python.runPython(DISPLAY);
  runCell = python.globals.get("run_cell");
  namespace = python.toPy({ __name__: "__main__" });
  postMessage({ id: 0, status: "" });
}

async function run({ id, source }) {
  current = id;
  postMessage({ id: 0, status: "Python runs …" });
  await python.loadPackagesFromImports(source, { messageCallback: () => {} });
  const succeeded = runCell(`cell ${id}`, source, namespace, html => postMessage({ id, html }));
  postMessage({ id: 0, status: "" });
  postMessage({ id, done: succeeded });
}

let queue = Promise.resolve();
onmessage = ({ data }) => {
  queue = queue
    .then(() => (data.start ? start(data.start) : run(data.run)))
    .catch(error => postMessage({ id: data.run?.id ?? 0, failure: String(error.message ?? error) }));
};
