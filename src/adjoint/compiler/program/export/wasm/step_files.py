"""The files of a step as WebAssembly: `NAME.wasm`, its memory `NAME.bin`, and `NAME.mjs`, which loads and calls it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from adjoint.compiler.program.export.entry_function import module_texts
from adjoint.compiler.program.export.exported_step import ExportedStep, ExportError, PlacedArray, ValueCheck
from adjoint.compiler.program.export.wasm.linker import LinkedModule, link_module
from adjoint.core.dtype.dtype import as_dtype
from adjoint.core.runtime import pytree

# Of dtypes by their names: the typed array that has their numbers, or their bits where JavaScript has no such numbers.
ARRAY_TYPES = {
    **{f"{kind}{bits}": f"{kind.capitalize()}{bits}Array" for kind in ("float", "int") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"Uint{bits}Array" for bits in (8, 16, 32)},
    "int64": "BigInt64Array",
    "uint64": "BigUint64Array",
    "bool": "Uint8Array",
    "float16": "Uint16Array",
    "bfloat16": "Uint16Array",
    "complex64": "Float32Array",
    "complex128": "Float64Array",
}
MATHEMATICS = frozenset(
    f"{name}{suffix}"
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "exp", "expm1", "fmod"),
        *("log", "log10", "log1p", "log2", "pow", "sin", "sinh", "sqrt", "tan", "tanh"),
    )
    for suffix in ("", "f")
)  # functions of the C library that JavaScript has too


def write_wasm(step: ExportedStep, path: Path) -> list[Path]:
    """Write the three files beside each other, named after `path`; the first is the module.

    Raises: ExportError where the step needs a function of the C library that JavaScript does not have.
    """
    module = link_step(step)
    wasm, image, script = (path.with_suffix(suffix) for suffix in (".wasm", ".bin", ".mjs"))
    content = step.memory.held_content()
    about = describe_step(step, module) | {"wasm": wasm.name, "image": image.name, "imageBytes": len(content)}
    template = Path(__file__).with_name("step_module.mjs").read_text("utf-8")
    text = template.replace("NAME", path.stem).replace("ABOUT", json.dumps(about, indent=1))
    for file, data in ((wasm, module.content), (image, content), (script, text.encode())):
        file.write_bytes(data)
    return [wasm, image, script]


def link_step(step: ExportedStep) -> LinkedModule:
    """The step's module, which exports `memory` and `run`."""
    code = step.target.emit_linked_object(module_texts(step, "step", defines_memory=False))
    module = link_module(code, {"step_run": "run"}, "step_memory", step.memory.size)
    missing = sorted(set(module.imports) - MATHEMATICS)
    if missing:
        raise ExportError(
            f"the step {step.graph.name!r} cannot be exported to wasm32: JavaScript has no {', '.join(missing)}"
        )
    return module


def describe_step(step: ExportedStep, module: LinkedModule) -> dict[str, object]:
    """The facts that a caller needs: the places of arguments, settings, states and results in the memory."""
    return {
        "base": module.base,
        "arguments": [None if each is None else _describe_array(each) for each in step.arguments],
        "settings": [_describe_array(each) for each in step.settings],
        "states": [_describe_array(each) for each in step.states],
        "results": _describe_results(step.structure, iter(step.results)),
        "checks": [each.complaint for each in step.steps if isinstance(each, ValueCheck)],
    }


def _describe_array(each: PlacedArray) -> dict[str, object]:
    name = as_dtype(each.dtype).name
    parts = 2 if name.startswith("complex") else 1
    facts = {"name": each.name, "offset": each.offset, "dtype": name, "type": ARRAY_TYPES[name], "parts": parts}
    return facts | {"shape": each.shape}


def _describe_results(structure: pytree.Structure, leaves: Iterator[object]) -> dict[str, object]:
    """Tuples and lists are arrays, dictionaries objects, tensors typed arrays, and anything else is itself."""
    if structure.kind is None:
        leaf = next(leaves)
        return {"tensor": _describe_array(leaf)} if isinstance(leaf, PlacedArray) else {"value": leaf}
    parts = [_describe_results(part, leaves) for part in structure.parts]
    if issubclass(structure.kind, dict):
        return {"dict": [[str(key), part] for key, part in zip(structure.keys, parts, strict=True)]}
    return {"list": parts}
