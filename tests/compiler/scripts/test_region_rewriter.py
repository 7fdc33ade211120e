"""A program whose training regions became functions does what it did, wherever each region begins."""

from __future__ import annotations

import ast
import random
import textwrap
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from adjoint.compiler.scripts.region_finder import find_training_regions
from adjoint.compiler.scripts.region_rewriter import REGIONS, UNBOUND, rewrite_regions, with_parts

ABSENT = object()


class Region:
    """A region that begins at a given start in each call; at one behind all others its parts run, if it has some."""

    def __init__(self, start: int, has_parts: bool = False) -> None:
        self.start, self.has_parts = start, has_parts
        self.functions: list[Callable[..., Any]] = []
        self.marks: list[int] = []

    def add(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.functions.append(function)
        return function

    def begin(self) -> int:
        return min(self.start, len(self.functions) + self.has_parts)

    def mark(self, choice: int) -> None:
        self.marks.append(choice)

    def end(self) -> None:
        pass

    def run(self, start: int, *names: object) -> object:
        return self.functions[start](*names)


class Loss:
    """What has a `backward()` and a `step()` that leave a trace."""

    def __init__(self, trace: list[object]) -> None:
        self.trace = trace

    def backward(self, *values: object) -> None:
        self.trace.append(("backward", values))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass

    def step(self, *values: object) -> int:
        self.trace.append(("step", values))
        return len(self.trace)


def run(tree: ast.Module, names: dict[str, Any]) -> tuple[object, ...]:
    """What a program leaves: its trace, its globals of one letter, and the error that ended it."""
    trace: list[object] = []
    space: dict[str, Any] = {"m": Loss(trace), "show": lambda *values: trace.append(values), **names}
    error = None
    try:
        exec(compile(tree, "program.py", "exec"), space)
    except Exception as raised:  # noqa: BLE001 - whatever it is, it must be the same
        error = (type(raised), str(raised))
    shown = {name: value for name, value in space.items() if len(name) == 1 and name != "m" and not callable(value)}
    return trace, shown, error


def check(source: str) -> int:
    """Compare a program with its rewritten forms, and return how many there are."""
    regions = find_training_regions(ast.parse(source))
    longest = max((len(region.starts) + bool(region.parts) for region in regions), default=-1)
    for start in range(longest + 1):
        tree = ast.parse(source)
        found = find_training_regions(tree)
        expected = run(tree, {})  # fetches may have moved
        rewrite_regions(tree, found)
        ast.fix_missing_locations(tree)
        stand_ins = [Region(start, bool(region.parts)) for region in with_parts(found)]
        result = run(tree, {REGIONS: stand_ins, UNBOUND: ABSENT})
        assert result == expected, f"start {start} of\n{ast.unparse(tree)}"
    return longest + 1


PROGRAMS = {
    "several steps": """
        def f(n, seen):
            for i in range(n):
                a = i * 2
                m.backward(a)
                seen.append(a)
                b = a + len(seen) * 0
                m.step(b)
                c = b + i
                m.backward(c)
                d = c * 2
                m.backward(d)
                m.step(c, d)
                e = d + a
                m.backward(e)
                if e > 20:
                    continue
                m.step(e)
                show(a, e)
            return seen, c
        r = f(5, [])
    """,
    "several steps of the module": """
        s = []
        for i in range(4):
            a = i * 2
            m.backward(a)
            m.step()
            with show(a) or m:
                b = a + 1
                s.append(b)
                m.backward(b)
            m.step(b)
            show(b)
    """,
    "names out of a loop": """
        def f(n):
            t = 0
            for i in range(n):
                a = i * 2
                b = a + t
                m.backward(b)
                t += b
                m.step(t)
                show(i, t)
            return t, a
        r = f(4)
    """,
    "names that may be unbound": """
        def f(n):
            for i in range(n):
                if i == 2:
                    v = i
                m.backward(i)
                m.step()
                if i > 2:
                    show(v)
            return i
        r = f(5)
    """,
    "an unbound name is read": """
        def f(n):
            for i in range(n):
                if i == 9:
                    v = i
                m.backward(i)
                m.step()
            return v
        r = f(5)
    """,
    "names of the module": """
        t = 0
        k = 0
        def shown():
            show(t, k)
        while True:
            a = k + 1
            t = t + a
            shown()
            m.backward(t)
            m.step(a)
            k += 1
            if k > 4:
                break
    """,
    "globals in a function": """
        c = 0
        def f(n):
            global c
            for i in range(n):
                c += i
                d = c * 2
                m.backward(d)
                m.step()
        f(4)
    """,
    "free names": """
        def f(n):
            w = n + 1
            def g(i):
                a = w * i
                m.backward(a)
                m.step(a)
                return a
            return [g(i) for i in range(n)]
        r = f(3)
    """,
    "methods": """
        class A:
            def __init__(self):
                self.t = 0
            def f(self, x):
                self.t += x
                y = self.t * 2
                m.backward(y)
                m.step(y)
                return y
        o = A()
        r = [o.f(1), o.f(2), o.t]
        o = 0
        A = 0
    """,
    "continue before and a return behind": """
        def f(xs):
            for x in xs:
                if x % 2:
                    continue
                y = x + 1
                m.backward(y)
                m.step(y)
                if y > 6:
                    return y
        r = f(range(20))
    """,
    "exits within": """
        def f(xs, n):
            for x in xs:
                y = x + 1
                if y == 3:
                    continue
                z = y * n
                for k in range(3):
                    if k == 1:
                        break
                if y == 8:
                    break
                try:
                    if y == n:
                        return y, z
                finally:
                    show(y)
                m.backward(y)
                m.step(z)
            else:
                return None
            return k, y, z
        r = [f(range(n), n) for n in range(12)]
    """,
    "exits of a module's loop": """
        for i in range(9):
            a = i * 3
            if a == 6:
                continue
            b = a + 1
            if a > 15:
                break
            m.backward(b)
            m.step(a)
    """,
    "two regions in a block": """
        def f(n):
            for i in range(n):
                a = i + 1
                m.backward(a)
                m.step(a)
                if a > 7:
                    break
                b = a * 2
                m.backward(b)
                m.step(b)
            return a, b
        r = f(3)
    """,
    "a region in a branch": """
        def f(n):
            for i in range(n):
                if i % 2:
                    a = i + 1
                    m.backward(a)
                    m.step(a)
                else:
                    show(i)
            return a
        r = f(4)
    """,
    "an error in the region": """
        def f(n):
            for i in range(n):
                a = 6 // (3 - i)
                m.backward(a)
                m.step(a)
            return a
        r = f(5)
    """,
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_rewritten_program_does_the_same(name: str) -> None:
    assert check(textwrap.dedent(PROGRAMS[name])) > 1


def test_functions_stand_behind_docstring_and_future_imports() -> None:
    source = '"""Title."""\nfrom __future__ import annotations\nx = 1\nm.backward(x)\nm.step()'
    tree = ast.parse(source)
    rewrite_regions(tree, find_training_regions(tree))
    assert [type(statement) for statement in tree.body[:2]] == [ast.Expr, ast.ImportFrom]
    assert isinstance(tree.body[2], ast.FunctionDef)


def test_lines_are_those_of_the_program() -> None:
    source = "def f(x):\n    a = x\n    m.backward(1 / a)\n    m.step()\n\n\nf(0)\n"
    tree = ast.parse(source)
    rewrite_regions(tree, find_training_regions(tree))
    region = Region(0)
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile(tree, "program.py", "exec"), {"m": Loss([]), REGIONS: [region], UNBOUND: ABSENT})
    entries = traceback.extract_tb(caught.tb)
    assert [entry.lineno for entry in entries if entry.filename == "program.py"] == [7, 2, 3]


class Generator:
    """Programs of chance: statements over a few names, with `backward()` and `step()` among them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.is_module = random.Random(-seed - 1).random() < 0.4

    def make_program(self) -> str:
        names = "a = b = c = 1\n"
        body = textwrap.indent(self.make_block(2), "    ")
        loop = f"for i in range(4):\n{body}"
        if self.is_module:
            return f"{names}{loop}\n"
        shared = self.random.choice(["", "    global a\n", "    global b, c\n"])
        start = "    " + self.random.choice(["a = 2", "b = a = 3", "c = 1", "pass"])
        function = f"def f(n, d=1):\n{shared}{start}\n{textwrap.indent(loop, '    ')}\n    return [a, d]\n"
        return f"{names}{function}r = f(3)\n"

    def make_block(self, depth: int) -> str:
        statements = [self.make_statement(depth) for _ in range(self.random.randint(1, 4))]
        if depth == 2 or self.random.random() < 0.3:
            statements.append(f"m.backward({self.make_value()})")
            statements += [self.make_statement(0) for _ in range(self.random.randint(0, 2))]
            statements += [f"m.step({self.make_value()})"] * self.random.randint(0, 1)
        statements += [self.make_statement(depth) for _ in range(self.random.randint(0, 2))]
        return "\n".join(statements)

    def make_statement(self, depth: int) -> str:
        name, value = self.random.choice("abcd"), self.make_value()
        listed = f"{name} = [j + {value} for j in (1, 2)][0]"
        kinds = [f"{name} = {value}", f"{name} += {value}", f"show({value})", listed]
        if depth:
            inner = textwrap.indent(self.make_block(depth - 1), "    ")
            leave = self.random.choice(["continue", "break", "pass" if self.is_module else "return d"])
            kinds += [
                f"if {value} % 3:\n{inner}", f"if {value} % 2:\n{inner}\nelse:\n    {name} = {value}",
                f"for k in range(2):\n{inner}", f"if {value} % 5 == 0:\n    {leave}",
                f"try:\n{inner}\nexcept ZeroDivisionError:\n    show({name})",
            ]  # fmt: skip
        return self.random.choice(kinds)

    def make_value(self) -> str:
        first, second = self.random.choice("abcdi"), self.random.choice("abcdi123")
        return f"({first} {self.random.choice(['+', '*', '-', '//'])} {second}) % 97"


@pytest.mark.parametrize("seed", range(3))
def test_programs_of_chance(seed: int) -> None:
    assert sum(check(Generator(seed * 1000 + i).make_program()) for i in range(6)) > 6


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10, 30))
def test_many_programs_of_chance(seed: int) -> None:
    assert sum(check(Generator(seed * 1000 + i).make_program()) for i in range(60)) > 60


@pytest.mark.parametrize(
    ("is_main", "around", "expected"),
    [
        (True, "", {"loss", "state"}),
        (True, "def show():\n    return out\n", {"loss", "state", "out"}),
        (True, "names = globals()\n", {"loss", "state", "out"}),
        (False, "", {"loss", "state", "out"}),
    ],
)
def test_names_of_the_main_module_that_only_a_region_reads_stay_in_it(
    is_main: bool, around: str, expected: set[str]
) -> None:
    step = "out = model(x, state)\n    state = out.detach()\n    loss = out.sum()\n    loss.backward()\n    opt.step()"
    tree = ast.parse(f"{around}for x in batches:\n    {step}\nprint(loss)")
    rewrite_regions(tree, find_training_regions(tree), is_main)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("lines_")]
    written = [node.names for node in ast.walk(functions[0]) if isinstance(node, ast.Global)]
    assert set(written[0]) == expected
