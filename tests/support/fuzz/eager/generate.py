"""The author of the random programs: it runs each line on PyTorch as it writes it, to know shapes and values."""

from __future__ import annotations

import re
import warnings
from random import Random
from typing import Any

import numpy as np
from tests.support.fuzz.eager.lines import VALUES, VIEWS, WRITES, write_two
from tests.support.fuzz.eager.programs import Line, Program, Run, backward_from, compiled, is_pass, leaf_or_not, torch
from tests.support.fuzz.generate import Generator, Shape, broadcasts, key_of
from tests.support.fuzz.shrink import VARIABLE

from adjoint.functions.api.publish import NO_OVERLAP_METHODS

LARGEST = 200.0  # values and slopes: beyond, rounding alone would make differences
MOST = 48  # elements


def written(seed: int) -> tuple[Program, Run]:
    """The program of this number, and its run on PyTorch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        author = Author(Random(seed))
        author.write()
    return tuple(author.lines), author.run


class Author(Generator):
    """Writes one program: its lines in a random order, and at last a backward pass.

    PyTorch derives a view anew, and cuts it off from what was made of it, not only when its base is written, but also
    when that is done without a record; and Adjoint does so only where there is a record. Several rules of `add_write`,
    `ask`, `hook` and `gradient` keep to programs in which that cannot be seen.
    """

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.run = Run(torch)
        self.lines: list[Line] = []
        self.over = False
        self.outside: set[str] = set()  # views made without grad: PyTorch lets them be used there only
        self.asked: set[str] = set()  # variables that were asked to require grad
        self.retains = False  # whether a tensor retains its gradient
        # Memory in which a tensor has a hook, or a view retains its gradient or is a leaf; memory in which a view has a
        # hook (where it is written, PyTorch's sees but a part of the gradient); memory written without a record.
        self.watched: set[int] = set()
        self.hooked: set[int] = set()
        self.unrecorded: set[int] = set()

    def write(self) -> None:
        for _ in range(self.random.randint(2, 3)):
            self.source()
        for _ in range(self.random.randint(4, 14)):
            if self.over:
                return
            self.write_some_line()
        if not self.over:
            self.finish()

    def add(self, text: str, apart: str | None = None) -> None:
        line = Line(text, apart)
        self.lines.append(line)
        failed = self.run.do(line) is not None
        self.over = failed and is_pass(line)

    def add_write(self, text: str, x: str, region: Any) -> None:
        at = memory(self.run.names[x])
        guard = "with t.no_grad(): " if self.random.random() < 0.12 else ""
        silent = bool(guard) or not self.run.names[x].requires_grad
        if at in self.hooked or (silent and at in self.watched):
            return
        if silent:
            self.unrecorded.add(at)
        self.add_with_twin(guard, text, None if region is None else self.apart(text, x, region))

    def add_with_twin(self, guard: str, text: str, apart: str | None) -> None:
        """Add a line that writes; Adjoint too runs it `apart` where it refuses operands in the memory it writes."""
        if apart and any(f".{name}(" in text for name in NO_OVERLAP_METHODS):
            text, apart = apart, None
        self.add(guard + text, guard + apart if apart else None)

    def number(self) -> float:
        return round(self.random.uniform(-2, 2), 2)

    def tensors(self) -> dict[str, Any]:
        """The tensors to choose from."""
        return {
            name: v
            for name, v in self.run.variables().items()
            if name not in self.outside and usable(v) and (name in self.asked or not pretends(v))
        }

    def pick(self) -> tuple[str, Any]:
        """A tensor; the younger ones more often."""
        return self.younger(list(self.tensors().items()))

    def target(self) -> tuple[str, Any]:
        """A tensor to write into: seldom a leaf that requires grad, or a view of one."""
        for _ in range(3):
            x, v = self.pick()
            if not v.requires_grad or not (v.is_leaf if v._base is None else v._base.is_leaf):
                break
        return x, v

    def fitting(self, shape: Shape, number: bool = True) -> str:
        """An operand that broadcasts to `shape`."""
        found = [n for n, v in self.tensors().items() if broadcasts(v.shape, shape)]
        if found and self.random.random() < 0.75:
            return self.one_of(found)
        if number and self.random.random() < 0.5:
            return str(self.number())
        shape = tuple(shape[self.random.choice([0, 0, len(shape)]) :])
        return f"{self.one_of(['constant', 'constant', 'leaf'])}({shape}, {self.random.randrange(1000)})"

    def weight(self, shape: Shape, seed: int) -> str:
        return f"{self.one_of(['leaf', 'constant'])}({shape}, {seed})"

    def source(self) -> None:
        kind = self.one_of(["leaf", "leaf", "constant"])
        self.add(f"{self.new()} = {kind}({self.small_shape(4)}, {self.random.randrange(1000)})")

    def view(self) -> None:
        x, v = self.pick()
        if self.random.random() < 0.1:
            self.view_without_grad()
            return
        text = self.one_of(VIEWS)(self, x, v)
        if text is None:
            return
        count = len(text[1]) if isinstance(text, tuple) else 1
        names = ", ".join(self.new() for _ in range(count))
        if isinstance(text, tuple):
            text = text[0]
            names += "," * (count == 1)
        self.add(f"{names} = {text}")

    def view_without_grad(self) -> None:
        """A view made, and mostly written too, where nothing is recorded."""
        x, v = self.pick()
        made = [n for n in self.outside if n in self.run.names and usable(self.run.names[n])]
        if made and self.random.random() < 0.7:
            x = self.one_of(made)
            v = self.run.names[x].detach()
            text = write_two(self, x, v)
            if self.tame(text, x, x) and memory(v) not in self.watched:
                self.unrecorded.add(memory(v))
                guard = "with t.no_grad(): " if self.random.random() < 0.8 else ""
                self.add_with_twin(guard, text, self.apart(text, x, v))
            return
        text = self.one_of(VIEWS)(self, x, v)
        if isinstance(text, str):
            name = self.new()
            self.outside.add(name)
            self.add(f"with t.no_grad(): {name} = {text}")

    def value(self) -> None:
        x, v = self.pick()
        text = self.one_of(VALUES)(self, x, v)
        if text is not None and self.tame(f"out = {text}", "out", x):
            self.add(f"{self.new()} = {text}")

    def write_in_place(self) -> None:
        x, v = self.target()
        text = self.one_of(WRITES)(self, x, v)
        if text is None:
            return
        if self.tame(text, x, x):
            self.add_write(text, x, v)

    def assign(self) -> None:
        x, v = self.target()
        key = key_of(self, tuple(v.shape), arrays=self.random.random() < 0.35, unique=True)
        try:
            region = eval(f"of[{key}]", {"of": v.detach(), "t": torch})
        except IndexError:
            self.add(f"{x}[{key}] = {self.number()}")
            return
        value = self.fitting(tuple(region.shape))
        # for `x[:] += y` PyTorch writes x itself again, which by then is a view whose history it has yet to derive
        whole = same_place(region, v)
        how = "=" if whole else self.one_of(["=", "=", "=", "+=", "-=", "*="])
        text = f"{x}[{key}] {how} {value}"
        if self.tame(text, x, x):
            if memory(region) != memory(v) and how == "=":
                region = v  # at index arrays, `region` is a copy
            self.add_write(text, x, region)

    def swap(self) -> None:
        x, v = self.target()
        if v.ndim and v.shape[0] > 1:
            i, j = self.random.sample(range(v.shape[0]), 2)
            if np.shares_memory(v[i].detach().numpy(), v[j].detach().numpy()):
                return
            self.add_write(f"{x}[{i}], {x}[{j}] = {x}[{j}], {x}[{i}]", x, None)

    def detach(self) -> None:
        x, v = self.pick()
        lone = v._base is None and not self.has_views(v)
        if lone and self.random.random() < 0.5:
            self.add(f"{x}.detach_()")
        else:
            self.add(f"{self.new()} = {x}.detach()")

    def ask(self) -> None:
        x, v = self.pick()
        text = self.one_of(["requires_grad_()", "requires_grad_(False)", "retain_grad()", "retain_grad()"])
        if "retain" in text and not v.is_leaf:
            if memory(v) in self.unrecorded or self.of_hidden(v):
                return
            self.retains = True  # from then on no grad(), which in PyTorch fills .grad of these
            self.watched.add(memory(v))
        if text == "requires_grad_()":
            if v._base is not None:
                self.watched.add(memory(v))
            if self.has_views(v):
                return  # whether these then require grad depends, in PyTorch, on whether they are written
            self.asked.add(x)
        self.add(f"{x}.{text}")

    def hook(self) -> None:
        x, v = self.pick()
        if v._base is not None:
            if memory(v) in self.unrecorded or self.of_hidden(v):
                return
            self.hooked.add(memory(v))
        self.watched.add(memory(v))
        self.add(f"{x}.register_hook({self.one_of(['see', 'half', 'more'])})")

    def forget(self) -> None:
        if len(self.tensors()) > 3:
            self.add(f"del {self.pick()[0]}")

    def backward(self) -> None:
        x, v = self.pick()
        if v.requires_grad:
            self.add(f"{x}.backward(weights({x}), retain_graph={self.random.random() < 0.8})")

    def gradient(self) -> None:
        x, v = self.pick()
        sources = [
            name
            for name, s in self.tensors().items()
            if s.requires_grad and memory(s) not in self.unrecorded and not self.of_hidden(s)
        ]
        # in PyTorch grad() fills .grad of tensors that retain it, and calls the hooks of a root that leads nowhere
        if v.requires_grad and sources and not self.retains and not v._backward_hooks:
            of = self.one_of(sources)
            name = self.new()
            if self.random.random() < 0.4:
                self.add(f"{name} = t.autograd.grad({x}, {of}, weights({x}), retain_graph=True, allow_unused=True)[0]")
            else:  # a constant gradient requires grad in PyTorch or not, as its backward function was written
                asked = f"t.autograd.grad({x}, {of}, weights({x}), create_graph=True, materialize_grads=True)[0]"
                self.add(f"{name} = {asked} + 0.0 * {of}")
            g = self.run.names.get(name)
            if g is not None and g._base is not None:  # the engine's view of something, not to be written in PyTorch
                self.hooked.add(memory(g))

    def finish(self) -> None:
        roots = [n for n, v in self.run.variables().items() if v.requires_grad and leaf_or_not(v) is False]
        if roots:
            self.add(backward_from(*roots[-3:]).text)

    def tame(self, text: str, target: str, by: str) -> bool:
        """True if the line, tried on copies, gives `target` values and slopes by `by` that are not too large."""
        names = dict(self.run.names)
        for name in set(VARIABLE.findall(text)):
            names[name] = names[name].detach().clone()
        source = names[by].requires_grad_()
        if ("tan2" in text or "hypot" in text) and not source.all():
            return False  # there is no slope at the origin, and the value tells 0 from -0
        names[by] = source * 1
        names["leaf"] = names["constant"]
        try:
            exec(compiled(text), names)
            out = names[target]
            if not out.requires_grad:
                return in_bounds(out)
            return in_bounds(out) and in_bounds(torch.autograd.grad(out.sum(), source, allow_unused=True)[0])
        except (RuntimeError, IndexError, TypeError, ValueError):
            return self.random.random() < 0.3  # let some of the failing ones through

    def has_views(self, v: Any) -> bool:
        """True if a variable is a view of this one."""
        return any(o._base is v for o in self.run.variables().values())

    def of_hidden(self, v: Any) -> bool:
        """True for a view of what no variable holds."""
        return v._base is not None and all(o is not v._base for o in self.run.variables().values())

    def apart(self, text: str, x: str, region: Any) -> str | None:
        """The line with copies of operands that share some of the memory it writes, other than all of it alike."""
        target = region.detach()
        at_arrays = text.count("[") > 1 or "index_" in text or "scatter" in text
        copied = text
        for name in set(OPERAND.findall(text)):
            other = self.run.names[name].detach()
            alike = same_place(target, other) and not at_arrays
            if not alike and np.shares_memory(target.numpy(), other.numpy()):
                copied = re.sub(OPERAND.pattern.replace(r"v\d+", name), f"{name}.clone()", copied)
        return None if copied == text else copied


# An operand as it is: not what an expression makes of it.
OPERAND = re.compile(r"(?:(?<=\()|(?<=, )|(?<== ))v\d+(?=[,)]|$)")


def usable(v: Any) -> bool:
    return v.is_floating_point() and 0 < v.numel() <= MOST and v.ndim < 5


def memory(v: Any) -> int:
    return v.untyped_storage().data_ptr()  # type: ignore[no-any-return]


def pretends(v: Any) -> bool:
    """True for a view without history that PyTorch says requires grad, since its base does by now."""
    return v._base is not None and v.requires_grad and leaf_or_not(v) is not False


def same_place(x: Any, y: Any) -> bool:
    return x.data_ptr() == y.data_ptr() and x.shape == y.shape and x.stride() == y.stride()


def in_bounds(x: Any) -> bool:
    return x is None or bool((x.detach().abs() < LARGEST).all())


Author.choices = {
    Author.view: 6, Author.value: 4, Author.write_in_place: 5, Author.assign: 3, Author.swap: 0.3, Author.source: 0.3,
    Author.detach: 0.5, Author.ask: 1, Author.hook: 0.8, Author.forget: 0.5, Author.backward: 0.3, Author.gradient: 0.5,
}  # fmt: skip
