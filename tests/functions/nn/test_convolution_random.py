"""Convolutions of any geometry and layout by kernels, eager and compiled, with two gradients, against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.oracle import equal, torch

pytest.importorskip("llvmlite")

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import adjoint as ad
from adjoint.core.op.eager_kernels import kernel_provider

LONGEST = {1: 40, 2: 14, 3: 7}


@pytest.fixture(autouse=True)
def _a_kernel_for_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_provider, "min_seconds", 0.0)
    monkeypatch.setattr(kernel_provider, "strict", True)


def laid_out(library: Any, array: Any, layout: str) -> Any:
    """A leaf with these elements: row-major, with channels last, with gaps, or with two dimensions exchanged."""
    tensor = library.tensor(array)
    if layout == "channels last":
        order = (0, *range(2, array.ndim), 1)
        back = (0, array.ndim - 1, *range(1, array.ndim - 1))
        tensor = tensor.permute(order).contiguous().permute(back)
    elif layout == "apart":
        tensor = library.stack([tensor, tensor + 1], -1)[..., 0]
    elif layout == "transposed":
        tensor = tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    return tensor.detach().requires_grad_()


def all_gradients(library: Any, call: str, x: Any, w: Any, b: Any, v: Any, options: dict[str, Any]) -> Any:
    """The result, its gradients, and those of the sum of their squares."""
    leaves = [x, w] if b is None else [x, w, b]
    out = getattr(library.nn.functional, call)(x, w, b, **options)
    first = library.autograd.grad(out, leaves, v, create_graph=True)
    second = library.autograd.grad(sum(g.square().sum() for g in first), [x, w, v])
    return out.detach(), *(g.detach() for g in (*first, *second))


@given(data=st.data())
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_convolution(data: Any) -> None:
    draw = data.draw
    rank, transposed = draw(st.integers(1, 3)), draw(st.booleans())
    few = st.integers(1, 3)
    batch, groups, inward, outward = (draw(few) for _ in range(4))
    image = tuple(draw(st.integers(1, LONGEST[rank])) for _ in range(rank))
    taps, stride, dilation = (tuple(draw(few) for _ in range(rank)) for _ in range(3))
    padding = tuple(draw(st.integers(0, 2)) for _ in range(rank))
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    reach = [d * (k - 1) + 1 for k, d in zip(taps, dilation, strict=True)]
    if transposed:
        options["output_padding"] = tuple(draw(st.integers(0, s - 1)) for s in stride)
        grown = zip(image, stride, padding, reach, options["output_padding"], strict=True)
        assume(all((n - 1) * s - 2 * p + r + m >= 1 for n, s, p, r, m in grown))
        shape = (groups * inward, outward, *taps)
    else:
        assume(all(n + 2 * p >= r for n, p, r in zip(image, padding, reach, strict=True)))
        shape = (groups * outward, inward, *taps)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=s).astype(dtype) for s in ((batch, groups * inward, *image), shape, (groups * outward,)))
    layouts = [draw(st.sampled_from(["row major", "channels last", "apart", "transposed"])) for _ in range(2)]
    call = f"conv{'_transpose' * transposed}{rank}d"
    with_bias, compiled = draw(st.booleans()), draw(st.booleans())
    results = []
    for library in (ad, torch):
        ours = library is ad
        tensors = [laid_out(library, a, how) for a, how in zip((x, w), layouts, strict=True)]
        bias = laid_out(library, b, "row major") if with_bias else None
        out = getattr(library.nn.functional, call)(*tensors, bias, **options)
        v = library.tensor(np.cos(np.arange(out.numel())).reshape(tuple(out.shape)).astype(dtype)).requires_grad_()

        def run(x: Any, w: Any, b: Any, v: Any, library: Any = library) -> Any:
            return all_gradients(library, call, x, w, b, v, options)

        results.append((ad.compile(run) if ours and compiled else run)(*tensors, bias, v))
    for ours, theirs in zip(*results, strict=True):
        scale = max(1.0, float(theirs.abs().max()))
        equal(ours / scale, theirs / scale, 20)
