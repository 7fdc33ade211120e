"""Random programs of public functions, drawn by hypothesis while they run eagerly, to be run again by other means."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import adjoint as ad

Shape = tuple[int, ...]
SIZES = [0, 1, 1, 1, *[2, 3, 4, 7, 16, 17, 33] * 2]
LONG: list[Shape] = [(1000,), (4097,), (3, 1000), (1000, 3), (2, 2049), (129, 40)]
MOST = 20_000  # elements of one value
DTYPES = (np.float32, np.float64, np.int64, np.int32, np.bool_)


class Program(NamedTuple):
    """Straight-line code: each step appends one tensor to a pool that begins with the arguments."""

    arguments: list[Any]  # arrays
    steps: list[tuple[str, Callable[..., Any], tuple[int, ...]]]
    outputs: list[int]

    def run(self, *tensors: Any) -> list[Any]:
        """The outputs for these arguments."""
        pool = list(tensors)
        for _, function, operands in self.steps:
            pool.append(function(*(pool[i] for i in operands)))
        return [pool[i] for i in self.outputs]

    def __repr__(self) -> str:
        lines = [f"v{i} = {a.dtype}{list(a.shape)}" for i, a in enumerate(self.arguments)]
        for i, (text, _, operands) in enumerate(self.steps, len(self.arguments)):
            lines.append(f"v{i} = {text.format(*(f'v{o}' for o in operands))}")
        return "\n" + "\n".join([*lines, f"return {', '.join(f'v{i}' for i in self.outputs)}"])


class _Author:
    """Draws one program. `exact`: every float holds a small integer, so that sums are exact in any order."""

    def __init__(self, random: Random, exact: bool) -> None:
        self.random = random
        self.exact = exact
        self.pool: list[Any] = []
        self.steps: list[Any] = []

    def one_of(self, choices: Any) -> Any:
        return self.random.choice(list(choices))

    def some_axes(self, shape: Shape) -> Shape:
        """At least one axis, sorted."""
        return tuple(sorted(self.random.sample(range(len(shape)), self.random.randint(1, len(shape)))))

    def shape(self) -> Shape:
        """What the arguments' shapes are made of."""
        if self.random.random() < 0.15:
            return self.one_of(LONG)
        sizes = self.one_of([SIZES, [1, 2, 2, 4]])  # the latter fit one another in wrong ways too
        shape = tuple(self.random.choices(sizes, k=self.random.randint(0, 4)))
        while math.prod(shape) > MOST:
            shape = shape[1:]
        return shape

    def argument(self, shape: Shape) -> Any:
        """An array which mostly broadcasts with one of `shape`."""
        kind = self.random.random()
        if kind < 0.5:
            shape = tuple(1 if self.random.random() < 0.5 else n for n in shape)[self.random.randint(0, len(shape)) :]
        elif kind < 0.6:
            shape = tuple(self.random.sample(shape, len(shape)))
        dtype = self.one_of(DTYPES if self.exact else (np.float32, np.float32, np.float64, np.bool_))
        numbers = np.random.default_rng(self.random.randint(0, 99))
        if dtype is np.bool_:
            return np.asarray(numbers.random(shape) < 0.5)
        if self.exact:
            return np.asarray(numbers.integers(-4, 5, shape), dtype)
        return np.asarray(numbers.normal(size=shape), dtype)

    def say(self, text: str, function: Callable[..., Any], *operands: int) -> None:
        with ad.no_grad():
            self.pool.append(function(*(self.pool[i] for i in operands)))
        self.steps.append((text, function, operands))

    def pick(self, kinds: str) -> int | None:
        """A value of one of these kinds, the newer the likelier."""
        fitting = [i for i, t in enumerate(self.pool) if t.numpy().dtype.kind in kinds]
        if not fitting:
            return None
        return fitting[-1] if self.random.random() < 0.5 else self.one_of(fitting)

    def partner(self, kinds: str, *places: int) -> int | None:
        """A value which broadcasts with those to something not too large."""
        fitting = []
        for j, t in enumerate(self.pool):
            if t.numpy().dtype.kind in kinds:
                try:
                    shape = np.broadcast_shapes(t.shape, *(self.pool[i].shape for i in places))
                except ValueError:
                    continue
                if math.prod(shape) <= MOST:
                    fitting.append(j)
        return self.one_of(fitting) if fitting else None

    def step(self) -> None:
        kinds = ["movement", "movement", "elementwise", "elementwise", "elementwise", "fold"]
        getattr(self, self.one_of(kinds))()

    def limit(self) -> None:
        """Keep what was just said within ±64, so that every sum is exact."""
        array = self.pool[-1].numpy()
        if self.exact and array.dtype.kind in "if" and np.abs(array).max(initial=0) > 64:
            self.say("{}.clamp(-64, 64)", lambda x: x.clamp(-64, 64), len(self.pool) - 1)

    def elementwise(self) -> None:
        (self._exactly if self.exact else self._roughly)()

    def _exactly(self) -> None:
        name = self.one_of(["unary", "binary", "compare", "where", "cast", "number", "truth"])
        if name == "truth":
            i = self.pick("b")
            if i is not None and (j := self.partner("b", i)) is not None:
                sign = self.one_of(["logical_and", "logical_or", "logical_xor"])
                self.say(f"{sign}({{}}, {{}})", getattr(ad, sign), i, j)
            return
        i = self.pick("if" if name != "cast" else "ifb")
        if i is None:
            return
        if name == "unary":
            sign = self.one_of(["neg", "abs", "relu", "square", "sign", "clone"])
            self.say(f"{sign}({{}})", getattr(ad, sign), i)
        elif name == "number":
            number = self.one_of([-2, -1, 0, 1, 2, 3])
            sign = self.one_of(["add", "sub", "mul", "maximum"])
            if sign == "maximum":
                self.say(f"{{}}.clamp(min={number})", lambda x: x.clamp(min=number), i)
            else:
                self.say(f"{sign}({{}}, {number})", lambda x: getattr(ad, sign)(x, number), i)
        elif name == "cast":
            to = self.one_of([ad.float32, ad.float64, ad.int64, ad.int32, ad.bool])
            self.say(f"{{}}.to({to})", lambda x: x.to(to), i)
        else:
            j = self.partner("if", i)
            if j is None:
                return
            if name == "binary":
                sign = self.one_of(["add", "sub", "mul", "maximum", "minimum"])
                self.say(f"{sign}({{}}, {{}})", getattr(ad, sign), i, j)
            elif name == "compare":
                sign = self.one_of(["eq", "ne", "lt", "le", "gt", "ge"])
                self.say(f"{sign}({{}}, {{}})", getattr(ad, sign), i, j)
            else:
                c = self.partner("b", i, j)
                if c is not None:
                    self.say("where({}, {}, {})", ad.where, c, i, j)
        self.limit()

    def _roughly(self) -> None:
        i = self.pick("f")
        if i is None:
            return
        name = self.one_of(["unary", "binary", "where", "cast", "number"])
        if name == "unary":
            text, function = self.one_of(SMOOTH.items())
            self.say(text, function, i)
        elif name == "number":
            number = self.one_of([-1.5, 0.5, 1, 2.0])
            sign = self.one_of(["add", "sub", "mul", "div"])
            self.say(f"{sign}({{}}, {number})", lambda x: getattr(ad, sign)(x, number), i)
        elif name == "cast":
            to = self.one_of([ad.float32, ad.float64])
            self.say(f"{{}}.to({to})", lambda x: x.to(to), i)
        elif (j := self.partner("f", i)) is not None:
            if name == "binary":
                text, function = self.one_of(SMOOTH_OF_TWO.items())
                self.say(text, function, i, j)
            elif (c := self.partner("b", i, j)) is not None:
                self.say("where({}, {}, {})", ad.where, c, i, j)

    def fold(self) -> None:
        i = self.pick("ifb" if self.exact else "f")
        if i is None:
            return
        shape = self.pool[i].shape
        axes = self.some_axes(shape) if shape else None
        keep = self.random.random() < 0.5
        kind = self.pool[i].numpy().dtype.kind
        names = {"b": ["any", "all"], "i": ["sum", "amax", "amin"], "f": ["sum", "amax", "amin"]}[kind]
        name = self.one_of(names if self.exact else ["sum", "mean"])
        if 0 in shape and (name in ("amax", "amin") or not self.exact):
            return
        if name in ("amax", "amin") and axes is None:
            axes = ()
        if name == "sum" and not self.exact:
            # scaled at once: a large sum's rounding would be read as an angle by a later sine
            scale = 1 / max(1, math.prod(shape[a] for a in axes or ()))
            self.say(f"sum({{}}, {axes}, {keep}) * {scale}", lambda x: x.sum(axes, keep) * scale, i)
            return
        self.say(f"{name}({{}}, {axes}, {keep})", lambda x: getattr(ad, name)(x, axes, keep), i)
        self.limit()

    def movement(self) -> None:
        i = self.one_of(range(len(self.pool)))
        shape = tuple(self.pool[i].shape)
        n = len(shape)
        name = self.one_of(["permute", "reshape", "flatten", "unsqueeze", "expand", "flip", "slice", "select", "chain"])
        if name == "permute" and n > 1:
            axes = tuple(self.random.sample(range(n), n))
            self.say(f"{{}}.permute({axes})", lambda x: x.permute(axes), i)
        elif name == "reshape" and n and math.prod(shape):
            sizes = _factored(math.prod(shape), self.random.randint(0, 99))
            self.say(f"{{}}.reshape({sizes})", lambda x: x.reshape(sizes), i)
        elif name == "flatten" and n > 1 and 0 not in shape:
            self.say("{}.flatten()", lambda x: x.flatten(), i)
        elif name == "unsqueeze" and n < 4:
            at = self.random.randint(0, n)
            self.say(f"{{}}.unsqueeze({at})", lambda x: x.unsqueeze(at), i)
        elif name == "expand" and n < 4:
            sizes = tuple(self.one_of([1, 2, 5, 17]) if s == 1 else s for s in shape)
            sizes = (*([self.one_of([1, 2, 4])] if self.random.random() < 0.5 else []), *sizes)
            if math.prod(sizes) <= MOST:
                self.say(f"{{}}.expand({sizes})", lambda x: x.expand(sizes), i)
        elif name == "flip" and n:
            axes = self.some_axes(shape)
            self.say(f"{{}}.flip({axes})", lambda x: x.flip(axes), i)
        elif name == "slice" and n:
            axis = self.random.randint(0, n - 1)
            start, stop = sorted((self.random.randint(0, shape[axis]), self.random.randint(0, shape[axis])))
            cut = (slice(None),) * axis + (slice(start, stop, self.one_of([1, 1, 2])),)
            self.say(f"{{}}[{cut}]", lambda x: x[cut], i)
        elif name == "select" and n and 0 not in shape:
            axis = self.random.randint(0, n - 1)
            at = self.random.randint(0, shape[axis] - 1)
            self.say(f"{{}}.select({axis}, {at})", lambda x: x[(slice(None),) * axis + (at,)], i)


SMOOTH: dict[str, Callable[[Any], Any]] = {
    "tanh({})": lambda x: ad.tanh(x),
    "sigmoid({})": lambda x: ad.sigmoid(x),
    "exp(-square({}))": lambda x: ad.exp(-ad.square(x)),
    "log1p(square({}))": lambda x: ad.log1p(ad.square(x)),
    "sin({})": lambda x: ad.sin(x),
    "sqrt(square({}) + 1)": lambda x: ad.sqrt(ad.square(x) + 1),
    "neg({})": lambda x: -x,
}
SMOOTH_OF_TWO: dict[str, Callable[[Any, Any], Any]] = {
    "add({}, {})": lambda x, y: x + y,
    "sub({}, {})": lambda x, y: x - y,
    "mul(tanh({}), {})": lambda x, y: ad.tanh(x) * y,
    "div({}, square({}) + 1)": lambda x, y: x / (ad.square(y) + 1),
}


def _factored(count: int, seed: int) -> Shape:
    """A shape of `count` elements."""
    numbers = np.random.default_rng(seed)
    sizes: list[int] = []
    while count > 1 and len(sizes) < 3:
        divisors = [d for d in range(1, min(count, 64) + 1) if count % d == 0]
        sizes.append(int(numbers.choice(divisors)))
        count //= sizes[-1]
    return (*sizes, count)


def programs(exact: bool, most: int = 12, even: bool = False) -> Any:
    """Programs of up to `most` steps with one to four outputs; `even`: of all kinds alike, which do not shrink."""
    return st.randoms(use_true_random=even).map(lambda random: _written(random, exact, most))


def _written(random: Random, exact: bool, most: int) -> Program:
    author = _Author(random, exact)
    shape = author.shape()
    arguments = [author.argument(shape) for _ in range(random.randint(1, 4))]
    author.pool = [ad.from_numpy(a) for a in arguments]
    size = random.randint(most // 2, most)
    for _ in range(4 * size):  # some come to nothing
        if len(author.steps) < size:
            author.step()
    made = range(len(arguments), len(author.pool))
    read = {i for _, _, operands in author.steps for i in operands}
    outputs = {i for i in made if i not in read} | {random.randrange(len(author.pool)) for _ in range(2)}
    return Program(arguments, author.steps, sorted(outputs))
