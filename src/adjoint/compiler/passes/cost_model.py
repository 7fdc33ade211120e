"""The cost model: bytes and operations of equations and groups, and when to compute a value again.

Three passes weigh storing a value against computing it again, all by the costs below: `partition` between a step and a
backward pass outside of it, `rematerialize` between the forward and the backward half of one step, `inline_producers`
between kernels. (`checkpoint` has no choice: the user made it.)
"""

from __future__ import annotations

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.ir.symbolic_size import size_value
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.materialize import is_generated, is_kernel_op, is_view_or_generated

ZERO_FLOP_OPS = {"cast", "copy", "where"}  # elementwise, and no arithmetic
ZERO_FLOP_FAMILIES = {"movement", "index", "gather", "cat", "random", "check", "full", "iota"}
ONE_FLOP_PER_ELEMENT_OPS = {"cumsum", "fold"}  # calls with one operation for each element they read

# Computing an element again, in units of an addition; views and generated values cost nothing.
OP_COSTS = {"mul": 1, "add": 1, "sub": 1, "neg": 1}
DEFAULT_OP_COST = 4  # of any other elementwise op

# Across the call of `backward()` outside: writing an element, keeping it and reading it again costs about as much.
SAVE_COST_PER_ELEMENT = 16

# From forward to backward in one step: memory is what counts, and the largest values.
MAX_REMAT_COST = 80
MIN_REMAT_BYTES = 1 << 16  # of one value
MIN_TOTAL_SAVING_BYTES = 1 << 22  # of all of them
MIN_SHRINK_FACTOR = 8  # between a value and what may be kept to make it again
MIN_MATMULS_BETWEEN = 3  # from the making of a value to its first reader in backward: a shorter life costs little
MAX_MATMULS_BETWEEN_READERS = 12  # from its first reader to its last: a copy would live as long as the value
HEAVY_FAMILIES = ("contraction", "convolution", "attention")

# From kernel to kernel: reading memory costs more than a few operations on what is read anyway.
CHEAP_OPS = {
    "abs", "add", "cast", "eq", "ge", "gt", "isnan", "le", "logical_and", "logical_not", "logical_or", "logical_xor",
    "lt", "maximum", "minimum", "mul", "ne", "neg", "relu", "square", "sub", "where",
}  # fmt: skip
MAX_INLINED_EQUATIONS = 6
CHEAP_OPS_PER_BYTE_TIME = 2.5  # cheap equations for an element in the time of a byte
FREE_READ_FACTOR = 8  # times smaller than the value: memory that is read at no cost
MIN_COPY_GUARD_BYTES = 1 << 18  # of a value for which a small input is copied that the step may overwrite


def can_rematerialize(v: Value) -> bool:
    """True for elementwise equations and movements: the same numbers again, from the same operands."""
    return is_view_or_generated(v) or (is_kernel_op(v) and not v.op.combine)


def recompute_cost(v: Value) -> int:
    """Return the cost of computing an element of an equation's result again, in additions."""
    return 0 if is_view_or_generated(v) else OP_COSTS.get(v.op.name, DEFAULT_OP_COST)


def is_cheap(v: Value) -> bool:
    """True for an equation that costs no more than an addition or a comparison."""
    return v.op.name in CHEAP_OPS and is_kernel_op(v)


def is_much_smaller(kept: Value, value: Value) -> bool:
    """True if keeping one value to make another again saves most of its memory."""
    return kept.nbytes * MIN_SHRINK_FACTOR <= value.nbytes


def is_free_read(base: Value, value: Value) -> bool:
    """True if reading `base` costs nothing beside `value`; an input only where copying it is worth its while."""
    worth_copying = base.op is not None or value.nbytes >= MIN_COPY_GUARD_BYTES
    return base.nbytes * FREE_READ_FACTOR <= value.nbytes and worth_copying


def is_inlining_cheaper(saved_bytes: int, value: Value, equations: int, extra_times: int) -> bool:
    """True if the bytes saved take longer than computing `equations` for each element so many times more."""
    return saved_bytes > extra_times * equations * value.count / CHEAP_OPS_PER_BYTE_TIME


def bytes_read(group: Group, fusion: Fusion, overwritten: Value | None = None) -> int:
    """The bytes of memory that a group reads, each counted once however often it is read.

    `overwritten`: what its root writes into where that lies, and does not read.
    """
    read: dict[Value, int] = {}
    for operand in {o: None for value in group.equations for o in value.operands if o is not overwritten}:
        view = fusion.views.get(operand) or StridedView.in_memory(operand)
        base = view.base
        if fusion.maker.get(base) is not group and not is_generated(base) and not _is_check(base):
            read[base] = min(read.get(base, 0) + _count_elements_read(view) * base.dtype.itemsize, base.nbytes)
    return sum(read.values())


def bytes_written(group: Group, replaced: int | None = None) -> int:
    """The bytes of the values that a group stores; `replaced`: the elements of a root that replaces only some."""
    return sum(
        value.nbytes if replaced is None or value is not group.root else replaced * value.dtype.itemsize
        for value in group.stored
        if not _is_check(value)
    )


def flops(value: Value) -> int | None:
    """Arithmetic operations of one equation: one for each element of an elementwise op whatever it computes, one for
    each element that a fold takes in, 2·m·n·k of a matrix product; moving and choosing costs none. None: not known.
    """
    op = value.op
    if op.combine is not None or op.name in ONE_FLOP_PER_ELEMENT_OPS:
        return value.operands[0].count
    if op.scalar is not None or op.family in ("unary", "binary", "elementwise"):
        return 0 if op.name in ZERO_FLOP_OPS else value.count
    if op.family == "contraction":
        return 2 * value.count * size_value(value.operands[0].shape[-1])
    if op.family == "convolution":
        return _convolution_flops(value)
    if op.family == "attention":
        return _attention_flops(value)
    if op.family == "pooling":
        return _pooling_flops(value)
    return 0 if op.family in ZERO_FLOP_FAMILIES or op.index is not None else None


def total_flops(group: Group) -> int | None:
    """Count the operations of all equations of a group; None if one is not known."""
    counts = [flops(value) for value in group.equations]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def estimate_seconds(group: Group, fusion: Fusion) -> float:
    """About how long a kernel runs on one core: 20 GB, 100 G operations of products or 10 G others in a second."""
    known: float | None = fusion.memo.get(group)
    if known is not None:
        return known
    work = 0.0
    for value in group.equations:
        work += (flops(value) or 0) / (1e11 if value.op.family in ("contraction", "convolution") else 1e10)
    found = fusion.memo[group] = max(work, (bytes_read(group, fusion) + bytes_written(group)) / 2e10)
    return found


def _convolution_flops(value: Value) -> int:
    """Each element of the output takes in one window of the input: a product and a sum for each weight of a channel."""
    first, second = value.operands[:2]
    out, weight = {
        "convolution": (value, second),
        "convolution_input": (first, second),
        "convolution_weight": (second, value),
    }[value.op.name]
    return 2 * out.count * (weight.count // max(size_value(weight.shape[0]), 1))


def _attention_flops(value: Value) -> int:
    """Scores and what they weigh, 2·L·S·(E + Eᵥ) for each head; the gradient makes the scores again, and four products
    more. Half of it where a row sees only what comes before it.
    """
    gradient = value.op.name == "attention_gradient"
    q, k, v = value.operands[1:4] if gradient else value.operands[:3]
    size, width = size_value(q.shape[-1]), size_value(v.shape[-1])
    each = 3 * size + 2 * width if gradient else size + width
    total = 2 * q.count // max(size, 1) * size_value(k.shape[-2]) * each
    return total // 2 if value.params["causal"] else total


def _pooling_flops(value: Value) -> int:
    """One operation for each element of each window."""
    size = 1
    for taps in value.params["size"]:
        size *= taps
    pooled = value.operands[0] if value.op.name.endswith("_input") else value
    return pooled.count * size


def _count_elements_read(view: StridedView) -> int:
    """Count the elements of its base that a view sees, each once."""
    count = 1
    for n, stride in zip(view.shape, view.strides, strict=True):
        count *= size_value(n) if stride or not n else 1
    return min(count, view.base.count)


def _is_check(value: Value) -> bool:
    """True for the result of a check, which nobody stores."""
    return value.op is not None and value.op.family == "check"
