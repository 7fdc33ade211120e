"""The author of the random steps: it runs each line eagerly as it writes it, to know shapes and values.

What a compiled step refuses by design is left out by construction:

- reading a value (`item`, `bool`, `float`, `tolist`, `numpy`, printing numbers): not known while a step is traced;
- shapes that depend on values (`x[mask]`, `nonzero`, `masked_select`, `unique`): as above;
- `resize_`, `set_`, `t_` and the like on state: state keeps its shape from step to step;
- arguments with a history, and NumPy arrays as arguments; so tensors from outside get none in the step either.
"""

from __future__ import annotations

import re
import warnings
from random import Random
from typing import Any

import numpy as np
from tests.support.fuzz.compiled.lines import MODELS, SHARP, VALUES, VIEWS, WRITES
from tests.support.fuzz.compiled.programs import Program, namespace, run_eagerly
from tests.support.fuzz.generate import Generator, Shape, broadcasts, key_of
from tests.support.fuzz.shrink import VARIABLE

import adjoint as ad
from adjoint.core.tensor.storage import storage_of

LARGEST = 60.0  # of values: beyond, rounding alone would make differences
MOST = 96  # elements


def written(seed: int) -> Program:
    """The program of this number: of those that go through all calls with values that stay small."""
    random = Random(seed)
    while True:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            author = Author(random)
            author.write()
            program = author.program()
        seen = run_eagerly(program)
        if seen.error is None and all(small(x) for facts in seen.seen for _, x in facts):
            return program
        if seen.error is not None and not seen.seen and author.invalid:
            return program


class Author(Generator):
    """Writes one program.

    A value is rough once rounding has a part in it; of rough values no comparisons are made, nor anything else in which
    the last digit decides.
    """

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.setup: list[str] = []
        self.data: list[str] = []
        self.given: list[str] = []
        self.taken: list[str] = []
        self.body: list[str] = []
        self.names = {**namespace(), "call": 0}
        self.rough: dict[int, Any] = {}  # memory, by its identity
        self.invalid = False
        self.has_model = self.has_optimizer = False
        self.leaves: list[str] = []  # tensors from outside that require grad

    def program(self) -> Program:
        return Program(
            tuple(self.setup), tuple(self.data), ", ".join(self.given), ", ".join(self.taken), tuple(self.body),
            self.result(),
        )  # fmt: skip

    def write(self) -> None:
        ad.manual_seed(0)
        for _ in range(self.random.choice([0, 1, 1, 2])):
            self.state()
        for _ in range(self.random.choice([1, 1, 2, 2, 3])):
            self.argument()
        if self.random.random() < 0.4:
            self.model()
        if self.leaves and self.random.random() < 0.5:
            self.optimizer()
        self.random.shuffle(self.leaves)
        if self.has_optimizer and self.random.random() < 0.8:
            self.add(self.one_of(["optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)"]))
        for _ in range(self.random.randint(2, 9)):
            self.write_some_line()
        if self.has_model:
            self.apply_model()
        if self.random.random() < 0.7:
            self.backward()
        if self.has_optimizer:
            self.update()
        for _ in range(self.random.choice([0, 0, 1, 2])):
            self.write_some_line()
        if self.random.random() < 0.03:
            self.invalid_line()

    def add(self, text: str, *made: str) -> bool:
        """Run a line of the step and keep it, unless it raises or makes large numbers: then all is as before it."""
        try:
            exec(compile(text, "<line>", "exec"), self.names)
            fine = all(small(v.detach().numpy()) for v in self.tensors(MOST * 4).values()) and not self.has_past()
        except (RuntimeError, ValueError, TypeError, IndexError, OverflowError):
            fine = False
        if fine:
            self.body.append(text)
        else:
            self.again()
        return fine

    def has_past(self) -> bool:
        """True if a tensor from outside has a history."""
        outside = [v for n, v in self.names.items() if re.fullmatch(r"[as]\d+", n)]
        outside += [
            part for v in outside if isinstance(v, (list, dict)) for part in (v if isinstance(v, list) else v.values())
        ]
        return any(isinstance(v, ad.Tensor) and v.requires_grad and not v.is_leaf for v in outside)

    def again(self) -> None:
        """The names as the lines so far leave them."""
        ad.manual_seed(0)
        rough = {name for name, v in self.tensors(10**6).items() if self.is_rough(v)}
        self.names = {**namespace(), "call": 0}
        for line in (*self.setup, *self.data, *self.body):
            exec(compile(line, "<line>", "exec"), self.names)
        self.rough = {}
        for name, v in self.tensors(10**6).items():
            if name in rough:
                self.taint(v)

    def tensors(self, most: int = MOST) -> dict[str, Any]:
        """The tensors that the step can name."""
        return {
            n: v
            for n, v in self.names.items()
            if isinstance(v, ad.Tensor) and n[0] in "vas" and v.numel() <= most and v.ndim < 5
        }

    def pick(self, kinds: str = "f", sharp: bool = False) -> tuple[str, Any] | None:
        """A tensor of one of these kinds, the younger the likelier; exactly known if `sharp`."""
        found = [
            (n, v)
            for n, v in self.tensors().items()
            if v.detach().numpy().dtype.kind in kinds and not (sharp and self.is_rough(v))
        ]
        return self.younger(found) if found else None

    def is_rough(self, v: Any) -> bool:
        return id(storage_of(v)) in self.rough

    def taint(self, v: Any) -> None:
        """Rounding has a part in v from now on."""
        memory = storage_of(v)
        self.rough[id(memory)] = memory

    def fitting(self, shape: Shape, kinds: str = "f", number: bool = True, sharp: bool = False) -> str:
        """An operand that broadcasts to `shape`: a variable, a number or a tensor of numbers."""
        found = [
            n
            for n, v in self.tensors().items()
            if broadcasts(tuple(v.shape), shape)
            and v.detach().numpy().dtype.kind in kinds
            and not (sharp and self.is_rough(v))
        ]
        if found and self.chance(0.75):
            return str(self.one_of(found))
        if number and self.chance(0.6):
            return str(self.number() if "f" in kinds else self.one_of([True, False] if kinds == "b" else [-1, 0, 2, 3]))
        shape = shape[self.random.choice([0, 0, len(shape)]) :]
        dtype = {"f": "float32", "b": "bool"}.get(kinds[0], "int64")
        return f"data({shape}, {self.random.randrange(1000)}, '{dtype}')"

    def number(self) -> float:
        return float(self.one_of([-2, -1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2]))

    def shape(self) -> Shape:
        if self.chance(0.06):
            return self.one_of([(0,), (0, 3), (2, 0), (67,), (2, 33), (9, 8), (17,)])
        return self.small_shape(5)

    def weight(self, shape: Shape, seed: int) -> str:
        return f"data({shape}, {seed})"

    def dtype(self) -> str:
        return str(
            self.random.choices(["float32", "float64", "int64", "int32", "uint8", "bool"], [20, 4, 2, 1, 1, 2])[0]
        )

    def like_something(self) -> Shape:
        """A shape, often that of a tensor at hand."""
        shapes = [tuple(v.shape) for v in self.tensors().values()]
        return self.one_of(shapes) if shapes and self.chance(0.6) else self.shape()

    def state(self) -> None:
        name, dtype = f"s{len(self.setup)}", self.dtype()
        text = f"{name} = data({self.like_something()}, {self.random.randrange(1000)}, '{dtype}')"
        if "float" in dtype and self.chance(0.6):
            text += ".requires_grad_()"
            self.leaves.append(name)
        self.before(text)
        self.taint(self.names[name])

    def before(self, text: str) -> None:
        exec(compile(text, "<line>", "exec"), self.names)
        self.setup.append(text)

    def argument(self) -> None:
        """A tensor; sometimes within a container, by keyword, turned, or one that was given already."""
        name, dtype = f"a{len(self.data)}", self.dtype()
        tensors = [n for n, v in self.names.items() if n[0] == "a" and isinstance(v, ad.Tensor)]
        shape = self.like_something()
        made = f"data({shape}, {self.random.randrange(1000)} + call, '{dtype}')"
        if tensors and self.chance(0.07):
            made = self.one_of(tensors)
        elif len(shape) > 1 and self.chance(0.15):
            made = f"data({shape[::-1]}, {self.random.randrange(1000)} + call, '{dtype}').mT"
            made = made if len(shape) == 2 else f"{made}.flip(0)"
        elif shape and self.chance(0.08):
            made = f"{made}.flip(0)[::2]"
        elif "float" in dtype and self.chance(0.15):
            made += ".requires_grad_()"
            self.leaves.append(name)
        container = self.random.random()
        if container < 0.06:
            made = f"[{made}, {self.number()}]"
        elif container < 0.12:
            made = f"{{'x': {made}, 'y': ({self.number()}, None)}}"
        line = f"{name} = {made}"
        exec(compile(line, "<line>", "exec"), self.names)
        self.data.append(line)
        keyword = container > 0.93 or "=" in "".join(self.given)
        self.given.append(f"{name}={name}" if keyword else name)
        self.taken.append(name)
        if container < 0.12:
            part = self.new()
            self.add(f"{part} = {name}[{0 if container < 0.06 else repr('x')}]")
            if name in self.leaves:
                self.leaves.remove(name)

    def model(self) -> None:
        text = self.one_of(MODELS)
        self.before(f"ad.manual_seed({self.random.randrange(99)})")
        self.before(f"model = {text}.to(ad.float32)")
        if self.chance(0.25):
            self.before(
                f"model.register_forward_hook({self.one_of(['lambda m, i, o: o * 0.5', 'lambda m, i, o: None'])})"
            )
        if self.chance(0.15):
            self.before("model.register_forward_pre_hook(lambda m, i: (i[0] * 0.5,))")
        if self.chance(0.2):
            self.before(
                "model.register_full_backward_hook(lambda m, gi, go: (None if gi[0] is None else gi[0] * 0.5,))"
            )
        if self.chance(0.1):
            self.before("model.register_full_backward_pre_hook(lambda m, go: (go[0] * 0.5,))")
        if self.chance(0.2):
            self.before("model.eval()")
        self.has_model = True
        self.leaves.append("*model.parameters()")

    def apply_model(self) -> None:
        name = self.new()
        for _ in range(4):
            picked = self.pick("f")
            if picked is None:
                return
            x, v = picked
            n = self.names["model"].inputs if hasattr(self.names["model"], "inputs") else 4
            fitted = f"F.pad({x}.float().reshape(-1)[:{n}], (0, {max(0, n - v.numel())}))"
            text = f"{name} = model({x})" if v.ndim and v.shape[-1] == n else f"{name} = model({fitted}.repeat(3, 1))"
            if self.add(text):
                self.taint(self.names[name])
                return

    def optimizer(self) -> None:
        tensors = ", ".join(n for n in self.leaves if n[0] in "s*")
        if not tensors:
            return
        self.before(f"leaves = [{tensors}]")
        self.before("optimizer = optim." + self.one_of([
            "SGD(leaves, lr=0.05)", "SGD(leaves, lr=0.02, momentum=0.9, weight_decay=0.01)",
            "SGD(leaves, lr=0.02, momentum=0.8, nesterov=True)", "SGD(leaves, lr=0.05, maximize=True)",
            "Adam(leaves, lr=0.01, eps=0.1)", "Adam(leaves, lr=0.01, eps=0.1, amsgrad=True)",
            "AdamW(leaves, lr=0.01, eps=0.1, weight_decay=0.1)",
        ]))  # fmt: skip
        self.has_optimizer = True

    def update(self) -> None:
        if self.chance(0.25):
            clip = "[setattr(p, 'grad', p.grad / (1 + p.grad.square().sum())) for p in leaves if p.grad is not None]"
            self.add(clip)
        self.add("optimizer.step()")

    def value(self) -> None:
        kind, templates = self.random.choices(
            [("s", SHARP), ("e", VALUES["exact"]), ("r", VALUES["rough"])], [2, 4, 4]
        )[0]
        template = self.one_of(templates)
        picked = self.pick(self.one_of(["f", "f", "f", "fiub"]), sharp=kind == "s")
        if picked is None:
            return
        text = template(self, *picked)
        if text is None:
            return
        name = self.new()
        guard = "with ad.no_grad(): " if self.chance(0.05) else ""
        before = {n for n, v in self.tensors(10**6).items() if self.is_rough(v)}
        if self.add(f"{guard}{name} = {text}"):
            made = self.names[name]
            if not isinstance(made, ad.Tensor):
                return
            if kind == "r" or (kind == "e" and any(n in before for n in VARIABLE.findall(text))):
                self.taint(made)

    def view(self) -> None:
        picked = self.pick("fffib")
        text = picked and self.one_of(VIEWS)(self, *picked)
        if picked is None or text is None:
            return
        name = self.new()
        rough = self.is_rough(picked[1])
        if self.add(f"{name} = {text}") and rough:
            self.taint(self.names[name])

    def write_in_place(self) -> None:
        picked = self.pick(self.one_of(["f", "f", "fiub"]))
        if picked is None:
            return
        x, v = picked
        if self.chance(0.3):
            kinds = v.detach().numpy().dtype.kind
            key = key_of(self, tuple(v.shape), arrays=self.chance(0.3), unique=True, masks=False)
            try:
                part = eval(f"of[{key}]", {"of": v.detach(), "t": ad})
            except IndexError:
                return
            how = self.one_of(["=", "=", "+=", "*="]) if kinds != "b" else "="
            text = f"{x}[{key}] {how} {self.fitting(tuple(part.shape), kinds)}"
        else:
            written = self.one_of(WRITES)(self, x, v)
            if written is None:
                return
            text = written
        guard = "with ad.no_grad(): " if self.chance(0.15) else ""
        if self.add(guard + text):
            # what a later call finds in it, this one does not know
            self.taint(self.names[x])

    def hook(self) -> None:
        picked = self.pick("f")
        if picked is None or not picked[1].requires_grad or picked[0][0] != "v":
            return
        x = picked[0]
        hook = self.one_of(["lambda g: g * 0.5", "lambda g: g + 0.25", "lambda g: None"])
        self.add(f"{x}.register_hook({hook})")
        if self.chance(0.3):
            self.add(f"{x}.retain_grad()")

    def detach(self) -> None:
        picked = self.pick("f")
        if picked is not None:
            name = self.new()
            text = self.one_of([f"{picked[0]}.detach()", f"{picked[0]}.detach().requires_grad_()"])
            rough = self.is_rough(picked[1])
            if self.add(f"{name} = {text}") and rough:
                self.taint(self.names[name])

    def roots(self) -> list[str]:
        return [n for n, v in self.tensors().items() if v.requires_grad and not v.is_leaf]

    def backward(self) -> None:
        roots = self.roots()
        if not roots:
            return
        x = roots[-1] if self.chance(0.6) else self.one_of(roots)
        keep = self.one_of(["", "", ", retain_graph=True"])
        text = self.one_of([
            f"({x} * 0.5).sum().backward({keep[2:]})", f"{x}.mean().backward({keep[2:]})",
            f"{x}.backward(ad.ones_like({x}){keep})",
            f"ad.autograd.backward([{x}, {self.one_of(roots)}], [ad.ones_like({x}), None]{keep})",
        ])  # fmt: skip
        self.add(text)
        for v in self.tensors(10**6).values():
            if v.grad is not None:
                self.taint(v.grad)

    def gradient(self) -> None:
        roots = self.roots()
        sources = [n for n, v in self.tensors().items() if v.requires_grad]
        if not roots or not sources:
            return
        x, of = self.one_of(roots), self.one_of(sources)
        name = self.new()
        how = self.one_of(["create_graph=True", "retain_graph=True"])
        text = f"ad.autograd.grad({x}.sum(), {of}, {how}, allow_unused=True, materialize_grads=True)[0]"
        if self.add(f"{name} = {text}"):
            self.taint(self.names[name])

    def read_gradient(self) -> None:
        found = [n for n, v in self.tensors().items() if v.is_leaf and v.grad is not None]
        if found:
            name = self.new()
            if self.add(f"{name} = {self.one_of(found)}.grad{self.one_of(['', ' * 0.5'])}"):
                self.taint(self.names[name])

    def write_gradient(self) -> None:
        found = [n for n, v in self.tensors().items() if v.is_leaf and v.grad is not None]
        if found:
            x = self.one_of(found)
            part = self.one_of(["", "", "[0]"] if self.names[x].ndim else [""])
            if self.add(f"{x}.grad{part}.{self.one_of(['mul_(0.5)', 'add_(0.25)', 'zero_()', 'clamp_(-1, 1)'])}"):
                self.taint(self.names[x].grad)

    def invalid_line(self) -> None:
        """A line that raises."""
        picked = self.pick("f")
        if picked is None:
            return
        x = picked[0]
        text = self.one_of([
            f"{x} + data((7, 5, 3), 1)", f"{x}.reshape(97)", f"{x}.permute(5)", f"{x}.sum(9)", f"ad.cat([{x}, 1])",
            f"{x}[11, 12]", f"{x} @ data((13,), 1)", "F.embedding(data((3,), 1, 'int64') + 40, data((4, 2), 1))",
            f"{x}.no_such_thing()", f"{x}.backward(data((7,), 1))", f"ad.gather({x}, 0, {x})",
        ])  # fmt: skip
        try:
            exec(compile(text, "<line>", "exec"), dict(self.names))
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError):
            self.body.append(text)
            self.invalid = True
        else:
            self.again()

    def result(self) -> str:
        """Some of the variables, in a container of some kind."""
        found = list(self.tensors(10**6))
        made = [n for n in found if n[0] == "v"]
        names = (
            list(dict.fromkeys([*made[-2:], *self.random.choices(found, k=self.random.choice([0, 1, 2]))]))
            if found
            else []
        )
        kind = self.random.random()
        if kind < 0.1 and names:
            return names[0]
        if kind < 0.2:
            return f"{{'first': [{', '.join(names)}], 'second': (None, 1.5)}}"
        return f"[{', '.join(names)}]"


def small(x: Any) -> bool:
    """True unless an array holds large numbers, or what is none."""
    return not isinstance(x, np.ndarray) or x.dtype.kind != "f" or not x.size or bool(np.abs(x).max() < LARGEST)


Author.choices = {
    Author.value: 8, Author.view: 4, Author.write_in_place: 4, Author.hook: 0.7, Author.detach: 0.5,
    Author.backward: 0.5, Author.gradient: 0.7, Author.read_gradient: 0.5,
    Author.write_gradient: 0.5,
}  # fmt: skip
