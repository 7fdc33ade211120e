"""A `Function` within `vmap`: the level around sees one Function, whose forward and backward are the mapped ones.

So a gradient that the level around takes goes through the user's backward too, and not through what forward did.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from adjoint.autograd.function.context import Context
from adjoint.autograd.function.function import Function, has_setup_context
from adjoint.core.tensor.tensor import Tensor, tangents_of
from adjoint.core.typing import Operand, Operands
from adjoint.ops.reduction.reduction import sum
from adjoint.transforms.vmap.batched_tensor import VmapLevel
from adjoint.transforms.vmap.batching_rules import move_dim


class VmapInfo(NamedTuple):
    """Argument of a Function's own `vmap`: the number of examples, and the mode of random ops."""

    batch_size: int
    randomness: str


class FunctionVmapLevel(VmapLevel):
    """The level of a `vmap`, at which a `Function` is one of the whole batch."""

    def apply_function(self, function: type[Function], args: tuple[object, ...]) -> Any:
        """Return the result of the forward of a `Function`; NotImplemented where it may run op by op."""
        return apply_at_level(function, args, self)


def apply_at_level(function: type[Function], args: tuple[object, ...], level: FunctionVmapLevel) -> Any:
    """Return the result of `forward` at this level; NotImplemented if it may run op by op, not being differentiated.

    Raises: RuntimeError for a Function without `setup_context` that a level around differentiates.
    """
    operands = [level.physical(x) for x in args]
    values = [value for value, _ in operands]
    several = [batched for _, batched in operands]
    if not any(several):
        if not has_setup_context(function):
            return NotImplemented
        with level.outside():
            result = function.apply(*values)
        return _wrap_result(result, [False] * len(_as_tuple(result)), level)
    if function.vmap is not Function.vmap:
        return _apply_vmap_staticmethod(function, values, several, level)
    if has_setup_context(function):
        inner = FunctionVmapLevel(level.size, level.randomness)
        with level.outside():
            result = Mapped.apply(FunctionCase(function, tuple(several), inner), *values)
        return _wrap_result(result, [True] * len(_as_tuple(result)), level)
    if any(isinstance(x, Tensor) and (x.node is not None or tangents_of(x)) for x in values):
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod: {function.__name__} is differentiated outside of the vmap that "
            "it is called in."
        )
    return NotImplemented


def _wrap_result(result: Operand, several: list[bool], level: FunctionVmapLevel) -> Any:
    pairs = zip(_as_tuple(result), several, strict=True)
    entered = tuple(level.enter(x, batched) if isinstance(x, Tensor) else x for x, batched in pairs)
    return entered if isinstance(result, tuple) else entered[0]


def _apply_vmap_staticmethod(
    function: type[Function], values: list[object], several: list[bool], level: FunctionVmapLevel
) -> Any:
    if function.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and an overridden "
            "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
            "avoid ambiguity."
        )
    dims = tuple(0 if batched else None for batched in several)
    with level.outside():
        answer = function.vmap(VmapInfo(level.size, level.randomness), dims, *values)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise RuntimeError(
                f"Expected the vmap staticmethod of {function.__name__} to have two returns, the outputs and their "
                f"out_dims, but got {type(answer).__name__}"
            )
        result, out_dims = answer
        results = _as_tuple(result)
        if not isinstance(out_dims, tuple):
            out_dims = (out_dims,) * len(results)
        pairs = zip(results, out_dims, strict=True)
        fronted = tuple(move_dim(x, dim % x.ndim, 0) if dim else x for x, dim in pairs)
    several = [dim is not None for dim in out_dims]
    return _wrap_result(fronted if isinstance(result, tuple) else fronted[0], several, level)


class ExampleContext(Context):
    """`ctx` of one example: what it saves is kept, for all examples, by the ctx of the Function that is mapped."""

    __slots__ = ("opened",)
    opened: tuple[object, ...]

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors at the level of the examples."""
        return self.opened

    def again(self) -> ExampleContext:
        """Return the same attributes for another call, which opens saved tensors anew: threads may share a graph."""
        other = ExampleContext()
        other.__dict__ = self.__dict__
        return other


class FunctionCase(NamedTuple):
    """A Function with arguments some of which are batched."""

    function: type[Function]
    several: tuple[bool, ...]
    level: FunctionVmapLevel

    def wrap_values(self, values: Operand) -> list[Operand]:
        """Return the arguments, or their tangents, at the level of the examples."""
        pairs = zip(values, self.several, strict=True)
        return [self.level.enter(x, batched) if isinstance(x, Tensor) else x for x, batched in pairs]

    def unwrap_result(self, result: Operand) -> Any:
        """Return the result of the function for all examples."""
        several = tuple(self.level.unwrap_tensor(x) if isinstance(x, Tensor) else x for x in _as_tuple(result))
        return several if isinstance(result, tuple) else several[0]


class Mapped(Function):
    """The Function of a batch: that of the case, which is the first argument, for each example of the others."""

    @staticmethod
    def forward(case: FunctionCase, *values: object) -> Any:
        """Return the outputs with the batch in front."""
        with case.level.inside():
            result = case.function.forward(*case.wrap_values(values))
        return case.unwrap_result(result)

    @staticmethod
    def setup_context(ctx: Any, inputs: Operands, output: object) -> None:
        """Let the function set up the ctx of an example; what that saves is saved here."""
        case, level, own = inputs[0], inputs[0].level, ExampleContext()
        outputs = tuple(level.enter(x) if isinstance(x, Tensor) else x for x in _as_tuple(output))
        with level.inside():
            result = outputs if isinstance(output, tuple) else outputs[0]
            case.function.setup_context(own, tuple(case.wrap_values(inputs[1:])), result)
        attributes = vars(own)
        if attributes.get("dirty_tensors"):
            raise RuntimeError(f"vmap: {case.function.__name__} writes its input in place, which is not supported here")
        quiet = attributes.get("non_differentiable") or ()
        pairs = zip(_as_tuple(output), outputs, strict=True)
        ctx.mark_non_differentiable(*[x for x, example in pairs if any(example is q for q in quiet)])
        ctx.set_materialize_grads(attributes.get("materialize_grads", True))
        saved = [level.physical(x) for x in attributes.pop("to_save", None) or ()]
        ctx.save_for_backward(*[value for value, _ in saved])
        ctx.case, ctx.example, ctx.batched = case, own, [batched for _, batched in saved]

    @staticmethod
    def backward(ctx: Any, *gradients: object) -> Any:
        """Return the gradients of batched arguments, and those of the others summed over the examples."""
        case, level, own = ctx.case, ctx.case.level, ctx.example.again()
        pairs = zip(ctx.saved_tensors, ctx.batched, strict=True)
        own.opened = tuple(None if x is None else level.enter(x, batched) for x, batched in pairs)
        own.needs_input_grad = ctx.needs_input_grad[1:]
        with level.inside():
            found = case.function.backward(own, *[None if g is None else level.enter(g) for g in gradients])
        found = tuple(found) if isinstance(found, list) else found
        return None, *(
            g if g is None or batched else sum(g, axes=(0,), keepdims=False)
            for g, batched in zip(_as_tuple(case.unwrap_result(found)), case.several, strict=False)
        )

    @staticmethod
    def jvp(ctx: Any, *tangents: object) -> Any:
        """Return the tangents of the outputs."""
        case, own = ctx.case, ctx.example.again()
        own.opened = tuple(vars(own).get("saved_for_forward") or ())
        with case.level.inside():
            found = case.function.jvp(own, *case.wrap_values(tangents[1:]))
        return case.unwrap_result(found)


def _as_tuple(result: Operand) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)
