"""Run a training loop eagerly and compiled, and compare what can be seen after each call."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from tests.support.fuzz.loops.generate import CALLS, Loop
from tests.support.fuzz.shrink import shrink

import adjoint as ad
from adjoint.compiler.ir.graph import TraceError

_numbers = itertools.count()
TOLERANCE = 2e-4  # relative: a loop of eight updates carries roundings on
DIVERGENCE = 1e6  # beyond which a loop diverges, and each call multiplies the roundings of the one before
DOCUMENTED_REFUSAL = "while backward() is called outside"  # of hooks that change Python objects


class Run(NamedTuple):
    """What could be seen after each call; the error that refused the loop, if one did."""

    seen: list[Any]
    refused: str | None


def run_loop(loop: Loop, compiled: bool) -> Run:
    """Run the loop as a module of its own, its step compiled or plain."""
    module = types.ModuleType(f"fuzzed_loop_{next(_numbers)}")
    sys.modules[module.__name__] = module
    printed = io.StringIO()
    seen: list[Any] = []
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            names = module.__dict__
            exec(compile(str(loop), module.__name__, "exec"), names)
            step = ad.compile(names["step"]) if compiled else names["step"]
            batches = np.random.default_rng(0).standard_normal((CALLS, 8, 4), np.float32)
            for k in range(CALLS):
                names["k"] = k
                try:
                    names["between"]()
                except Exception as error:  # noqa: BLE001  what lies outside of the step may raise in both
                    seen.append(f"between: {type(error).__name__}")
                    break
                size = loop.sizes[k % len(loop.sizes)]
                x, y = ad.from_numpy(batches[k, :size].copy()), ad.arange(size) % 3
                try:
                    result = step(x, y)
                    if loop.backward_outside:
                        result = names["update"](result)
                except TraceError as error:
                    return Run(seen, f"{error}")
                except Exception as error:  # noqa: BLE001  what the step raises is what is compared
                    result = f"{type(error).__name__}: {str(error).split(': ')[-1][:40]}"  # without the op
                seen.append((describe(result), describe(watch(names)), numbers_of(printed.getvalue())))
    finally:
        del sys.modules[module.__name__]
    return Run(seen, None)


def watch(names: dict[str, Any]) -> list[Any]:
    """Return the state that a loop leaves: parameters, gradients, moments, what its fragments name, the log."""
    try:
        own = names["watch"]()
    except AttributeError as error:  # of what no call has made yet
        own = [str(error)]
    model, optimizer = names["model"], names["optimizer"]
    moments = [s[key] for s in optimizer.state.values() for key in sorted(s)]
    rates = [group["lr"] for group in optimizer.param_groups]
    return [own, list(model.parameters()), [p.grad for p in model.parameters()], moments, rates, names["log"]]


def describe(value: Any) -> Any:
    """Return a value as plain Python and arrays, copied."""
    if isinstance(value, ad.Tensor):
        return value.requires_grad, value.is_leaf, value.detach().numpy().copy()
    if isinstance(value, dict):
        return {str(key): describe(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [describe(each) for each in value]
    return value


def numbers_of(text: str) -> list[Any]:
    """Return printed text with its numbers as numbers."""
    return [float(part) if re.fullmatch(r"-?\d+\.\d+", part) else part for part in re.split(r"(-?\d+\.\d+)", text)]


def difference(compiled: Any, eager: Any, where: str = "") -> str | None:
    """Return where and how two descriptions differ first."""
    if isinstance(eager, np.ndarray) and isinstance(compiled, np.ndarray):
        if compiled.shape != eager.shape or compiled.dtype != eager.dtype:
            return f"{where}: {compiled.dtype}{compiled.shape}, eager {eager.dtype}{eager.shape}"
        scale = np.abs(eager[np.isfinite(eager)]).max(initial=0.1) if eager.dtype.kind == "f" else 1
        close = np.allclose(compiled, eager, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)
        return None if close else f"{where}: {compiled.tolist()}, eager {eager.tolist()}"
    if type(compiled) is not type(eager):
        return f"{where}: {compiled!r}, eager {eager!r}"
    if isinstance(eager, dict):
        if list(compiled) != list(eager):
            return f"{where}: keys {list(compiled)}, eager {list(eager)}"
        return next(filter(None, (difference(compiled[k], v, f"{where}.{k}") for k, v in eager.items())), None)
    if isinstance(eager, list | tuple):
        if len(compiled) != len(eager):
            return f"{where}: {len(compiled)} items, eager {len(eager)}"
        pairs = enumerate(zip(compiled, eager, strict=True))
        return next(filter(None, (difference(a, b, f"{where}[{i}]") for i, (a, b) in pairs)), None)
    if isinstance(eager, float):
        same = abs(compiled - eager) <= TOLERANCE * max(1.0, abs(eager)) or (compiled != compiled and eager != eager)
        return None if same or compiled == eager else f"{where}: {compiled}, eager {eager}"
    return None if compiled == eager else f"{where}: {compiled!r}, eager {eager!r}"


def compare(loop: Loop) -> tuple[str | None, str | None]:
    """Return how the compiled loop differs from the eager one, and why it was refused, if so."""
    eager, compiled = run_loop(loop, compiled=False), run_loop(loop, compiled=True)
    steady = next((k for k, seen in enumerate(eager.seen) if has_diverged(seen)), len(eager.seen))
    shared = min(steady, len(compiled.seen))
    refused = None if compiled.refused and DOCUMENTED_REFUSAL in compiled.refused else compiled.refused
    return difference(compiled.seen[:shared], eager.seen[:shared], "call"), refused


def has_diverged(seen: Any) -> bool:
    """Return whether some number has grown beyond what a loop that learns has, or is none."""
    if isinstance(seen, np.ndarray):
        return seen.dtype.kind == "f" and not bool((np.abs(seen) <= DIVERGENCE).all())
    if isinstance(seen, dict):
        return any(map(has_diverged, seen.values()))
    if isinstance(seen, list | tuple):
        return any(map(has_diverged, seen))
    return isinstance(seen, float) and not abs(seen) <= DIVERGENCE


def shrink_loop(loop: Loop, fails: Callable[[Loop], bool]) -> Loop:
    """Return a loop of as few fragments as fail alike."""

    def shorter(program: Loop) -> Iterable[Loop]:
        for i in range(len(program.fragments)):
            yield program._replace(fragments=program.fragments[:i] + program.fragments[i + 1 :])
        sgd = "optim.SGD(model.parameters(), lr=0.05)"
        plain = Loop("ReLU", sgd, "F.cross_entropy(out, y)", "begin", False, (4,), ())
        for field in ("model", "optimizer", "loss", "clearing", "backward_outside", "sizes"):
            if getattr(program, field) != getattr(plain, field):
                yield program._replace(**{field: getattr(plain, field)})

    return shrink(loop, shorter, fails)
