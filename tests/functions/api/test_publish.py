"""The surface: functions are methods, in-place twins exist, signatures are PyTorch's, `__all__` is what is public."""

import importlib
import inspect
from typing import Any

import pytest

import adjoint as ad
from adjoint.functions.api.publish import in_place, public

MODULES = [
    "creation.creation", "creation.linspace_logspace", "linalg.einsum", "indexing.gather", "indexing.masked_nonzero",
    "shape.join", "linalg.matmul", "linalg.norms", "elementwise.pointwise", "creation.random", "reduction.cumulative",
    "reduction.reduce", "reduction.sort_quantile_unique", "reduction.statistics", "shape.diag_tril", "shape.flip_roll",
    "shape.repeat", "shape.shape", "shape.split",
]  # fmt: skip
NAMES = [(m, name) for m in MODULES for name in importlib.import_module(f"adjoint.functions.{m}").__all__]

# (function, PyTorch's documented parameters with their defaults)
SIGNATURES: dict[str, str] = {
    "add": "input, other, *, alpha=1", "sub": "input, other, *, alpha=1", "mul": "input, other",
    "pow": "input, exponent", "div": "input, other, *, rounding_mode=None", "clamp": "input, min=None, max=None",
    "where": "condition, input, other", "addcmul": "input, tensor1, tensor2, *, value=1",
    "addcdiv": "input, tensor1, tensor2, *, value=1", "lerp": "input, end, weight",
    "isclose": "input, other, rtol=1e-05, atol=1e-08, equal_nan=False",
    "allclose": "input, other, rtol=1e-05, atol=1e-08, equal_nan=False", "equal": "input, other",
    "round": "input, *, decimals=0", "sum": "input, dim=None, keepdim=False, *, dtype=None",
    "mean": "input, dim=None, keepdim=False, *, dtype=None", "prod": "input, dim=None, keepdim=False, *, dtype=None",
    "amax": "input, dim=(), keepdim=False", "amin": "input, dim=(), keepdim=False",
    "argmax": "input, dim=None, keepdim=False", "argmin": "input, dim=None, keepdim=False",
    "cumsum": "input, dim, *, dtype=None", "logsumexp": "input, dim, keepdim=False",
    "argsort": "input, dim=-1, descending=False, *, stable=False",
    "sort": "input, dim=-1, descending=False, *, stable=False", "topk": "input, k, dim=-1, largest=True, sorted=True",
    "count_nonzero": "input, dim=None", "norm": "input, p='fro', dim=None, keepdim=False, *, dtype=None",
    "reshape": "input, shape", "permute": "input, dims", "transpose": "input, dim0, dim1",
    "flatten": "input, start_dim=0, end_dim=-1", "unflatten": "input, dim, sizes", "squeeze": "input, dim=None",
    "unsqueeze": "input, dim", "movedim": "input, source, destination", "flip": "input, dims",
    "narrow": "input, dim, start, length", "broadcast_to": "input, shape", "t": "input", "cat": "tensors, dim=0",
    "stack": "tensors, dim=0", "hstack": "tensors", "vstack": "tensors",
    "split": "tensor, split_size_or_sections, dim=0", "chunk": "input, chunks, dim=0", "unbind": "input, dim=0",
    "tile": "input, dims", "repeat_interleave": "input, repeats, dim=None",
    "gather": "input, dim, index, *, sparse_grad=False", "scatter_add": "input, dim, index, src",
    "index_select": "input, dim, index", "masked_select": "input, mask", "take_along_dim": "input, indices, dim=None",
    "nonzero": "input, *, as_tuple=False", "tril": "input, diagonal=0", "triu": "input, diagonal=0",
    "matmul": "input, other", "mm": "input, mat2", "bmm": "input, mat2", "mv": "input, vec", "dot": "input, tensor",
    "outer": "input, vec2", "addmm": "input, mat1, mat2, *, beta=1, alpha=1", "einsum": "equation, *operands",
    "masked_fill": "input, mask, value",
}  # fmt: skip


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_public_names_are_at_the_top(module: str, name: str) -> None:
    assert getattr(ad, name) is getattr(importlib.import_module(f"adjoint.functions.{module}"), name)
    assert name == "default_generator" or getattr(ad, name).__doc__


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    expected = inspect.signature(eval(f"lambda {SIGNATURES[name]}: 0")).parameters
    got = dict(inspect.signature(getattr(ad, name)).parameters)
    got.pop("last", None)  # of the form that PyTorch keeps for programs of old, and no longer documents
    for parameter, wanted in expected.items():
        assert parameter in got, f"{name} has no parameter {parameter}: {list(got)}"
        if name not in ("where", "split"):  # what may be left out together, and what has a second name
            assert got[parameter].default == wanted.default
    assert list(got)[: len(expected)] == list(expected)


@pytest.mark.parametrize(
    "name",
    [n for n in SIGNATURES if n not in ("where", "cat", "stack", "hstack", "vstack", "einsum", "tril")],
)
def test_functions_are_methods(name: str) -> None:
    method = getattr(ad.Tensor, name)  # once there was a sparse tensor, one that asks its operands first
    assert getattr(method, "documented_as", method) is getattr(ad, name)


@pytest.mark.parametrize("name", [
    "abs", "add", "addcdiv", "addcmul", "bitwise_and", "ceil", "clamp", "clip", "cos", "div", "divide", "eq", "erf",
    "exp", "floor", "floor_divide", "fmod", "ge", "gt", "le", "lerp", "log", "log1p", "logical_and", "logical_not",
    "lt", "masked_fill", "mul", "multiply", "ne", "neg", "pow", "reciprocal", "relu", "remainder", "round", "rsqrt",
    "scatter_add", "sigmoid", "sign", "sin", "sqrt", "square", "sub", "subtract", "tan", "tanh", "tril", "triu",
    "trunc",
])  # fmt: skip
def test_in_place_twins(name: str) -> None:
    twin = getattr(ad.Tensor, f"{name}_")
    assert twin.__name__ == f"{name}_"
    about = getattr(ad, name).__doc__
    assert twin.__doc__.startswith(f"In-place `{name}`: ")
    assert about
    assert twin.__doc__.endswith(about)


def test_keywords_of_the_array_api() -> None:
    seen: dict[str, Any] = {}

    def probe(input: Any, dim: int = 0, keepdim: bool = False) -> None:
        seen.update(dim=dim, keepdim=keepdim)

    public(method=False)(probe)(1, axis=2, keepdims=True)
    assert seen == {"dim": 2, "keepdim": True}


def test_integers_one_by_one() -> None:
    given = public(method=False, varargs_ints=True)(lambda input, shape: shape)
    forms = [given(0, 1, 2), given(0, (1, 2)), given(0, [1, 2]), given(0, shape=(1, 2)), given(input=0, shape=[1, 2])]
    assert forms == [(1, 2)] * 5
    assert given(0) == given(0, ()) == ()
    assert given(0, ad.Size([3])) == given(0, ad.tensor(3)) == (3,)


def test_in_place_writes_and_returns_the_tensor() -> None:
    double = in_place(lambda x: x * 2, "double_")
    x = ad.ones(2)
    assert double(x) is x
    assert x.tolist() == [2.0, 2.0]


def test_writes_without_history_count_and_reach_base_and_views() -> None:
    base = ad.zeros(2, 3)
    row = base[1]
    row += 2
    row.mul_(ad.tensor(1.5)).add_(ad.ones(3), alpha=0.5).clamp_(max=3.25)
    assert base.tolist() == [[0.0] * 3, [3.25] * 3]
    assert base._version == row._version == 4
    count = ad.tensor([1, 2])
    count += 1
    count *= count
    assert count.tolist() == [4, 9]
    with pytest.raises(RuntimeError):
        count += 0.5
    with pytest.raises(RuntimeError):
        row += ad.ones(2, 3)


def test_a_view_written_without_history_is_known_to_a_saved_value() -> None:
    w, base = ad.ones(2, 3, requires_grad=True), ad.ones(2, 3)
    out = (w * base).sum()
    base[0].add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


@pytest.mark.parametrize("weight", [0.25, 0.75, -1, 1.0])
def test_lerp_in_place_has_the_bits_of_lerp(weight: float) -> None:
    ad.manual_seed(0)
    x, end = ad.randn(7, 5), ad.randn(7, 5)
    wanted, shifted = x.lerp(end, weight), x[1:].lerp(x[:-1], weight)
    other = x.clone()
    assert x.lerp_(end, weight) is x
    assert x._version == 1
    assert x.numpy().tobytes() == wanted.numpy().tobytes()
    other[1:].lerp_(other[:-1], weight)  # memory that overlaps
    assert other[1:].numpy().tobytes() == shifted.numpy().tobytes()
    with ad.no_grad():
        p = ad.nn.Parameter(other).lerp_(end, weight)
    assert p.requires_grad
    with pytest.raises(RuntimeError):
        ad.nn.Parameter(other).lerp_(end, weight)


def test_pieces_of_a_view_share_its_memory_and_forbid_writes_of_one() -> None:
    x = ad.zeros(4, 3)
    for row in x[1:].unbind(0):
        row.add_(1.0)
    assert x.sum().item() == 9.0
    w = ad.ones(3, 2, requires_grad=True)
    first, *_ = (w * 1.0)[1:].unbind(0)
    with pytest.raises(RuntimeError, match="inplace"):
        first.mul_(2.0)
