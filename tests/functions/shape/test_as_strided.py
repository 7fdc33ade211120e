"""Views at strides of one's own, and in-place changes of view, against PyTorch: values, gradients, memory, errors."""

from typing import Any

import numpy as np
import pytest
from tests.support.errors import assert_raises
from tests.support.oracle import equal, same, same_error, tensor

import adjoint as ad

torch = pytest.importorskip("torch")

X = np.arange(24.0).reshape(2, 3, 4)
M = np.arange(6.0, dtype=np.float32).reshape(2, 3)
V = np.arange(7.0)
S = np.array(1.5)


@pytest.mark.parametrize("expression", [
    "x.as_strided((2, 2), (1, 1))", "t.as_strided(x, (3,), (5,), 4)", "x.as_strided((2, 3), (0, 4))",
    "x.t().as_strided((3, 2), (1, 3), 1) if x.ndim == 2 else x", "m.t().as_strided((2, 2), (2, 1))",
    "x[1].as_strided((4,), (2,))", "x[1].as_strided((4,), (2,), 3)", "x[:, 1:].as_strided((2, 2), (12, 4))",
    "m[0].expand(3, 3).as_strided((3, 3), (0, 1))", "x.as_strided((), ())", "x.as_strided((0, 3), (1, 1))",
    "(x * 2).as_strided((2, 2), (1, 1)).as_strided((3,), (1,))", "s.as_strided((3,), (0,))",
    "x.diagonal()", "x.diagonal(1, 1, 2)", "t.diagonal(x, -1, dim1=2, dim2=0)", "m.diagonal(5)", "m.diagonal(-1)",
    "x.diagonal() * x.diagonal()", "v.unfold(0, 3, 2)", "x.unfold(1, 2, 1)", "x.unfold(-1, 4, 4)",
    "v.unfold(0, 0, 3)", "s.unfold(0, 1, 1)", "x.unfold(2, 2, 1).unfold(1, 2, 1)", "x.narrow_copy(1, 1, 2)",
    "m.diagonal().as_strided((2,), (1,))",
])  # fmt: skip
def test_views(expression: str) -> None:
    same(expression, x=X, m=M, v=V, s=S)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("x.as_strided((2,), (1, 1))", "mismatch in length of strides and shape"),
        ("x.as_strided((2,), (-1,))", "as_strided: Negative strides are not supported"),
        ("x.as_strided((30,), (1,))", "are out of bounds for storage of size 192"),
        ("x.diagonal(0, 1, 1)", "diagonal dimensions cannot be identical 1, 1"),
        ("v.unfold(0, 9, 1)", "maximum size for tensor at dimension 0 is 7 but size is 9"),
        ("v.unfold(0, 2, 0)", "step is 0 but must be > 0"),
        ("v.unfold(0, -1, 1)", "size is -1 but must be >= 0"),
        ("m.requires_grad_().resize_(2)", "cannot resize variables that require grad"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, x=X, m=M, v=V)


PROGRAMS = {
    "write through an overlapping view": "y = x * 1; y.as_strided((2, 2), (1, 2), 1).mul_(3); out = y * y",
    "write through a diagonal": "y = x[0] * 1; y.diagonal().add_(x[1, 0, :3]); out = y * y",
    "write through unfolded pieces": "y = v * 1; y.unfold(0, 2, 2).mul_(2); out = y * v",
    "write through a strided view of a transpose": "y = (m * 1).t(); y.as_strided((3,), (1,), 2).zero_(); out = y * y",
    "transpose in place": "y = x * 2; y.transpose_(0, 2); out = y * y.detach()",
    "transpose in place, then write": "y = m * 2; y.t_(); y.mul_(y.detach() + 1); out = y",
    "squeeze and unsqueeze in place": "y = m * 2; y.unsqueeze_(1).squeeze_(1).unsqueeze_(0); out = y ** 2",
    "a view of what is transposed": "y = m * 2; z = y[0]; y.t_(); z.mul_(5); out = y * 3",
    "transpose of a view": "y = x * 2; z = y[1]; z.swapaxes_(0, 1); z.add_(1); out = y * y",
    "write below a strided view of a view": "y = v * 1; z = y[1:].as_strided((3,), (1,), 0); y.mul_(3); out = z * z",
    "strided in place": "y = v * 2; y.as_strided_((2, 2), (2, 3)); y.mul_(y.detach() + 1); out = y",
    "transpose of one with others": "y = m * 2; z = y.view(6); y.swapdims_(0, 1); y.mul_(3); out = z * 2",
}


@pytest.mark.parametrize("program", [pytest.param(text, id=name) for name, text in PROGRAMS.items()])
def test_in_place_programs(program: str) -> None:
    def run(library: Any) -> Any:
        names = {name: tensor(library, array) for name, array in {"x": X, "m": M, "v": V}.items()}
        leaves = list(names.values())
        exec(program, {"t": library}, names)
        out = names["out"]
        return [out, *library.autograd.grad(out.sum(), leaves, allow_unused=True, materialize_grads=True)]

    for ours, theirs in zip(run(ad), run(torch), strict=True):
        equal(ours, theirs)


@pytest.mark.parametrize(
    "method", ["t_()", "unsqueeze_(0)", "squeeze_()", "transpose_(0, 1)", "as_strided_((1,), (1,))"]
)
def test_a_leaf_that_requires_grad_stays_as_it_is(method: str) -> None:
    x = ad.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        eval(f"x.{method}")
    assert x.shape == (2, 3)


def test_changes_of_view_count_as_writes() -> None:
    x = ad.zeros(2, 3)
    alias = x.detach()
    x.t_()
    assert (x._version, alias._version) == (1, 1)
    alias[0, 1] = 5
    assert x.tolist() == [[0.0, 0.0], [5.0, 0.0], [0.0, 0.0]]


def test_views_lie_in_the_memory_of_their_base() -> None:
    x = ad.zeros(3, 4)
    for view in (x.as_strided((2, 2), (1, 5)), x.diagonal(), x.unfold(1, 2, 1), x[1:].as_strided((2,), (1,))):
        assert view._is_view()
        assert view._base is x
    x[1:].as_strided((2,), (1,)).fill_(7)
    assert (x[1].tolist(), x.storage_offset(), x[1:, 2:].storage_offset()) == ([7.0, 7.0, 0.0, 0.0], 0, 6)


def test_a_kept_value_written_through_a_strided_view_is_told() -> None:
    x = ad.ones(4, requires_grad=True)
    y = x * 1
    z = (y * y).sum()
    y.as_strided((2,), (2,)).mul_(2)
    assert_raises(RuntimeError, "has been modified by an inplace operation", z.backward)


def test_resize() -> None:
    x = ad.arange(6.0)
    assert (x.resize_(2, 2).tolist(), x._version) == ([[0.0, 1.0], [2.0, 3.0]], 1)
    assert x.resize_(2, 2)._version == 1
    assert x.resize_((3, 3)).shape == (3, 3)
    assert x.reshape(-1)[:6].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert x.resize_as_(ad.zeros(2)).tolist() == [0.0, 1.0]


def test_memory_that_arrays_see_does_not_grow() -> None:
    x = ad.ones(2, 2)
    seen = x.numpy()
    for shared in (x, ad.from_numpy(seen)):
        assert_raises(RuntimeError, "Trying to resize storage that is not resizable", shared.resize_, 3, 3)
    assert x.resize_(2).tolist() == [1, 1]
    del seen, shared
    assert x.resize_(3, 3).shape == (3, 3)


def test_shapes_under_deprecated_names() -> None:
    x: Any = ad.arange(6.0, requires_grad=True)
    with pytest.warns(UserWarning, match="non-inplace resize_as is deprecated"):
        x.resize_as(ad.zeros(2, 3))[1].sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    with pytest.warns(UserWarning, match="deprecated"), pytest.raises(RuntimeError):
        x.resize_as(ad.zeros(4))


def test_set_takes_over_memory() -> None:
    x, y = ad.zeros(3), ad.arange(6.0)
    x.set_(y[2:4])
    x.fill_(9)
    assert y.tolist() == [0.0, 1.0, 9.0, 9.0, 4.0, 5.0]
    x.set_(y, 1, (2, 2), (1, 2))
    assert (x.tolist(), x.set_().shape) == ([[1.0, 9.0], [9.0, 4.0]], (0,))
    assert_raises(RuntimeError, "Could not set tensor of type", lambda: x.set_(ad.arange(3)))


def test_empty_strided() -> None:
    x = ad.empty_strided((2, 3), (1, 2), dtype=ad.float64)
    assert (x.stride(), x.shape, x.dtype) == ((1, 2), (2, 3), ad.float64)
    x[1, 2] = 4
    assert x.t().is_contiguous()
    assert x.tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 4.0]]


def test_memory_of_a_tensor() -> None:
    x = ad.arange(6.0)[2:]
    memory = x.untyped_storage()
    assert (len(memory), memory.nbytes(), x.nbytes, x.itemsize) == (24, 24, 16, 4)
    assert memory.data_ptr() + 8 == x.data_ptr()
    assert memory == x[1:].untyped_storage()
    assert memory != x.clone().untyped_storage()


def test_as_strided_of_an_example() -> None:
    with pytest.raises(RuntimeError, match="can access memory outside of the batch, for the last of its 3 examples"):
        ad.vmap(lambda x: x.as_strided((5,), (1,), 0))(ad.ones(3, 4))


@pytest.mark.parametrize(
    ("size", "offset", "head"), [((2,), -1, "invalid storage offset -1"), ((-1,), 0, "negative dimension -1")]
)
def test_nothing_is_read_before_the_memory(size: tuple[int, ...], offset: int, head: str) -> None:
    assert_raises(RuntimeError, head, lambda: ad.arange(4.0).as_strided(size, (1,), offset))


@pytest.mark.parametrize(
    "sizes", ["(5,), (1, 1, 5)", "(5,), (3, 1, 5)", "(5,), (1, 3, 5)", "(1, 5), (1, 2, 1, 5)", "(), (1, 1)"]
)
def test_new_dimensions_of_one_element_step_over_the_rest(sizes: str) -> None:
    old, new = eval(sizes)
    assert ad.ones(old).expand(new).stride() == torch.ones(old).expand(new).stride()


@pytest.mark.parametrize("expression", [
    "t.arange(24.0).resize_((1, 2, 3, 4), memory_format=t.channels_last)",
    "t.arange(24.0).reshape(1, 2, 3, 4).resize_((1, 2, 3, 4), memory_format=t.channels_last)",
    "t.arange(24.0).resize_as_(x, memory_format=t.preserve_format)", "t.arange(24.0).resize_as_(x)",
    "t.arange(24.0).resize_as_(x[None], memory_format=t.channels_last_3d)",
])  # fmt: skip
def test_resized_in_an_order_of_memory(expression: str) -> None:
    found = []
    for library in (torch, ad):
        x = library.ones(1, 2, 3, 4).contiguous(memory_format=library.channels_last)
        out = eval(expression, {"t": library, "x": x})
        found.append((tuple(out.shape), out.stride(), out.tolist()))
    assert found[0] == found[1]
