"""The table of instructions: it has all of this Python's, and code with any other is refused."""

from __future__ import annotations

import dis
import opcode
import random
import sys
import types
import warnings
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler.trace.frames.decode import HANDLERS

# What a function does not have as it is decoded: prefixes, and what the interpreter puts there while it runs.
INTERNAL = {
    "CACHE", "ENTER_EXECUTOR", "EXIT_INIT_CHECK", "EXTENDED_ARG", "INTERPRETER_EXIT", "RESERVED", "TRACE_RECORD",
}  # fmt: skip
# What Python compiles outside of functions only, or for a debugger, or has in its list and never writes.
IN_NO_FUNCTION = {"ANNOTATIONS_PLACEHOLDER", "IMPORT_STAR", "PRINT_EXPR"}

# Each function multiplies its argument by `scale`, as it is now, by way of some instructions.
PROGRAMS = """
import contextlib

class Holder:
    def __init__(self):
        self.scale = 2.0
        self.items = [1.0, 2.0]
    def __call__(self, *args, **named):
        return named.get("by", 1.0)
    def __enter__(self):
        return self
    def __exit__(self, *error):
        return True
    async def __aenter__(self):
        return self
    async def __aexit__(self, *error):
        return False
    def __aiter__(self):
        return self
    async def __anext__(self):
        raise StopAsyncIteration
    def __await__(self):
        return self.scale
        yield

holder, scale = Holder(), 2.0

def names(x):
    global other
    other = scale
    del other
    import math
    from math import pi
    a, (b, *c) = scale, (pi, 1.0, math.e)
    del b
    return x * a

def attributes(x):
    holder.other = holder.scale
    del holder.other
    return x * scale

def supers(x):
    class Heir(Holder):
        def factor(self):
            call = super().__call__
            return super().__call__(by=scale) * call()
    return x * Heir().factor()

def items(x):
    table = {"a": scale, **{"b": 1.0}}
    table["c"] = table["a"]
    del table["c"]
    numbers = [scale, *holder.items]
    i, j = len(numbers) - 2, len(numbers)
    numbers[i:j] = numbers[0:i]
    del numbers[i:j]
    kinds = {1, 2, *(3, 4)}
    kinds |= {len(numbers)}
    pair = (*numbers, scale)
    texts = {"u": x, "v": scale}
    return x * (pair[-1] if 3 in kinds and not 9 in kinds else 0) + 0 * len([*texts])

def closures(x):
    count = 0
    def add(n, *, by=scale):
        nonlocal count
        count += n
        return by
    def forget():
        nonlocal count
        del count
    result = x * add(1)
    assert count is not None, count
    forget()
    return result

def loops(x):
    total, i, rest = 0.0, -1, [None, 1, None]
    while rest.pop() is None:
        pass
    while rest.pop() is not None:
        pass
    for a, b in [(scale, 1.0)]:
        total += a * b
    while i < 3:
        i = -~i
        if i == 1:
            continue
        if i > 2 or not i is None and i != 0:
            break
    squares = [y * y for y in (1.0, 2.0) if y]
    names = {y: y for y in squares}
    kinds = {y for y in squares}
    pairs = list(zip(squares, squares))
    total = +total if (rest is squares) is (not total) else 0.0
    return x * total + 0 * len(names) * len(kinds) * len(pairs)

def calls(x):
    arguments, named = (x,), {"by": scale}
    return x * holder(*arguments, **named) * holder(x, by=1.0) * max(1.0, *holder.items[:1])

def errors(x):
    factor = 0.0
    try:
        try:
            raise ValueError(scale)
        except ValueError as error:
            (factor,) = error.args
            raise KeyError from error
        finally:
            factor = factor + 0.0
    except KeyError:
        pass
    with holder:
        raise ValueError
    try:
        raise ExceptionGroup("several", [ValueError(1)])
    except* ValueError:
        pass
    return x * factor

def matches(x):
    class Point:
        __match_args__ = ("u",)
        def __init__(self):
            self.u, self.v = scale, 1.0
    match Point():
        case Point(a, v=b):
            pass
    match {"k": a, "rest": 1.0}:
        case {"k": c, **rest}:
            pass
    match [c, 1.0, 2.0]:
        case [d, *others]:
            pass
    return x * d

def generators(x):
    def inner():
        received = yield scale
        yield received
    def outer():
        yield from inner()
    result = x * next(outer())
    return result * sum(y for y in (1.0,))

def coroutines(x):
    async def agenerator():
        for y in (scale,):
            yield y
    async def work():
        factor = await holder / holder.scale
        async with holder as h:
            async for y in agenerator():
                factor = factor * y
            numbers = [z async for z in agenerator()]
        return factor
    run = work()
    try:
        run.send(None)
    except StopIteration as done:
        return x * done.value

def texts(x):
    text = f"{scale!r:>5}{scale}{scale:.1f}{'a'!s}" + "%s" % holder.scale
    return x * scale + 0 * len(text)

def maybe(x):
    if scale > 5.0:
        value = 1.0
    else:
        value = scale
    for unbound in ():
        pass
    try:
        unbound
    except NameError:
        pass
    return x * (value or 1.0) * (value and 1.0)

def classes(x):
    one = 1.0
    class Own:
        annotated: int
        factor = scale * one
        gone = 1
        del gone
        def which(self):
            return __class__
    return x * Own.factor + 0 * len(Own.__annotations__)
"""
LATER = {
    (3, 12): '''
def generic(x):
    def inner[T: int](y: T) -> T:
        return y
    type Alias[K] = dict[K, inner]
    class Own[T]:
        type Factor = scale
    return x * Own.Factor.__value__
''',
    (3, 14): '''
def annotations(x):
    class Own:
        factor: scale
    return x * Own.__annotations__["factor"]

def templates(x):
    text = t"{scale}{x!r:>5}"
    return x * scale + 0 * len(text.strings)
''',
}  # fmt: skip


def make_functions() -> dict[str, Any]:
    source = PROGRAMS + "".join(text for version, text in LATER.items() if sys.version_info >= version)
    namespace: dict[str, Any] = {"__name__": "programs_of_all_instructions"}
    exec(compile(source, "programs_of_all_instructions.py", "exec"), namespace)  # noqa: S102, RUF100
    return namespace


def instructions_in(code: CodeType) -> Iterator[str]:
    yield from (ins.opname for ins in dis.get_instructions(code))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from instructions_in(constant)


def programs_by_instruction() -> dict[str, str]:
    found: dict[str, str] = {}
    for name, function in make_functions().items():
        if isinstance(function, types.FunctionType):
            for instruction in instructions_in(function.__code__):
                found.setdefault(instruction, name)
    return found


PROGRAM_OF = programs_by_instruction()


def all_instructions() -> set[str]:
    specialized = {*getattr(opcode, "_specialized_opmap", {}), *getattr(opcode, "_specialized_instructions", ())}
    names = {name for name, code in dis.opmap.items() if code < 256 and name not in specialized}
    return {name for name in names if not name.startswith("INSTRUMENTED")} - INTERNAL


def test_all_instructions_of_this_python_are_known() -> None:
    assert all_instructions() <= HANDLERS.keys()


def test_each_instruction_of_this_python_stands_in_some_program() -> None:
    assert all_instructions() - IN_NO_FUNCTION <= PROGRAM_OF.keys()


@pytest.mark.parametrize("instruction", sorted(PROGRAM_OF.keys() & all_instructions()))
def test_an_instruction_that_is_not_in_the_table_is_refused(instruction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Python that has another name for it: the step runs eagerly, so that nothing it reads goes unnoticed."""
    monkeypatch.delitem(HANDLERS, instruction)
    monkeypatch.setattr("adjoint.compiler.trace.frames.decode._decoded_codes", {})
    programs = make_functions()
    compiled = ad.compile(programs[PROGRAM_OF[instruction]])
    version = ".".join(map(str, sys.version_info[:2]))
    refusal = f"Python {version} has an instruction, {instruction}, that this version of adjoint does not know, at "
    with pytest.warns(RuntimeWarning, match=refusal):
        assert compiled(ad.ones(1)).item() == 2.0
    programs["scale"] = programs["holder"].scale = 4.0
    assert compiled(ad.ones(1)).item() == 4.0  # without another warning, which would be an error


@pytest.mark.parametrize("name", sorted(set(PROGRAM_OF.values())))
def test_what_a_program_reads_is_seen(name: str) -> None:
    """With the whole table another value is not missed, whether the step is compiled or refused for another reason."""
    programs = make_functions()
    compiled = ad.compile(programs[name], fallback=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for value in (2.0, 4.0):
            programs["scale"] = programs["holder"].scale = value
            assert compiled(ad.ones(1)).item() == value


def test_a_refusal_that_the_step_catches_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(HANDLERS, "MAKE_FUNCTION")
    monkeypatch.setattr("adjoint.compiler.trace.frames.decode._decoded_codes", {})

    def helper() -> object:
        return lambda: scale

    scale = [2.0]

    def step(x: Any) -> Any:
        try:
            helper()
        except Exception:  # noqa: BLE001
            return x
        return x * scale[0]

    with pytest.warns(RuntimeWarning, match="instruction, MAKE_FUNCTION"):
        assert ad.compile(step)(ad.ones(1)).item() == 2.0


def test_what_was_drawn_before_the_refusal_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(HANDLERS, "MAKE_FUNCTION")
    monkeypatch.setattr("adjoint.compiler.trace.frames.decode._decoded_codes", {})

    def helper() -> object:
        return lambda: None

    def step(x: Any) -> Any:
        y = x * random.random()
        helper()
        return y * random.random()

    random.seed(3)
    wanted = step(ad.ones(1)).item()
    random.seed(3)
    with pytest.warns(RuntimeWarning, match="instruction, MAKE_FUNCTION"):
        assert ad.compile(step)(ad.ones(1)).item() == wanted
