"""Draws within `vmap`: none, the same for all examples, or other ones for each."""

from __future__ import annotations

from adjoint.core.op.op import Op
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Params
from adjoint.transforms.vmap.batching_rules import (
    BatchOperands,
    loop_fallback,
    register_family_rule,
    stack_rows,
    take_example,
)

RANDOMNESS_MODES = ("error", "different", "same")


@register_family_rule("random")
def apply_random_rule(
    op: Op, operands: BatchOperands, params: Params, size: int, randomness: str
) -> tuple[Tensor, bool]:
    """Return the result of a random op, and whether it has the batch in front. Raises RuntimeError if refused."""
    if randomness == "never":
        raise RuntimeError(
            "vmap: We do not yet support calling random operations inside of vmap. Please perform random operations "
            f"outside of vmap as a workaround: {op.name} would be drawn once for all of the batch, or for each row."
        )
    if randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation while in randomness error mode. {op.name} can draw the 'same' numbers for "
            "all examples or 'different' ones for each: please use one of these flags on vmap, or perform the "
            "randomness operation out of vmap"
        )
    several = any(operand.batched for operand in operands)
    if randomness == "same":
        return _draw_same(op, operands, params, size) if several else (_call_unbatched(op, operands, params), False)
    if several:  # the parameters of the distribution have the batch in front, and so have the draws
        return op.public(*[operand.value for operand in operands], **params), True
    if "shape" in params:
        return op.public(**{**params, "shape": (size, *params["shape"])}), True
    if not size:
        return loop_fallback(op, operands, params, size), True
    return stack_rows([_call_unbatched(op, operands, params) for _ in range(size)]), True


def _call_unbatched(op: Op, operands: BatchOperands, params: Params) -> Tensor:
    """Draw with parameters that are the same for all examples."""
    return op.public(*[operand.value for operand in operands], **params)


def _draw_same(op: Op, operands: BatchOperands, params: Params, size: int) -> tuple[Tensor, bool]:
    """Each example draws from the same place in the stream, each with parameters of its own."""
    generator = params["generator"]
    start = generator.place()
    rows = []
    for i in range(size):
        generator.load_state_array(start)
        rows.append(op.public(*take_example(operands, i), **params))
    return (stack_rows(rows) if rows else loop_fallback(op, operands, params, size)), True
