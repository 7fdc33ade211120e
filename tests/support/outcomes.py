"""What a step leaves behind, in plain data: values, identities, shared memory, flags, counts of writes, gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad

Tensors = dict[str, Any]


def describe(tensors: Tensors, versions: bool = True) -> dict[str, Any]:
    """Facts of named things, and which of them are one object, share memory, or are views of another.

    Of a history the fact is that there is one, and for views of these tensors its name. With `versions` also the
    counts of writes.
    """
    names = [name for name, t in tensors.items() if isinstance(t, ad.Tensor)]
    found: dict[str, Any] = {name: _facts(t, list(tensors.values()), versions) for name, t in tensors.items()}
    found["one"] = [[a for a in names if tensors[a] is tensors[b]] for b in names]
    found["memory"] = [[a for a in names if _share(tensors[a], tensors[b])] for b in names]
    found["bases"] = [[a for a in names if tensors[b]._base is tensors[a]] for b in names]
    return found


def _facts(t: Any, bases: list[Any], versions: bool) -> Any:
    if not isinstance(t, ad.Tensor):
        return t
    views = t._is_view() and t.grad_fn is not None and any(t._base is x for x in bases)
    version = t._version if versions and not t.is_inference() else None
    return [
        t.detach().numpy().astype(np.float64), type(t).__name__, str(t.dtype), t.requires_grad, t.is_leaf,
        t.retains_grad, t.is_inference(), version, t.grad_fn.name() if views else t.grad_fn is None,
        None if t._grad is None else t._grad.detach().numpy().astype(np.float64), dict(t.__dict__),
    ]  # fmt: skip


def _share(a: Any, b: Any) -> bool:
    return bool(np.shares_memory(a.array, b.array))


def written_through(tensors: Tensors) -> dict[str, Any]:
    """Write through each tensor in turn, and see what the others hold then."""
    seen = {}
    for name, t in tensors.items():
        if isinstance(t, ad.Tensor):
            try:
                with ad.no_grad():
                    t.data.add_(1.0)
            except RuntimeError as error:
                seen[name + " refuses"] = str(error)[:40]
            seen[name] = [x.detach().numpy().astype(np.float64) for x in tensors.values() if isinstance(x, ad.Tensor)]
    return seen


def assert_same(compiled: Any, eager: Any, where: str = "") -> None:
    """Compare two outcomes: numbers to 1e-5, all else exactly."""
    if isinstance(eager, np.ndarray):
        np.testing.assert_allclose(
            compiled, eager, rtol=1e-5, atol=1e-5 * np.abs(eager).max(initial=0.1), err_msg=where
        )
        return
    assert type(compiled) is type(eager), (where, compiled, eager)
    if isinstance(eager, dict):
        assert list(compiled) == list(eager), where
        for key in eager:
            assert_same(compiled[key], eager[key], f"{where} {key}")
    elif isinstance(eager, list | tuple):
        assert len(compiled) == len(eager), where
        for i, (a, b) in enumerate(zip(compiled, eager, strict=True)):
            assert_same(a, b, f"{where}[{i}]")
    else:
        assert compiled == eager, (where, compiled, eager)


def run(case: Callable[[Callable[[Any], Any]], Callable[[int], Any]], wrap: Callable[[Any], Any], calls: int) -> Any:
    """What each call gives; of an error its type and beginning."""
    call = case(wrap)
    seen: list[Any] = []
    for k in range(calls):
        try:
            seen.append(call(k))
        except Exception as error:  # noqa: BLE001  whatever the step raises is what is compared
            seen.append((type(error).__name__, str(error)[:60]))
    return seen
