"""Checks of one sample in a mode of use. Each raises where ours differs, `Other` where there is nothing to compare."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from tests.support import torch_samples
from tests.support.converted import Other, Sample, each, elements, looked_up, ours, tensors
from tests.support.torch_samples import both, called, compare, counterpart, leaves_of, same, weighed

import adjoint as ad
from adjoint.autograd import forward_ad

Function = Callable[..., Any]
STEP = 1e-4  # of central differences, in float64


def compare_mapped(op: Any, sample: Sample) -> None:
    """Assert that `vmap` over two examples gives what PyTorch gives for each; that it refuses what PyTorch's refuses.

    The first tensor is mapped, then all of them. Floating numbers of the second example are three quarters of those of
    the first, which keeps them in the domain of most functions.
    """
    sample = without_gradients(sample)
    if not leading_tensors(sample) or "empty" in op.name:
        raise Other
    second = each_theirs(sample, lambda x: x * 0.75 if x.is_floating_point() or x.is_complex() else x)
    count = len(leading_tensors(sample))
    for mapped in {1, count}:
        examples = [sample, replace_tensors(sample, [*leading_tensors(second)[:mapped]])]
        expected = [called(both(op, example)[2], example) for example in examples]
        if any(isinstance(x, Exception) for x in expected):
            continue
        function = torch_samples.wrapped(op, counterpart(op))
        found = _mapped(function, [ours(example) for example in examples], mapped, ad)
        if isinstance(found, Exception):
            theirs = _mapped(torch_samples.wrapped(op, op.op), examples, mapped, torch)
            if isinstance(theirs, Exception):
                continue
            raise found
        for i, example in enumerate(examples):
            _all_same(determined(op, ours(example), _selected(found, i)), expected[i])


def determined(op: Any, given: Sample, found: Any) -> Any:
    """What is determined of a result of `given`."""
    return torch_samples.processed(lambda *_, **__: found, op, given.process, given.input, *given.args, **given.named)


def _mapped(function: Function, examples: list[Sample], count: int, library: Any) -> Any:
    """Map the function over the first `count` tensors of the examples. Returns the exception that it raises."""
    stacks = [library.stack(parts) for parts in zip(*(leading_tensors(e)[:count] for e in examples), strict=True)]

    def call(*inputs: Any) -> Any:
        given = replace_tensors(examples[0], inputs)
        return function(given.input, *given.args, **given.named)

    return called(lambda: library.vmap(call)(*stacks), None, alone=True)


def _selected(found: Any, i: int) -> Any:
    if isinstance(found, ad.Tensor):
        return found[i]
    if isinstance(found, tuple | list):
        parts = [_selected(part, i) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else type(found)(parts)
    return found


def compare_tangent(op: Any, sample: Sample) -> None:
    """Assert that the tangent is PyTorch's, or that of central differences of PyTorch's function."""
    given, function, reference = both(op, sample)
    leaves = leaves_of(sample)
    if not leaves:
        raise Other
    directions = [direction(x) for x in leaves]
    plain = called(reference, without_gradients(sample))
    if isinstance(plain, Exception):
        raise Other
    if not any(x.is_floating_point() or x.is_complex() for x in tensors(plain) if isinstance(x, torch.Tensor)):
        raise Other
    got = tangents(function, given, leaves_of(given), [ad.tensor(d.numpy()) for d in directions], ad, forward_ad)
    expected = called(
        lambda: tangents(reference, sample, leaves, directions, torch, torch.autograd.forward_ad), None, alone=True
    )
    if not isinstance(expected, Exception) and _agree(got, expected, 1e-6):
        return
    differences = central_differences(reference, sample, leaves, directions)
    assert _agree(got, differences, 1e-5), f"the tangent is neither PyTorch's ({str(expected)[:200]}) nor {got}"


def tangents(function: Function, sample: Any, leaves: Any, directions: Any, library: Any, mode: Any) -> list[Any]:
    """The tangents of all results, as arrays, 0 where there is none."""
    along = {id(x): d for x, d in zip(leaves, directions, strict=True)}
    with warnings.catch_warnings(), mode.dual_level():
        warnings.simplefilter("ignore")
        make = each if library is ad else each_theirs
        duals = make(sample, lambda x: mode.make_dual(x.detach(), along[id(x)]) if id(x) in along else x)
        ad.manual_seed(torch_samples.SEED)
        torch.default_generator.manual_seed(torch_samples.SEED)
        results = tensors(function(duals.input, *duals.args, **duals.named))
        floating = [x for x in results if isinstance(x, library.Tensor) and (x.is_floating_point() or x.is_complex())]
        found = [(x, mode.unpack_dual(x).tangent) for x in floating]
    return [np.zeros(tuple(x.shape)) if tangent is None else elements(tangent) for x, tangent in found]


def central_differences(function: Function, sample: Sample, leaves: Any, directions: Any) -> list[Any]:
    """The slopes of all floating results along the directions, by differences of four values."""
    along = {id(x): d for x, d in zip(leaves, directions, strict=True)}

    def value(step: float) -> list[Any]:
        moved = each_theirs(sample, lambda x: (x + step * along[id(x)]).detach() if id(x) in along else x)
        found = called(function, moved)
        if isinstance(found, Exception):
            raise Other
        floating = [x for x in tensors(found) if isinstance(x, torch.Tensor)]
        return [elements(x) for x in floating if x.is_floating_point() or x.is_complex()]

    def slopes_over(step: float) -> list[Any]:
        return [(a - b) / (2 * step) for a, b in zip(value(step), value(-step), strict=True)]

    slopes = [slopes_over(STEP), slopes_over(2 * STEP)]
    return [(4 * a - b) / 3 for a, b in zip(*slopes, strict=True)]


def compare_second(op: Any, sample: Sample) -> None:
    """Assert that second derivatives are PyTorch's, or central differences of PyTorch's gradient."""
    if not leaves_of(sample):
        raise Other
    try:
        compare(op, sample, 2)
    except Exception as error:  # noqa: BLE001  whichever it is, differences decide
        _compare_slope_of_gradient(op, sample, error)


def _compare_slope_of_gradient(op: Any, sample: Sample, error: Exception) -> None:
    given, function, reference = both(op, sample)
    leaves, mine = leaves_of(sample), leaves_of(given)
    directions = [direction(x) for x in leaves]
    names = {id(x): i for i, x in enumerate(leaves)}

    def gradient(step: float) -> list[Any]:
        moved = each_theirs(
            sample,
            lambda x: (x + step * directions[names[id(x)]]).detach().requires_grad_() if id(x) in names else x,
        )
        total = weighed(tensors(called(reference, moved)), torch)
        if total is None:
            raise error
        found = torch.autograd.grad(total, leaves_of(moved), allow_unused=True)
        return [np.zeros(tuple(x.shape)) if g is None else elements(g) for g, x in zip(found, leaves, strict=True)]

    total = weighed(tensors(called(function, given)), ad)
    if total is None:
        raise error
    first = ad.autograd.grad(total, mine, allow_unused=True, create_graph=True)
    inner: Any = None
    for g, d in zip(first, directions, strict=True):
        if g is not None and g.requires_grad:
            part = (g * ad.tensor(d.numpy()).conj()).sum()
            part = part.real if part.is_complex() else part
            inner = part if inner is None else inner + part
    got = ad.autograd.grad(inner, mine, allow_unused=True) if inner is not None else [None] * len(mine)
    slope = sum(
        float(elements((g.conj() * ad.tensor(d.numpy())).sum()).real)
        for g, d in zip(got, directions, strict=True)
        if g is not None
    )
    expected = 0.0
    for weight, step in ((4 / 3, STEP), (-1 / 3, 2 * STEP)):
        for a, b, d in zip(gradient(step), gradient(-step), directions, strict=True):
            expected += weight * float((np.conj((a - b) / (2 * step)) * d.numpy()).sum().real)
    if not np.isclose(slope, expected, rtol=1e-4, atol=1e-4):
        raise error


def compare_out(op: Any, sample: Sample) -> None:
    """Assert that `out=` of every kind takes what PyTorch's takes, and is refused where PyTorch refuses it."""
    sample = without_gradients(sample)
    plain = called(op.op, sample)
    if isinstance(plain, Exception) or "empty" in op.name:
        raise Other
    results = [plain] if isinstance(plain, torch.Tensor) else list(plain) if isinstance(plain, tuple) else []
    if not results or not all(isinstance(x, torch.Tensor) for x in results):
        raise Other
    faults = []
    for kind in (None, torch.int8, torch.float32, torch.float64, torch.complex128):
        for form in ("as it is", "resized", "strided") if kind is None else ("as it is",):
            made = [_out_like(x, kind or x.dtype, form) for x in results]
            theirs = _written(op.op, sample, made if isinstance(plain, tuple) else made[0], torch)
            given = ours(sample)
            mine = [ours(_out_like(x, kind or x.dtype, form)) for x in results]
            got = _written(counterpart(op), given, tuple(mine) if isinstance(plain, tuple) else mine[0], ad)
            if isinstance(theirs, Exception) and all(map(_holds, made, results)):
                continue  # nothing is lost in a wider type
            if isinstance(theirs, Exception) != isinstance(got, Exception):
                faults.append(f"out {form} {kind}: PyTorch {theirs!r:.150}; ours {got!r:.150}")
            elif not isinstance(theirs, Exception):
                try:
                    free = op.name in torch_samples.FREE_INDICES or "empty" in op.name
                    parts = [got, theirs, results]
                    if not free:
                        parts = [tensors(determined(op, given, _like(plain, x))) for x in parts]
                    for a, b, x in zip(*parts, strict=True):
                        if not free or b.is_floating_point():
                            same(a, b, 1e3 if x.element_size() < b.element_size() else 1.0)
                except (AssertionError, ValueError) as error:
                    faults.append(f"out {form} {kind}: {str(error)[:300]}")
    assert not faults, faults[0]


def _like(plain: Any, parts: list[Any]) -> Any:
    """The parts as one result: a tensor, or a tuple with the names of `plain`."""
    return type(plain)(parts) if isinstance(plain, tuple) else parts[0]


def _holds(out: Any, result: Any) -> bool:
    """Tell whether nothing of a result is lost in the type of `out`."""
    unsigned = result.dtype in (torch.uint16, torch.uint32, torch.uint64)  # PyTorch promotes these to nothing
    return out.dtype == result.dtype if unsigned else torch.promote_types(out.dtype, result.dtype) == out.dtype


def _out_like(x: Any, kind: Any, form: str) -> Any:
    if form == "resized":
        return torch.empty(0, dtype=kind)
    return torch.zeros(*x.shape, 2, dtype=kind)[..., 0] if form == "strided" else torch.zeros(x.shape, dtype=kind)


def _written(function: Any, sample: Sample, out: Any, library: Any) -> Any:
    """The tensors of `out` after the call; or the exception."""
    found = called(lambda: function(sample.input, *sample.args, **sample.named, out=out), None, alone=True)
    if isinstance(found, Exception):
        return found
    return [x for x in (out if isinstance(out, tuple | list) else [out]) if isinstance(x, library.Tensor)]


def compare_variants(op: Any, sample: Sample) -> None:
    """Assert that methods, in-place methods, operators and aliases do what PyTorch's do."""
    sample = without_gradients(sample)
    if not isinstance(sample.input, torch.Tensor) or "empty" in op.name:
        raise Other
    variants = list(variants_of(op))
    if not variants:
        raise Other
    for name, theirs, mine in variants:
        assert mine is not None, f"{name} is missing"
        expected = called(theirs, each_theirs(sample, torch.clone))
        given = ours(each_theirs(sample, torch.clone))
        got = called(mine, given)
        if isinstance(expected, Exception) or expected is NotImplemented:
            assert isinstance(got, Exception) or got is NotImplemented, f"{name}: PyTorch raises {expected!r}"
            continue
        if isinstance(got, Exception):
            raise AssertionError(f"{name}: {got!r}") from got
        if name.endswith("_") and not name.endswith("__") and "operator" not in name:
            assert got is given.input, f"{name} returns another tensor"
            _all_same(got, expected, name)
        else:
            _all_same(determined(op, given, got), determined(op, sample, expected), name)


def variants_of(op: Any) -> Iterator[tuple[str, Function, Any]]:
    """The names of a function's variants, PyTorch's and ours; None where there is none."""
    for alias in (op, *op.aliases):
        if alias is not op:
            yield alias.name, alias.op, looked_up(alias.name.removeprefix("torch."))
        for method in (alias.method_variant, alias.inplace_variant):
            if isinstance(method, partial):
                yield f"{op.name} {method.keywords}", method, partial(counterpart(op), **method.keywords)
            elif method is not None and hasattr(torch.Tensor, name := method.__name__):
                yield name, method, getattr(ad.Tensor, name, None)
    for operator in (op.operator_variant, op.inplace_operator_variant):
        if operator is not None:
            yield f"operator.{operator.__name__}", operator, operator


def compare_derived(op: Any, sample: Sample, change: Function) -> None:
    """Assert that a sample with changed tensors gives what it gives in PyTorch, or is refused as there."""
    if not leading_tensors(sample):
        raise Other
    changed = each_theirs(sample, change)
    if isinstance(called(op.op, changed), Exception):
        raise Other  # what PyTorch refuses on such tensors is no rule of the function
    compare(op, changed, 1)


def as_number(x: Any) -> Any:
    """The first element as a tensor of 0 dimensions."""
    if not x.numel():
        return x
    return x.detach().flatten()[0].clone().requires_grad_(x.requires_grad)


def as_empty(x: Any) -> Any:
    """None of the rows."""
    return x.detach()[:0].clone().requires_grad_(x.requires_grad) if x.ndim else x


def direction(x: Any) -> Any:
    """A direction in which each element of a tensor moves otherwise."""
    d = torch.sin(torch.arange(x.numel(), dtype=torch.float64) + 1.0).reshape(x.shape)
    return torch.complex(d, d.flip(0) * 0.5 if d.ndim else d * 0.5).to(x.dtype) if x.is_complex() else d.to(x.dtype)


def without_gradients(sample: Sample) -> Sample:
    return each_theirs(sample, lambda x: x.detach())


def each_theirs(x: Any, change: Function) -> Any:
    """`x` with every tensor of PyTorch's in it changed."""
    if isinstance(x, Sample):
        return x._replace(**{k: each_theirs(getattr(x, k), change) for k in ("input", "args", "named")})
    if isinstance(x, list | tuple):
        return type(x)(each_theirs(y, change) for y in x)
    if isinstance(x, dict):
        return {k: each_theirs(y, change) for k, y in x.items()}
    return change(x) if isinstance(x, torch.Tensor) else x


def leading_tensors(sample: Sample) -> list[Any]:
    """All tensors that a sample gives, of either library, in order."""
    given = tensors([sample.input, sample.args, sample.named])
    return [x for x in given if isinstance(x, torch.Tensor | ad.Tensor)]


def replace_tensors(sample: Sample, new: Any) -> Sample:
    """The sample with its first tensors replaced."""
    left = iter(new)
    change = each_theirs if any(isinstance(x, torch.Tensor) for x in leading_tensors(sample)) else each
    return change(sample, lambda x: next(left, x))


def _all_same(got: Any, expected: Any, name: str = "") -> None:
    found, wanted = tensors(got), tensors(expected)
    assert len(found) == len(wanted), name
    for a, b in zip(found, wanted, strict=True):
        try:
            same(a, b)
        except AssertionError as error:
            raise AssertionError(f"{name}: {str(error)[:400]}") from None


def _agree(got: list[Any], expected: list[Any], tolerance: float) -> bool:
    if len(got) != len(expected) or any(a.shape != b.shape for a, b in zip(got, expected, strict=True)):
        return False
    scale = max((float(np.abs(b[np.isfinite(b)]).max(initial=1.0)) for b in expected), default=1.0)
    return all(
        np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
        for a, b in zip(got, expected, strict=True)
    )
