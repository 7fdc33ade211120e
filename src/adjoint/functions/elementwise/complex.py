"""Complex numbers: made of their parts, and taken apart again. Conjugates are computed at once."""

from __future__ import annotations

from adjoint.core.dtype.dtype import DTYPES, complex64, complex128
from adjoint.core.dtype.dtype_info import scalar_type
from adjoint.core.op.op_errors import refuse_numbers
from adjoint.core.tensor.size import settle_sizes
from adjoint.core.tensor.tensor import Tensor, method, strided_stand_in
from adjoint.core.typing import Function
from adjoint.functions.api.out import with_out
from adjoint.functions.api.publish import public, rename_node
from adjoint.functions.elementwise.dtype_conversion import add_cast_method
from adjoint.functions.shape import shape
from adjoint.ops.elementwise import arithmetic
from adjoint.ops.elementwise import complex as ops
from adjoint.ops.elementwise.transcendental import cos, sin

__all__ = [
    "adjoint", "angle", "complex", "conj", "conj_physical", "imag", "is_complex", "polar", "real", "resolve_conj",
    "resolve_neg", "sgn", "view_as_complex", "view_as_real",
]  # fmt: skip

angle = ops.angle
public()(angle)


@with_out
def complex(real: Tensor, imag: Tensor) -> Tensor:
    """Return real + i imag. Raises RuntimeError unless both are floats of one type."""
    _check_parts("complex", ("real", "imag"), real, imag)
    return _join_parts(real, imag)


@with_out
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Return abs (cos angle + i sin angle). Raises RuntimeError unless both are floats of one type."""
    _check_parts("polar", ("abs", "angle"), abs, angle)
    return rename_node(_join_parts(arithmetic.mul(abs, cos(angle)), arithmetic.mul(abs, sin(angle))), "PolarBackward0")


def _join_parts(x: Tensor, y: Tensor) -> Tensor:
    return rename_node(ops.make_complex(*shape.broadcast_tensors(x, y)), "ComplexBackward0")


def _check_parts(name: str, labels: tuple[str, str], x: Tensor, y: Tensor) -> None:
    refuse_numbers(name, labels, "", x, y)
    kinds = [DTYPES[t.array.dtype] for t in (x, y)]
    if any(kind.name not in ("float32", "float64") for kind in kinds):
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{scalar_type(kinds[0])} and {scalar_type(kinds[1])}"
        )
    if kinds[0] is not kinds[1]:
        raise RuntimeError(
            f"Expected object of scalar type {scalar_type(kinds[0])} but got scalar type {scalar_type(kinds[1])} for "
            "second argument"
        )


@method
def is_complex(input: Tensor) -> bool:
    """Return True for a complex dtype."""
    return bool(input.array.dtype.kind == "c")


def view_as_real(input: Tensor) -> Tensor:
    """Return the same memory as real numbers: the parts of each side by side, in a last dimension of size 2.

    Raises RuntimeError for real tensors.
    """
    if not is_complex(input):
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return ops.view_as_real(input)


def view_as_complex(input: Tensor) -> Tensor:
    """Return the same memory as complex numbers, of the parts side by side in the last dimension.

    Raises RuntimeError for other types than floats, a last dimension of another size, and parts that lie apart.
    """
    kind = DTYPES[input.array.dtype]
    if kind.name not in ("float32", "float64"):
        raise RuntimeError(
            f"view_as_complex is only supported for float and double tensors, but got a tensor of type {kind.name}"
        )
    if not input.ndim:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if input.array.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    settle_sizes(input.array.shape)
    steps = [step // kind.itemsize for step in strided_stand_in(input).strides]
    if steps[-1] != 1 and input.numel():
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(step % 2 for step in steps[:-1]) and input.numel():
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    return ops.view_as_complex(input)


def real(input: Tensor) -> Tensor:
    """Return the real parts, in the same memory; a real tensor itself."""
    return ops.real(input)


def imag(input: Tensor) -> Tensor:
    """Return the imaginary parts, in the same memory. Raises RuntimeError for real tensors."""
    if not is_complex(input):
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return ops.imag(input)


@method
def conj(input: Tensor) -> Tensor:
    """Return the complex conjugate; a real tensor itself."""
    return ops.conj(input) if is_complex(input) else input


@public(inplace=True)
@with_out
def conj_physical(input: Tensor) -> Tensor:
    """Return the complex conjugate; a real tensor itself."""
    return rename_node(ops.conj(input), "ConjPhysicalBackward0") if is_complex(input) else input


@public(inplace=True)
@with_out
def sgn(input: Tensor) -> Tensor:
    """Return x / |x| of complex numbers, and 0 of 0; of real ones the sign."""
    return ops.sgn(input) if is_complex(input) else arithmetic.sign(input)


@method
def resolve_conj(input: Tensor) -> Tensor:
    """Return the tensor itself: conjugates are computed at once."""
    return input


@method
def resolve_neg(input: Tensor) -> Tensor:
    """Return the tensor itself: negatives are computed at once."""
    return input


add_cast_method("cfloat", complex64)
add_cast_method("cdouble", complex128)


def adjoint(self: Tensor) -> Tensor:
    """Return the last two dimensions exchanged, and conjugated; a number itself. Raises RuntimeError for a vector."""
    if self.ndim == 1:
        raise RuntimeError("tensor.mH is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return conj(shape.transpose(self, -2, -1)) if self.ndim else self


def _conjugate_transpose(self: Tensor) -> Tensor:
    """Return the conjugate transpose of a matrix. Raises RuntimeError for other ranks but 0."""
    if self.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
    return conj(shape.transpose(self, 0, 1)) if self.ndim else self


def _make_part_setter(part: Function) -> Function:
    def write(self: Tensor, value: Tensor | float) -> None:
        view = part(self)
        view.copy_(value) if isinstance(value, Tensor) else view.fill_(value)

    return write


setattr(Tensor, "real", property(real, _make_part_setter(real)))  # noqa: B010  mypy would take a plain assignment for a mistake
setattr(Tensor, "imag", property(imag, _make_part_setter(imag)))  # noqa: B010
setattr(Tensor, "mH", property(adjoint))  # noqa: B010
setattr(Tensor, "H", property(_conjugate_transpose))  # noqa: B010
setattr(Tensor, "adjoint", adjoint)  # noqa: B010
