"""How a tensor prints: PyTorch's form, `tensor([1.0000, 2.5000], requires_grad=True)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.core.dtype import DTYPES, bool_, complex64, complex128, default, float64, int64
from adjoint.core.mode import mode, unusual

if TYPE_CHECKING:
    from adjoint.core.tensor import Tensor

PRECISION = 4
EDGE = 3  # elements shown at each end of a long dimension
THRESHOLD = 1000  # elements above which a tensor is summarised
WIDTH = 80
LEAD = "tensor("

Text = Callable[[Any], str]


def format_tensor(tensor: Tensor) -> str:
    """The text of `print(tensor)`."""
    name = "Parameter containing:\n" if type(tensor).__name__ == "Parameter" else ""
    array = tensor.array
    if type(array) is not np.ndarray:
        return f"{name}{LEAD}{array!r})"
    body = LEAD + ("[]" if array.size == 0 else _elements(array))
    for part in _properties(tensor, array):
        last_line = len(body) - body.rfind("\n") + 1
        fits = last_line + len(part) + 2 <= WIDTH
        body += (", " if fits else ",\n" + " " * len(LEAD)) + part
    return f"{name}{body})"


def _properties(tensor: Tensor, array: Any) -> list[str]:
    parts = []
    if array.size == 0 and array.shape != (0,):
        parts.append(f"size={tuple(array.shape)}")
    kind = DTYPES[array.dtype]
    usual = (default.floating, complex128 if default.floating is float64 else complex64, int64, bool_)
    if kind not in usual or (array.size == 0 and kind is not default.floating):
        parts.append(f"dtype={kind!r}")
    if not tensor.is_leaf:
        parts.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    if unusual.count and mode.duals is not None:
        tangent = mode.duals.shown(tensor)
        if tangent is not None:
            parts.append(f"tangent={format_tensor(tangent)}")
    return parts


def _elements(array: Any) -> str:
    summary = array.size > THRESHOLD
    text, width = _style(array[_shown(array)] if summary else array)
    if array.ndim == 0:
        return text(array[()])
    return _rows(array, len(LEAD), text, width, summary)


def _style(shown: Any) -> tuple[Text, int]:
    """A function from an element to its text, and the width to which it brings all of them."""
    kind = shown.dtype.kind
    if kind in "biu":
        plain: Text = lambda v: str(bool(v) if kind == "b" else int(v))  # noqa: E731
        width = max(len(plain(v)) for v in shown.ravel())
        return lambda v: plain(v).rjust(width), width
    if kind == "c":
        (real, left), (imaginary, right) = _float_style(shown.real), _float_style(shown.imag)

        def both(v: Any) -> str:
            tail = imaginary(v.imag).lstrip()
            return real(v.real) + ("" if tail.startswith("-") else "+") + tail + "j"

        return both, left + right + 1
    return _float_style(shown)


def _float_style(shown: Any) -> tuple[Text, int]:
    """Whole numbers as `2.`, others with four decimals; scientific where the magnitudes are far apart.

    The widths of zeros, NaN and infinities do not count.
    """
    finite = shown[np.isfinite(shown) & (shown != 0)].astype(np.float64)
    sizes = np.abs(finite)
    whole = bool(np.all(sizes == np.ceil(sizes)))
    low, high = (float(sizes.min()), float(sizes.max())) if finite.size else (1.0, 1.0)
    if high / low > 1000 or high > 1e8 or (not whole and low < 1e-4):
        text: Text = lambda v: f"{v:.{PRECISION}e}"  # noqa: E731
    elif whole:
        text = lambda v: f"{v:.0f}" + ("." if np.isfinite(v) else "")  # noqa: E731
    else:
        text = lambda v: f"{v:.{PRECISION}f}"  # noqa: E731
    width = max((len(text(v)) for v in finite), default=1)
    return lambda v: text(float(v)).rjust(width), width


def _shown(array: Any) -> Any:
    """Indices of the elements that a summary shows."""
    return np.ix_(*[np.arange(n) if n <= 2 * EDGE else np.r_[0:EDGE, n - EDGE : n] for n in array.shape])


def _rows(array: Any, indent: int, text: Text, width: int, summary: bool) -> str:
    n = len(array)
    cut = summary and n > 2 * EDGE
    chosen = [*range(EDGE), None, *range(n - EDGE, n)] if cut else list(range(n))
    if array.ndim == 1:
        texts = [" ..." if i is None else text(array[i]) for i in chosen]
        return "[" + _wrapped(texts, indent + 1, width) + "]"
    parts = ["..." if i is None else _rows(array[i], indent + 1, text, width, summary) for i in chosen]
    gap = ",\n" + "\n" * (array.ndim - 2) + " " * (indent + 1)
    return "[" + gap.join(parts) + "]"


def _wrapped(texts: list[str], indent: int, width: int) -> str:
    """Elements joined by commas, broken into lines of at most WIDTH characters."""
    per_line = max(1, (WIDTH - indent + 1) // (width + 2))
    lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
    return (",\n" + " " * indent).join(lines)
