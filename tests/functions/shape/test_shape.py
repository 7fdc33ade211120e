"""Shapes, joins and splits against PyTorch: values, gradients, shared memory, errors."""

import numpy as np
import pytest
from tests.support.oracle import same, same_error

import adjoint as ad

X = np.arange(24.0).reshape(2, 3, 4)
M = np.arange(6.0, dtype=np.float32).reshape(2, 3)
V = np.arange(3.0)
S = np.array(1.5)
E = np.zeros((0, 3))


@pytest.mark.parametrize("expression", [
    "x.reshape(6, 4)", "x.reshape((4, 6))", "x.reshape(-1)", "x.reshape(2, -1)", "t.reshape(x, (3, -1, 2))",
    "t.reshape(x, shape=(24,))", "t.reshape(input=x, shape=[4, 6])", "s.reshape(1, 1)", "s.reshape(-1)",
    "e.reshape(3, 0)", "e.reshape(0, -1)", "x.view(6, 4)", "x.view((2, 12))", "x.view(-1, 2)", "m.t().reshape(6)",
    "x.view_as(x)", "m.reshape_as(m.t())", "x.flatten()", "x.flatten(1)", "x.flatten(0, 1)", "s.flatten()",
    "t.flatten(x, -2)", "t.ravel(x)", "x.unflatten(2, (2, 2))", "x.unflatten(-1, (-1, 2))", "x.permute(2, 0, 1)",
    "x.permute((0, 2, 1))", "t.permute(x, (1, 0, 2))", "t.permute(x, dims=(-1, 0, 1))", "x.transpose(0, 2)",
    "x.transpose(-1, 1)", "s.transpose(0, 0)", "t.swapaxes(x, 0, 1)", "t.swapdims(x, 0, 1)", "m.t()", "v.t()",
    "x.select(1, 0)", "t.select(x, -1, -2)", "m.T", "x.mT", "x.movedim(0, 2)", "t.movedim(x, (0, 1), (1, 2))",
    "x.movedim(-1, 0)", "x.unsqueeze(0)", "x.unsqueeze(-1)", "s.unsqueeze(0)", "t.unsqueeze(x, 2)",
    "x.unsqueeze(1).squeeze()", "x.unsqueeze(1).squeeze(1)", "x.squeeze(0)",
    "x.unsqueeze(0).squeeze((0, 1))", "s.squeeze()", "s.squeeze(0)",
    "x.unsqueeze(0).squeeze(())", "v.expand(2, 3)", "v.expand(-1)", "m.expand(4, -1, 3)",
    "v.unsqueeze(1).expand(3, 2)", "s.expand(2, 2)", "v.expand_as(m)", "t.broadcast_to(v, (2, 3))",
    "v.broadcast_to(2, 3)",
    "v.expand(0, 3)", "x.flip(0)", "x.flip((0, 2))", "t.flip(x, dims=(1,))", "t.flip(x, [-1])", "t.flip(x, ())",
    "x.narrow(2, 1, 2)", "x.narrow(0, -1, 1)", "x.narrow(1, 3, 0)", "m.contiguous()", "m.t().contiguous()",
    "x.permute(2, 1, 0)[1:].reshape(-1)",
])  # fmt: skip
def test_views(expression: str) -> None:
    same(expression, x=X, m=M, v=V, s=S, e=E)


@pytest.mark.parametrize("expression", [
    "t.cat([m, m])", "t.cat((m, m), 1)", "t.cat([m, m], dim=-1)", "t.cat([m, m.t()], axis=1) if False else m",
    "t.concat([v, v])", "t.concatenate([m, m], 1)", "t.cat([m, v.reshape(1, 3)])", "t.cat([t.zeros(0), m])",
    "t.cat([v])", "t.cat([e, x[0, :, :3]])", "t.cat([m, m.detach().to(t.int64)])", "t.stack([v, v])",
    "t.stack([m, m], 1)", "t.stack([m, m], dim=-1)", "t.stack([s, s])", "t.hstack([m, m])", "t.hstack([v, v])",
    "t.hstack([s, s])", "t.vstack([v, m])", "t.vstack([s, s])", "x.split(2, 2)", "x.split(3, dim=2)",
    "x.split([1, 2], 1)", "x.split(split_size=[1, 2], dim=1)", "t.split(x, 1)", "e.split(2)",
    "x.chunk(2, 2)", "t.chunk(x, 3, dim=2)", "x.chunk(5, 1)",
    "e.chunk(3)", "x.unbind()", "t.unbind(x, 1)", "x.unbind(dim=-1)", "e.unbind()", "x.tile(2)", "v.tile(2, 2)",
    "t.tile(m, (2, 1, 2))", "t.tile(v, dims=(2,))", "v.repeat(2)", "m.repeat(2, 1, 2)", "m.repeat((1, 2))",
    "m.repeat(0, 1)", "m.repeat(1, 1)", "v.repeat_interleave(2)", "m.repeat_interleave(2, 1)",
    "t.repeat_interleave(m, 3, dim=0)", "m.repeat_interleave(2)", "t.repeat_interleave(m, t.tensor([1, 2]), dim=0)",
    "x.unbind(1)[1] * x.unbind(1)[0]",
])  # fmt: skip
def test_joining_and_splitting(expression: str) -> None:
    same(expression, x=X, m=M, v=V, s=S, e=E)


@pytest.mark.parametrize(
    ("expression", "head"),
    [
        ("x.reshape(5)", "shape '[5]' is invalid for input of size 24"),
        ("x.reshape(-1, 5)", "shape '[-1, 5]' is invalid for input of size 24"),
        ("x.reshape(-1, -1)", "only one dimension can be inferred"),
        ("e.reshape(-1, 0)", "because the unspecified dimension size -1 can be any value and is ambiguous"),
        ("x.view(7)", "shape '[7]' is invalid for input of size 24"),
        ("m.t().view(6)", "view size is not compatible with input tensor's size and stride"),
        ("x.flatten(2, 0)", "flatten() has invalid args: start_dim cannot come after end_dim"),
        ("m.unflatten(1, (2, 2))", "unflatten: Provided sizes [2, 2] don't multiply up to the size of dim 1 (3)"),
        ("m.unflatten(1, ())", "unflatten: sizes must be non-empty"),
        ("m.unflatten(1, (-1, -1))", "only one dimension can be inferred"),
        ("m[:, :0].unflatten(1, (2, -1, 0))", "the unspecified dimension size -1 can be any value and is ambiguous"),
        ("m[0, 0].unflatten(0, (1,))", "Dimension specified as 0 but tensor has no dimensions"),
        ("x.permute(0, 1)", "is not equal to len(dims) = 2"),
        ("m.permute(0, 0)", "permute(): duplicate dims are not allowed."),
        ("m.transpose(0, 2)", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        ("x.t()", "t() expects a tensor with <= 2 dimensions, but self is 3D"),
        ("v.mT", "Got 1-D tensor."),
        ("x.movedim((0, 1), (2, 2))", "movedim: repeated dim in `destination` ([2, 2])"),
        ("x.movedim((0, 1), (2,))", "movedim: Invalid source or destination dims"),
        ("m.unsqueeze(4)", "Dimension out of range (expected to be in range of [-3, 2], but got 4)"),
        ("m.squeeze(2)", "Dimension out of range"),
        (
            "m.expand(2, 4)",
            "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1.",
        ),
        (
            "m.expand(3)",
            "the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)",
        ),
        (
            "v.expand(-1, 3)",
            "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension 0",
        ),
        (
            "v.expand(-2)",
            "The expanded size of the tensor (-2) must match the existing size (3) at non-singleton dimension 0.",
        ),
        ("m.flip(0, 0)", "dim 0 appears multiple times in the list of dims"),
        ("m.narrow(1, 2, 2)", "start (2) + length (2) exceeds dimension size (3)."),
        ("t.cat([])", "cat(): expected a non-empty list of Tensors"),
        ("t.cat([m, v])", "Tensors must have same number of dimensions: got 2 and 1"),
        ("t.cat([m, m[:, :2]])", "Sizes of tensors must match except in dimension 0. Expected size 3 but got size 2"),
        ("t.cat([s, s])", "zero-dimensional tensor"),
        ("t.stack([])", "stack expects a non-empty TensorList"),
        ("t.stack([m, v])", "stack expects each tensor to be equal size, but got [2, 3] at entry 0 and [3] at entry 1"),
        ("m.split([1, 1], 1)", "split_with_sizes expects split_sizes to sum exactly to 3"),
        ("m.split(-1)", "split expects split_size be non-negative, but got split_size=-1"),
        ("m.split(0)", "split_size can only be 0 if dimension size is 0, but got dimension size of 2"),
        ("m.chunk(0)", "chunk expects `chunks` to be greater than 0, got: 0"),
        ("s.unbind()", "Dimension specified as 0 but tensor has no dimensions"),
        ("m.repeat(2)", "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"),
    ],
)
def test_errors(expression: str, head: str) -> None:
    same_error(expression, head, x=X, m=M, v=V, s=S, e=E)


@pytest.mark.parametrize("expression", [
    "x.view(-1)", "x.reshape(4, 6)", "x.t()", "x.T", "x.transpose(0, 1)", "x.permute(1, 0)", "x[1]", "x[:, 1:]",
    "x.unsqueeze(0)", "x.squeeze()", "x.flatten()", "x.narrow(0, 1, 1)", "x.expand(2, 4, 6)", "x.detach()",
    "x.data", "x.unbind()[0]", "x.split(2)[1]", "x.chunk(2)[0]", "x.movedim(0, 1)", "x.mT", "x[...]", "x[None]",
    "x.view_as(x)", "x.expand_as(x)",
])  # fmt: skip
def test_views_share_memory(expression: str) -> None:
    x = ad.zeros(4, 6)
    view = eval(expression, {"x": x})
    x.fill_(7)
    assert bool((view == 7).all())
    assert view._version == x._version == 1


@pytest.mark.parametrize("expression", [
    "x.clone()", "x.flip(0)", "x + 0", "x[[0, 1]]", "x.repeat(1, 1)", "x.t().contiguous()",
])  # fmt: skip
def test_copies_do_not(expression: str) -> None:
    x = ad.zeros(4, 6)
    copy = eval(expression, {"x": x})
    x.fill_(7)
    assert bool((copy == 0).all())


def test_contiguous_is_the_tensor_itself() -> None:
    x = ad.zeros(2, 3)
    assert x.contiguous() is x
    assert not x.t().is_contiguous()
    assert x.t().contiguous().is_contiguous()


@pytest.mark.claim("3.4")
def test_views_share_storage_and_say_how_they_were_made() -> None:
    base = ad.rand(2, 3, 4, requires_grad=True)
    views = {"View": base.view(3, 8), "Transpose": base.transpose(0, 1), "Select": base.select(1, 0)}
    assert [tuple(v.shape) for v in views.values()] == [(3, 8), (3, 2, 4), (2, 4)]
    for name, view in views.items():
        assert np.shares_memory(view.detach().numpy(), base.detach().numpy())
        assert view.grad_fn.name() == f"{name}Backward0"


@pytest.mark.claim("3.5")
def test_gradients_of_views_reach_the_base_once() -> None:
    base = ad.rand(2, 3, 4, requires_grad=True)
    (base.view(3, 8).sum() + base.transpose(0, 1).sum() + base.select(1, 0).sum()).backward()
    assert base.grad is not None
    expected = np.full((2, 3, 4), 2.0)
    expected[:, 0] = 3.0
    np.testing.assert_array_equal(base.grad.numpy(), expected)


def test_moves_of_dimensions_are_found_once_and_refused_each_time() -> None:
    x = ad.zeros(2, 3, 4)
    for _ in range(2):
        assert x.movedim(0, 2).shape == (3, 4, 2)
        assert x.movedim((0, 1), (-1, 0)).shape == (3, 4, 2)
        with pytest.raises(RuntimeError, match=r"repeated dim in `source` \(\[0, 0\]\)"):
            x.movedim((0, 0), (1, 2))
        with pytest.raises(RuntimeError, match=r"source \(\[0, 1\] dims\) should contain the same number of dims"):
            x.movedim((0, 1), 2)
