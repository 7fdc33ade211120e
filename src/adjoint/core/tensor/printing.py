"""The printed form of a tensor, which is PyTorch's: `tensor([1.0000, 2.5000], requires_grad=True)`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from adjoint.core.dtype.dtype import DTYPES, bool_, complex64, complex128, default, float64, int64
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.tensor.meta import MetaArray
from adjoint.core.tensor.torch_function import has_own_torch_function
from adjoint.core.typing import Array, Operand

if TYPE_CHECKING:
    from adjoint.core.graph.tensor_like import TensorLike

LEAD = "tensor("

Text = Callable[[Operand], str]


class PrintOptions:
    """The options of printing, which `set_printoptions` changes."""

    __slots__ = ("edge", "precision", "scientific", "threshold", "width")

    def __init__(self) -> None:
        self.precision = 4
        self.edge = 3  # elements shown at each end of a long dimension
        self.threshold: float = 1000  # elements above which a tensor is summarised
        self.width = 80
        self.scientific: bool | None = None  # None: where magnitudes are far apart


options = PrintOptions()
PROFILES: dict[str, tuple[int, float, int, int]] = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, math.inf, 3, 80),
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set the decimals, the size from which a tensor is summarised, the elements shown at edges, and the line width.

    `profile` "default", "short" or "full" sets these four; `sci_mode`: scientific always or never, by magnitudes for
    None.
    """
    if profile in PROFILES:
        options.precision, options.threshold, options.edge, options.width = PROFILES[profile]
    options.precision = options.precision if precision is None else precision
    options.threshold = options.threshold if threshold is None else threshold
    options.edge = options.edge if edgeitems is None else edgeitems
    options.width = options.width if linewidth is None else linewidth
    options.scientific = sci_mode


def format_tensor(tensor: TensorLike) -> str:
    """Return the text of `print(tensor)`."""
    name = "Parameter containing:\n" if type(tensor).__name__ == "Parameter" else ""
    array, lead = tensor.array, f"{type(tensor).__name__}(" if has_own_torch_function(type(tensor)) else LEAD
    if type(array) is not np.ndarray:
        if type(array) is not MetaArray:
            return f"{name}{LEAD}{array!r})"
        body = lead + "..."
    else:
        body = lead + ("[]" if array.size == 0 else _elements(array, len(lead)))
    for part in _properties(tensor, array):
        last_line = len(body) - body.rfind("\n") + 1
        fits = last_line + len(part) + 2 <= options.width
        body += (", " if fits else ",\n" + " " * len(lead)) + part
    return f"{name}{body})"


def _properties(tensor: TensorLike, array: Operand) -> list[str]:
    absent = type(array) is MetaArray
    parts = ["device='meta'"] if absent else []
    if absent or not options.edge or (array.size == 0 and array.shape != (0,)):
        parts.append(f"size={tuple(array.shape)}")
    kind = DTYPES[array.dtype]
    usual = (default.floating, complex128 if default.floating is float64 else complex64, int64, bool_)
    if kind not in usual or (array.size == 0 and kind is not default.floating):
        parts.append(f"dtype={kind!r}")
    if not tensor.is_leaf:
        parts.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        parts.append("requires_grad=True")
    if nondefault.count and mode.forward_levels is not None:
        tangent = mode.forward_levels.printed_tangent(tensor)
        if tangent is not None:
            parts.append(f"tangent={format_tensor(tangent)}")
    return parts


def _elements(array: Array, indent: int) -> str:
    summary, edge = array.size > options.threshold, options.edge
    shown = array
    if summary:
        ends = [np.arange(n if edge else 0) if n <= 2 * edge else np.r_[0:edge, n - edge : n] for n in array.shape]
        shown = array[np.ix_(*ends)]
    text, width = choose_element_text(shown)
    if array.ndim == 0:
        return text(array[()])
    return _rows(array, indent, text, width, summary)


def choose_element_text(shown: Array) -> tuple[Text, int]:
    """Return a function from an element to its text, and the common width of all texts."""
    kind = shown.dtype.kind
    if kind in "biu":
        plain: Text = lambda v: str(bool(v) if kind == "b" else int(v))  # noqa: E731
        width = max((len(plain(v)) for v in shown.ravel()), default=1)
        return lambda v: plain(v).rjust(width), width
    if kind == "c":
        (real, left), (imaginary, right) = _float_style(shown.real), _float_style(shown.imag)

        def both(v: Operand) -> str:
            tail = imaginary(v.imag).lstrip()
            return real(v.real) + ("" if tail.startswith("-") else "+") + tail + "j"

        return both, left + right + 1
    return _float_style(shown)


def _float_style(shown: Array) -> tuple[Text, int]:
    """Choose the format of floats: whole numbers as `2.`, others with four decimals, or scientific.

    The widths of zeros, NaN and infinities do not count.
    """
    finite = shown[np.isfinite(shown) & (shown != 0)].astype(np.float64)
    sizes, precision = np.abs(finite), options.precision
    whole = bool(np.all(sizes == np.ceil(sizes)))
    low, high = (float(sizes.min()), float(sizes.max())) if finite.size else (1.0, 1.0)
    scientific = high / low > 1000 or high > 1e8 or (not whole and low < 1e-4)
    if options.scientific is not None and finite.size:
        scientific = options.scientific
    text = _number(scientific, whole, precision)
    width = max((len(text(v)) for v in finite), default=1)
    return lambda v: text(float(v)).rjust(width), width


def _number(scientific: bool, whole: bool, precision: int) -> Text:
    if scientific:
        return lambda v: f"{v:.{precision}e}"
    if whole:
        return lambda v: f"{v:.0f}" + ("." if np.isfinite(v) else "")
    return lambda v: f"{v:.{precision}f}"


def _rows(array: Array, indent: int, text: Text, width: int, summary: bool) -> str:
    n, edge = len(array), options.edge
    cut = summary and n > 2 * edge
    chosen = [*range(edge), None, *range(n - edge, n)] if cut else list(range(n))
    if array.ndim == 1:
        texts = [" ..."[not edge :] if i is None else text(array[i]) for i in chosen]
        per_line = max(1, (options.width - indent) // (width + 2))
        lines = [", ".join(texts[i : i + per_line]) for i in range(0, len(texts), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = ["..." if i is None else _rows(array[i], indent + 1, text, width, summary) for i in chosen]
    gap = ",\n" + "\n" * (array.ndim - 2) + " " * (indent + 1)
    return "[" + gap.join(parts) + "]"
