"""Random programs of views, in-place writes and gradients, run on PyTorch and on Adjoint, compared, and shrunk.

A program is a tuple of lines of Python over tensors v0, v1, …, in which `t` is the library. `generate` writes them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.fuzz.shrink import VARIABLE, replacement_for, shrink, variables_made_by

import adjoint

torch = pytest.importorskip("torch")
Tensors = (torch.Tensor, adjoint.Tensor)
ERRORS = (IndexError, TypeError, ValueError, RuntimeError, AttributeError, NameError)
OVERWRITTEN = "modified by an inplace operation"
# PyTorch refuses these, and Adjoint gives what they mean: values saved before detach_(), and the outputs of split or
# unbind after a write elsewhere, a second pass where nothing had to be saved, a few derivatives, a
# gradient of zero that is to be added to, and views of results that lie in memory in another order.
BETTER = (
    "has been detached in-place", "its base or another view of its base has been modified inplace",
    "backward through the graph a second time", "derivative for", "ZeroTensors are immutable",
    "view size is not compatible",
)  # fmt: skip
# Adjoint refuses to write even a part of memory that repeats elements where the part itself repeats none. What a node
# kept is freed also where it is but a number.
STRICTER = ("backward through the graph a second time", "more than one element of the written-to tensor")
# Where a line is wrong in two ways, either may be complained of.
FIRST = ("a leaf Variable that requires grad", "being modified inplace")


class Line(NamedTuple):
    """One statement; `apart`: as PyTorch is to run it, where it would read memory that it is just writing."""

    text: str
    apart: str | None = None


Program = tuple[Line, ...]


class Facts(NamedTuple):
    """What can be seen of one variable when the program is over."""

    value: Any
    requires_grad: bool
    is_leaf: bool
    version: int
    base: str | None
    grad: Any


class Run:
    """A program on its way in one library: its variables, what its hooks saw, and which lines raised."""

    def __init__(self, library: Any) -> None:
        self.seen: list[Any] = []
        self.errors: list[Exception | None] = []
        self.names: dict[str, Any] = {
            "t": library,
            "F": library.nn.functional,
            "leaf": lambda shape, seed: library.tensor(numbers(shape, seed), requires_grad=True),
            "constant": lambda shape, seed: library.tensor(numbers(shape, seed)),
            "weights": lambda x: library.tensor(np.cos(np.arange(float(x.numel()))).reshape(tuple(x.shape))),
            "see": self._see,
            "half": lambda g: None if g is None else g * 0.5,
            "more": lambda g: None if g is None else g + 1.0,
        }
        self.is_torch = library is torch

    def _see(self, g: Any) -> None:
        if g is not None:  # PyTorch also tells of outputs of split that nobody used
            self.seen.append(array_of(g))

    def do(self, line: Line) -> Exception | None:
        """Run one line; the exception if it raises."""
        text = line.apart if self.is_torch and line.apart else line.text
        error = None
        if self.is_torch:  # which takes a view whose history it has yet to derive anew for a leaf, or crashes
            for v in self.variables().values():
                leaf_or_not(v)
        try:
            exec(compiled(text), self.names)
        except ERRORS as raised:
            error = raised.with_traceback(None)
        self.errors.append(error)
        return error

    def variables(self) -> dict[str, Any]:
        """The tensors by name."""
        return {name: v for name, v in self.names.items() if name[0] == "v" and isinstance(v, Tensors)}

    def facts(self) -> dict[str, Facts | None]:
        """What the program leaves behind."""
        named = {id(v): name for name, v in reversed(self.variables().items())}
        return {name: facts_of(v, named) for name, v in self.variables().items()}


def facts_of(v: Any, named: dict[int, str]) -> Facts | None:
    """None for a view that may no longer be used, because its base was written."""
    is_leaf = leaf_or_not(v)
    if is_leaf is None:
        return None
    base = None if v._base is None else named.get(id(v._base), "unnamed")
    grad = array_of(v.grad) if (is_leaf or v.retains_grad) and v.grad is not None else None
    return Facts(array_of(v), v.requires_grad, is_leaf, v._version, base, grad)


def leaf_or_not(v: Any) -> bool | None:
    """None for a view that may no longer be used, because its base was written."""
    try:
        return bool(v.is_leaf)
    except RuntimeError:
        return None


@lru_cache(10_000)
def compiled(text: str) -> CodeType:
    return compile(text, "<program>", "exec")


def numbers(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).uniform(-2, 2, shape)


def array_of(x: Any) -> Any:
    return np.array(x.detach().numpy(force=True) if isinstance(x, torch.Tensor) else x.detach().numpy())


def run(library: Any, program: Program) -> Run:
    """Run all lines; those after a failed backward pass are left out, for PyTorch's may have done half of its work."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = Run(library)
        for line in program:
            if result.do(line) is not None and is_pass(line):
                break
    return result


def is_pass(line: Line) -> bool:
    """True for a line that runs backward."""
    return "backward(" in line.text or "autograd.grad(" in line.text


def difference(program: Program, theirs: Run | None = None) -> str | None:
    """What Adjoint does otherwise than PyTorch, in words; None if nothing.

    Where PyTorch complains that a saved value was overwritten, Adjoint may have kept a copy: then PyTorch is asked
    again, told to keep copies as well.
    """
    ours = run(adjoint, program)
    if theirs is None:
        theirs = run(torch, program)
    place = len(theirs.errors) - 1
    last = theirs.errors[place]
    if last is not None and OVERWRITTEN in str(last) and place < len(ours.errors) and ours.errors[place] is None:
        with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.detach().clone(), lambda kept: kept):
            theirs = run(torch, program)
    end, complaint = _compare_errors(program, ours, theirs)
    return complaint if end else _compare_results(program, ours, theirs)


def _compare_errors(program: Program, ours: Run, theirs: Run) -> tuple[bool, str | None]:
    """Whether no more is to be compared, and why."""
    for line, got, want in zip(program, ours.errors, theirs.errors, strict=False):
        if got is None and want is not None and any(text in str(want) for text in BETTER):
            return True, None
        if want is None and any(text in str(got) for text in STRICTER):
            return True, None
        if (got is None) != (want is None):
            return True, f"{line.text}: torch {_said(want)}, adjoint {_said(got)}"
        if want is not None and not isinstance(got, _kind(want)) and not any(text in str(want) for text in FIRST):
            return True, f"{line.text}: torch {_said(want)}, adjoint {_said(got)}"
    return False, None


def _kind(error: Exception) -> Any:
    return next(kind for kind in ERRORS if isinstance(error, kind))


def _said(error: Exception | None) -> str:
    return "goes on" if error is None else f"raises {type(error).__name__}: {str(error)[:300]}"


def _compare_results(program: Program, ours: Run, theirs: Run) -> str | None:
    failed_pass = ours.errors[-1] is not None
    got_facts, want_facts = ours.facts(), theirs.facts()
    for name, want in want_facts.items():
        got = got_facts.get(name)
        if want is None:  # a view that PyTorch lets nobody use; in Adjoint its gradient cannot be taken
            continue
        if got is None:
            return f"{name} is missing"
        if want.requires_grad and want.is_leaf and want.base and not got.requires_grad:
            # PyTorch's view of what requires grad does so too, however it was made, yet has no history
            want = want._replace(requires_grad=False)
        for field, a, b in zip(Facts._fields, got, want, strict=True):
            if (failed_pass and field == "grad") or same(a, b) or excused(program, want.base or name, field, a, b):
                continue
            return f"{name}.{field}: torch {b!r}, adjoint {a!r}"
    if not failed_pass and not same(sorted(ours.seen, key=_size), sorted(theirs.seen, key=_size)):
        return f"hooks saw {theirs.seen} in torch, {ours.seen} in adjoint"
    return None


def _own_memory(program: Program, name: str) -> bool:
    """True for a variable that the program made from numbers."""
    maker = next((line.text for line in program if name in variables_made_by(line.text)), "")
    return " = leaf(" in maker or " = constant(" in maker


def _size(g: Any) -> Any:
    """A key for gradients that hooks saw: in which order the hooks of different tensors run is left open."""
    return g.shape, round(float(np.abs(g).sum()), 6), round(float((g * np.arange(g.size).reshape(g.shape)).sum()), 6)


def excused(program: Program, name: str, field: str, got: Any, want: Any) -> bool:
    """True for a difference that is PyTorch's fault, or that no user can see."""
    if field == "base":  # temporaries inside of functions, and results that lie in memory in another order
        return got is None or "unnamed" in {got, want}
    if field == "version":  # PyTorch writes results in place on the way to some
        return not _own_memory(program, name)
    return False


def same(got: Any, want: Any) -> bool:
    """Equal; arrays up to rounding."""
    if isinstance(want, list):
        return len(got) == len(want) and all(same(a, b) for a, b in zip(got, want, strict=True))
    if isinstance(want, np.ndarray) and isinstance(got, np.ndarray):
        size = np.abs(want[np.isfinite(want)]).max(initial=1.0)
        return got.shape == want.shape and np.allclose(got, want, rtol=1e-8, atol=1e-9 * size, equal_nan=True)
    return type(got) is type(want) and got == want


def shrunk(program: Program) -> Program:
    """Return a shorter program that still differs: lines left out, alone or with all that need them."""
    return shrink(program, shorter_programs, lambda shorter: difference(shorter) is not None)


def shorter_programs(program: Program) -> Iterator[Program]:
    for i in reversed(range(len(program))):
        for shorter in (_without(program, i), program[:i] + program[i + 1 :], _bypassed(program, i)):
            if 0 < len(shorter) < len(program) and _defined(shorter):
                yield shorter
    last = program[-1].text
    roots = re.findall(r"weights\((v\d+)\)", last)
    if len(program) > 1 and len(roots) > 1:
        yield from ((*program[:-1], backward_from(root)) for root in roots)


def backward_from(*roots: str) -> Line:
    """A backward pass from these variables, each element with a weight of its own."""
    seeds = ", ".join(f"weights({root})" for root in roots)
    return Line(f"t.autograd.backward([{', '.join(roots)}], [{seeds}])")


def _defined(program: Program) -> bool:
    known: set[str] = set()
    for line in program:
        made = variables_made_by(line.text)
        if not set(VARIABLE.findall(line.text)) <= known | made:
            return False
        known |= made
        if line.text.startswith("del "):
            known -= set(VARIABLE.findall(line.text))
    return True


def _without(program: Program, i: int) -> Program:
    """The program without line i and all lines that need what it makes."""
    gone, kept = variables_made_by(program[i].text), list(program[:i])
    for line in program[i + 1 :]:
        if gone.isdisjoint(VARIABLE.findall(line.text)):
            kept.append(line)
        else:
            gone |= variables_made_by(line.text)
    return tuple(kept)


def _bypassed(program: Program, i: int) -> Program:
    """The program without line i, the variable that it makes replaced by one that it reads."""
    replace = replacement_for(program[i].text)
    if replace is None:
        return program
    return (*program[:i], *(Line(*(text and replace(text) for text in line)) for line in program[i + 1 :]))


def printed(program: Program) -> str:
    """The program as text."""
    return "\n".join(line.text + (f"  # in torch: {line.apart}" if line.apart else "") for line in program)
