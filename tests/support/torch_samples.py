"""PyTorch's own sample inputs: what each of its functions gives for them, and ours, compared to the second gradient."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
from tests.support.converted import Other, Sample, each, elements, looked_up, ours, tensors

import adjoint as ad
import adjoint.nn.functional
from adjoint.autograd import forward_ad

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which PyTorch's samples ask for
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

SEED = 42  # the samples of random functions set this one themselves
TOLERANCE = {"float64": 1e-7, "complex128": 1e-7, "float32": 2e-5, "complex64": 2e-5, "float16": 4e-3, "bfloat16": 2e-2}
DRAWN_IN_PLACE = ("cauchy", "exponential", "geometric", "log_normal", "uniform")
ATTRIBUTES = ("T", "H", "mT", "mH")
# PyTorch's table gives these their arguments in another order, or calls another function than their name says
OTHERWISE: dict[str, Callable[..., Any]] = {
    "where": lambda x, condition, y, **named: ad.where(condition, x, y, **named),
    "nn.functional.embedding": lambda weight, indices, **named: looked_up("nn.functional.embedding")(
        indices, weight, **named
    ),
    "nn.functional.embedding_bag": lambda weight, indices, *rest, **named: looked_up("nn.functional.embedding_bag")(
        indices, weight, *rest, **named
    ),
    "normal/in_place": lambda x, *rest, **named: x.normal_(*rest, **named),
    "rand_like": lambda x, **named: ad.randn_like(x, **named),
    "zero_": lambda x: ad.clone(x).zero_(),
    "linalg.pinv/singular": lambda a, b: ad.linalg.pinv(a @ b.mT),
    "linalg.lstsq/grad_oriented": lambda a, b, driver: ad.linalg.lstsq(a, b, driver=driver)[:2],
    "svd_lowrank": lambda a, b, **named: ad.svd_lowrank(a @ b.mT, **named),
    "pca_lowrank": lambda a, b, **named: ad.pca_lowrank(a @ b.mT, **named),
    "einsum": lambda tensors, equation: ad.einsum(equation, tensors),
    "polygamma": lambda x, n, **named: ad.polygamma(n, x, **named),
    "special.polygamma": lambda x, n, **named: ad.special.polygamma(n, x, **named),
    "normal/number_mean": lambda std, mean, *rest, **named: ad.normal(mean, std, *rest, **named),
}
CALLED_AS_METHODS = ("expand", "repeat", "unfold", "view")  # the module's function of that name is another one
# of equal elements any may come first: where their dim stands among the arguments after the input
FREE_INDICES = {"kthvalue": 1, "topk": 1, "mode": 0, "sort": 0, "argsort": 0}


NAMESAKES: dict[type[Exception], Any] = {  # what NumPy's and Python's own checks raise is as good
    NotImplementedError: (NotImplementedError, RuntimeError),
}


def label(op: Any) -> str:
    """PyTorch's name of a function, with the variant of its samples."""
    return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else str(op.name)


def counterpart(op: Any) -> Callable[..., Any] | None:
    """Our function for one of PyTorch's table; None if there is none."""
    if label(op) in OTHERWISE or op.name in OTHERWISE:
        return OTHERWISE.get(label(op)) or OTHERWISE[op.name]
    if op.name in ATTRIBUTES:
        return lambda x: getattr(x, op.name)
    if op.name in CALLED_AS_METHODS:
        return getattr(ad.Tensor, op.name, None)
    if op.name in DRAWN_IN_PLACE:
        method = getattr(ad.Tensor, f"{op.name}_", None)
        return method and (lambda x, *rest, **named: method(ad.clone(x), *rest, **named))
    if "." not in op.name and not callable(getattr(torch, op.name, None)):
        return getattr(ad.Tensor, op.name, None)
    return looked_up(op.name)


def samples(op: Any, kind: str, count: int | None, noncontiguous: bool = False) -> Iterator[Sample]:
    """The first `count` inputs of one element type, as PyTorch's tensors; None for all."""
    dtype = getattr(torch, kind)
    if dtype not in op.dtypes:
        return
    torch.default_generator.manual_seed(SEED)  # torch.manual_seed notes a traceback each time
    random.seed(SEED)
    graded = kind in ("float64", "complex128") and op.supports_autograd and dtype in op.backward_dtypes
    for given in islice(op.sample_inputs_func(op, "cpu", dtype, graded), count):
        sample = given.noncontiguous() if noncontiguous else given
        yield Sample(sample.input, tuple(sample.args), dict(sample.kwargs), sample.output_process_fn_grad)


def both(op: Any, sample: Sample) -> tuple[Sample, Callable[..., Any], Callable[..., Any]]:
    """The sample in our tensors, our function and PyTorch's; both given what the function is defined for."""
    function = counterpart(op)
    assert function is not None
    calls = [partial(processed, wrapped(op, plain), op, sample.process) for plain in (function, op.op)]
    return ours(sample), calls[0], calls[1]


def wrapped(op: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, given what it is defined for: Hermitian matrices, triangles."""
    if op.name == "cholesky_inverse":
        return partial(_of_triangle, function)
    if "cholesky_" in op.name or "triangular_" in op.name or "hermitian" in _name(op.gradcheck_wrapper):
        return partial(op.gradcheck_wrapper, function)
    return function


def compare(op: Any, sample: Sample, times: int = 2, factor: float = 1.0) -> None:
    """Assert that ours gives what PyTorch's gives: values, types, gradients `times` times; or an error like it.

    `factor` widens the tolerance.
    """
    given, function, reference = both(op, sample)
    theirs, leaves = called(reference, sample), leaves_of(sample)
    if isinstance(theirs, Exception):
        assert isinstance(called(function, given), Exception), f"PyTorch raises {theirs!r}"
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ad.manual_seed(SEED)
        results = tensors(function(given.input, *given.args, **given.named))
        expected = tensors(theirs)
        assert len(results) == len(expected)
        if "empty" not in op.name:
            for a, b in zip(results, expected, strict=True):
                same(a, b, factor)
        times = min(times, 2 if op.supports_gradgrad else 1)
        if times:
            _compare_gradients(results, leaves_of(given), expected, leaves, times, factor)


def compare_error(op: Any, sample: Any) -> None:
    """Assert that ours refuses what PyTorch refuses, with an error of that class."""
    memo: dict[int, Any] = {}  # PyTorch may leave `out` half resized, and other samples share memory with it
    parts = [deepcopy(part, memo) for part in (sample.input, tuple(sample.args), dict(sample.kwargs))]
    given = Sample(*parts, lambda x: x)
    error = called(counterpart(op), ours(given))
    expected = called(op.op, given)
    if not isinstance(expected, Exception):  # it is so on another device only
        raise Other
    kinds = NAMESAKES.get(type(expected), type(expected))
    assert isinstance(error, kinds), f"PyTorch raises {expected!r}; ours: {error!r}"


def compare_forward(op: Any, sample: Sample) -> None:
    """Assert that forward mode agrees with the gradient: the slope of a number along v is its gradient times v."""
    given, function, _ = both(op, sample)
    leaves, directions = leaves_of(given), {}
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore")
        for leaf in leaves:
            directions[id(leaf)] = ad.from_numpy(np.sin(np.arange(leaf.numel()) + 1.0).reshape(tuple(leaf.shape)))
        duals = each(given, lambda x: forward_ad.make_dual(x, directions[id(x)]) if id(x) in directions else x)
        ad.manual_seed(SEED)
        results = tensors(function(duals.input, *duals.args, **duals.named))
        total = weighed(results, ad)
        if total is None or not np.isfinite(elements(total)):  # where a mask leaves out all, the value is NaN or -inf
            raise Other
        slope = forward_ad.unpack_dual(total).tangent
        gradients = ad.autograd.grad(total, leaves, allow_unused=True)
    expected = sum(
        float((g * directions[id(x)]).sum()) for g, x in zip(gradients, leaves, strict=True) if g is not None
    )
    kinds = [x.dtype.name for x in tensors(results) if isinstance(x, ad.Tensor)]
    tolerance = max(TOLERANCE.get(kind, 0.0) for kind in kinds)
    np.testing.assert_allclose(0.0 if slope is None else slope.item(), expected, rtol=tolerance, atol=tolerance)


def compare_compiled(op: Any, sample: Sample) -> None:
    """Assert that a compiled call gives what an eager one does, with its gradients where the sample asks for some."""
    given, function = ours(sample), counterpart(op)
    assert function is not None
    operands = [x for x in tensors([given.input, given.args, given.named]) if isinstance(x, ad.Tensor)]
    places = {id(x): i for i, x in enumerate(operands)}

    def call(*inputs: Any) -> Any:
        mine = each(given, lambda x: inputs[places[id(x)]] if id(x) in places else x)
        results = tensors(sample.process(function(mine.input, *mine.args, **mine.named)))
        total, leaves = weighed(results, ad), [x for x in inputs if x.requires_grad]
        if total is None or not leaves:
            return results
        return [*results, *[g for g in ad.autograd.grad(total, leaves, allow_unused=True) if g is not None]]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ad.manual_seed(SEED)
        expected = called(call, Sample(operands[0], tuple(operands[1:]), {}, _same)) if operands else None
        if expected is None or isinstance(expected, Exception):
            raise Other
        ad.manual_seed(SEED)
        results = ad.compile(call)(*operands)
    assert len(results) == len(expected)
    for a, b in zip(results, expected, strict=True):
        assert getattr(a, "dtype", None) is getattr(b, "dtype", None)
        assert type(getattr(a, "array", b)) in (np.ndarray, type(b))
        x, y = elements(a), elements(b)
        assert x.shape == y.shape
        tolerance = max(1e-5, TOLERANCE.get(getattr(a, "dtype", ad.float64).name, 0.0))
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.abs(y[np.isfinite(y)]).max(initial=1.0))


def same(a: Any, b: Any, factor: float = 1.0) -> None:
    """Assert that a result of ours is PyTorch's: type, shape, element type, elements."""
    if isinstance(b, torch.Tensor):
        if b.layout != torch.strided:
            raise Other
        assert isinstance(a, ad.Tensor)
        assert type(a.array) is np.ndarray, f"a tensor holds {type(a.array).__name__}"
        assert a.dtype.name == str(b.dtype).removeprefix("torch.")
        assert a.requires_grad == b.requires_grad
    x, y = elements(a), elements(b)
    assert x.shape == y.shape
    tolerance = TOLERANCE.get(str(getattr(b, "dtype", "float64")).removeprefix("torch."), 0) * factor
    if tolerance:
        scale = 1.0
        if y.dtype.itemsize // (2 if y.dtype.kind == "c" else 1) <= 4:  # small sums of large terms
            scale = np.abs(y[np.isfinite(y)]).max(initial=1.0)
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)
    else:
        np.testing.assert_array_equal(x, y)


def _compare_gradients(results: Any, leaves: Any, expected: Any, their_leaves: Any, times: int, factor: float) -> None:
    total, their_total = weighed(results, ad), weighed(expected, torch)
    if their_total is None or not their_leaves:
        return
    gradient = partial(torch.autograd.grad, their_total, their_leaves, allow_unused=True, create_graph=times > 1)
    theirs = called(gradient, None, alone=True)
    if isinstance(theirs, Exception):
        return
    if total is None:  # ours is known not to depend on them
        assert not any(np.any(elements(g)) for g in theirs if g is not None)
        return
    got = ad.autograd.grad(total, leaves, allow_unused=True, create_graph=times > 1)
    for a, b in zip(got, theirs, strict=True):
        if a is None or b is None:
            rest = a if b is None else b
            assert rest is None or not np.any(elements(rest)), "a gradient where the other has none"
        else:
            same(a.detach(), b.detach(), 10.0 * factor)
    if times > 1:
        kept = [[x for x in gradients if x is not None] for gradients in (got, theirs)]
        _compare_gradients(kept[0], leaves, kept[1], their_leaves, 1, factor)


def weighed(results: Any, library: Any) -> Any:
    """A real number that every element of the results has its own share in; None if no result has a history."""
    total = None
    for x in results:
        if not isinstance(x, library.Tensor) or not x.requires_grad:
            continue
        weights = library.from_numpy(np.cos(np.arange(x.numel(), dtype=float)).reshape(tuple(x.shape)))
        part = (x * weights.to(x.dtype)).sum()
        part = part.real + 2 * part.imag if part.is_complex() else part
        total = part if total is None else total + part
    return total


def processed(function: Any, op: Any, process: Any, *args: Any, **named: Any) -> Any:
    """What is determined of a result: where any of equal elements may be chosen, the elements at the indices."""
    found = function(*args, **named)
    if found is NotImplemented:
        raise Other
    if op.name in ("linalg.eig", "linalg.eigvals"):
        return process(_in_order(found))
    if op.name not in FREE_INDICES:
        return process(found)
    place = FREE_INDICES[op.name]
    dims = [x for x in args[1 + place : 2 + place] if not isinstance(x, bool)]
    dim = named.get("dim", dims[0] if dims else -1)
    values, indices = (None, found) if op.name == "argsort" else found
    x, at = elements(args[0]), elements(indices)
    if x.ndim:
        apart = at.ndim < x.ndim
        at = np.take_along_axis(x, np.expand_dims(at, dim) if apart else at, dim)
    else:
        at = x[None][at]
    return (values, at.tolist(), str(indices.dtype).split(".")[-1])


def _in_order(found: Any) -> Any:
    """Eigenvalues, and their vectors, by their real and imaginary parts: LAPACK has them in any order."""
    values = found if not isinstance(found, tuple) else found[0]
    numbers = elements(values).round(3)
    order = np.lexsort((numbers.imag, numbers.real))
    at = (torch if isinstance(values, torch.Tensor) else ad).from_numpy(order)
    if values is found:
        return values.gather(-1, at)
    return values.gather(-1, at), found[1].gather(-1, at.unsqueeze(-2).expand(found[1].shape))


def _of_triangle(function: Any, x: Any, upper: bool = False) -> Any:
    return function(x.triu() if upper else x.tril(), upper)


def called(function: Any, given: Any, alone: bool = False) -> Any:
    """What a call returns, or the exception that it raises."""
    torch.default_generator.manual_seed(SEED)  # torch.manual_seed notes a traceback each time
    ad.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function() if alone else function(given.input, *given.args, **given.named)
        except Other:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it raises is what is compared
            return error


def leaves_of(sample: Any) -> list[Any]:
    given = tensors([sample.input, sample.args, sample.named])
    return [x for x in given if isinstance(x, torch.Tensor | ad.Tensor) and x.requires_grad]


def _same(x: Any) -> Any:
    return x


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", ""))


LEFT_OUT = ("_", "jiterator", "sparse.", "torch.")
TABLE = [op for op in op_db if op.name.startswith("__") or not op.name.startswith(LEFT_OUT)]
