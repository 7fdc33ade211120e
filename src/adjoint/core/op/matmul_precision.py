"""The precision of float32 matrix products in compiled programs."""

from __future__ import annotations

from adjoint.core.runtime.mode import guard_on, refuse_while_tracing

PRECISIONS = ("highest", "high", "medium")
PRECISION_FACT = "float32 matmul precision"

setting = {"matmul": PRECISIONS[0]}


def get_float32_matmul_precision() -> str:
    """Return the setting of `set_float32_matmul_precision`: 'highest' by default."""
    return str(guard_on(setting, current_precision, PRECISION_FACT))


def set_float32_matmul_precision(precision: str) -> None:
    """Let compiled programs round the operands of float32 matrix products, where that is faster.

    'highest': never. 'high': to no less than two bfloat16 each, or to TensorFloat32. 'medium': to bfloat16. Sums are of
    float32 in any case, and so are eager products and convolutions throughout. A program is made for the precision at
    its first call; another is made when that has changed.

    Raises RuntimeError if `precision` is none of these.
    """
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in PRECISIONS:
        raise RuntimeError(f"set_float32_matmul_precision: {precision!r} is not one of 'highest', 'high', or 'medium'")
    refuse_while_tracing("set_float32_matmul_precision()")
    setting["matmul"] = PRECISIONS[PRECISIONS.index(precision)]


def current_precision(setting: dict[str, str]) -> str:
    """Return the precision in force."""
    return setting["matmul"]
