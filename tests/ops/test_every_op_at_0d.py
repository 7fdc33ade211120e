"""Every op at tensors without dimensions: what a tensor holds is an ndarray, never a NumPy scalar, whatever the mode.

The modes are eager, compiled, vmapped, forward mode, and the gradient: with and without a graph, in and outside of a
compiled step.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.support.samples import COMPLEX, SAMPLES, Sample

import adjoint as ad
import adjoint.nn.functional as F
from adjoint import Tensor

AT_0D = {"axes": (), "axis": 0, "shape": (), "bounds": (), "widths": ()}  # parameters that name dimensions
# functions give these ops tensors with dimensions
NOT_AT_0D = {"dot", "mm", "mv", "cumprod", "log_softmax", "sample_natively"}
Outcome = list[tuple[Any, Any]]


def _tensors_in(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (tuple, list)):
        for part in result:
            yield from _tensors_in(part)


def checked(result: Any) -> Outcome:
    """The dtypes and values of all tensors of a result, which must hold ndarrays."""
    found = list(_tensors_in(result))
    for tensor in found:
        assert type(tensor.array) is np.ndarray, f"a tensor holds {type(tensor.array).__name__}"
    return [(tensor.dtype, tensor.numpy(force=True)) for tensor in found]


def assert_close(ours: Outcome, theirs: Outcome) -> None:
    assert [dtype for dtype, _ in ours] == [dtype for dtype, _ in theirs]
    for (_, a), (_, b) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def gradient(function: Callable[..., Any], x: Tensor, **settings: Any) -> Any:
    """The gradient of all floating results of `function` by x; None where there is none."""
    y = x.clone().requires_grad_()
    out = [o for o in _tensors_in(function(y)) if o.requires_grad]
    return ad.autograd.grad(out, [y], [ad.ones_like(o) for o in out], **settings) if out else None


def check_all_modes(function: Callable[[Tensor], Any], x: Tensor) -> None:
    """Compare the modes of a function of one 0-d tensor; each gives tensors that hold ndarrays."""
    eager = checked(function(x))
    assert_close(checked(ad.compile(function)(x)), eager)
    batched = ad.func.vmap(function)(ad.stack([x, x]))
    assert_close(checked([part[0] for part in _tensors_in(batched)]), eager)
    if x.dtype.is_floating_point or x.is_complex():

        def differentiable(x: Tensor) -> Any:
            return tuple(o for o in _tensors_in(function(x)) if o.dtype.is_floating_point or o.is_complex())

        if not differentiable(x):
            return
        checked(ad.func.jvp(differentiable, (x,), (ad.ones_like(x),)))
        slope = checked(gradient(differentiable, x))
        assert_close(checked(gradient(differentiable, x, create_graph=True)), slope)
        assert_close(checked(gradient(ad.compile(differentiable), x)), slope)
        assert_close(checked(ad.compile(lambda: gradient(differentiable, x))()), slope)


def _first_element(x: Any, holds_positions: bool) -> Any:
    """The first element of an array as a 0-d one; of positions the only one there is."""
    return np.asarray(0 if not x.size or (holds_positions and x.dtype.kind == "i") else x.flat[0], x.dtype)


def _at_0d(sample: Sample) -> tuple[list[Any], dict[str, Any]] | None:
    """The sample with one element of each array; None where the op is for arrays with dimensions."""
    if "pattern" in sample.params or "generator" in sample.params or sample.op.name in NOT_AT_0D:
        return None
    params = {key: AT_0D.get(key, value) for key, value in sample.settings().items()}
    inputs = [_first_element(x, "axis" in params) if isinstance(x, np.ndarray) else x for x in sample.inputs]
    try:
        value = sample.op.evaluate(*inputs, **params)
    except (ValueError, TypeError, IndexError, RuntimeError, AssertionError):
        return None
    return (inputs, params) if np.ndim(value) == 0 else None


def _unlike_samples() -> list[tuple[Sample, tuple[list[Any], dict[str, Any]]]]:
    """One sample of each op, set of parameters and types of operands."""
    found = {}
    for sample in SAMPLES + COMPLEX:
        at = _at_0d(sample)
        if at is not None:
            types = tuple(getattr(x, "dtype", type(x)) for x in at[0])
            found.setdefault((sample.op, types, str(at[1])), (sample, at))
    return list(found.values())


ALL = _unlike_samples()


def test_most_elementwise_ops_have_a_sample_at_0d() -> None:
    assert {s.op.name for s, _ in ALL} >= {
        s.op.name for s in SAMPLES if s.op.family in ("unary", "binary") and s.op.name not in NOT_AT_0D
    } | {"flip", "slice", "unslice", "gather", "scatter", "scatter_add", "scatter_reduce", "put_slice", "sum", "max"}


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("sample", "at"), ALL, ids=[f"{s.function.__module__.split('.')[-1]}.{s.name}" for s, _ in ALL]
)
def test_op(sample: Sample, at: tuple[list[Any], dict[str, Any]]) -> None:
    inputs, params = at
    arrays = [i for i, x in enumerate(inputs) if isinstance(x, np.ndarray)]
    for i in arrays:
        rest = [ad.as_tensor(x.copy()) if isinstance(x, np.ndarray) else x for x in inputs]
        if sample.op.rule(i) is None and rest[i].dtype.is_floating_point:
            continue

        def function(x: Tensor, rest: list[Any] = rest, i: int = i) -> Any:
            return sample.function(*rest[:i], x, *rest[i + 1 :], **params)

        check_all_modes(function, rest[i])


ZERO = ad.tensor(0)
ONE = ad.tensor(2.0)
ALONG_0 = [
    "all", "any", "argmax", "argmin", "argsort", "count_nonzero", "cummax", "cummin", "cumprod", "cumsum", "flip",
    "log_softmax", "logcumsumexp", "logsumexp", "max", "mean", "median", "min", "mode", "nanmedian", "nansum", "prod",
    "softmax", "sort", "sum",
]  # fmt: skip
MODES = ("sum", "prod", "mean", "amax", "amin")
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{f"{name}_0": lambda x, name=name: getattr(ad, name)(x, 0) for name in ALONG_0},
    **{f"{name}_last": lambda x, name=name: getattr(ad, name)(x, -1) for name in ALONG_0},
    **{f"scatter_reduce_{m}": lambda x, m=m: x.scatter_reduce(0, ZERO, ONE, m) for m in MODES},
    **{f"scatter_reduce_of_{m}": lambda x, m=m: ONE.scatter_reduce(0, ZERO, x, m) for m in MODES},
    "flip_none": lambda x: x.flip(()),
    "gather": lambda x: x.gather(0, ZERO),
    "scatter": lambda x: x.scatter(0, ZERO, 5.0),
    "scatter_source": lambda x: x.scatter(0, ZERO, ONE),
    "scatter_of": lambda x: ONE.scatter(0, ZERO, x),
    "scatter_add": lambda x: x.scatter_add(0, ZERO, ONE),
    "scatter_add_of": lambda x: ONE.scatter_add(0, ZERO, x),
    "index_select": lambda x: x.index_select(0, ZERO),
    "index_add": lambda x: x.index_add(0, ZERO, ONE),
    "index_copy": lambda x: x.index_copy(0, ZERO, ONE),
    "index_fill": lambda x: x.index_fill(0, ZERO, 2.0),
    "take": lambda x: x.take(ZERO),
    "put": lambda x: x.put(ZERO, ONE),
    "whole": lambda x: x[...],
    "empty_index": lambda x: x[()],
    "new_dimension": lambda x: x[None][0],
    "set_item": lambda x: (y := x.clone(), y.__setitem__((), 2.0))[0],
    "set_whole": lambda x: (y := x.clone(), y.__setitem__(..., x * 2))[0],
    "permute": lambda x: x.permute(()),
    "as_strided": lambda x: x.as_strided((), ()),
    "unbind": lambda x: x[None].unbind(0),
    "split": lambda x: x[None].split(1)[0][0],
    "topk": lambda x: x.topk(1),
    "kthvalue": lambda x: x.kthvalue(1),
    "std": lambda x: x.std(unbiased=False),
    "var_mean": lambda x: ad.var_mean(x, correction=0),
    "norm": lambda x: x.norm(2),
    "clamp": lambda x: x.clamp(0, 1),
    "masked_fill": lambda x: x.masked_fill(ad.tensor(True), 1.0),
    "half": lambda x: x.half(),
    "complex_parts": lambda x: (ad.complex(x, x).real, ad.complex(x, x).imag, ad.complex(x, x).abs()),
    "diagonal": lambda x: x.view(1, 1).diagonal()[0],
    "det": lambda x: x.view(1, 1).det(),
    "mse_loss": lambda x: F.mse_loss(x, x * 2),
    "softplus": F.softplus,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    check_all_modes(FUNCTIONS[name], ad.tensor(1.5))


@pytest.mark.parametrize("name", ["flip_none", "flip_0", "gather", "scatter", "whole", "set_item", "unbind", "sum_0"])
def test_function_of_a_complex_number(name: str) -> None:
    check_all_modes(FUNCTIONS[name], ad.tensor(1.5 + 2j))


def test_a_slice_of_everything_shares_memory() -> None:
    x = ad.tensor(1.0)
    x[...].add_(1.0)
    assert x.item() == 2.0
    assert x.flip(()).storage().data_ptr() != x.storage().data_ptr()


def test_scatter_of_one_source_in_a_batch() -> None:
    index = ad.tensor([0, 1, 1])
    scattered = ad.func.vmap(lambda x: x.scatter(0, index, 5.0))(ad.zeros(2, 4))
    assert scattered.tolist() == [[5.0, 5.0, 0.0, 0.0]] * 2
    by_source = ad.func.vmap(lambda x, c: x.scatter(0, index, c))(ad.zeros(2, 4), ad.tensor([5.0, 7.0]))
    assert by_source.tolist() == [[5.0, 5.0, 0.0, 0.0], [7.0, 7.0, 0.0, 0.0]]
