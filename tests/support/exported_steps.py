"""Exported steps, run in Node: no Python between their calls."""

import json
import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="no Node on the path, which runs WebAssembly")
SCRIPT = """
import { load } from "./MODULE";
import fs from "node:fs";
const plain = x => ArrayBuffer.isView(x) ? { shape: x.shape, data: Array.from(x, plain) }
  : Array.isArray(x) ? x.map(plain)
  : typeof x === "bigint" ? Number(x)
  : typeof x === "number" && !Number.isFinite(x) ? String(x)
  : x && typeof x === "object" ? Object.fromEntries(Object.entries(x).map(([k, v]) => [k, plain(v)])) : x;
const net = await load();
const out = [];
for (const call of JSON.parse(fs.readFileSync("calls.json"))) {
  Object.assign(net.settings, call.settings);
  try { out.push(net.step(...call.args)); } catch (error) { out.push({ error: `${error.name}: ${error.message}` }); }
  out[out.length - 1] = plain(out[out.length - 1]);
}
console.log(JSON.stringify({ out, state: plain(net.state()) }));
"""


def run_in_node(module: Path, calls: list[list[object]], settings: dict[str, float] | None = None) -> dict[str, object]:
    """Call a step exported as WebAssembly, and return what each call gave ("out") and what the step holds ("state")."""
    listed = [[x.numpy().tolist() if isinstance(x, ad.Tensor) else x for x in args] for args in calls]
    (module.parent / "calls.json").write_text(json.dumps([{"args": x, "settings": settings or {}} for x in listed]))
    (module.parent / "calls.mjs").write_text(SCRIPT.replace("MODULE", module.name))
    assert NODE is not None
    command = [NODE, "calls.mjs"]
    answer = subprocess.run(command, cwd=module.parent, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == 0, answer.stderr
    result: dict[str, object] = json.loads(answer.stdout)
    return result


def as_array(x: object) -> np.ndarray:
    """What Node gave for a tensor, as an array of float64; of a complex one, real and imaginary parts."""
    if not isinstance(x, dict):
        return np.array(float(x))  # type: ignore[arg-type]
    numbers, shape = np.array([float(n) for n in x["data"]]), x["shape"]
    return numbers.reshape(shape if numbers.size == math.prod(shape) else (*shape, 2))
