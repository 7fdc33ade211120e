"""Kernels of functions of elements for eager calls: a function of tensors, traced, as one loop over arrays of any size.

The native function checks its operands itself, as those for small arrays do. It is kept on disk by what the function
is, so another process runs it without tracing it.
"""

from __future__ import annotations

from types import FunctionType

from adjoint.compiler.cache.hashing import digest
from adjoint.compiler.cache.source_fingerprint import source_fingerprint
from adjoint.compiler.eager.kernels import DECLARING_LAYERS
from adjoint.compiler.kernels.small_arrays.loading import load_routine
from adjoint.core.op.eager_kernels import report_kernel_errors
from adjoint.core.typing import Function, Operands, Params


def make_elementwise_kernel(
    function: Function, kinds: Operands, params: Params, written: tuple[int, ...] = ()
) -> Function | None:
    """Return the native function; None for functions outside the package, and where the kernel cannot be made.

    `kinds`: of each operand, as `core.op.elementwise_kernels` has them. `written`: the operands that it writes.
    """
    key = _function_key(function, kinds, params, written)
    if key is None:
        return None

    def write() -> str:
        from adjoint.compiler.eager.elementwise_text import write_elementwise

        return write_elementwise(f"elementwise_{key}", function, kinds, params, written)

    with report_kernel_errors(function.__qualname__):
        return load_routine(f"elementwise_{key}", write)
    return None


def _function_key(function: Function, kinds: Operands, params: Params, written: tuple[int, ...]) -> str | None:
    """The digest of all that decides the kernel; None if that cannot be told."""
    if type(function) is not FunctionType or not function.__module__.startswith("adjoint."):
        return None
    op = vars(function).get("op")
    if op is None and function.__closure__:
        return None
    code = function.__code__
    body = op.name if op is not None else code.co_firstlineno, code.co_code.hex(), code.co_names, code.co_consts
    facts = repr(
        (
            source_fingerprint(*DECLARING_LAYERS),
            function.__module__,
            function.__qualname__,
            body,
            kinds,
            params,
            written,
        )
    )
    return None if " at 0x" in facts else digest(facts)[:32]
