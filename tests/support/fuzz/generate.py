"""What the generators of random programs share: choices, index expressions, views, products, joins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, TypeVar

import numpy as np

Shape = tuple[int, ...]
T = TypeVar("T")
# From the generator, a variable and its value to an expression around the variable, or None.
Template = Callable[[Any, str, Any], Any]


class Generator:
    """Writes one program: the choices that it makes.

    Templates also ask for `tensors()`, the tensors that a line can name; `fitting(shape)`, an operand that broadcasts
    to a shape; and `weight(shape, seed)`, the text of a new tensor.
    """

    choices: dict[Callable[[Any], None], float]  # what writes a line, and how often

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0

    def write_some_line(self) -> None:
        self.random.choices(list(self.choices), list(self.choices.values()))[0](self)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one_of(self, options: Iterable[Any]) -> Any:
        return self.random.choice(list(options))

    def younger(self, options: Sequence[T]) -> T:
        """Return one of these, the last ones more often."""
        return options[int(len(options) * self.random.random() ** 0.6)]

    def new(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def small_shape(self, longest: int) -> Shape:
        sizes = [1, 2, 2, 3, 3, 4, 5][: longest + 2]
        return tuple(self.random.choice(sizes) for _ in range(self.random.choice([0, 1, 1, 2, 2, 2, 3])))


def broadcasts(shape: Shape, to: Shape) -> bool:
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def key_of(a: Any, shape: Shape, arrays: bool, unique: bool, masks: bool = True) -> str:
    """Return an index expression for a tensor of this shape; now and then one that is out of range.

    `unique`: no element twice. `arrays`: index tensors too, and with `masks` a mask of the whole shape.
    """
    random = a.random
    items: list[str] = []
    if arrays and masks and random.random() < 0.3 and shape:
        return f"t.tensor({mask_values(random, shape)})"
    dims = random.randint(0, len(shape)) if random.random() < 0.5 else len(shape)
    dots = random.random() < 0.15
    for d in range(dims):
        n = shape[len(shape) - dims + d if dots else d]
        choice = random.random()
        if arrays and choice < 0.5 and n:
            count = random.randint(1, n)
            places = range(-n, 0) if random.random() < 0.2 else range(n)
            at = random.sample(places, count) if unique else random.choices(places, k=3)
            items.append(random.choice([f"t.tensor({at})", f"{at}"]))
        elif choice < 0.35 and n:
            items.append(str(random.randint(-n, n - (random.random() < 0.97))))
        elif choice < 0.9:
            items.append(slice_text(random, n))
        else:
            items.append(":")
        if random.random() < 0.08:
            items.append("None")
    if dots or not items:
        items.insert(0, "...")
    return ", ".join(items)


def slice_text(random: Random, n: int) -> str:
    start = random.choice(["", "", *range(n)])
    stop = random.choice(["", "", n, -1, *range(1, n + 1)])
    step = random.choice(["", "", ":1", ":2", ":2", ":3"])
    return f"{start}:{stop}{step}"


def mask_values(random: Random, shape: Shape) -> Any:
    return np.array([random.random() < 0.5 for _ in range(int(np.prod(shape)))]).reshape(shape).tolist()


def factors(random: Random, count: int) -> list[int]:
    """Return a shape of so many elements."""
    if not count:
        return [0, random.choice([1, 2])]
    shape = []
    while count > 1:
        n = random.choice([d for d in range(2, count + 1) if count % d == 0])
        shape.append(n)
        count //= n
    for _ in range(random.choice([0, 0, 1])):
        shape.insert(random.randint(0, len(shape)), 1)
    return shape


def dim_of(a: Any, v: Any) -> int:
    return int(a.random.randrange(-max(v.ndim, 1), max(v.ndim, 1)))


def full_dim_of(a: Any, v: Any) -> int | None:
    """Return a dimension with elements; None if a draw gave none."""
    d = dim_of(a, v)
    return d if v.ndim and v.shape[d] else None


def in_given_order(v: Any) -> bool:
    """Return False for results in an order of the library's choice: whether a reshape of them copies is left open."""
    return bool(v.is_contiguous() or v._base is not None)


def _expand(a: Any, x: str, v: Any) -> str:
    sizes = [n if n != 1 else a.one_of([1, 2, 3, -1]) for n in v.shape]
    return f"{x}.expand({[2] * a.one_of([0, 0, 1]) + sizes})"


def _narrow(a: Any, x: str, v: Any) -> str | None:
    d = full_dim_of(a, v)
    if d is None:
        return None
    start = a.random.randrange(v.shape[d])
    return f"{x}.narrow({d}, {start}, {a.random.randint(0 if a.chance(0.05) else 1, v.shape[d] - start)})"


def _select(a: Any, x: str, v: Any) -> str | None:
    d = full_dim_of(a, v)
    return None if d is None else f"{x}.select({d}, {a.random.randrange(v.shape[d])})"


def _unflatten(a: Any, x: str, v: Any) -> str | None:
    d = full_dim_of(a, v)
    return None if d is None else f"{x}.unflatten({d}, {factors(a.random, v.shape[d]) or [1]})"


def _diagonal(a: Any, x: str, v: Any) -> str | None:
    return f"{x}.diagonal({a.one_of([0, 0, 1, -1])}, {a.one_of(['0, 1', '-2, -1', '1, 0'])})" if v.ndim > 1 else None


def _unfold(a: Any, x: str, v: Any) -> str | None:
    d = full_dim_of(a, v)
    return None if d is None else f"{x}.unfold({d}, {a.random.randint(1, v.shape[d])}, {a.one_of([1, 1, 2])})"


VIEWS: list[Template] = [
    *[lambda a, x, v: f"{x}[{key_of(a, tuple(v.shape), False, True)}]"] * 6,
    lambda a, x, v: f"{x}.view({factors(a.random, v.numel())})",
    lambda a, x, v: f"{x}.reshape({factors(a.random, v.numel())})" if in_given_order(v) else None,
    lambda a, x, v: f"{x}.view(-1)",
    lambda a, x, v: f"{x}.flatten()" if in_given_order(v) else None,
    lambda a, x, v: f"{x}.ravel()" if in_given_order(v) else None,
    lambda a, x, v: f"{x}.transpose({dim_of(a, v)}, {dim_of(a, v)})",
    lambda a, x, v: f"{x}.permute({a.random.sample(range(v.ndim), v.ndim)})",
    lambda a, x, v: f"{x}.movedim({dim_of(a, v)}, {dim_of(a, v)})",
    lambda a, x, v: f"{x}.t()" if v.ndim < 3 else f"{x}.mT",
    lambda a, x, v: f"{x}.T" if v.ndim == 2 else None,
    lambda a, x, v: f"{x}.unsqueeze({a.random.randint(-v.ndim - 1, v.ndim)})",
    lambda a, x, v: f"{x}.squeeze()",
    lambda a, x, v: f"{x}.squeeze({dim_of(a, v)})",
    lambda a, x, v: f"{x}.view_as({x})",
    lambda a, x, v: f"{x}.contiguous()" if in_given_order(v) else None,
    _select, _unflatten, _expand, _narrow, _narrow, _diagonal, _unfold,
]  # fmt: skip


def products(a: Any, x: str, v: Any) -> list[str]:
    """Return products of v with itself and with new tensors."""
    s, w = tuple(v.shape), a.weight
    if v.ndim == 1:
        (n,) = s
        return [
            f"t.outer({x}, {x})", f"t.dot({x}, {x})", f"{x} @ {w((n, 2), 5)}", f"{w((3, n), 4)} @ {x}",
            f"F.linear({x}, {w((3, n), 6)})", f"t.outer({x}, {w((2,), 3)})", f"t.einsum('i,i->', {x}, {x})",
            f"F.linear({x}, {w((2, n), 6)}, {w((2,), 7)})",
            f"F.conv1d({x}.reshape(1, 1, {n}), {w((2, 1, 2), 3)}, padding=1)",
        ]  # fmt: skip
    if v.ndim == 2:
        n, m = s
        return [
            f"{x} @ {w((m, 2), 1)}", f"{x}.t() @ {x}", f"t.mm({x}, {x}.t())", f"t.mv({x}, {w((m,), 2)})",
            f"t.addmm({w((n, 2), 3)}, {x}, {w((m, 2), 4)})", f"t.einsum('ij,kj->ik', {x}, {x})",
            f"F.linear({x}, {w((3, m), 6)})", f"F.linear({x}, {w((3, m), 6)}, {w((3,), 7)})",
            f"F.conv1d({x}.unsqueeze(0), {w((2, n, 1), 3)})", f"({x}.t() @ {w((n, 2), 1)}).t()",
        ]  # fmt: skip
    if v.ndim == 3:
        return [
            f"t.bmm({x}, {x}.mT)", f"{x} @ {w((s[2], 2), 1)}", f"t.einsum('bij,bkj->bik', {x}, {x})",
            f"F.conv2d({x}.unsqueeze(0), {w((2, s[0], 1, 2), 3)}, padding=1)", f"F.pad({x}, (1, 0, 0, 1), value=0.5)",
        ]  # fmt: skip
    return []


def joins(a: Any, x: str, v: Any) -> list[str]:
    """Return ways to put elements of v, and of tensors of its shape, side by side."""
    s, d = tuple(v.shape), dim_of(a, v)
    same = a.one_of([n for n, o in a.tensors().items() if tuple(o.shape) == s])
    if not v.ndim:
        return [f"t.stack([{x}, {same}])"]
    n = s[d]
    if not n:
        return [f"t.cat([{x}, {same}], {d})"]
    at = a.random.choices(range(n), k=a.random.randint(1, 4))
    zeros = f"t.zeros({s}, dtype=t.int64)"
    return [
        f"t.cat([{x}, {same}], {d})", f"t.stack([{x}, {same}, {x}], {d})", f"t.tile({x}, (2,))",
        f"{x}.repeat({[2] + [1] * (v.ndim - 1)})", f"t.repeat_interleave({x}, 2, {d})", f"t.flip({x}, ({d},))",
        f"t.index_select({x}, {d}, t.tensor({at}))", f"t.roll({x}, 1, {d})", f"t.gather({x}, {d}, {zeros})",
        f"t.take_along_dim({x}, {zeros}, {d})", f"t.tril({x})" if v.ndim > 1 else f"{x}.clone()",
    ]  # fmt: skip
