"""What lies in memory in the order of its model, or in that of a memory format: PyTorch's strides and errors."""

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


@pytest.mark.sweep(2)
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
    assert y.grad_fn.name() == "CloneBackward0"
    np.testing.assert_array_equal(y.detach().numpy(), np.arange(24.0).reshape(2, 3, 4).transpose())
    weight = ad.arange(24.0).reshape(4, 3, 2)
    (y * weight).sum().backward()
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


IN_ORDER: dict[str, Callable[[Any, Any], Any]] = {  # these lie as their operand does
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "gelu tanh": lambda t, x: t.nn.functional.gelu(x, approximate="tanh"),
    "silu": lambda t, x: t.nn.functional.silu(x),
    "clamp": lambda t, x: x.clamp(0.2, 0.7),
    "clamp at 0": lambda t, x: x.clamp(min=0),
    "hardtanh": lambda t, x: t.nn.functional.hardtanh(x),
    "erf": lambda t, x: x.erf(),
    "erfc": lambda t, x: x.erfc(),
    "erfinv": lambda t, x: x.erfinv(),
    "lgamma": lambda t, x: x.lgamma(),
    "i0": lambda t, x: x.i0(),
    "ndtri": lambda t, x: t.special.ndtri(x),
    "polygamma": lambda t, x: t.polygamma(1, x + 1),
    "flip": lambda t, x: x.flip(1, 2),
    "double": lambda t, x: x.double(),
    "normalize": lambda t, x: t.nn.functional.normalize(x, dim=2),
}
ANEW: dict[str, Callable[[Any, Any], Any]] = {  # these are row-major
    "sum": lambda t, x: x.sum(0),
    "mean": lambda t, x: x.mean((0, 3)),
    "amax": lambda t, x: x.amax(0),
    "prod": lambda t, x: x.prod(0),
    "any": lambda t, x: (x > 0.5).any(0),
    "var": lambda t, x: x.var(0),
    "std": lambda t, x: x.std(-1),
    "logsumexp": lambda t, x: x.logsumexp(0),
    "norm": lambda t, x: t.linalg.vector_norm(x, dim=0),
    "cumsum": lambda t, x: x.cumsum(1),
    "logcumsumexp": lambda t, x: x.logcumsumexp(1),
    "cummax": lambda t, x: x.cummax(1).values,
    "masked_fill": lambda t, x: x.masked_fill(x > 0.5, 0.0),
}
LYING: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.transpose(1, 3), "permuted": lambda x: x.permute(3, 0, 2, 1),
    "with gaps": lambda x: x[..., ::2].permute(2, 0, 3, 1), "repeated": lambda x: x[:, :1].expand(x.shape),
}  # fmt: skip


@pytest.mark.sweep(3)
@pytest.mark.parametrize("lying", LYING)
@pytest.mark.parametrize("called", [*IN_ORDER, *ANEW])
def test_results_lie_as_pytorchs(called: str, lying: str) -> None:
    function = {**IN_ORDER, **ANEW}[called]
    values = np.random.default_rng(0).uniform(0.1, 0.9, (2, 3, 4, 6)).astype(np.float32)
    ours, theirs = (function(t, LYING[lying](t.from_numpy(values.copy()))) for t in (ad, torch))
    matter = [d for d, n in enumerate(ours.shape) if n > 1]
    assert [ours.stride(d) for d in matter] == [theirs.stride(d) for d in matter]
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-5, atol=1e-6)

    def step(x: Any) -> Any:
        seen.append(function(ad, LYING[lying](x)).stride())
        return function(ad, LYING[lying](x))

    seen: list[Any] = []
    np.testing.assert_allclose(ad.compile(step)(ad.from_numpy(values)).numpy(), ours.numpy(), rtol=2e-5, atol=1e-6)
    assert [seen[0][d] for d in matter] == [ours.stride(d) for d in matter]


@pytest.mark.parametrize("called", ["gelu", "silu", "erf", "erfinv", "lgamma", "clamp"])
def test_large_results_lie_as_their_operands(called: str) -> None:
    """Compiled kernels compute these."""
    values = np.random.default_rng(0).uniform(0.1, 0.9, (40, 50, 60)).astype(np.float32)
    for lying in (lambda x: x.permute(2, 0, 1), lambda x: x[:, ::2].permute(2, 0, 1)):
        ours, theirs = (IN_ORDER[called](t, lying(t.from_numpy(values))) for t in (ad, torch))
        assert ours.stride() == theirs.stride()
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_dropout_after_an_activation_draws_pytorchs_mask() -> None:
    def step(t: Any, x: Any) -> Any:
        functional = t.nn.functional
        return functional.dropout(functional.gelu(x.permute(1, 2, 0)), 0.5)

    values = np.random.default_rng(0).uniform(0.5, 1, (4, 5, 6)).astype(np.float32)
    found = []
    for t, called in ((torch, step), (ad, step), (ad, ad.compile(step))):
        t.manual_seed(3)
        found.append(called(t, t.from_numpy(values)).numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)
