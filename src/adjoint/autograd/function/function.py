"""`Function`: an op whose forward and backward the user writes in Python."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.autograd.function.context import Context
from adjoint.autograd.function.node import BackwardCFunction
from adjoint.autograd.function.non_differentiable import NonDifferentiableBackward, once_differentiable
from adjoint.autograd.function.outputs import keep_for_backward, wrap_outputs
from adjoint.core.op.op_timer import find_op_timer
from adjoint.core.runtime.mode import mode, nondefault, recorded_by_caller
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand, Operands

FunctionCtx = Context


class FunctionMeta(type):
    """Gives each Function the class of its nodes, `_backward_cls`."""

    _backward_cls: type[BackwardCFunction]

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        fields = {"__slots__": (), "__module__": __name__, "_forward_cls": cls}
        cls._backward_cls = type(name + "Backward", (BackwardCFunction,), fields)


class Function(metaclass=FunctionMeta):
    """Operation with a gradient of its own, as a class to derive from.

    Call a subclass through `apply(*args)`, never by making an instance. Its methods are static, or class methods:

    Methods:
        forward(ctx, *args): compute the outputs. Operations in it are not recorded; `ctx.save_for_backward(*tensors)`
            keeps tensors for `backward`.
        backward(ctx, *grad_outputs): return the gradient of each argument of `forward`, or None. `ctx.saved_tensors`
            are the kept tensors. `vjp` is another name for it.
        setup_context(ctx, inputs, output): optional; it saves what `backward` needs. Then `forward` takes no `ctx`.
        jvp(ctx, *tangents): optional; return the tangent of each output, for forward mode.
        vmap(info, in_dims, *args): optional; return the outputs of a batch and their batch dimensions.
            `generate_vmap_rule = True` derives it from the others.

    Raises: NotImplementedError where a pass needs a method that is not defined.

    Example:
        >>> class Cube(ad.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x ** 3
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         return 3 * g * ctx.saved_tensors[0] ** 2
        >>> x = ad.tensor(2.0, requires_grad=True)
        >>> ad.autograd.grad(Cube.apply(x), x)
        (tensor(12.),)
    """

    generate_vmap_rule = False
    clear_saved_tensors_on_access = False
    boxed_grads_call = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            "invoke them on the class itself. Instantiating an autograd function will raise an error in a future "
            "version.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise RuntimeError: there is `apply`."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            f"function with static forward method: {type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs from the inputs; tensors in here are not recorded."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: Operands, output: Any) -> Any:
        """After a `forward` without ctx: set on `ctx` what backward needs of the inputs and the output."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Context, *grad_outputs: Any) -> Any:
        """Return the gradient of each argument of `forward`, or None, from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Context, *grad_inputs: Any) -> Any:
        """Return the tangent of each output of `forward`, or None, from those of the arguments."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """Return (outputs, mapped dimension of each) for a batch, from the arguments and their dimensions.

        `info.batch_size` and `info.randomness` tell about the `vmap` around.
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def _user_backward(cls) -> Callable[..., Any]:
        """Return the one of `backward` and `vjp` that the class defines. Raises RuntimeError where it defines both."""
        backward, vjp = cls.backward, cls.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError(
                f"{cls.__name__}: Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You "
                "should only implement one of them."
            )
        return backward if vjp is Function.vjp else vjp

    @classmethod
    def _call_forward(cls, ctx: Context, args: Operands, separate: bool) -> Operand:
        """Return what `forward` returns, whose ops are recorded at the line that called `apply`."""
        with recorded_by_caller():
            result = NotImplemented
            if nondefault.count and mode.interpreter is not None:
                result = mode.interpreter.apply_function(cls, args)
            if result is NotImplemented:
                result = cls.forward(*args) if separate else cls.forward(ctx, *args)
            if separate:
                cls.setup_context(ctx, args, result)
        return result

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call `forward` and record it; the result is what `forward` returned.

        Keywords take the places that `forward` gives them. Raises TypeError for those that have none.
        """
        separate = has_setup_context(cls)
        if kwargs or (separate and getattr(cls.forward, "__defaults__", True)):
            args = _bind_positionally(cls, separate, args, kwargs)
        special = nondefault.count and mode.is_intercepted
        duals = mode.forward_levels if special else None
        levels = () if duals is None else duals.levels_with_tangents(args)
        if special and (timer := find_op_timer()) is not None:
            timer.begin_op(cls.__name__)
        node = cls._backward_cls(args)
        ctx = Context(node)
        if duals is None:
            result = cls._call_forward(ctx, args, separate)
        else:  # the tangents of the results come from the class's own `jvp`, below
            with duals.forward_mode_off():
                result = cls._call_forward(ctx, args, separate)
        returned = result if isinstance(result, tuple) else (result,)
        attributes = node.context.attributes
        saved = attributes.pop("to_save", None) or ()
        dirty = attributes.get("dirty_tensors") or ()
        if separate and saved:
            _check_saved_inputs(cls, args, returned, saved, dirty)
        outputs = wrap_outputs(node, args, returned)
        if duals is not None and levels:
            duals.apply_function_jvp(node, args, returned, outputs, dirty, levels)
        attributes.pop("saved_for_forward", None)
        # A node without parents never runs: it must not keep tensors alive.
        if any(node.parents):
            keep_for_backward(node, outputs, saved)
        if special and mode.anomaly_detector is not None:
            for out in outputs:
                if isinstance(out, Tensor):
                    mode.anomaly_detector.observe_op(_Call(cls.__name__, (), cls), args, out)
        return outputs if isinstance(result, tuple) else outputs[0]


class InplaceFunction(Function):
    """A Function that was made to know whether it writes in place; kept for programs that derive from it."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A Function whose arguments nest, of the time before static methods; kept by name alone."""


class _Call(NamedTuple):
    """An application as those who watch ops see it."""

    name: str
    inputs: tuple[str, ...]
    function: type[Function]
    family: str = "function"
    differentiable: bool = True


def has_setup_context(function: type[Function]) -> bool:
    """Return whether its `forward` takes no ctx."""
    return function.setup_context is not Function.setup_context


def _bind_positionally(
    function: type[Function], separate: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Operand, ...]:
    """All arguments of `forward` in order, defaults filled in."""
    signature = inspect.signature(function.forward)
    try:
        given = signature.bind(*args, **kwargs) if separate else signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}: forward() {error}") from None
    given.apply_defaults()
    named = next((name for name in given.kwargs if name in kwargs), None)
    if named is not None:
        raise TypeError(f"{function.__name__}: forward() got an unexpected keyword argument {named!r}")
    return given.args if separate else given.args[1:]


def _check_saved_inputs(
    function: type[Function], args: tuple[Any, ...], returned: Operands, saved: Any, dirty: Any
) -> None:
    for tensor in saved:
        if tensor is None or any(tensor is d for d in dirty):
            continue
        if any(tensor is out for out in returned) and any(tensor is a for a in args):
            raise RuntimeError(
                f"{function.__name__}: An input that has been returned as-is as output is being saved for backward. "
                "This is not supported if you override setup_context. You should return and save a view of the input "
                "instead, e.g. with x.view_as(x) or setup ctx inside the forward function itself."
            )


__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "NestedIOFunction"]
__all__ += ["NonDifferentiableBackward", "has_setup_context", "once_differentiable"]
