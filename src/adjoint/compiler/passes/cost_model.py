"""What an equation and a group of them cost: bytes read, bytes written, arithmetic operations."""

from __future__ import annotations

from adjoint.compiler.ir.graph import Value
from adjoint.compiler.ir.strided_view import StridedView
from adjoint.compiler.passes.fusion import Fusion
from adjoint.compiler.passes.fusion_group import Group
from adjoint.compiler.passes.materialize import is_generated

ZERO_FLOP_OPS = {"cast", "copy", "where"}  # elementwise, and no arithmetic
ZERO_FLOP_FAMILIES = {"movement", "index", "gather", "cat", "random", "check", "full", "iota"}
ONE_FLOP_PER_ELEMENT_OPS = {"cumsum", "fold"}  # calls with one operation for each element they read


def bytes_read(group: Group, fusion: Fusion) -> int:
    """The bytes of memory that a group reads, each counted once however often it is read."""
    read: dict[Value, int] = {}
    for operand in {o: None for value in group.equations for o in value.operands}:
        view = fusion.views.get(operand) or StridedView.whole(operand)
        base = view.base
        if fusion.maker.get(base) is not group and not is_generated(base) and not _is_check(base):
            read[base] = min(read.get(base, 0) + _count_elements_read(view) * base.dtype.itemsize, base.nbytes)
    return sum(read.values())


def bytes_written(group: Group) -> int:
    """The bytes of the values that a group stores."""
    return sum(value.nbytes for value in group.stored if not _is_check(value))


def flops(value: Value) -> int | None:
    """Arithmetic operations of one equation: one for each element of an elementwise op whatever it computes, one for
    each element that a fold takes in, 2·m·n·k of a matrix product; moving and choosing costs none. None: not known.
    """
    op = value.op
    if op.combine is not None or op.name in ONE_FLOP_PER_ELEMENT_OPS:
        return value.operands[0].size
    if op.scalar is not None or op.family in ("unary", "binary", "elementwise"):
        return 0 if op.name in ZERO_FLOP_OPS else value.size
    if op.family == "contraction":
        return 2 * value.size * value.operands[0].shape[-1]
    if op.family == "convolution":
        return _convolution_flops(value)
    if op.family == "attention":
        return _attention_flops(value)
    if op.family == "pooling":
        return _pooling_flops(value)
    return 0 if op.family in ZERO_FLOP_FAMILIES or op.index is not None else None


def total_flops(group: Group) -> int | None:
    """Those of all equations of a group; None if one is not known."""
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
    return 2 * out.size * (weight.size // max(weight.shape[0], 1))


def _attention_flops(value: Value) -> int:
    """Scores and what they weigh, 2·L·S·(E + Eᵥ) for each head; the gradient makes the scores again, and four products
    more. Half of it where a row sees only what comes before it.
    """
    gradient = value.op.name == "attention_gradient"
    q, k, v = value.operands[1:4] if gradient else value.operands[:3]
    size, width = q.shape[-1], v.shape[-1]
    each = 3 * size + 2 * width if gradient else size + width
    total = 2 * q.size // max(size, 1) * k.shape[-2] * each
    return total // 2 if value.params["causal"] else total


def _pooling_flops(value: Value) -> int:
    """One operation for each element of each window."""
    size = 1
    for taps in value.params["size"]:
        size *= taps
    pooled = value.operands[0] if value.op.name.endswith("_input") else value
    return pooled.size * size


def _count_elements_read(view: StridedView) -> int:
    """How many elements of its base a view sees, those it repeats once."""
    count = 1
    for n, stride in zip(view.shape, view.strides, strict=True):
        count *= n if stride or not n else 1
    return min(count, view.base.size)


def _is_check(value: Value) -> bool:
    """True for the result of a check, which nobody stores."""
    return value.op is not None and value.op.family == "check"
