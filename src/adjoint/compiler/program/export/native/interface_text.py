"""The texts beside a library: its header for C, and its loader for NumPy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from pprint import pformat

from adjoint.compiler.program.export.exported_step import ExportedStep, PlacedArray, ValueCheck
from adjoint.core.dtype.dtype import as_dtype
from adjoint.core.runtime import pytree

# Of dtypes by their names: the type in C, and NumPy's; where there is none, that of their bits.
C_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "bool": "uint8_t",
    "complex64": "float",
    "complex128": "double",
}
NUMPY_TYPES = {"bfloat16": "uint16"}


def write_header(step: ExportedStep, name: str, path: Path) -> str:
    """The header: the memory, and functions to load it, to call the step, to save it."""
    arguments = [each for each in step.arguments if each is not None]
    results = [each for each in step.results if isinstance(each, PlacedArray)]
    given = [f"const {_c_type(each)} *{_identify(each.name)}" for each in arguments]
    given += [f"{_c_type(each)} *result_{i}" for i, each in enumerate(results)]
    body = [_copy(f"{name}_memory + {each.offset}", _identify(each.name), each) for each in arguments]
    body += [f"    int32_t failed = {name}_run();", "    if (failed) return failed;"]
    body += [_copy(f"result_{i}", f"{name}_memory + {each.offset}", each) for i, each in enumerate(results)]
    checks = [each.complaint for each in step.steps if isinstance(each, ValueCheck)]
    states = [f'    {{"{s.name}", "{as_dtype(s.dtype).name}", {s.offset}, {_bytes(s)}}},' for s in step.states]
    listed = [*_describe("argument", arguments), *_describe("result", results)]
    lines = [
        f"/* {path.name}, a step exported by adjoint: {name}_load the memory, then call {name}_step.",
        *(f"   {line}" for line in listed),
        "   A call returns 0, or the number of a check that failed, before anything was written:",
        *(f"   {i}: {text}" for i, text in enumerate(checks, 1)),
        "   All lies in one memory: one call at a time. */",
        f"#ifndef {name}_h",
        f"#define {name}_h",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#include <stdio.h>",
        "#include <string.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        f"extern uint8_t {name}_memory[{step.memory.size}];",
        f"int32_t {name}_run(void);",
        "",
        f"/* The first {step.memory.held_bytes} bytes are weights, moments, settings: those of {path.stem}.bin. */",
        *_file_function(name, "load", "rb", "fread", step.memory.held_bytes),
        *_file_function(name, "save", "wb", "fwrite", step.memory.held_bytes),
        "",
        f"static inline int32_t {name}_step({', '.join(given) or 'void'}) {{",
        *body,
        "    return 0;",
        "}",
        "",
        "/* Python's numbers, as they are from now on. */",
        *(f"#define {name}_{_identify(s.name)} (*({_c_type(s)} *)({name}_memory + {s.offset}))" for s in step.settings),
        "",
        "/* Weights, moments, buffers: where they begin in the memory, and their bytes. */",
        f"static const struct {{ const char *name, *dtype; size_t offset, bytes; }} {name}_states[] = {{",
        *(states or ['    {"", "", 0, 0},']),
        "};",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def write_loader(step: ExportedStep, name: str, path: Path) -> str:
    """The module that loads the shared object, and calls it with arrays."""
    facts = {
        "SIZE": step.memory.size,
        "ARGUMENTS": [None if each is None else _place(each) for each in step.arguments],
        "RESULTS": _place_results(step.structure, iter(step.results)),
        "STATES": {each.name: _place(each) for each in (*step.states, *step.settings)},
        "CHECKS": [each.complaint for each in step.steps if isinstance(each, ValueCheck)],
    }
    tables = "\n".join(f"{key} = {pformat(value, width=110, sort_dicts=False)}" for key, value in facts.items())
    return LOADER.replace("TABLES", tables).replace("STEM", path.stem).replace("NAME", name)


LOADER = '''"""STEM.so, a step exported by adjoint: `step(…)` takes arrays, `state()` gives weights and settings."""
import ctypes
import pathlib

import numpy as np

TABLES

folder = pathlib.Path(__file__).resolve().parent
library, image = ctypes.CDLL(str(folder / "STEM.so")), np.fromfile(folder / "STEM.bin", np.uint8)
memory = np.ctypeslib.as_array((ctypes.c_uint8 * SIZE).in_dll(library, "NAME_memory"))
memory[: image.size] = image


def array(offset, dtype, shape):
    return np.ndarray(shape, dtype, memory, offset)


def results(tree):
    if isinstance(tree, list):
        return [results(part) for part in tree]
    if isinstance(tree, dict):
        return {key: results(part) for key, part in tree.items()}
    return array(*tree[1:]).copy() if isinstance(tree, tuple) and tree[0] == "tensor" else tree


def step(*args):
    for x, place in zip(args, ARGUMENTS, strict=True):
        if place is not None:
            array(*place)[...] = x
    failed = library.NAME_run()
    if failed:
        raise IndexError(CHECKS[failed - 1])
    return results(RESULTS)


def state():
    return {name: array(*place) for name, place in STATES.items()}
'''


def _file_function(name: str, verb: str, mode: str, call: str, count: int) -> list[str]:
    return [
        f"static inline int {name}_{verb}(const char *path) {{ /* returns 0, or -1 where the file cannot be used */",
        f'    FILE *file = fopen(path, "{mode}");',
        "    if (!file) return -1;",
        f"    size_t done = {call}({name}_memory, 1, {count}, file);",
        f"    return fclose(file) == 0 && done == {count} ? 0 : -1;",
        "}",
    ]


def _copy(target: str, source: str, each: PlacedArray) -> str:
    return f"    memcpy({target}, {source}, {_bytes(each)});"


def _bytes(each: PlacedArray) -> int:
    size = each.dtype.itemsize
    for n in each.shape:
        size *= n
    return int(size)


def _c_type(each: PlacedArray) -> str:
    name = as_dtype(each.dtype).name
    return C_TYPES.get(name, f"{name}_t")


def _describe(kind: str, arrays: Iterable[PlacedArray]) -> Iterator[str]:
    """Yield a line for each array: its dtype and shape."""
    for i, each in enumerate(arrays):
        name = _identify(each.name) if kind == "argument" else f"{kind}_{i}"
        yield f"{name}: {as_dtype(each.dtype).name}{list(each.shape)}"


def _identify(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _place(each: PlacedArray) -> tuple[int, str, tuple[int, ...]]:
    name = as_dtype(each.dtype).name
    return each.offset, NUMPY_TYPES.get(name, name), each.shape


def _place_results(structure: pytree.Structure, leaves: Iterator[object]) -> object:
    """Tuples are lists, and a tensor is its place."""
    if structure.kind is None:
        leaf = next(leaves)
        return ("tensor", *_place(leaf)) if isinstance(leaf, PlacedArray) else leaf
    parts = [_place_results(part, leaves) for part in structure.parts]
    return dict(zip(structure.keys, parts, strict=True)) if issubclass(structure.kind, dict) else parts
