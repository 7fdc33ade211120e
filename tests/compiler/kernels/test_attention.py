"""The attention kernels against float64: values and gradients, masks, strides, tails, rows without keys, any target."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tests.support.kernels.single import Guarded, emit_object

import adjoint as ad
import adjoint.nn.functional as F
from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.interpreter import evaluate_equation
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.kernels.attention.call import reason_against
from adjoint.compiler.kernels.attention.lowering import LoweredAttention, lower_attention
from adjoint.compiler.llvm.jit.engine import load
from adjoint.compiler.llvm.jit.target import Target, host
from adjoint.core.op.spec import Spec
from adjoint.ops.nn.attention import attention, attention_gradient, gradient_part

RNG = np.random.default_rng(0)
NARROW = Target(host().triple, "", "+avx2,+fma") if host().vector_bits >= 256 and "x86_64" in host().triple else host()
FOREIGN = ["aarch64-linux-gnu", "x86_64-pc-linux-gnu"]
# Of the largest element: 40 units of its last place, as sums over some hundred keys may be off by one for each.
CLOSE = {np.float32: 5e-6, np.float64: 1e-13}


class Case(NamedTuple):
    """Sizes of one attention, and what hides keys."""

    lead: tuple[int, ...]
    rows: int
    keys: int
    size: int
    width: int
    causal: bool = False
    mask: tuple[int, ...] | None = None
    truths: bool = False

    def __str__(self) -> str:
        words = [*map(str, self.lead), f"{self.rows}x{self.keys}", f"{self.size}-{self.width}"]
        mask = "" if self.mask is None else "x".join(map(str, self.mask)) + ("?" if self.truths else "+")
        return " ".join([*words, *(["causal"] if self.causal else []), *([mask] if mask else [])])


CASES = [
    Case((2, 3), 64, 64, 32, 32, causal=True), Case((1, 2), 96, 96, 64, 64, causal=True),
    Case((2, 1), 64, 64, 32, 32), Case((3,), 5, 7, 3, 5), Case((2,), 1, 1, 1, 1), Case((2,), 1, 9, 4, 17),
    Case((1, 2), 17, 33, 20, 9, causal=True), Case((2, 2), 40, 40, 12, 33, causal=True),
    Case((1,), 70, 50, 16, 70, causal=True), Case((1,), 45, 90, 33, 16, causal=True), Case((2,), 71, 29, 80, 7),
    Case((1,), 18, 21, 130, 66, causal=True), Case((2, 3), 33, 35, 8, 8, mask=(1, 1, 33, 35)),
    Case((2, 3), 33, 35, 8, 8, mask=(2, 1, 33, 35), truths=True),
    Case((2, 3), 20, 35, 8, 8, mask=(1, 3, 1, 35), truths=True), Case((2, 3), 20, 18, 8, 8, mask=(2, 3, 20, 1)),
    Case((1, 2), 6, 18, 8, 8, mask=(1, 1, 1, 1), truths=True),
    Case((1, 2), 35, 33, 8, 8, causal=True, mask=(1, 2, 35, 33), truths=True),
]  # fmt: skip
VARIANTS = {
    "": (CASES, host(), np.float32),
    "double": (CASES[::2], host(), np.float64),
    "narrow": (CASES[1::2], NARROW, np.float32),
    "narrow double": (CASES[::5], NARROW, np.float64),
}
variants = pytest.mark.parametrize(
    ("case", "target", "dtype"),
    [
        pytest.param(case, target, dtype, id=f"{case} {name}".strip())
        for name, (some, target, dtype) in VARIANTS.items()
        for case in some
    ],
)
targets = pytest.mark.parametrize("target", [host(), NARROW], ids=["host", "narrow"])


def drawn(case: Case, dtype: Any) -> list[Any]:
    """q, k, v, and the mask if there is one, of which the first row hides all keys."""
    shapes = ((case.rows, case.size), (case.keys, case.size), (case.keys, case.width))
    given = [RNG.normal(size=(*case.lead, *shape)).astype(dtype) for shape in shapes]
    if case.mask is None:
        return given
    mask = RNG.normal(size=case.mask).astype(dtype)
    if case.truths:
        mask = mask > -0.5
        mask[..., :1, :] = False
    else:
        mask[..., :1, : case.mask[-1] // 2 + 1] = -math.inf
    return [*given, mask]


def expected(case: Case, given: Sequence[Any], scale: float, g: Any = None) -> tuple[Any, ...]:
    """The result, or the gradients in q, k and v, computed in float64 with all weights at once."""
    q, k, v = (x.astype(np.float64) for x in given[:3])
    scores = q @ k.swapaxes(-1, -2) * scale
    if case.causal:
        scores = np.where(np.tri(case.rows, case.keys, dtype=bool), scores, -math.inf)
    if len(given) > 3:
        scores = np.where(given[3], scores, -math.inf) if case.truths else scores + given[3].astype(np.float64)
    largest = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(largest == -math.inf, 0, largest))
    total = e.sum(-1, keepdims=True)
    weights = e / np.where(total == 0, 1, total)
    if g is None:
        return (weights @ v,)
    g = g.astype(np.float64)
    slopes = g @ v.swapaxes(-1, -2)
    slopes = weights * (slopes - (weights * slopes).sum(-1, keepdims=True)) * scale
    return slopes @ k, slopes.swapaxes(-1, -2) @ q, weights.swapaxes(-1, -2) @ g


def lowered(
    op: Any, operands: Sequence[Any], case: Case, scale: float, target: Target
) -> tuple[LoweredAttention, list[Any]]:
    """The kernel of the op on arrays, each a view of an array of its own or a shared one; and these arrays."""
    views: dict[Value, StridedView] = {}
    bases: dict[int, Value] = {}
    arrays: dict[Value, Any] = {}
    values = []
    for x in operands:
        root = x
        while isinstance(root.base, np.ndarray):
            root = root.base
        root = x if not root.size else root
        if id(root) not in bases:
            bases[id(root)] = Value(None, (), {}, Spec((root.size,), root.dtype))
            arrays[bases[id(root)]] = root
        value = Value(None, (), {}, Spec(x.shape, x.dtype))
        offset = (x.ctypes.data - root.ctypes.data) // x.itemsize
        views[value] = StridedView(bases[id(root)], x.shape, tuple(s // x.itemsize for s in x.strides), offset)
        values.append(value)
    settings = {"scale": scale, "causal": case.causal}
    result = Value(op.op, tuple(values), settings, op.op.spec(*values, **settings))
    made = lower_attention(result, views, target)
    assert isinstance(made, LoweredAttention), made
    assert made.arguments[-1] is result
    return made, [arrays[v] for v in made.arguments[:-1]]


def run(
    made: LoweredAttention, arrays: Sequence[Any], shape: tuple[int, ...], dtype: Any, target: Target, back: bool
) -> Any:
    """What the kernel writes, its tiles in either order, with the scratch memory of one of two threads."""
    engine = load([emit_object(target, made.text)])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(engine.address(made.name))
    out = Guarded(shape, dtype, math.nan)
    scratch = Guarded((2, made.scratch), np.uint8, 0xFF)
    table = (ctypes.c_void_p * (len(arrays) + 2))(*(a.ctypes.data for a in (*arrays, out.array, scratch.array)))
    for tile in reversed(range(made.tiles)) if back else range(made.tiles):
        function(table, tile, int(back))
    assert (scratch.check()[1 - back] == 0xFF).all()
    return out.check()


def close(ours: Any, theirs: Any, dtype: Any) -> None:
    tolerance = CLOSE[dtype] * max(1.0, np.abs(theirs).max(initial=0.0))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)


@variants
def test_values(case: Case, target: Target, dtype: Any) -> None:
    given, scale = drawn(case, dtype), case.size**-0.5
    made, arrays = lowered(attention, given, case, scale, target)
    shape = (*case.lead[:-1], case.rows, case.lead[-1], case.width)
    out = run(made, arrays, shape, dtype, target, back=False)
    close(out.swapaxes(-2, -3), expected(case, given, scale)[0], dtype)
    np.testing.assert_array_equal(run(made, arrays, shape, dtype, target, back=True), out)


@variants
def test_gradients(case: Case, target: Target, dtype: Any) -> None:
    given, scale = drawn(case, dtype), -0.4
    g = RNG.normal(size=(*case.lead[:-1], case.rows, case.lead[-1], case.width)).astype(dtype)
    made, arrays = lowered(attention_gradient, [g, *given], case, scale, target)
    shapes = [x.shape for x in given[:3]]
    shape = attention_gradient.op.spec(g, *given, scale=scale, causal=case.causal).shape  # type: ignore[attr-defined]
    out = run(made, arrays, shape, dtype, target, back=False)
    theirs = expected(case, given, scale, g.swapaxes(-2, -3))
    for i, part in enumerate(theirs):
        close(gradient_part(out, i, *shapes).array, part, dtype)
    np.testing.assert_array_equal(run(made, arrays, shape, dtype, target, back=True), out)


@targets
@pytest.mark.parametrize("gradient", [False, True])
def test_operands_are_read_where_they_lie(target: Target, gradient: bool) -> None:
    """As parts of one projection, (B, T, 3 H D), with numbers around that must not be read."""
    case = Case((2, 3), 37, 37, 12, 12, causal=True)
    memory = np.full(7 + 2 * 37 * 3 * 40, math.nan, np.float32)
    projected = memory[7:].reshape(2, 37, 3, 40)[..., :36]
    projected[...] = RNG.normal(size=projected.shape)
    q, k, v = (projected[:, :, i].reshape(2, 37, 3, 12).swapaxes(1, 2) for i in range(3))
    assert all(np.shares_memory(x, memory) for x in (q, k, v))
    g = np.full((2, 37, 3, 16), math.nan, np.float32)[..., :12]
    g[...] = RNG.normal(size=g.shape)
    op, operands = (attention_gradient, [g, q, k, v]) if gradient else (attention, [q, k, v])
    made, arrays = lowered(op, operands, case, 0.3, target)
    assert len(arrays) == (2 if gradient else 1)
    shape = (2, 37, 3, 3, 12) if gradient else (2, 37, 3, 12)
    out = run(made, arrays, shape, np.float32, target, back=False)
    if not gradient:
        close(out.swapaxes(1, 2), expected(case, (q, k, v), 0.3)[0], np.float32)
        return
    for i, part in enumerate(expected(case, (q, k, v), 0.3, g.swapaxes(1, 2))):
        close(out[:, :, i].swapaxes(1, 2), part, np.float32)


@targets
@pytest.mark.parametrize("truths", [False, True])
def test_heads_that_share_keys_and_masks_in_any_order(target: Target, truths: bool) -> None:
    """Repeated by a stride of 0, and a mask whose rows are its columns."""
    case = Case((2, 4), 19, 23, 6, 10, mask=(1, 1, 19, 23), truths=truths)
    q, k, v, mask = drawn(case, np.float32)
    k, v = (np.broadcast_to(x[:, :1], x.shape) for x in (k, v))
    mask = np.ascontiguousarray(mask.swapaxes(-1, -2)).swapaxes(-1, -2)
    made, arrays = lowered(attention, [q, k, v, mask], case, 0.5, target)
    out = run(made, arrays, (2, 19, 4, 10), np.float32, target, back=False)
    close(out.swapaxes(1, 2), expected(case, (q, k, v, mask), 0.5)[0], np.float32)


def test_special_numbers() -> None:
    """NaN reaches the rows that see it, infinite and huge scores do what they do in NumPy."""
    case = Case((1,), 40, 40, 8, 8, causal=True)
    q, k, v = drawn(case, np.float32)
    k[0, 30] = math.nan
    q[0, 3] = 1e20
    q[0, 5, 0], k[0, 2, 0] = math.inf, 1.0
    v[0, 0, 1] = math.inf
    settings = {"scale": 1.0, "causal": True}
    made, arrays = lowered(attention, [q, k, v], case, 1.0, host())
    out = run(made, arrays, (40, 1, 8), np.float32, host(), back=False)
    with np.errstate(all="ignore"):
        theirs = attention.op.evaluate(q, k, v, **settings)  # type: ignore[attr-defined]
    assert np.isnan(theirs[30:]).all()
    np.testing.assert_allclose(out[:30], theirs[:30], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(np.isnan(out[30:]), np.isnan(theirs[30:]))


def test_small_weights_vanish_and_equal_ones_are_equal() -> None:
    case = Case((1,), 2, 3, 1, 1)
    q = np.array([[[1.0], [0.0]]], np.float32)
    k = np.array([[[0.0], [-200.0], [-80.0]]], np.float32)
    v = np.array([[[1.0], [1e30], [1e30]]], np.float32)
    made, arrays = lowered(attention, [q, k, v], case, 1.0, host())
    out = run(made, arrays, (2, 1, 1), np.float32, host(), back=False).ravel()
    np.testing.assert_allclose(out, [1.0 + 1e30 * math.exp(-80.0), 2e30 / 3], rtol=1e-5)


@pytest.mark.parametrize("triple", FOREIGN)
@pytest.mark.parametrize("op", [attention, attention_gradient])
def test_other_machines(op: Any, triple: str) -> None:
    case = Case((2,), 33, 20, 7, 5, causal=True)
    given = drawn(case, np.float32)
    operands = given if op is attention else [np.zeros((33, 2, 5), np.float32), *given]
    target = Target.from_triple(triple)
    assert target.vector_bits == 128
    made, _ = lowered(op, operands, case, 0.5, target)
    assert made.name in target.emit_assembly(made.text)


def test_what_no_kernel_computes() -> None:
    def reason(q: Any, k: Any, v: Any) -> Any:
        values = [Value(None, (), {}, Spec(x.shape, x.dtype)) for x in (q, k, v)]
        views = {
            value: StridedView(value, x.shape, tuple(s // x.itemsize for s in x.strides), 0)
            for value, x in zip(values, (q, k, v), strict=True)
        }
        settings = {"scale": 1.0, "causal": False}
        result = Value(attention.op, tuple(values), settings, attention.op.spec(*values, **settings))  # type: ignore[attr-defined]
        made = lower_attention(result, views, host())
        assert reason_against(result, views, host()) == ("" if isinstance(made, LoweredAttention) else made)
        return made

    x = np.zeros((2, 4, 4), np.float32)
    assert isinstance(reason(x, x, x), LoweredAttention)
    assert "one piece" in reason(x.swapaxes(1, 2), x, x)
    assert "no elements" in reason(x[:, :0], x, x)
    assert "dtype" in reason(*[x.astype(np.float16)] * 3)
    assert "different types" in reason(x, x.astype(np.float64), x)
    assert "bytes" in reason(x, *[np.broadcast_to(x[:, :1], (2, 10**6, 4))] * 2)


def test_equal_equations_have_equal_text() -> None:
    case = Case((2, 3), 33, 20, 7, 5)
    first, second = (lowered(attention, drawn(case, np.float32), case, 0.5, host())[0] for _ in range(2))
    assert first.text == second.text
    assert first.name == second.name


def test_equations_of_a_step() -> None:
    """As traced: q, k and v are parts of one projection, and so are their gradients parts of what one kernel writes."""
    projection = ad.tensor(RNG.normal(size=(12, 36)).astype(np.float32), requires_grad=True)

    @ad.compile
    def step(x: Any) -> Any:
        projection.grad = None
        q, k, v = (part.view(2, 21, 3, 4).transpose(1, 2) for part in (x @ projection).split(12, dim=2))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        loss = (out.transpose(1, 2).reshape(2, 21, 12) ** 2).sum()
        loss.backward()
        return loss

    x = ad.tensor(RNG.normal(size=(2, 21, 12)).astype(np.float32))
    step(x)
    graph, views, checked = step.graph, {}, []
    known = {v: x.numpy() if v.shape == (2, 21, 12) else projection.detach().numpy() for v in graph.inputs}
    for value in graph.equations:
        known[value] = evaluate_equation(value, known)
        if value.op.family == "attention":
            made = lower_attention(value, views, host())
            assert isinstance(made, LoweredAttention), made
            arrays = [np.ascontiguousarray(known[v]) for v in made.arguments[:-1]]
            close(run(made, arrays, value.shape, np.float32, host(), back=False), known[value], np.float32)
            checked.append((value.op.name, len(arrays)))
    assert checked == [("attention", 1), ("attention_gradient", 2)]
