"""The printed form of a sparse tensor, which is PyTorch's."""

from __future__ import annotations

import re

from adjoint.core.dtype.dtype import bool_, default, int64
from adjoint.core.tensor.memory_format import sparse_coo
from adjoint.core.tensor.printing import LEAD, format_tensor, options
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Operand
from adjoint.functions.sparse.sparse_tensor import ROW_LAYOUTS, SparseTensor, handles


@handles("__repr__")
def format_sparse(x: SparseTensor) -> str:
    """Return the text of `print(x)`: its indices, values, sizes and history."""
    pattern, margin = x.pattern, ",\n" + " " * len(LEAD)
    parts = [("indices", pattern.indices)]
    if pattern.compressed is not None:
        names = ("crow_indices", "col_indices") if x.layout in ROW_LAYOUTS else ("ccol_indices", "row_indices")
        parts = list(zip(names, pattern.compressed, strict=True))
    parts.append(("values", x._values()))
    body = LEAD + margin.join(f"{name}={_format_part(name, part)}" for name, part in parts)
    line = f"size={tuple(x.shape)}, nnz={x._nnz()}"
    body += (margin if x.layout is sparse_coo else ", ") + line
    more = [] if x.dtype in (default.floating, int64, bool_) else [f"dtype={x.dtype!r}"]
    more.append(f"layout={x.layout!r}")
    if not x.is_leaf:
        more.append(f"grad_fn=<{x.grad_fn.name()}>")
    elif x.requires_grad:
        more.append("requires_grad=True")
    for part in more:
        last_line = len(body) - body.rfind("\n")
        fits = last_line + len(part) + 3 <= options.width and not (part is more[0] and x.layout is not sparse_coo)
        body += (", " if fits else margin) + part
    return f"{body})"


def _format_part(name: str, part: Tensor) -> str:
    values = wrap(part.detach().array)
    shown: Operand = format_tensor(values).replace(f", dtype={values.dtype!r})", ")")
    if part.numel() == 0:
        shown = f"tensor([], size={tuple(part.shape)})"
    margin = "\n" + " " * (len(name) + 1 + len(LEAD))
    return re.sub(r"\n(?!\n)", margin, shown)  # blank lines stay blank
