"""What the lines of the random programs look like: functions by name, reductions, and writes in place."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.support.fuzz import generate as shared
from tests.support.fuzz.eager.programs import Tensors, torch
from tests.support.fuzz.generate import Shape, Template, dim_of, key_of

import adjoint
import adjoint.nn.functional as F

if TYPE_CHECKING:
    from tests.support.fuzz.eager.generate import Author


def distinct(v: Any) -> bool:
    return len(torch.unique(v.detach())) == v.numel()


def _split(a: Author, x: str, v: Any) -> Any:
    if not v.ndim:
        return None
    d = dim_of(a, v)
    n = v.shape[d]
    size = a.random.randint(1, n)
    first = a.random.randint(0, n)
    sections = f"split([{first}, {n - first}], {d})"
    text = a.one_of([f"split({size}, {d})", f"chunk({size}, {d})", f"unbind({d})", f"tensor_split(2, {d})", sections])
    count = len(eval(f"v.{text}", {"v": v.detach()}))
    return f"{x}.{text}", range(count)


def _as_strided(a: Author, x: str, v: Any) -> str | None:
    n = v.numel()
    if not v.is_contiguous() or v._base is not None:
        return None
    size = a.random.randint(1, n)
    step = a.random.randint(1, max(1, (n - 1) // max(1, size - 1)))
    spare = n - 1 - (size - 1) * step
    return f"{x}.as_strided(({size},), ({step},), {a.random.randint(0, spare)})" if spare >= 0 else None


VIEWS: list[Template] = [*shared.VIEWS, _split, _split, _as_strided]


def functions(count: int) -> Iterator[str]:
    """The public functions of so many tensors of numbers that PyTorch has too."""
    for spelled, ours, theirs in (("t.", adjoint, torch), ("F.", F, torch.nn.functional)):
        for name in sorted(dir(theirs)):
            if name[0] != "_" and name not in NOT_HERE and not name.startswith(("set_", "sym_")):
                function = getattr(ours, name, None)
                if callable(function) and _takes(function, getattr(theirs, name), count):
                    yield spelled + name


def _takes(ours: Any, theirs: Any, count: int) -> bool:
    """True for functions that make numbers of so many matrices, differentiable in all of them."""
    probes = [np.array([[0.3, 0.6], [0.2, 0.9]]), np.array([[0.5, 0.7], [0.4, 0.1]])][:count]
    if isinstance(ours, type):
        return False
    try:
        needed = [p for p in inspect.signature(ours).parameters.values() if p.default is p.empty]
        made = [f(*map(library.tensor, probes)) for f, library in ((ours, adjoint), (theirs, torch))]
        theirs(*(torch.tensor(p, requires_grad=True) for p in probes))  # some have no gradient in all of them
    except Exception:  # noqa: BLE001  whatever it says, it is none of these
        return False
    return len(needed) == count and all(isinstance(out, Tensors) and "float64" in str(out.dtype) for out in made)


def methods_in_place(count: int) -> Iterator[str]:
    """The in-place methods of so many tensors."""
    probes = [torch.full((2, 2), 0.5), torch.full((2, 2), 0.25)][:count]
    for name in sorted(dir(adjoint.Tensor)):
        if name.endswith("_") and name[0] != "_" and name not in NOT_HERE and hasattr(torch.Tensor, name):
            try:
                if getattr(torch.Tensor, name)(*[p.clone() for p in probes]).is_floating_point():
                    yield name
            except Exception:  # noqa: BLE001  it takes something else
                continue


# Random; no numbers, or shared with others; comparisons, which PyTorch writes into a leaf without a word; and functions
# that see to their arguments in another way than PyTorch, which is for their own tests. PyTorch's hardsigmoid, and what
# is made of it, takes the sixth of float32 for float64 too.
NOT_HERE = {
    "hardsigmoid", "hardswish",
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "bernoulli",
    "poisson", "binomial", "rand_like", "randn_like", "empty_like", "rrelu", "normal", "gumbel_softmax", "bernoulli_",
    "normal_", "uniform_", "exponential_", "random_", "cauchy_", "geometric_", "log_normal_", "rrelu_", "dropout_",
    "from_numpy", "as_tensor", "asarray", "tensor", "compile", "broadcast_shapes", "requires_grad_", "detach_", "set_",
    "share_memory_", "resize_as_", "t_", "squeeze_",
    "logical_not_", "logical_and_", "logical_or_", "logical_xor_", "eq_", "ne_", "lt_", "le_", "gt_", "ge_", "less_",
    "less_equal_", "greater_", "greater_equal_", "not_equal_",
    "tensordot", "nextafter", "nextafter_", "binary_cross_entropy", "chain_matmul", "logaddexp",
    "ldexp", "ldexp_", "kron", "cross_entropy", "diff", "linear", "histc", "inner", "sinc", "sinc_", "det", "erfinv",
    "erfinv_",
}  # fmt: skip
TIES = {"std", "max", "min", "amax", "amin", "median", "nanmedian", "sort", "topk", "msort", "quantile"}
ONE, TWO = list(functions(1)), list(functions(2))
ONE_IN_PLACE, TWO_IN_PLACE = list(methods_in_place(1)), list(methods_in_place(2))


def _one(a: Author, x: str, v: Any) -> str | None:
    name = a.one_of(ONE)
    return None if name[2:] in TIES and not distinct(v) else f"{name}({x})"


def _two_by_name(a: Author, x: str, v: Any) -> str:
    return f"{a.one_of(TWO)}({x}, 0.5 * {a.fitting(tuple(v.shape), False)} + 0.1)"


def _two(a: Author, x: str, v: Any) -> str:
    y = a.fitting(tuple(v.shape))
    return a.one_of([
        f"{x} + {y}", f"{x} - {y}", f"{x} * {y}", f"{x} / ({y} * {y} + 1.0)", f"{y} * {x}",
        f"1.5 - {x}", f"2.0 / ({x} * {x} + 1.0)",
        f"t.maximum({x}, 0.5 * {x} + 0.1)", f"t.atan2({x}, {x} * {x} + 1.0)", f"{x} ** 2", f"{x} ** 3.0", f"{x} ** 0",
        f"t.where({x} > 0.1, {x}, {y})", f"t.where({x} > 0.1, {y}, {x})", f"({x} * {x} + 0.5) ** {y}", f"2.0 ** {x}",
        f"t.clamp({x}, -1.0, 1.0)", f"t.add({x}, {y}, alpha=2)", f"t.rsub({x}, {y}, alpha=0.5)",
        f"t.fmod({x}, 1.5)", f"t.remainder({x}, 1.5)", f"{x}.masked_fill({x} < 0.0, 0.3)",
        f"t.lerp({x}, {a.fitting(tuple(v.shape), False)}, 0.3)",
        f"t.addcmul({x}, {a.fitting(tuple(v.shape), False)}, {a.fitting(tuple(v.shape), False)}, value=0.5)",
        f"t.addcdiv({x}, {a.fitting(tuple(v.shape), False)}, {x} * {x} + 1.0)",
    ])  # fmt: skip


def _reduction(a: Author, x: str, v: Any) -> str | None:
    d = dim_of(a, v)
    keep = a.one_of([True, False])
    plain = ["sum", "mean", "prod", "logsumexp", "norm"]
    text = a.one_of([
        *[f"{x}.{name}({'2, ' if name == 'norm' else ''}{d}, keepdim={keep})" for name in plain],
        f"{x}.cumsum({d})", f"{x}.cumprod({d})", f"{x}.logcumsumexp({d})", f"{x}.softmax({d})",
        f"{x}.log_softmax({d})", f"{x}.std({d})", f"{x}.var({d}, keepdim={keep})",
        f"{x}.amax({d})", f"{x}.amin({d})", f"{x}.max({d})[0]", f"{x}.min({d}).values", f"{x}.sort({d})[0]",
        f"{x}.topk({a.random.randint(1, v.shape[d]) if v.ndim else 1}, {d})[0]",
    ])  # fmt: skip
    if any(name in text for name in ("std", "amax", "amin", "max(", "min(", "sort", "topk")) and not distinct(v):
        return None
    return None if ("std" in text or "var" in text) and (not v.ndim or v.shape[d] < 2) else text


def _product(a: Author, x: str, v: Any) -> str | None:
    options = shared.products(a, x, v)
    if v.ndim == 1:
        options.append(f"{x} * {a.fitting(tuple(v.shape), False)}")
    elif v.ndim == 2:
        n, m = v.shape
        options += [
            f"F.layer_norm({x}, ({m},))" if m > 1 else f"{x} * 1", f"F.cosine_similarity({x}, leaf(({m},), 5), dim=1)",
            f"F.cross_entropy({x}, t.tensor({[i % m for i in range(n)]}))", f"F.mse_loss({x}, constant({n, m}, 3))",
        ]  # fmt: skip
    elif v.ndim == 3:
        options.append(f"F.avg_pool2d({x}, 2, padding=1)")
    return a.one_of(options) if options else None


def _joined(a: Author, x: str, v: Any) -> str | None:
    s, d = tuple(v.shape), dim_of(a, v)
    options = shared.joins(a, x, v)
    if v.ndim:
        same = a.one_of([n for n, o in a.tensors().items() if tuple(o.shape) == s])
        options += [
            f"t.hstack([{x}, {same}])", f"t.vstack([{x}, {same}])", f"{x}[{key_of(a, s, True, False)}]",
            f"{x}[{x} > 0.0]", f"t.masked_select({x}, {x} < 0.5)",
            f"t.scatter_add({x}, {d}, t.zeros({s}, dtype=t.int64), {same})",
        ]  # fmt: skip
    return a.one_of(options)


VALUES: list[Template] = [_one, _one, _two_by_name, _two, _two, _two, _reduction, _product, _joined]


def write_two(a: Author, x: str, v: Any) -> str:
    s = tuple(v.shape)
    y, z = a.fitting(s), a.fitting(s, False)
    return a.one_of([
        f"{x}.add_({y})", f"{x}.sub_({y})", f"{x}.mul_({y})", f"{x}.add_({y}, alpha=0.5)", f"{x}.sub_({y}, alpha=2)",
        f"{x}.div_({y} * {y} + 1.0)",
        f"{x}.mul_({x})", f"{x}.add_({x})", f"{x}.div_(2.0)", f"{x}.pow_(2)", f"{x}.atan2_({z})", f"{x}.fmod_(1.5)",
        f"{x}.remainder_(1.5)",
        f"{x}.lerp_({z}, 0.3)", f"{x}.addcmul_({z}, {z}, value=0.5)", f"{x}.addcdiv_({z}, {z} * {z} + 1.0)",
        f"{x}.clamp_(-1.0, 1.0)",
        f"{x}.masked_fill_({x} > 0.3, 0.25)", f"{x}.masked_fill_({x} > 0.3, {a.fitting((), False)})",
        f"{x}.fill_({a.number()})",
        f"{x}.fill_({a.fitting((), False)})", f"{x}.zero_()", f"{x}.copy_({z})", f"{x}.copy_({z})", f"{x} += {y}",
        f"{x} -= {y}", f"{x} *= {y}",
        f"{x} /= ({y} * {y} + 1.0)", f"{x} **= 2", f"{x}.clip_(min=-0.5)", f"{x}.add_({y}).mul_(0.5)",
        f"{x}.clone().mul_({y})",
        f"F.relu({x}, inplace=True)", f"F.leaky_relu({x}, 0.2, inplace=True)", f"F.hardtanh({x}, inplace=True)",
    ])  # fmt: skip


def _write_at(a: Author, x: str, v: Any) -> str | None:
    s = tuple(v.shape)
    if not s:
        return f"{x}.add_(1.0)"
    d = dim_of(a, v)
    n = s[d]
    at = a.random.sample(range(n), a.random.randint(1, n))
    part = list(s)
    part[d] = len(at)
    y, p = a.fitting(s, False), f"{a.fitting(tuple(part), False)}.expand({tuple(part)}).clone()"
    options = [
        f"{x}.tril_()" if v.ndim > 1 else f"{x}.neg_()",
        f"{x}.triu_()" if v.ndim > 1 else f"{x}.neg_()",
        f"{x}.scatter_add_({d}, t.zeros({s}, dtype=t.int64), {y} + 0.0 * {x})",
        f"{x}.index_put_((t.tensor({at_first(a, s)}),), {a.fitting(s[1:], False)})",
        f"{x}.index_put_((t.tensor({at_first(a, s)}),), {a.fitting(s[1:], False)}, accumulate=True)",
        f"{x}.index_add_({d}, t.tensor({at}), {p})",
        f"{x}.index_copy_({d}, t.tensor({at}), {p})",
        f"{x}.index_fill_({d}, t.tensor({at}), 0.5)",
        f"{x}.scatter_({d}, t.zeros({s}, dtype=t.int64), 0.5)",
        f"{x}.masked_scatter_({x} > 0.0, {y} + 0.0 * {x})",
        f"{x}.fill_diagonal_(0.5)" if v.ndim == 2 else f"{x}.neg_()",
    ]
    return a.one_of(options)


def at_first(a: Author, shape: Shape) -> list[int]:
    return a.random.sample(range(shape[0]), a.random.randint(1, shape[0]))


WRITES: list[Template] = [
    *[lambda a, x, v: f"{x}.{a.one_of(ONE_IN_PLACE)}()"] * 2,
    lambda a, x, v: f"{x}.{a.one_of(TWO_IN_PLACE)}({a.fitting(tuple(v.shape), False)})",
    write_two, write_two, write_two, _write_at,
]  # fmt: skip
