"""What a graph keeps for backward, by line, in bytes that add up."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint import nn
from adjoint.autograd import Function, memory_report
from adjoint.autograd.graph import saved_tensors_hooks
from adjoint.utils.checkpoint import checkpoint


@pytest.mark.claim("U15")
def test_bytes_add_up() -> None:
    x = ad.randn(8, 4, requires_grad=True)
    w = ad.randn(4, 16, requires_grad=True)
    h = x @ w
    y = h.exp()
    loss = (y * y).sum()
    report = memory_report(loss)
    arrays = [x.detach().numpy(), w.detach().numpy(), y.detach().numpy()]
    assert report.total == sum(a.nbytes for a in arrays) == sum(v.nbytes for v in report.values)
    assert report.of_leaves == x.detach().numpy().nbytes + w.detach().numpy().nbytes
    by_node = {(v.node, v.what): v for v in report.values}
    assert by_node["ExpBackward0", "out"].nbytes == 8 * 16 * 4
    assert by_node["MulBackward0", "x"].nbytes == 0  # the same memory: counted once
    assert by_node["MulBackward0", "x"].shape == (8, 16)
    assert by_node["ExpBackward0", "out"].site.file == __file__


@pytest.mark.claim("U15")
def test_a_view_holds_on_to_its_base() -> None:
    base = ad.randn(1000)
    x = ad.ones(10, requires_grad=True)
    report = memory_report(x * base[:10])
    (value,) = [v for v in report.values if v.what == "y"]
    assert value.shape == (10,)
    assert value.nbytes == base.numpy().nbytes == report.total


@pytest.mark.claim("U15")
def test_the_table() -> None:
    x = ad.randn(10, requires_grad=True)
    for _ in range(3):
        x = x.exp()  # one row for three values
    lines = repr(memory_report(x.sin())).splitlines()
    assert lines[0].split() == ["bytes", "times", "line", "op", "value", "shape", "dtype"]
    assert lines[1].split()[:2] == ["120", "3"]
    assert "test_memory_report.py:" in lines[1]
    assert "ExpBackward0" in lines[1]
    assert lines[2].split()[:2] == ["0", "1"]
    assert lines[-1].startswith("120 bytes in 3 buffers, of which 0 are those of leaves")


@pytest.mark.claim("U15")
def test_after_backward_nothing_is_left() -> None:
    x = ad.randn(10, requires_grad=True)
    loss = (x * x).exp().sum()
    assert memory_report(loss).total == 2 * 40
    loss.backward(retain_graph=True)
    assert memory_report(loss).total == 2 * 40
    loss.backward()
    assert memory_report(loss).total == 0
    assert memory_report(ad.ones(3)).values == ()


@pytest.mark.claim("U15")
def test_functions_and_hooks() -> None:
    class Keeps(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, ad.ones(100))
            ctx.scale = ad.ones(7)
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0] * 2

    x = ad.randn(10, requires_grad=True)
    report = memory_report(Keeps.apply(x))
    found = {v.what: v.nbytes for v in report.values}
    assert found == {"saved_tensors[0]": 40, "saved_tensors[1]": 400, "ctx.scale": 28}
    with saved_tensors_hooks(lambda t: t.numpy().astype(np.float16), lambda a: ad.from_numpy(a.astype(np.float32))):
        y = x.detach().requires_grad_().exp()
    assert memory_report(y).total == 20


@pytest.mark.claim("2.11")
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_a_checkpoint_keeps_its_arguments(blocks: int, reentrant: bool) -> None:
    def run(h: Any, layers: int) -> Any:
        for _ in range(layers):
            h = h.sin().exp()
        return h

    h = ad.randn(10, requires_grad=True)
    for _ in range(blocks):
        h = checkpoint(run, h, 8 // blocks, use_reentrant=reentrant, preserve_rng_state=False)
    report = memory_report(h)
    assert report.total == 40 * blocks  # the leaf and the results of all blocks but the last
    assert report.of_leaves == 40
    assert len(report.values) == blocks
    h.sum().backward()
    assert memory_report(h).total == 0


@pytest.mark.claim("2.11")
def test_a_checkpoint_in_a_checkpoint_keeps_the_arguments_of_the_outer_one() -> None:
    keep_little = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)

    def run(x: Any) -> Any:
        return keep_little(lambda h: h.exp().exp(), x.exp()).exp()

    x = ad.randn(10, requires_grad=True)
    report = memory_report(keep_little(run, x))
    assert [(value.what, value.nbytes) for value in report.values] == [("checkpoint", 40)]
    with saved_tensors_hooks(lambda t: t.numpy().astype(np.float16), lambda a: ad.from_numpy(a.astype(np.float32))):
        y = keep_little(run, x)
    assert [(value.what, value.nbytes) for value in memory_report(y).values] == [("checkpoint", 20)]
    kept = memory_report(checkpoint(run, x, use_reentrant=False)).values
    assert ad.get_rng_state().numpy().shape[0] <= sum(value.nbytes for value in kept) - 40


@pytest.mark.claim("2.11")
def test_a_model() -> None:
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    inputs = ad.randn(16, 4)
    report = memory_report(model(inputs).pow(2).mean())
    memory = {id(v) for v in report.values}
    assert len(memory) == len(report.values)
    activations = report.total - report.of_leaves
    # the inputs, the outputs of ReLU and Tanh, and the last layer's
    assert activations == 4 * 16 * (4 + 32 + 32 + 1)
