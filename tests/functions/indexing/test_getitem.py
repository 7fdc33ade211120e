"""Index expressions against PyTorch, read and written, with gradients; gather, scatter and their kin."""

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

X = np.arange(60.0).reshape(3, 4, 5)
V = np.arange(4.0)
KEYS = [
    "0", "-1", "1:", ":", "::2", "1:3, 0", "..., 0", "0, ...", "None", "None, 0", ":, None", "..., None", "0, None, 1",
    "1:1", "-2:", "1, 2, 3", "..., 1:3", ":, -1, ::3", "None, ..., None", "5:", ":-1, 1:-1", "0:1", "()", "[0, 2]",
    "[0, 2, 0]", "i", "i.reshape(3, 1)", "i, j", "i, 0", "0, j", "0, :, j", ":, j", ":, i, j", "i, :, j", "i, :, 1:3",
    "..., j", "i, ...", "i, None", "None, i", ":, None, j", "i, None, j", "i, 1:3, None", "0, None, j",
    "[0, 1], [1, 2], [3, 4]", "i[:, None], j", "1:, j", "1:, j, 2", "::2, j[:2], 1:4", "[]", "m", "~m",
    "x.detach() > 20", "m3", "i, r", "m, 0", "m, :, [0, 1]", ":, n", "..., l", "0, n", "0, :, l",
    "m[:, None].expand(3, 4)", "True", "False", "True, 0", "i[0]", "t.tensor(1)", ":, t.tensor(-1)", "t.tensor(1), j",
    "i.to(t.int32)", "-i", "slice(1, None)", "t.tensor([True, False, True])", "None, m", "0, 1:3, l",
    "[True, False, True]",
]  # fmt: skip
BINDINGS: dict[str, Any] = {
    "i": np.array([2, 0, 1]), "j": np.array([0, 3, 1]), "r": np.array([1, 1, 3]), "m": np.array([True, False, True]),
    "n": np.array([False, True, True, False]), "l": np.array([True, False, False, True, True]),
    "m3": np.arange(60).reshape(3, 4, 5) % 7 == 0,
}  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_get(key: str) -> None:
    same(f"x[{key}]", x=X, **BINDINGS)


@pytest.mark.parametrize("key", KEYS)
def test_set(key: str) -> None:
    same(f"[y := x.clone(), y.__setitem__({_key(key)}, 7.0), y][2]", x=X, gradient=False, **BINDINGS)


@pytest.mark.parametrize("key", KEYS)
def test_set_with_gradient(key: str) -> None:
    if key == "[0, 2, 0]":
        pytest.skip("which of two values at one place stays is not promised")
    if key in ("True", "False", "True, 0"):
        pytest.skip("PyTorch drops the gradient of the value")
    expression = f"[y := x * 1.0, v := w * x[{key}] * 2.0, y.__setitem__({_key(key)}, v), y * y][3]"
    same(expression, x=X, w=np.array(1.5), **BINDINGS)


def _key(key: str) -> str:
    """The key as an expression: `1:, j` cannot stand outside brackets, so a helper object takes it from them."""
    return f"type('K', (), {{'__class_getitem__': classmethod(lambda c, k: k)}})[{key}]"


@pytest.mark.parametrize("expression", [
    "x[0, 1, 2]", "v[1]", "v[-1]", "v[t.tensor(2)]", "v[[1, 1, 1]]", "v[t.tensor([0, 0, -1])]", "v[v.detach() > 5]",
    "v[None][0]", "x[1:][0, 1:][:, 2]", "v[[True, False, True, False]]", "x[0][[0, 1]]", "x[i][:, j]",
])  # fmt: skip
def test_chains_and_repeats(expression: str) -> None:
    same(expression, x=X, v=V, **BINDINGS)


@pytest.mark.parametrize("expression", [
    "x.__setitem__(0, t.ones(5))", "x.__setitem__((0, 1), 3)", "x.__setitem__(slice(None), t.ones(1, 1, 4, 5))",
    "x.__setitem__(i, 0.5)", "x.__setitem__((i, j), t.arange(3.0, dtype=t.float64))",
    "x.__setitem__((0, slice(None), j), t.arange(12.0, dtype=t.float64).reshape(4, 3))", "x.__setitem__(m, -1)",
    "x.__setitem__(m3, 0)", "x.__setitem__(Ellipsis, t.ones(5, dtype=t.int64))", "x.__setitem__((0, 0), True)",
    "x.__setitem__(0, t.zeros(4, 5))", "x.__setitem__((slice(None), 1), t.ones(1, 5))", "x[0].__setitem__(0, 9)",
    "x.transpose(0, 2).__setitem__((0, 0), 1)", "x.__setitem__((m, 0), t.ones(2, 5, dtype=t.float64))",
])  # fmt: skip
def test_assigned_values(expression: str) -> None:
    same(f"[{expression}, x, x._version][1:]", x=X, gradient=False, **BINDINGS)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("v[4]", "index 4 is out of bounds for dimension 0 with size 4"),
        ("v[-5]", "index -5 is out of bounds for dimension 0 with size 4"),
        ("x[0, 4]", "index 4 is out of bounds for dimension 1 with size 4"),
        ("v[t.tensor([4])]", "index 4 is out of bounds"),
        ("v[[0, -5]]", "is out of bounds"),
        ("v[0, 0]", "too many indices for tensor of dimension 1"),
        ("v[t.tensor([1.0])]", "tensors used as indices must be long, "),
        ("v[::-1]", "step must be greater than zero"),
        ("v[1.5]", "only integers, slices (`:`), ellipsis (`...`), None and long or"),
        (
            "v[t.tensor([True, False])]",
            "The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [4] at index 0",
        ),
        ("x[:, t.tensor([True, False])]", "does not match the shape of the indexed tensor"),
        (
            "t.take_along_dim(x, g, 1)",
            "The size of tensor a (5) must match the size of tensor b (4) at non-singleton dimension 2",
        ),
        ("x[[0, 1], [0, 1, 2]]", "shape mismatch: indexing"),
        ("v.__setitem__(4, 1)", "index 4 is out of bounds for dimension 0 with size 4"),
        ("v.__setitem__(t.tensor([0, 4]), 1)", "out of bounds"),
        (
            "v.__setitem__(t.tensor([0, 1]), t.ones(3, dtype=t.float64))",
            "shape mismatch: value tensor of shape [3] cannot be broadcast to indexing result of shape [2]",
        ),
        ("v.__setitem__(t.tensor([0, 1]), t.ones(2))", "Index put requires the source and destination dtypes match"),
        ("t.tensor(1.0)[0]", ""),
        ("t.gather(x, 0, i)", "Index tensor must have the same number of dimensions as input tensor"),
        ("t.gather(v, 0, t.tensor([4]))", "index 4 is out of bounds for dimension 0 with size 4"),
        ("t.gather(v, 0, t.tensor([-1]))", "index -1 is out of bounds for dimension 0 with size 4"),
        ("t.gather(v, 0, v)", "Expected dtype int32/int64 for index"),
        ("t.index_select(v, 0, t.tensor([4]))", "index out of range in self"),
        ("t.index_select(v, 0, t.tensor([-1]))", "index out of range in self"),
        ("t.index_select(x, 0, t.tensor([7]))", "index out of range in self"),
        ("t.index_select(x, 1, t.tensor([7]))", "INDICES element is out of DATA bounds, id=7"),
        ("t.index_select(x[:, :0], 1, t.tensor([0]))", "index_select(): self indexing axis dim should be positive"),
        ("t.index_select(v, 0, t.tensor([[1]]))", "Index is supposed to be a vector"),
        ("t.scatter_add(v, 0, t.tensor([7]), v)", "index 7 is out of bounds for dimension 0 with size 4"),
        ("t.tril(v)", "must have at least 2 dimensions"),
        ("t.masked_select(v, i)", "masked_select: expected BoolTensor"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, x=X, v=V, g=np.zeros((3, 3, 4), np.int64), **BINDINGS)


@pytest.mark.parametrize("expression", [
    "t.gather(x, 0, t.tensor([], dtype=t.int64))", "t.gather(v[1], 0, t.tensor([0, 0]))",
    "t.gather(v[:1], 0, t.tensor(0))", "t.gather(v[1], 0, t.tensor(0))", "v[1].index_select(0, t.tensor([0]))",
    "v[1].index_select(0, t.tensor([0, 0]))",
    "t.gather(x, 1, g)", "x.gather(-1, g)", "t.gather(x, 0, index=g[:1])", "t.gather(v, 0, i)",
    "t.take_along_dim(x, g[..., :1], 1)", "t.take_along_dim(x[..., :4], g[:1], 1)", "t.take_along_dim(x, i)",
    "t.scatter_add(x, 1, g, g.to(t.float64))", "t.scatter_add(x, 0, g[:2, :, :2], x.detach())",
    "x.scatter_add(2, g, x.detach())", "t.index_select(x, 1, i)", "x.index_select(-1, i.to(t.int32))",
    "t.index_select(v, 0, t.tensor(2))", "t.nonzero(x.detach())", "v.detach().nonzero(as_tuple=True)",
    "t.nonzero(t.tensor(5))", "t.nonzero(t.tensor(0))", "t.masked_select(x, m3)", "t.masked_select(x, l)",
    "t.masked_select(t.tensor(2.0), t.tensor(True))", "t.tril(x)", "t.triu(x)", "x.tril(1)", "x.triu(diagonal=-1)",
    "t.tril(x[0])", "t.triu(t.ones(2, 2, dtype=t.int64))",
])  # fmt: skip
def test_gather_and_kin(expression: str) -> None:
    g = np.random.default_rng(0).integers(0, 3, (3, 3, 4))
    same(expression, x=X, v=V, g=g, **BINDINGS)


def test_a_list_of_lists_or_tensors_is_a_tuple() -> None:
    """As in PyTorch, which warns of it too."""
    x = ad.tensor(X)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[[0, 1], [2, 0]]].tolist() == X[[0, 1], [2, 0]].tolist()
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[ad.tensor(0), ad.tensor(2)]].tolist() == X[0, 2].tolist()
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[slice(1), None]].tolist() == X[:1, None].tolist()
    assert (x[[1, 0]].tolist(), x[[[0]] * 32].shape) == (X[[1, 0]].tolist(), (32, 1, *X.shape[1:]))


def test_uint8_is_a_mask() -> None:
    x = ad.arange(3)
    mask = ad.tensor([0, 1, 2], dtype=ad.uint8)
    with pytest.warns(UserWarning, match="dtype uint8 is deprecated") as warned:
        assert x[mask].tolist() == [1, 2]
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="dtype uint8 is deprecated"):
        x[mask] = 7
    assert x.tolist() == [0, 7, 7]


def test_places_of_an_expanded_tensor_are_written_with_a_warning() -> None:
    x = ad.tensor(0.0)
    many = x.expand(3)
    with pytest.warns(UserWarning, match="expanded tensor is deprecated"):
        many[many == 0] = 2.0
    assert x.item() == 2.0
    with pytest.warns(UserWarning, match="expanded tensor is deprecated"):
        many[ad.tensor([1])] = 3.0
    assert many.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda x: x["a":], TypeError, "slice indices must be integers or None or have an __index__ method"),
        (lambda x: x.sum()[0], IndexError, "invalid index of a 0-dim tensor"),
        (lambda x: x.__delitem__(0), TypeError, "Tensor does not support deleting items"),
        (lambda x: x[ad.tensor([99])], IndexError, "index 99 is out of bounds for dimension 0 with size"),
    ],
)
def test_what_is_no_index_is_refused(act: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        act(ad.tensor(X))


def test_assignment_through_repeated_memory_is_refused() -> None:
    x = ad.zeros(3).expand(2, 3)
    with pytest.raises(RuntimeError, match="refers to a single memory location"):
        x[:, 0] = 1.0


def test_leaf_that_requires_grad_is_not_assigned_to() -> None:
    x = ad.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        x[0] = 1.0
    with ad.no_grad():
        x[0] = 1.0
    assert x.tolist() == [1.0, 0.0, 0.0]
    assert x.is_leaf
