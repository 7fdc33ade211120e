"""`gradcheck`: the gradients that rules give, against differences of the function's values."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.autograd.backward import grad
from adjoint.core.dtype.dtype import is_floating
from adjoint.core.random.generator import default_generator
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Function, Operands
from adjoint.testing.gradcheck.analytical import compute_vjp_rows, unit_vectors
from adjoint.testing.gradcheck.grad_properties import (
    GradcheckError,
    check_batched,
    check_batched_tangents,
    check_undefined,
    check_undefined_tangents,
    check_zero_for_zero,
)
from adjoint.testing.gradcheck.jacobians import (
    JacobianCase,
    check_outputs_constant,
    combine_parts,
    compare_directional,
    compare_jacobians,
    unit_directions,
)
from adjoint.testing.gradcheck.numerical import as_tuple, differences, wants_grad

__all__ = ["GradcheckError", "get_analytical_jacobian", "get_numerical_jacobian"]
__all__ += ["get_numerical_jacobian_wrt_specific_input", "gradcheck", "gradgradcheck"]

Inputs = Any  # a tensor, or a tuple or list of whatever the function takes


def gradcheck(
    func: Function,
    inputs: Inputs,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Return whether the gradients of `func` agree with finite differences.

    For each Jacobian it tests |analytical - numerical| ≤ atol + rtol |numerical|. Each input that requires grad is
    tested and should be float64 or complex128, since rounding spoils differences of a narrower type.

    Args:
        func: function of tensors that returns a tensor or a tuple of tensors.
        inputs: tensor, or tuple of the arguments of `func`.
        eps: step of the central differences. Default: 1e-6.
        atol, rtol: absolute and relative tolerance. Defaults: 1e-5 and 1e-3.
        raise_exception: False to return False where a test fails. Default: True, raise GradcheckError.
        nondet_tol: difference allowed between two backward passes. Default: 0.
        check_undefined_grad: also pass None as the gradient of an output. Default: True.
        check_grad_dtypes: also compare the dtypes of gradients and inputs. Default: False.
        check_batched_grad: also compute gradients in batches, by `vmap`. Default: False.
        check_batched_forward_grad: also compute tangents in batches. Default: False.
        check_forward_ad: also test forward mode. Default: False.
        check_backward_ad: test reverse mode. Default: True.
        fast_mode: compare along one random direction instead of whole Jacobians. Default: False.
        masked: True to accept nearly 0 where a gradient of zero must give 0. Default: None, exactly 0.

    Raises: GradcheckError where a test fails; ValueError if no input requires grad, or for contradictory options.

    Example:
        >>> x = ad.tensor([0.5, 1.0], dtype=ad.float64, requires_grad=True)
        >>> ad.autograd.gradcheck(lambda x: x.sin() * x, x)
        True
    """
    _require(check_forward_ad or check_backward_ad, "at least one of check_forward_ad or check_backward_ad to be True")
    _imply(check_batched_grad, "check_batched_grad=True", check_backward_ad, "check_backward_ad")
    _imply(check_batched_forward_grad, "check_batched_forward_grad=True", check_forward_ad, "check_forward_ad")
    arguments = as_tuple(inputs)
    places = _find_checked_places(arguments)
    results = _call_function(func, arguments)
    outputs = {i: y for i, y in enumerate(results) if y.requires_grad}
    compared = outputs or {i: y for i, y in enumerate(results) if is_floating(y.array)}
    case = JacobianCase(func, arguments, places, compared, eps, atol, rtol, nondet_tol, check_grad_dtypes)
    xs, ys = case.inputs, list(outputs.values())
    compare = compare_directional if fast_mode else compare_jacobians
    checks: list[tuple[bool, Callable[..., None], tuple[object, ...]]] = [
        (not outputs, check_outputs_constant, (case, fast_mode)),
        (bool(outputs), compare, (case, check_backward_ad, check_forward_ad)),
        (check_forward_ad and check_undefined_grad, check_undefined_tangents, (func, arguments)),
        (check_batched_forward_grad, check_batched_tangents, (func, arguments)),
        *((check_batched_grad, check_batched, (y, k, xs)) for k, y in enumerate(ys)),
        (check_backward_ad, check_zero_for_zero, (ys, xs, masked)),
        (check_backward_ad and check_undefined_grad, check_undefined, (func, arguments, xs, len(ys))),
    ]
    try:
        for wanted, check, operands in checks:
            if wanted:
                check(*operands)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Function,
    inputs: Inputs,
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Return whether the second derivatives of `func` agree with finite differences of its gradients.

    It is `gradcheck` of the gradients, as functions of the inputs and of `grad_outputs`, which are random by default.
    With `gen_non_contig_grad_outputs` the random ones are not contiguous. `check_rev_over_rev` differentiates the
    gradients by backward passes, `check_fwd_over_rev` by forward mode. The other options are those of `gradcheck`.

    Raises: ValueError if no output requires grad.
    """
    _require(
        check_fwd_over_rev or check_rev_over_rev, "at least one of check_fwd_over_rev or check_rev_over_rev to be True"
    )
    _imply(check_undefined_grad, "check_undefined_grad=True", check_rev_over_rev, "check_rev_over_rev")
    _imply(check_batched_grad, "check_batched_grad=True", check_rev_over_rev, "check_rev_over_rev")
    arguments = as_tuple(inputs)
    if grad_outputs is None:
        outputs = [y for y in _call_function(func, arguments) if y.requires_grad]
        if not outputs:
            raise ValueError("gradgradcheck: no output of the function requires grad, so there is no gradient to check")
        weights = tuple(_random_weight(y, gen_non_contig_grad_outputs) for y in outputs)
    else:
        weights = as_tuple(grad_outputs)
    differentiable = [wants_grad(x) for x in (*arguments, *weights)]

    def gradients(*given: Any) -> tuple[Tensor, ...]:
        # forward mode hands in duals that do not require grad
        given = tuple(x.requires_grad_() if wanted else x for x, wanted in zip(given, differentiable, strict=True))
        xs, vs = given[: len(arguments)], given[len(arguments) :]
        outputs = [y for y in as_tuple(func(*xs)) if y.requires_grad]
        targets = [x for x, wanted in zip(xs, differentiable, strict=False) if wanted]
        return tuple(g for g in grad(outputs, targets, vs, create_graph=True, allow_unused=True) if g is not None)

    return gradcheck(
        gradients,
        (*arguments, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def get_numerical_jacobian_wrt_specific_input(
    fn: Function,
    input_idx: int,
    inputs: Inputs,
    outputs: Sequence[Tensor],
    eps: float,
    input: Tensor | None = None,
    is_forward_ad: bool = False,
) -> tuple[Tensor, ...]:
    """Return the Jacobian (|x|, |y|) of each floating output by one input, by central differences."""
    x: Tensor = as_tuple(inputs)[input_idx] if input is None else input
    _require(x.requires_grad, "input to have requires_grad=True")
    floating = {i: y for i, y in enumerate(outputs) if is_floating(y.array)}
    slopes = [differences(fn, as_tuple(inputs), x, floating, eps, d) for d in unit_directions(x)]
    return tuple(wrap(combine_parts(of)) for of in zip(*slopes, strict=True))


def get_numerical_jacobian(
    fn: Function, inputs: Inputs, target: Inputs = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[Tensor, ...]:
    """Return the Jacobian of the first output of `fn(inputs)` by each target, or input. PyTorch deprecated it."""
    arguments = as_tuple(inputs)
    _check_deprecated_call("get_numerical_jacobian", grad_out)
    results = as_tuple(fn(arguments))
    _refuse_complex("get_numerical_jacobian", results)
    targets = [x for x in (arguments if target is None else as_tuple(target)) if wants_grad(x)]
    return tuple(
        get_numerical_jacobian_wrt_specific_input(lambda *xs: fn(xs), i, arguments, results, eps, input=x)[0]
        for i, x in enumerate(targets)
    )


def get_analytical_jacobian(
    inputs: Inputs, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """Return the Jacobian of `output` by each input, and whether it was reentrant, of right size and of right dtype.

    PyTorch deprecated it.
    """
    _check_deprecated_call("get_analytical_jacobian", grad_out)
    _refuse_complex("get_analytical_jacobian", [output])
    pulled = compute_vjp_rows(output, [x for x in as_tuple(inputs) if wants_grad(x)], unit_vectors(output), nondet_tol)
    return tuple(wrap(rows.T) for rows in pulled.rows), pulled.reentrant, pulled.sizes_ok, pulled.types_ok


def _find_checked_places(arguments: Operands) -> list[int]:
    """Return the indices of the tensors that require grad; each must have memory of its own for every element."""
    places = [i for i, x in enumerate(arguments) if wants_grad(x)]
    if not places:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for i, x in enumerate(arguments):
        if isinstance(x, (tuple, list)) and any(map(wants_grad, x)):
            raise ValueError(
                f"gradcheck checks only tensors that are arguments themselves, but input {i} is a {type(x).__name__} "
                "with one that requires grad: wrap the function so that it takes them one by one."
            )
    for i in places:
        x = arguments[i]
        if x.array.dtype not in (np.float64, np.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                UserWarning,
                stacklevel=3,
            )
        if x.array.size > 1 and any(s == 0 and n > 1 for s, n in zip(x.array.strides, x.array.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
    return places


def _call_function(func: Function, arguments: Operands) -> tuple[Tensor, ...]:
    results = as_tuple(func(*arguments))
    for k, y in enumerate(results):
        if not isinstance(y, Tensor):
            raise TypeError(
                f"gradcheck expects a function that returns a tensor, or a tuple or list of tensors; output {k} is a "
                f"{type(y).__name__}"
            )
    return results


def _random_weight(y: Tensor, noncontiguous: bool) -> Tensor:
    """Return random numbers from −1 to 1, shaped and typed like `y`; with gaps in memory if `noncontiguous`."""
    shape, real = y.array.shape, y.array.real.dtype
    gaps = noncontiguous and y.array.size > 1
    wide = (*shape[:-1], 2 * shape[-1]) if gaps else shape
    if y.array.dtype == real:
        drawn = default_generator.uniform(wide, real, -1.0, 1.0)
    else:
        drawn = default_generator.uniform((*wide, 2), real, -1.0, 1.0).view(y.array.dtype)[..., 0]
    return wrap(drawn[..., 1::2] if gaps else drawn).requires_grad_()


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise AssertionError(f"Expected {what}")


def _imply(given: bool, setting: str, needed: bool, other: str) -> None:
    if given and not needed:
        raise AssertionError(f"Setting {setting} requires {other} to be True")


def _check_deprecated_call(name: str, grad_out: float) -> None:
    warnings.warn(
        f"`{name}` was part of PyTorch's private API and is here for programs that use it. New ones call "
        "adjoint.autograd.functional.jacobian, or gradcheck.",
        FutureWarning,
        stacklevel=3,
    )
    if grad_out != 1.0:
        raise ValueError(f"Expected grad_out to be 1.0. {name} no longer supports values of grad_out != 1.0.")


def _refuse_complex(name: str, outputs: Sequence[Tensor]) -> None:
    if any(y.array.dtype.kind == "c" for y in outputs):
        raise ValueError(
            f"Expected output to be non-complex. {name} no longer supports functions that return complex outputs."
        )
