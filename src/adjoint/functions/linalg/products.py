"""Further products: sums of matrix products, of outer products, over chosen dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce

import numpy as np

from adjoint.core.dtype.dtype import promote
from adjoint.core.graph.node import next_sequence_nr
from adjoint.core.op.families import with_eager_fast_path
from adjoint.core.tensor.tensor import Tensor, constant, method
from adjoint.core.typing import Array, Operand, Shape
from adjoint.functions.api.compute_dtype import autocast_lower, in_float32
from adjoint.functions.api.dim_args import one_dim
from adjoint.functions.api.legacy_overloads import with_leading_factors
from adjoint.functions.api.out import with_out, write_out
from adjoint.functions.api.publish import in_place, public, rename_node
from adjoint.functions.linalg import matmul
from adjoint.functions.shape import as_strided, shape
from adjoint.ops.elementwise import arithmetic, select
from adjoint.ops.elementwise.complex import conj, is_complex
from adjoint.ops.indexing import indexing
from adjoint.ops.movement import movement
from adjoint.ops.mutation.inplace import write_in_place
from adjoint.ops.reduction import reduction

__all__ = [
    "addbmm", "addmv", "addr", "baddbmm", "chain_matmul", "cross", "ger", "inner", "kron", "matrix_power", "tensordot",
    "vander", "vdot",
]  # fmt: skip

setattr(Tensor, "addmm_", in_place(matmul.addmm, "addmm_"))  # noqa: B010  mypy would take an assignment for a mistake


@public()
@with_leading_factors
@autocast_lower
@in_float32
@with_out
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta · input + alpha · Σ over the stack of batch1 @ batch2."""
    total = reduction.sum(matmul.bmm(batch1, batch2), axes=(0,), keepdims=False)
    out = matmul.add_scaled_product("addbmm", input, total, beta, alpha)
    (b, n, _), m = batch1.array.shape, batch2.array.shape[2]
    sizes = {"batch1_sym_argsize_0": b, "batch1_sym_argsize_1": n, "batch2_sym_argsize_2": m}
    return rename_node(out, "AddbmmBackward0", **sizes, beta=beta, alpha=alpha)


@method
def addbmm_(self: Tensor, *args: Operand, **kwargs: Operand) -> Tensor:
    """In-place `addbmm`: write the result into this tensor, which takes its shape, and return it."""
    start = next_sequence_nr()
    out = addbmm(self, *args, **kwargs)
    if out.array.shape != self.array.shape:
        as_strided.resize_(self, out.array.shape)
    return write_in_place(self, out, "addbmm_", start)


@public(inplace=True)
@with_leading_factors
@autocast_lower
@in_float32
@with_out
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta · input + alpha · batch1 @ batch2, for each of a stack.

    Raises: RuntimeError for operands of different dtypes.
    """
    if not input.array.dtype == batch1.array.dtype == batch2.array.dtype:
        kinds = [x.dtype.name for x in (input, batch1, batch2)]
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {kinds[0]}, batch1: {kinds[1]}, batch2: {kinds[2]}"
        )
    out = matmul.add_scaled_product("baddbmm", input, matmul.bmm(batch1, batch2), beta, alpha)
    return rename_node(out, "BaddbmmBackward0", beta=beta, alpha=alpha)


@public(inplace=True)
@with_leading_factors
@in_float32
@with_out
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta · input + alpha · mat @ vec."""
    out = matmul.add_scaled_product("addmv", input, matmul.mv(mat, vec), beta, alpha)
    return rename_node(out, "AddmvBackward0", beta=beta, alpha=alpha)


@public(inplace=True)
@with_leading_factors
@in_float32
@with_out
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta · input + alpha · vec1 vec2ᵀ. Raises RuntimeError for fractions where elements are integers."""
    kind = promote(x.array for x in (input, vec1, vec2)).kind
    factors: dict[str, Operand] = {"beta": beta, "alpha": alpha}
    for label, factor in factors.items():
        if isinstance(factor, bool) and kind != "b":
            raise RuntimeError(f"Boolean {label} only supported for Boolean results.")
        if isinstance(factor, float) and kind in "iub":
            raise RuntimeError(f"For integral input tensors, argument {label} must not be a floating point number.")
        if isinstance(factor, complex) and kind != "c":
            raise RuntimeError("value cannot be converted to type float without overflow")
    out = matmul.add_scaled_product("addr", input, matmul.outer(vec1, vec2), beta, alpha)
    return rename_node(out, "AddrBackward0", beta=beta, alpha=alpha)


@public()
@with_out
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """Return `outer`, under its older name."""
    return matmul.outer(input, vec2)


@public()
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return Σ over the last dimension of both, every slice with every slice; with a number, the product.

    Raises: RuntimeError unless the last sizes agree.
    """
    if not (input.ndim and other.ndim):
        return arithmetic.mul(input, other) if out is None else write_out(out, arithmetic.mul, input, other)
    if input.array.shape[-1] != other.array.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.array.shape)} and {list(other.array.shape)}"
        )
    return tensordot(input, other, ([-1], [-1]), out)


@public()
@with_out
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """Return Σ conj(input) other, of vectors."""
    return matmul.dot(conj(input) if is_complex(input) else input, other)


def tensordot(a: Tensor, b: Tensor, dims: int | tuple[Sequence[int], ...] = 2, out: Tensor | None = None) -> Tensor:
    """Return Σ over the last `dims` dimensions of a and the first of b, or over the two lists given.

    A dimension of size 1 goes with one of any size.

    Raises: RuntimeError unless the sizes of the pairs agree.
    """
    if out is not None:
        return write_out(out, tensordot, a, b, dims)
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        dims = (range(-dims, 0), range(dims))
    mine, theirs = ([d] if isinstance(d, int) else list(d) for d in dims)
    over_a, over_b = [one_dim(d, a.ndim) for d in mine], [one_dim(d, b.ndim) for d in theirs]
    if len(over_a) != len(over_b):
        raise RuntimeError("both dimension lists should have same length")
    for i, j, called_i, called_j in zip(over_a, over_b, mine, theirs, strict=True):
        n, m = a.array.shape[i], b.array.shape[j]
        if n != m and 1 not in (n, m):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {called_i} and second has size "
                f"{m} in dim {called_j}"
            )
        if n == 1 != m:  # a dimension of size 1 stands for as many as the other has
            b = reduction.sum(b, axes=(j,), keepdims=True)
        elif m == 1 != n:
            a = reduction.sum(a, axes=(i,), keepdims=True)
    kept_a = [d for d in range(a.ndim) if d not in over_a]
    kept_b = [d for d in range(b.ndim) if d not in over_b]
    lead, tail = [a.array.shape[d] for d in kept_a], [b.array.shape[d] for d in kept_b]
    inside = int(np.prod([a.array.shape[d] for d in over_a]))
    left = shape.reshape(shape.permute(a, tuple(kept_a + over_a)), (int(np.prod(lead)), inside))
    right = shape.reshape(shape.permute(b, tuple(over_b + kept_b)), (inside, int(np.prod(tail))))
    return shape.reshape(matmul.mm(left, right), tuple(lead + tail))


def chain_matmul(*matrices: Tensor | Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """Return the product of matrices, from the left. Raises RuntimeError for no matrix."""
    if out is not None:
        return write_out(out, chain_matmul, *matrices)
    parts: Operand = matrices[0] if len(matrices) == 1 and not isinstance(matrices[0], Tensor) else matrices
    if not len(parts):
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    return reduce(matmul.mm, parts) if len(parts) > 1 else select.copy(parts[0])


@public()
@with_out
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return Kronecker's product: every element of `input` times the whole of `other`."""
    sizes = input.array.shape, other.array.shape
    find = _find_kron_shapes if type(input.array) is type(other.array) is np.ndarray else _find_kron_shapes.__wrapped__
    left, right, whole = find(*sizes)  # sizes may be symbols
    spread = arithmetic.mul(movement.reshape(input, shape=left), movement.reshape(other, shape=right))
    return movement.reshape_unshared(spread, whole)


@lru_cache(256)
def _find_kron_shapes(x: Shape, y: Shape) -> tuple[Shape, Shape, Shape]:
    """Return the shapes in which two operands are multiplied, and that of the result."""
    n = max(len(x), len(y))
    x, y = ((1,) * (n - len(sizes)) + tuple(sizes) for sizes in (x, y))
    left = tuple([k for size in x for k in (size, 1)])
    right = tuple([k for size in y for k in (1, size)])
    return left, right, tuple([a * b for a, b in zip(x, y, strict=True)])


@public()
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Return x × y of vectors of three elements along `dim`, the first such dimension unless given.

    Raises: RuntimeError unless `dim` has size 3.
    """
    sizes = input.array.shape
    if dim is None:
        found = [d for d, n in enumerate(sizes) if n == 3]
        if not found:
            raise RuntimeError("no dimension of size 3 in input")
        dim = found[0]
    axis = one_dim(dim, input.ndim)
    if sizes[axis] != 3 or other.array.shape[axis] != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3.")

    alike = input.array.dtype == other.array.dtype and input.array.dtype.kind == "f" and input.ndim == other.ndim
    form = _cross if alike else _cross_composite
    out: Tensor = form(input, other, axis=axis)
    return out


def _cross_composite(x: Tensor, y: Tensor, *, axis: int) -> Tensor:
    def permute_components(vectors: Tensor, order: Sequence[int]) -> Tensor:
        return indexing.index(vectors, constant(np.array(order)), pattern=(None,) * axis + (0,))

    first = arithmetic.mul(permute_components(x, (1, 2, 0)), permute_components(y, (2, 0, 1)))
    second = arithmetic.mul(permute_components(x, (2, 0, 1)), permute_components(y, (1, 2, 0)))
    return rename_node(arithmetic.sub(first, second), "LinalgCrossBackward0")


@with_eager_fast_path(
    composite=_cross_composite,
    node="LinalgCrossBackward0",
    dx=lambda g, y, axis: _cross(y, g, axis=axis),
    dy=lambda g, x, axis: _cross(g, x, axis=axis),
)
def _cross(x: Array, y: Array, *, axis: int) -> Array:
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    left, right, parts = (vectors.swapaxes(0, axis) for vectors in (x, y, out))
    for i in range(3):
        part = parts[i, ...]
        np.multiply(left[i - 2], right[i - 1], part)
        part -= left[i - 1] * right[i - 2]
    return out


@public()
@with_out
def matrix_power(input: Tensor, n: int) -> Tensor:
    """Return the n-th power of square matrices, by squaring; of the inverse for a negative n.

    Raises: RuntimeError unless they are square, TypeError unless n is an integer.
    """
    sizes = input.array.shape
    if input.ndim < 2:
        raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    if sizes[-1] != sizes[-2]:
        raise RuntimeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{sizes[-2]} by {sizes[-1]} matrices"
        )
    if not isinstance(n, int):
        raise TypeError(f"linalg_matrix_power(): argument 'n' (position 2) must be int, not {type(n).__name__}")
    if n < 0:
        from adjoint.functions.linalg.solve import inv

        return matrix_power(inv(input), -n)
    if n == 0:
        one = constant(np.broadcast_to(np.eye(sizes[-1], dtype=input.array.dtype), sizes).copy())
        return select.where(constant(np.asarray(True)), one, input)  # a constant, but one with a history
    out, square = None, input
    while n:
        if n & 1:
            out = square if out is None else matmul.matmul(out, square)
        n >>= 1
        square = matmul.matmul(square, square) if n else square
    assert out is not None
    return select.copy(out) if out is input else out


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers of a vector's elements as columns, falling unless `increasing`.

    Raises: RuntimeError for other ranks and N < 0.
    """
    if x.ndim != 1:
        raise RuntimeError(f"x must be a one-dimensional tensor, but got {x.ndim}")
    n = x.numel() if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    kind = x.array.dtype if x.array.dtype.kind in "fcV" else np.dtype(np.int64)
    powers = np.arange(n) if increasing else np.arange(n)[::-1].copy()
    base = x if x.array.dtype == kind else select.cast(x, dtype=kind)
    return arithmetic.pow(shape.unsqueeze(base, 1), constant(powers.astype(kind)))
