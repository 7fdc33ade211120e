"""Random training steps, run eagerly, compiled without native code and compiled with it; compared, and shrunk.

A program is text that runs by itself: lines that make state, a step, and calls of the step on new data. Compiled
without native code, `interpreter.py` computes every equation, and everything around that is as it is otherwise: so a
difference tells in which half of the compiler it arose.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from tests.support.fuzz.shrink import replacement_for, shrink
from tests.support.steps import facts

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import nn, optim
from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.interpreter import evaluate_equation
from adjoint.compiler.passes import fusion, materialize
from adjoint.compiler.passes.materialize import is_generated
from adjoint.compiler.program import entry_codegen as run_text

CALLS = 3
IMPORTS = """import numpy as np
import adjoint as ad
import adjoint as t
import adjoint.nn.functional as F
from adjoint import nn, optim
"""
ERRORS = (IndexError, TypeError, ValueError, RuntimeError)
ROUGH = {"float16": 1e-2, "float32": 2e-4, "float64": 1e-9}  # of the largest number around, or of 1


class Program(NamedTuple):
    """`setup` runs once; before each call of `step` the `data` lines, in which `call` counts; a step ends in `result`.

    `given`: the arguments as a call spells them, `taken`: as the step's signature does.
    """

    setup: tuple[str, ...]
    data: tuple[str, ...]
    given: str
    taken: str
    body: tuple[str, ...]
    result: str

    def definition(self) -> str:
        """The step as text."""
        return "\n    ".join([f"def step({self.taken}):", *self.body, f"return {self.result}"])

    def text(self) -> str:
        """All lines of the program itself."""
        return "\n".join([*self.setup, *self.data, self.definition()])

    def __str__(self) -> str:
        calls = ["for call in range(3):", *self.data, f"print(compiled({self.given}), step({self.given}))"]
        parts = [IMPORTS, inspect.getsource(data), "ad.manual_seed(0)", *self.setup, self.definition()]
        return "\n".join([*parts, "compiled = ad.compile(step)", "\n    ".join(calls)])


def data(shape, seed, dtype="float32"):  # type: ignore[no-untyped-def]  # printed with the programs
    """Small multiples of a quarter, or small whole numbers, or truth values."""
    numbers = np.random.default_rng(seed).integers(-8, 9, shape)
    if dtype == "bool":
        return ad.from_numpy(np.asarray(numbers > 0))
    if "int" in dtype:
        return ad.from_numpy(np.asarray(abs(numbers) if dtype == "uint8" else numbers, dtype))
    return ad.from_numpy(np.asarray(numbers / 4, dtype))


def _scaled(factor: float, shape: Any, seed: int, dtype: str = "float32") -> Any:
    made = data(shape, seed, dtype)
    return made * factor if made.dtype.is_floating_point else made


def namespace() -> dict[str, Any]:
    """What programs call by name."""
    return {"ad": ad, "t": ad, "F": F, "nn": nn, "optim": optim, "np": np, "data": data}


class Run(NamedTuple):
    """What could be seen after each call, and the exception that ended the run."""

    seen: list[list[tuple[str, Any]]]
    error: Exception | None


@lru_cache(4)
def run_eagerly(program: Program) -> Run:
    """What the compiled step is held against."""
    return run(program)


def run(
    program: Program, compiled: bool = False, native: bool = True, dtype: str = "float32", factor: float = 1.0
) -> Run:
    """The program, if asked with another type in the place of float32, or with its float data `factor` times."""
    names, seen = namespace(), []
    if factor != 1:
        names["data"] = partial(_scaled, factor)
    with warnings.catch_warnings(), np.errstate(all="ignore"), _native_code(native):
        warnings.simplefilter("ignore")
        try:
            ad.manual_seed(0)
            for line in (*program.setup, program.definition()):
                _do(line, names, dtype)
            if compiled:
                names["step"] = ad.compile(names["step"])
            for call in range(CALLS):
                names["call"] = call
                for line in program.data:
                    _do(line, names, dtype)
                _do(f"returned = step({program.given})", names, dtype)
                seen.append(list(_seen(names)))
        except Exception as error:  # noqa: BLE001  whichever it is, it is compared
            return Run(seen, error)
    return Run(seen, None)


def _do(text: str, names: dict[str, Any], dtype: str) -> None:
    exec(compile(text.replace("float32", dtype), "<program>", "exec"), names)


@contextlib.contextmanager
def _native_code(allowed: bool) -> Iterator[None]:
    """Without it, `interpreter.py` computes every equation; but a kernel copies what it cannot: fills and ranges."""
    with contextlib.ExitStack() as stack:
        if not allowed:
            for module in (materialize, fusion):
                stack.enter_context(patch.object(module, "is_kernel_op", _copies_what_is_made))
            stack.enter_context(patch.object(fusion, "kernel_kind_of", lambda *_: None))
            stack.enter_context(patch.object(run_text, "call_with_note", _evaluated))
        yield


def _evaluated(value: Value) -> Any:
    def call(*operands: Any) -> Any:
        return evaluate_equation(value, dict(zip(value.inputs, operands, strict=True)))

    return call


def _copies_what_is_made(value: Value) -> bool:
    source = value.inputs[0] if value.op.name == "copy" else None
    while source is not None and source.op is not None and source.op.index is not None:
        source = source.inputs[0]
    return source is not None and is_generated(source)


def _seen(names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every tensor, module and optimizer that the program names, what the step returned, and the random stream."""
    returned = names["returned"]
    holders = {k: v for k, v in names.items() if re.fullmatch(r"[as]\d+|model|optimizer", k)}
    yield from facts(returned, {}, *(v for v in holders.values() if not isinstance(v, (ad.Tensor, dict, list, tuple))))
    for name, value in holders.items():
        if isinstance(value, ad.Tensor):
            yield from facts((), {name: value, f"{name}.grad": value.grad})
        elif isinstance(value, (dict, list, tuple)):
            yield from facts((), {name: value})


def difference(program: Program, natives: tuple[bool, ...] = (False, True)) -> str | None:
    """What the compiled step does otherwise than the eager one, in words; None if nothing."""
    eager = run_eagerly(program)
    for native in natives:
        ours = run(program, compiled=True, native=native)
        if eager.error is not None and not eager.seen:
            found = _errors(eager, ours)
        else:
            found = _compared(eager, ours, program)
        if found is not None:
            return f"{'native' if native else 'evaluated'}: {found}"
    return None


def _errors(eager: Run, ours: Run) -> str | None:
    if ours.error is None:
        return f"eager raises {eager.error!r}, compiled goes on"
    kind = next((k for k in ERRORS if isinstance(eager.error, k)), Exception)
    return None if isinstance(ours.error, kind) else f"eager raises {eager.error!r}, compiled {ours.error!r}"


def _compared(eager: Run, ours: Run, program: Program) -> str | None:
    if ours.error is not None and eager.error is None:
        return f"compiled raises {type(ours.error).__name__}: {ours.error}"
    mixed = bool(re.search("float32|int|bool", program.text()))
    for call, (got, want) in enumerate(zip(ours.seen, eager.seen, strict=False)):
        if [name for name, _ in got] != [name for name, _ in want]:
            return f"call {call}: {sorted({n for n, _ in got} ^ {n for n, _ in want})} are there in one only"
        for i, ((name, x), (_, y)) in enumerate(zip(got, want, strict=True)):
            complaint = _differs(x, y, mixed)
            if complaint and not _is_rounding(program, call, i, x, y):
                return f"call {call}: {name}: {complaint}"
    return None


def _differs(x: Any, y: Any, mixed: bool) -> str | None:
    """In words; `mixed`: float32 may have had a part in a result of float64."""
    if not isinstance(y, np.ndarray):
        return None if type(x) is type(y) and (x == y or x != x) else f"eager {y!r}, compiled {x!r}"
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        return f"eager {y.dtype}{list(y.shape)}, compiled {x.dtype}{list(x.shape)}"
    if y.dtype.kind != "f":
        same = bool((x == y).all())
    else:
        rough = max(ROUGH[y.dtype.name], ROUGH["float32"] if mixed else 0)
        allowed = rough * max(1.0, float(np.abs(y[np.isfinite(y)]).max(initial=0)))
        same = np.allclose(x, y, rtol=0, atol=allowed, equal_nan=True)
    return None if same else f"eager {y!r}, compiled {x!r}"


def _is_rounding(program: Program, call: int, i: int, x: Any, y: Any) -> bool:
    """True if float64 instead of float32, or the last bits of the data, change the eager result about as much, and
    compiling in float64 changes nothing.
    """
    if "float32" not in program.text() or not isinstance(y, np.ndarray):
        return False
    exact, ours = run(program, dtype="float64"), run(program, compiled=True, dtype="float64")
    if exact.error or ours.error or _differs(ours.seen[call][i][1], exact.seen[call][i][1], False):
        return False
    precise = exact.seen[call][i][1]
    if y.dtype.kind != "f":
        return not bool((precise == y).all())
    nudged = [run(program, factor=1 + k * 2**-23).seen[call][i][1] for k in (-2, -1, 1, 2)]
    usual = max(np.abs(other - y).max() for other in (precise, *nudged))
    return bool(np.abs(x - y).max() < 30 * usual)


def shrunk(program: Program) -> Program:
    """A shorter program that still differs in the same way: lines and results left out while any can be."""
    complaint = difference(program)
    assert complaint is not None
    native = (complaint.startswith("native"),)

    def fails_alike(shorter: Program) -> bool:
        found = difference(shorter, native)
        return found is not None and "NameError" not in found and _kind(found) == _kind(complaint)

    return shrink(program, _shorter, fails_alike)


def _kind(complaint: str) -> str:
    """Of which sort a difference is."""
    return re.sub(r"\d+", "", complaint)[:60] if "raises" in complaint else "differs"


def _shorter(program: Program) -> Iterator[Program]:
    for field in ("body", "setup", "data"):
        lines = getattr(program, field)
        for i in reversed(range(len(lines))):
            fewer = program._replace(**{field: lines[:i] + lines[i + 1 :]})
            yield fewer
            replace = replacement_for(lines[i])
            if replace is not None:
                yield fewer._replace(body=tuple(map(replace, fewer.body)), result=replace(fewer.result))
    results = re.findall(r"\bv\d+\b", program.result)
    if len(results) > 1 or program.result != f"[{', '.join(results)}]":
        yield from (program._replace(result=f"[{name}]") for name in dict.fromkeys(results))
    if results:
        yield program._replace(result="[]")
