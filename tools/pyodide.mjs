// Runs pytest in Pyodide under Node: node tools/pyodide.mjs RUNTIME PROJECT PACKAGES ARGUMENTS…
// The project and the packages (a folder with pytest and hypothesis) are mounted, so a test that writes a file writes it there.
import { pathToFileURL } from "node:url";

const [runtime, project, packages, ...args] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${runtime}/pyodide.mjs`).href);
const python = await loadPyodide({
  indexURL: runtime,
  env: { HOME: "/home/pyodide", PYTHONDONTWRITEBYTECODE: "1", ADJOINT_NIGHTLY: process.env.ADJOINT_NIGHTLY ?? "" },
});
await python.loadPackage("numpy", { messageCallback: () => {} });
for (const [name, folder] of [["/project", project], ["/packages", packages]]) {
  python.FS.mkdir(name);
  python.mountNodeFS(name, folder);
}
python.globals.set("arguments", python.toPy(args));
const program = `
import os, sys
os.chdir("/project")
sys.path[:0] = ["/project/src", "/project", "/packages"]
import pytest
int(pytest.main(["-p", "no:cacheprovider", "--capture=sys", *arguments]))
`;
try {
  process.exitCode = await python.runPythonAsync(program);
} catch (error) {
  console.error(error.message); // Python's; the stack of JavaScript says nothing
  process.exitCode = 1;
}
