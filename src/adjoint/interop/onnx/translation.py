"""Table of the translations: from the name of an op to the function that appends its nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from adjoint.core.typing import NumpyDtype
from adjoint.interop.onnx.free_numbers import TracedValue
from adjoint.interop.onnx.graph_writer import OnnxWriter
from adjoint.interop.onnx.modes import UnsupportedOperatorError

Translation = Callable[[OnnxWriter, TracedValue], str]
TRANSLATIONS: dict[str, Translation] = {}
BOOL, INT32, INT64 = np.dtype(np.bool_), np.dtype(np.int32), np.dtype(np.int64)
NEAR_ONE = 0.5  # |x| up to which log1p and expm1 take the form that is exact near 0


def translates(*names: str) -> Callable[[Translation], Translation]:
    """Enter a function into the table, as the translation of the ops with these names."""

    def enter(function: Translation) -> Translation:
        TRANSLATIONS.update(dict.fromkeys(names, function))
        return function

    return enter


def translate(w: OnnxWriter, value: TracedValue) -> str:
    """Append the nodes of an equation; return the name of its result. Raises UnsupportedOperatorError."""
    function = TRANSLATIONS.get(value.name)
    if function is None or value.dtype.kind == "c":
        what = "complex numbers" if value.dtype.kind == "c" else "no operator for it"
        raise UnsupportedOperatorError(
            f"torch.onnx.export: {value.describe()} cannot be exported: ONNX has {what}"
            + (" here" if value.dtype.kind == "c" else "")
        )
    w.module = value.origin.module.replace(".", "/") if value.origin is not None else ""
    return function(w, value)


class Calculator:
    """Writes formulas: a method for each node that these take, and constants of one type."""

    def __init__(self, w: OnnxWriter, dtype: NumpyDtype) -> None:
        self.w, self.dtype = w, dtype

    def __call__(self, kind: str, *operands: str | float) -> str:
        """Append a node; numbers become constants."""
        return self.w.node(kind, *(x if isinstance(x, str) else self.number(x) for x in operands))

    def number(self, x: float) -> str:
        """Return a constant."""
        return self.w.scalar(x, self.dtype)

    def truncate(self, x: str) -> str:
        """Round towards 0."""
        return self("Mul", self("Sign", x), self("Floor", self("Abs", x)))

    def log1p(self, x: str) -> str:
        """ln(1 + x), for small x by (u = 1 + x) ln(u) x / (u - 1). Source: Goldberg, 1991."""
        u = self("Add", x, 1.0)
        logarithm, rest = self("Log", u), self("Sub", u, 1.0)
        is_zero = self("Equal", rest, 0.0)
        ratio = self("Div", x, self("Where", is_zero, 1.0, rest))
        exact = self("Where", is_zero, x, self("Mul", logarithm, ratio))
        return self("Where", self("Less", self("Abs", x), NEAR_ONE), exact, logarithm)

    def expm1(self, x: str) -> str:
        """eˣ - 1, for small x by 2 t / (1 - t), t = tanh(x / 2)."""
        t = self("Tanh", self("Mul", x, 0.5))
        exact = self("Div", self("Mul", t, 2.0), self("Sub", 1.0, t))
        return self("Where", self("Less", self("Abs", x), NEAR_ONE), exact, self("Sub", self("Exp", x), 1.0))

    def is_negative(self, x: str) -> str:
        """True for negative numbers and -0."""
        return self("Or", self("Less", x, 0.0), self("Less", self("Div", 1.0, x), 0.0))


def operand_kind(value: TracedValue, i: int = 0) -> NumpyDtype:
    """Return the dtype of input `i`, or of the first input that is a tensor."""
    x = value.inputs[i]
    if isinstance(x, TracedValue):
        return x.dtype
    return next((x.dtype for x in value.inputs if isinstance(x, TracedValue)), value.dtype)


def shape_of(value: TracedValue, i: int = 0) -> tuple[int, ...]:
    """Return the shape of input `i`; free dimensions are free numbers."""
    x = value.inputs[i]
    return x.shape if isinstance(x, TracedValue) else ()
