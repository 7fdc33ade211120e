"""What `print` shows as grad_fn: functions of several ops bear the name of PyTorch's one node."""

from typing import Any

import pytest

import adjoint as ad

EXPRESSIONS = [
    "F.mse_loss(x, y)", "F.mse_loss(x, y, reduction='none')", "F.l1_loss(x, y)", "F.smooth_l1_loss(x, y)",
    "F.huber_loss(x, y)", "F.binary_cross_entropy(x, y)", "F.binary_cross_entropy_with_logits(x, y)",
    "F.nll_loss(x, k)", "F.nll_loss(x, k, reduction='sum')", "F.cross_entropy(x, k)",
    "F.cross_entropy(x, k, weight=y[0])", "F.cross_entropy(x, k, reduction='none')", "F.soft_margin_loss(x, y)",
    "F.relu6(x)", "F.elu(x)", "F.selu(x)", "F.leaky_relu(x)", "F.mish(x)", "F.hardtanh(x)", "F.softplus(x)",
    "F.logsigmoid(x)", "F.gelu(x)", "F.silu(x)", "F.softmax(x, 1)", "F.log_softmax(x, 1)", "x.norm()", "x.max()",
    "x.min()", "x.max(1)[0]", "x.logsumexp(1)", "x.masked_fill(x > 0.5, 0.0)", "x.topk(2)[0]", "x.sort()[0]",
    "x.squeeze()", "x.unsqueeze(0).squeeze(0)", "F.embedding(k, x)", "F.linear(x, y)", "F.linear(x, x, x[0, :2])",
    "F.layer_norm(x, (3,))", "x.var()", "x.std(1)", "x.gather(1, k[:, None])", "x.clamp(0, 0.5)", "x.mean(0)",
    "F.interpolate(x[None], 5)", "F.interpolate(x[None], 5, mode='linear')", "F.interpolate(i[None], scale_factor=2)",
    "F.interpolate(i, 5, mode='nearest-exact')", "F.interpolate(i, 5, mode='bilinear')",
    "F.interpolate(i, 5, mode='bicubic')",
    "x.unsqueeze(0)", "t.unsqueeze(x, -1)", "x[None]", "x[..., None]", "x[0:1, None]", "x[:]", "x[...]", "x[0]",
    "x[:, 1]", "t.atleast_2d(x[0])", "t.atleast_3d(x)", "x.repeat(2, 1)", "x.tile(2)", "x.index_select(1, k)",
    "x.masked_select(x > 0.5)", "t.narrow_copy(x, 0, 0, 1)", "x.tril()", "t.triu(x)", "F.pad(x, (1, 1), 'reflect')",
    "F.pad(i, (1, 1, 0, 1), 'replicate')", "F.pixel_shuffle(x.reshape(1, 6, 1, 1)[:, :4], 2)",
    "F.pixel_unshuffle(i[..., :2], 2)", "t.channel_shuffle(x[None, :, :, None], 2)",
    "F.interpolate(i[None], 5, mode='trilinear')", "F.interpolate(i, 5, mode='bilinear', antialias=True)",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_names_are_pytorchs(expression: str) -> None:
    torch = pytest.importorskip("torch")

    def name(library: Any) -> str:
        x = library.linspace(0.1, 0.9, 6).reshape(2, 3).requires_grad_()
        y, k = library.linspace(0.2, 0.8, 6).reshape(2, 3), library.tensor([0, 1])
        found: str = eval(
            expression, {"x": x, "y": y, "k": k, "i": x[None, None], "t": library, "F": library.nn.functional}
        ).grad_fn.name()
        return found

    assert name(ad) == name(torch)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_squared_error_is_one_node(reduction: str) -> None:
    """A program that walks the graph from its loss meets the last layer next."""
    torch = pytest.importorskip("torch")

    def names(library: Any) -> list[str]:
        layer, x, y = library.nn.Linear(3, 2), library.ones(4, 3), library.ones(4, 2).requires_grad_()
        node = library.nn.MSELoss(reduction=reduction)(layer(x), y).grad_fn
        return [each.name().rpartition("::")[2] for each in (node, *(edge[0] for edge in node.next_functions))]

    assert names(ad) == names(torch)


def test_an_upsampled_image_tells_its_settings() -> None:
    node = ad.nn.functional.interpolate(ad.ones(1, 1, 2, 2, requires_grad=True), 3, mode="bilinear").grad_fn
    assert node._saved_output_size == (3, 3)
    assert (node._saved_align_corners, node._saved_scales_h, node._saved_scales_w) == (False, None, None)
    node = ad.nn.functional.interpolate(ad.ones(1, 1, 2, requires_grad=True), scale_factor=0.5).grad_fn
    assert (node._saved_output_size, node._saved_scales) == ((1,), 0.5)


@pytest.mark.parametrize(
    "expression", ["x[k]", "x.gather(1, k[:, None])", "x.index_select(0, k)", "t.where(x > 0, x, x * 2)", "x + x"]
)
def test_edges_lead_to_what_can_have_a_gradient(expression: str) -> None:
    torch = pytest.importorskip("torch")

    def edges(library: Any) -> list[Any]:
        x = library.ones(2, 3, requires_grad=True)
        out = eval(expression, {"x": x, "k": library.tensor([0, 1]), "t": library})
        return [node and node.name().rpartition(":")[2] for node, _ in out.grad_fn.next_functions]

    assert edges(ad) == edges(torch)
