"""PyTorch beside Adjoint: one expression, evaluated with both, gives the same values, types, gradients and errors."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint

torch = pytest.importorskip("torch")

TOLERANCE = {
    "bfloat16": 2**-7, "float16": 2e-3, "float32": 2e-6, "float64": 1e-12, "complex64": 2e-6, "complex128": 1e-12,
}  # fmt: skip
ERRORS = (RuntimeError, IndexError, TypeError, ValueError)


def same(expression: str, *, gradient: bool = True, factor: float = 1.0, **arrays: Any) -> None:
    """Evaluate `expression`, in which `t` is the library and the arrays are its tensors, with both, and compare.

    Arrays that the expression does not name are left out.
    Where PyTorch raises, Adjoint must raise an error of the same class.
    """
    ours, theirs = _evaluated(adjoint, expression, arrays, gradient), _evaluated(torch, expression, arrays, gradient)
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception), f"torch raises {theirs!r}; adjoint gives {ours!r}"
        kind = next(k for k in ERRORS if isinstance(theirs, k))
        assert isinstance(ours, kind), f"torch raises {theirs!r}; adjoint {ours!r}"
        return
    if isinstance(ours, Exception):
        raise AssertionError(f"torch gives {theirs[0]!r}") from ours
    for part, expected in zip(ours, theirs, strict=True):
        equal(part, expected, factor)


def same_error(expression: str, head: str, **arrays: Any) -> None:
    """Both libraries raise an error of one class whose message contains `head`."""
    ours, theirs = (_evaluated(library, expression, arrays, False) for library in (adjoint, torch))
    assert isinstance(theirs, Exception), f"torch gives {theirs}"
    assert head in str(theirs), f"torch says {theirs}"
    assert isinstance(ours, Exception), f"adjoint gives {ours}"
    assert head in str(ours), f"adjoint says {ours}"
    kind = next(k for k in ERRORS if isinstance(theirs, k))
    assert isinstance(ours, kind), f"torch raises {theirs!r}; adjoint {ours!r}"


def equal(ours: Any, theirs: Any, factor: float = 1.0) -> None:
    """Compare results: tensors by shape, type and elements, sequences by their items, all else by equality."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, adjoint.Tensor), f"a tensor is expected, not {ours!r}"
        assert tuple(ours.shape) == tuple(theirs.shape)
        name = str(theirs.dtype).removeprefix("torch.")
        assert ours.dtype.name == name, f"{ours.dtype.name} for {name}"
        assert ours.requires_grad == theirs.requires_grad
        if name == "bfloat16":
            ours, theirs = ours.float(), theirs.float()
        got, expected = ours.detach().numpy(), theirs.detach().numpy()
        if name in TOLERANCE:
            allowed = factor * TOLERANCE[name]
            np.testing.assert_allclose(got, expected, rtol=allowed, atol=allowed)
        else:
            np.testing.assert_array_equal(got, expected)
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            equal(a, b, factor)
    else:
        assert ours == theirs or (ours != ours and theirs != theirs)  # NaN


def weights(shape: Any) -> Any:
    """A different weight for every element, so that a gradient in the wrong place shows."""
    return np.cos(np.arange(int(np.prod(shape)))).reshape(tuple(shape))


def _evaluated(library: Any, expression: str, arrays: dict[str, Any], gradient: bool) -> Any:
    """[the result, the gradients of the floating arrays], or the exception."""
    tensors = _named_tensors(library, expression, arrays, gradient)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out = eval(expression, {"t": library, "inf": np.inf, "nan": np.nan, **tensors})
        except Exception as error:  # noqa: BLE001  whichever it is, it is compared
            return error
    leaves = [v for v in tensors.values() if isinstance(v, library.Tensor) and v.requires_grad and v.is_leaf]
    roots = [r for r in _tensors_in(library, out) if r.requires_grad and not r.is_leaf]
    if not (gradient and roots):
        return [out, []]
    seeds = [library.tensor(weights(r.shape), dtype=r.dtype) for r in roots]
    library.autograd.backward(roots, seeds)
    return [out, [_gradient(leaf) for leaf in leaves]]


def _named_tensors(library: Any, expression: str, arrays: dict[str, Any], gradient: bool) -> dict[str, Any]:
    names = set(re.findall(r"\w+", expression))
    return {name: tensor(library, value, gradient) for name, value in arrays.items() if name in names}


def same_node(expression: str, **arrays: Any) -> None:
    """The result, or the last of several, was recorded by nodes of one name in both libraries."""
    names = []
    for library in (adjoint, torch):
        out = eval(expression, {"t": library, **_named_tensors(library, expression, arrays, True)})
        names.append((out[-1] if isinstance(out, tuple) else out).grad_fn.name())
    assert names[0] == names[1]


def _gradient(leaf: Any) -> Any:
    """The gradient, None where nothing or only zeros arrived: PyTorch and we differ in which of the two it is."""
    g = leaf.grad
    return None if g is None or not bool((g != 0).any()) else g


def tensor(library: Any, value: Any, gradient: bool = True) -> Any:
    """An array as a tensor of `library`, a leaf that wants a gradient if it is floating; anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    narrow = value.dtype.name == "bfloat16"
    made = library.tensor(value.astype(np.float32)).bfloat16() if narrow else library.tensor(value)
    return made.requires_grad_() if gradient and value.dtype.kind in "fV" else made


def _tensors_in(library: Any, out: Any) -> list[Any]:
    if isinstance(out, library.Tensor):
        return [out]
    return [t for part in out for t in _tensors_in(library, part)] if isinstance(out, (tuple, list)) else []
