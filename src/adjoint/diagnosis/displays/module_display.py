"""A module in a notebook: a tree that folds, with the parameters of each module, their shapes and bytes."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from adjoint.core.dtype.dtype import DTYPES
from adjoint.core.graph.source_location import library_files
from adjoint.core.runtime.html import render_frame, render_table
from adjoint.core.runtime.text_table import format_size, pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.nn.module.module import Module
from adjoint.nn.module.uninitialized import is_lazy

MAX_MODULES = 500  # of a page; those below the last are counted
MAX_OPEN_MODULES = 12  # of a tree that is open at first

TABLE_COLUMNS = ("name", "shape", "dtype", "bytes", "")


def has_own_display(value: object) -> bool:
    """Return whether code outside the library says how a value is shown: its printed text, or another display."""
    kind = type(value)
    names = ["__repr__", *(name for name in dir(kind) if name.startswith(("_repr_", "_ipython_display_")))]
    codes = [getattr(getattr(kind, name), "__code__", None) for name in names]
    return any(code is not None and not library_files[code.co_filename] for code in codes)


def render_module(module: Module) -> str:
    """Render a module with all below it."""
    count = sum(1 for _ in module.modules())
    lines = _ModuleTree(count <= MAX_OPEN_MODULES).render(module, "", frozenset())
    return render_frame("\n".join(lines))


class _ModuleTree:
    """The lines of one tree; `left`: how many modules may still be shown."""

    def __init__(self, is_open: bool) -> None:
        self.is_open, self.left = is_open, MAX_MODULES

    def render(self, module: Module, name: str, above: frozenset[int]) -> Iterator[str]:
        """Yield the lines of a module; `above`: the modules it is in, by id."""
        self.left -= 1
        children = [(key, child) for key, child in module._modules.items() if child is not None]
        own = _own_tensors(module)
        title = _title(module, name)
        if not own and not children:
            yield f"<div>{title}</div>"
            return
        opened = " open" if self.is_open or not above else ""
        yield f"<details{opened}><summary>{title} · {_count(module)}</summary>"
        if own:
            yield f"<div>{render_table(TABLE_COLUMNS, map(_tensor_row, own), (3,))}</div>"
        for i, (key, child) in enumerate(children):
            if self.left <= 0:
                yield f'<div class="dim">… {pluralize(len(children) - i, "module")} not shown</div>'
                break
            if id(child) in above:
                yield f'<div>{_title(child, key)} <span class="dim">(it is above)</span></div>'
            else:
                yield from self.render(child, key, above | {id(module)})
        yield "</details>"


def _title(module: Module, name: str) -> str:
    """Return the name, the class and the settings of a module."""
    label = f'<span class="dim">({escape(name)}):</span> ' if name else ""
    kind = escape(module._get_name())
    if has_own_display(module):
        return f"{label}<code>{escape(repr(module))}</code>"
    extra = " ".join(module.extra_repr().split("\n")) if name or not module._modules else ""
    settings = f'<span class="dim">({escape(extra)})</span>' if extra else ""
    mode = "" if module.training or name else ' <span class="dim">· evaluation mode</span>'
    return f"{label}<b>{kind}</b>{settings}{mode}"


def _count(module: Module) -> str:
    """Return the parameters of a module and all below it, each once, their bytes, and how many of them are trained."""
    parameters = list(module.parameters())
    if not parameters:
        return '<span class="dim">no parameters</span>'
    known = [p for p in parameters if not is_lazy(p)]
    number = sum(p.numel() for p in known)
    frozen = sum(p.numel() for p in known if not p.requires_grad)
    parts = [pluralize(number, "parameter"), format_size(sum(p.array.nbytes for p in known))]
    if frozen:
        parts.append("frozen" if frozen == number else f"{frozen:,} of them frozen")
    if len(known) < len(parameters):
        parts.append("some without a shape yet")
    return " · ".join(parts)


def _own_tensors(module: Module) -> list[tuple[str, Tensor, str]]:
    """Return the parameters and buffers of a module itself, each with its name and what it is."""
    parameters = [
        (name, p, "" if p.requires_grad else "frozen") for name, p in module._parameters.items() if p is not None
    ]
    return parameters + [(name, b, "buffer") for name, b in module._buffers.items() if b is not None]


def _tensor_row(row: tuple[str, Tensor, str]) -> list[str]:
    name, tensor, what = row
    if is_lazy(tensor):
        return [f"<code>{escape(name)}</code>", "not known yet", "", "", what]
    shape, kind = str(list(tensor.array.shape)), str(DTYPES[tensor.array.dtype]).rpartition(".")[2]
    nbytes = format_size(tensor.array.nbytes)
    return [f"<code>{escape(name)}</code>", escape(shape), escape(kind), nbytes, what]
