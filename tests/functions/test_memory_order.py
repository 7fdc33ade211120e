"""What lies in memory in the order of its model, or in that of a memory format: PyTorch's strides and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

torch: Any = pytest.importorskip("torch")
Model = Callable[[Any], Any]
MODELS: dict[str, Model] = {
    "row-major": lambda t: t.zeros(2, 3, 4, 5),
    "transposed": lambda t: t.zeros(2, 3, 4, 5).transpose(1, 3),
    "channels last": lambda t: t.zeros(2, 3, 4, 5).to(memory_format=t.channels_last),
    "with gaps": lambda t: t.zeros(2, 3, 4, 10)[..., ::2].permute(2, 0, 3, 1),
    "expanded": lambda t: t.zeros(3, 1, 4, 1).expand(3, 2, 4, 5),
    "one channel": lambda t: t.zeros(2, 1, 4, 5).to(memory_format=t.channels_last),
    "empty": lambda t: t.zeros(0, 3, 4, 5).to(memory_format=t.channels_last),
}
MADE: dict[str, Callable[[Any, Any], Any]] = {
    "clone": lambda t, x: x.clone(),
    "clone channels last": lambda t, x: x.clone(memory_format=t.channels_last),
    "clone contiguous": lambda t, x: x.clone(memory_format=t.contiguous_format),
    "copy": lambda t, x: x.to(x.dtype, copy=True),
    "contiguous": lambda t, x: x.contiguous(),
    "contiguous channels last": lambda t, x: x.contiguous(memory_format=t.channels_last),
    "to channels last": lambda t, x: x.to(memory_format=t.channels_last),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "empty_like": lambda t, x: t.empty_like(x, memory_format=t.preserve_format),
    "ones_like": lambda t, x: t.ones_like(x, dtype=t.float64),
    "full_like": lambda t, x: t.full_like(x, 3, memory_format=t.contiguous_format),
    "full_like channels last": lambda t, x: t.full_like(x, 3, memory_format=t.channels_last),
    "empty": lambda t, x: t.empty(*x.shape, memory_format=t.channels_last),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("made", MADE)
def test_strides_are_pytorchs(made: str, model: str) -> None:
    ours, theirs = (MADE[made](t, MODELS[model](t)) for t in (ad, torch))
    sizes = tuple(ours.shape)
    assert sizes == tuple(theirs.shape)
    if 0 in sizes:
        return
    matter = [d for d, n in enumerate(sizes) if n > 1]
    assert [ours.stride(d) for d in matter] == [theirs.stride(d) for d in matter]


@pytest.mark.parametrize("made", [m for m in MADE if "channels" in m or m == "empty"])
def test_a_format_of_another_rank_is_refused(made: str) -> None:
    for library in (ad, torch):
        with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
            MADE[made](library, library.zeros(2, 3))


def test_a_copy_holds_the_values_and_passes_gradients_on() -> None:
    x = ad.arange(24.0).reshape(2, 3, 4).requires_grad_()
    y = x.transpose(0, 2).clone()
    assert y.grad_fn is not None
    assert y.grad_fn.name() == "CloneBackward0"
    np.testing.assert_array_equal(y.detach().numpy(), np.arange(24.0).reshape(2, 3, 4).transpose())
    weight = ad.arange(24.0).reshape(4, 3, 2)
    (y * weight).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), weight.numpy().transpose())
    assert not y._is_view()


def test_a_step_that_is_traced_sees_the_same_strides() -> None:
    def step(x: Any) -> Any:
        made = x.transpose(0, 1).clone(), x.to(memory_format=ad.channels_last), ad.zeros_like(x.mT), x.clone() + 1
        return [t.stride() for t in made], made[1].permute(0, 2, 3, 1).view(-1) * 2, made[0]

    x = ad.rand(2, 3, 4, 5)
    for given in (x, x.to(memory_format=ad.channels_last)):
        (strides, flat, copy), (seen, compiled, again) = step(given), ad.compile(step)(given)
        assert strides == seen
        np.testing.assert_array_equal(flat.numpy(), compiled.numpy())
        np.testing.assert_array_equal(copy.numpy(), again.numpy())


def test_sizes_of_one_leave_channels_last() -> None:
    def step(x: Any) -> Any:
        return [
            t.stride() for t in (x.clone(), ad.zeros_like(x), ad.randn_like(x), ad.randint_like(x, 5), x.contiguous())
        ]

    x = ad.rand(8, 1, 3, 3)
    for given, steps in ((x, (9, 9, 3, 1)), (x.to(memory_format=ad.channels_last), (9, 1, 3, 1))):
        assert step(given) == [steps] * 5
