"""The sparse tensor: a dense tensor of values, and a pattern that says where they stand.

An op on sparse tensors is made of dense ops on the values, so the recorded graph, higher derivatives, forward mode and
compiled steps need to know nothing of sparse tensors. The gradient of one has its pattern.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from math import prod
from typing import NoReturn, Self

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.runtime.mode import is_batched, mode
from adjoint.core.tensor.memory_format import layout as Layout
from adjoint.core.tensor.memory_format import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from adjoint.core.tensor.sparse_array import SparseArray
from adjoint.core.tensor.tensor import Tensor, init_slots, wrap
from adjoint.core.tensor.torch_function import DisableTorchFunctionGuard, dispatch_on_subclass
from adjoint.core.typing import Array, DtypeLike, Function, Operand, Params
from adjoint.functions.api.publish import rename_node
from adjoint.functions.creation.creation import zeros

ROW_LAYOUTS, BLOCK_LAYOUTS = (sparse_csr, sparse_bsr), (sparse_bsr, sparse_bsc)
Handler = Callable[..., Operand]
handlers: dict[str, Handler] = {}


@dataclass(frozen=True, eq=False)
class SparsePattern:
    """The places of the values of a sparse tensor: the column `indices[:, i]` (sparse dimensions, n) for value i.

    A compressed layout has the bounds of each row's (or column's) entries and the other index of each; `indices`
    follows from them. `block` is the shape of a value in a blocked layout, whose indices count blocks. `batch` is that
    of a stack of matrices in a compressed layout, each of as many entries; `indices` begins with the number of the
    matrix in each dimension of the batch, and the values are those of one matrix after another. A pattern that
    `has_gaps` has the index -1, and the value zero, for entries that are to be left out: only where `is_symbolic`.
    """

    layout: Layout
    shape: tuple[int, ...]
    indices: Tensor
    is_coalesced: bool = False
    compressed: tuple[Tensor, Tensor] | None = None
    block: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    has_gaps: bool = False

    @property
    def is_symbolic(self) -> bool:
        """True for indices without values: in a traced step, and those that are others for each example of a batch."""
        if type(self.indices.array) is np.ndarray or mode.interpreter is None:
            return False
        return mode.interpreter.traces_steps or is_batched(self.indices)

    @property
    def sparse_dim(self) -> int:
        """Number of sparse dimensions, which are the first."""
        return int(self.indices.array.shape[0])

    @property
    def count(self) -> int:
        """Number of values."""
        return int(self.indices.array.shape[1])

    @cached_property
    def arrays(self) -> Array:
        """The indices as an array."""
        if self.is_symbolic:
            refuse_symbolic_indices()
        return self.indices.numpy_view("the indices of a sparse tensor")

    @cached_property
    def coordinates(self) -> tuple[Tensor, ...]:
        """The indices of each sparse dimension."""
        if self.is_symbolic:
            return tuple(self.indices)
        return tuple(wrap(np.ascontiguousarray(row)) for row in self.arrays)

    @cached_property
    def keys(self) -> Array:
        """One number for each column of indices, in row-major order."""
        return ravel_keys(self.arrays, self.shape[: self.sparse_dim])

    @cached_property
    def is_first(self) -> Array | None:
        """True for the first of the values at each place; None where no two stand at one."""
        if self.is_coalesced or self.compressed is not None or self.is_symbolic:
            return None
        first = np.unique(self.keys, return_index=True)[1]
        return np.isin(np.arange(self.count), first) if len(first) < self.count else None


def refuse_symbolic_indices(use: str = "the step reads the indices of a sparse tensor that it made") -> NoReturn:
    """Have a compiled step run eagerly, since it makes some `use` of indices that it has no values of."""
    assert mode.interpreter is not None
    mode.interpreter.refuse_sparse_gradient(use)
    raise AssertionError("an interpreter has made indices without values, and has no use for them")


def ravel_keys(indices: Array, shape: Sequence[int]) -> Array:
    """Return for each column of indices its number in the row-major order of `shape`."""
    keys = np.zeros(indices.shape[1], np.int64)
    for row, size in zip(indices, shape, strict=True):
        keys = keys * size + row
    return keys


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Make a function answer the public functions and methods of these names where an argument is sparse."""

    def register(handler: Handler) -> Handler:
        for name in names:
            handlers[name] = handler
        return handler

    return register


class SparseTensor(Tensor):
    """A tensor of which only some values are stored.

    The layout is `sparse_coo`, `sparse_csr`, `sparse_csc`, `sparse_bsr` or `sparse_bsc`. `sparse_coo_tensor`,
    `sparse_csr_tensor` and `to_sparse` make one. Functions that have no meaning for it raise
    NotImplementedError; `to_dense()` gives a tensor for which they have.
    """

    pattern: SparsePattern
    entries: Tensor

    @classmethod
    def __torch_function__(
        cls, function: Function, types: Iterable[type], args: Sequence[Operand] = (), kwargs: Params | None = None
    ) -> Operand:
        getter = getattr(getattr(function, "__self__", None), "fget", None)
        name = getattr(getter or function, "__name__", "").removeprefix("linalg_")
        handler = handlers.get(name)
        with DisableTorchFunctionGuard():
            if handler is not None:
                return _own_node(handler(*args, **(kwargs or {})), name, args)
            if getter is not None or name in STRUCTURAL:
                return function(*args, **(kwargs or {}))
        nested = (x for given in args for x in (given if type(given) in (list, tuple) else (given,)))
        layouts = {x.layout for x in nested if isinstance(x, SparseTensor)}
        named = " and ".join(sorted(map(repr, layouts))) or "sparse"
        raise NotImplementedError(
            f"{name}: not there for tensors of the layout {named}; x.to_dense() is one for which it is"
        )

    layout: Operand = property(lambda self: self.pattern.layout, doc="The layout.")
    is_sparse: Operand = property(
        lambda self: self.pattern.layout is sparse_coo, doc="True for the layout `sparse_coo`."
    )
    is_sparse_csr: Operand = property(
        lambda self: self.pattern.layout is sparse_csr, doc="True for the layout `sparse_csr`."
    )

    def sparse_dim(self) -> int:
        """Return the number of sparse dimensions."""
        return self.pattern.sparse_dim - len(self.pattern.batch)

    def dense_dim(self) -> int:
        """Return the number of dense dimensions, those of a single value."""
        return self.entries.ndim - 1 - len(self.pattern.block)

    def _nnz(self) -> int:
        return self.pattern.count // max(1, prod(self.pattern.batch))

    def is_coalesced(self) -> bool:
        """Return True if the indices are sorted and none comes twice. Only for the layout `sparse_coo`."""
        self._require_coo("is_coalesced")
        return self.pattern.is_coalesced

    def indices(self) -> Tensor:
        """Return the indices (sparse dimensions, n) of a coalesced tensor."""
        self._require_coalesced("indices")
        return self.pattern.indices

    def values(self) -> Tensor:
        """Return the values (n, dense dimensions) of a coalesced or compressed tensor."""
        if self.is_sparse:
            self._require_coalesced("values")
        return self._values()

    def _indices(self) -> Tensor:
        self._require_coo("_indices")
        return self.pattern.indices

    def _values(self) -> Tensor:
        values: Operand = self.entries
        batch = self.pattern.batch
        return values.reshape(*batch, self._nnz(), *values.array.shape[1:]) if batch else values

    def crow_indices(self) -> Tensor:
        """Return the bounds of each row's entries."""
        return self._compressed_part("crow_indices", ROW_LAYOUTS, 0)

    def col_indices(self) -> Tensor:
        """Return the column of each entry."""
        return self._compressed_part("col_indices", ROW_LAYOUTS, 1)

    def ccol_indices(self) -> Tensor:
        """Return the bounds of each column's entries."""
        return self._compressed_part("ccol_indices", (sparse_csc, sparse_bsc), 0)

    def row_indices(self) -> Tensor:
        """Return the row of each entry."""
        return self._compressed_part("row_indices", (sparse_csc, sparse_bsc), 1)

    def _compressed_part(self, name: str, layouts: tuple[Layout, ...], number: int) -> Tensor:
        if self.layout not in layouts or self.pattern.compressed is None:
            expected = " or ".join(repr(one).partition(".")[2] for one in layouts)
            raise RuntimeError(f"{name} expected sparse tensor layout {expected} but got {self.layout!r}")
        return self.pattern.compressed[number]

    def _require_coo(self, name: str) -> None:
        if not self.is_sparse:
            raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got {self.layout!r}")

    def _require_coalesced(self, name: str) -> None:
        self._require_coo(name)
        if not self.pattern.is_coalesced:
            raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")

    @property
    def T(self) -> Operand:
        """The tensor with its dimensions in reverse order."""
        return self.permute(tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Operand:
        """The tensor with its last two dimensions exchanged."""
        return self.transpose(-2, -1)

    # The recorded graph knows the values only: the tensor's node is theirs.

    @property
    def requires_grad(self) -> bool:
        """True if a gradient by the values is wanted."""
        return self.entries.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Ask for the gradient, or stop asking, and return the tensor."""
        self.entries.requires_grad_(requires_grad)
        if requires_grad and self.entries.is_leaf and self.pattern.is_first is not None:
            self.entries.register_hook(self._take_once)
        self.node = self.entries.node
        return self

    @property
    def is_leaf(self) -> bool:
        """True if no recorded op made the values."""
        return self.entries.is_leaf

    @property
    def grad_fn(self) -> Operand:
        """The node that made the values; None for a leaf."""
        return self.entries.grad_fn

    @property
    def grad(self) -> Tensor | None:
        """The gradient, with the pattern of the tensor; None before `backward`."""
        found = self.entries.grad
        return self.wrap_gradient(found)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not (isinstance(value, SparseTensor) and value.shape == self.shape):
            raise RuntimeError(f"assigned grad must be None or a sparse tensor of the shape {list(self.shape)}")
        self.entries.grad = None if value is None else self._take_once(values_at(value, self.pattern))

    def retain_grad(self) -> None:
        """Keep `.grad` of this non-leaf too."""
        self.entries.retain_grad()

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Operand:
        """Call `hook` with the gradient, a sparse tensor; return a handle that removes it."""

        def see_values(g: Tensor) -> Tensor | None:
            found = hook(with_values(self, self._take_once(g)))
            return values_at(found, self.pattern) if isinstance(found, SparseTensor) else found

        return self.entries.register_hook(see_values)

    def backward(self, gradient: Tensor | None = None, *args: Operand, **kwargs: Operand) -> None:
        """Run backward from the values, with the gradient's values at their places."""
        given = values_at(gradient, self.pattern) if gradient is not None else None
        self.entries.backward(given, *args, **kwargs)

    def detach(self) -> Tensor:
        """Return a tensor of the same values, without history."""
        return with_values(self, self.entries.detach())

    def wrap_gradient(self, g: Tensor | None) -> Tensor | None:
        """Return a gradient of the values as one of the tensor."""
        if g is None:
            return None
        # the hook of a leaf has done so already, and what is written to its gradient must be written there
        return with_values(self, g if self.entries.is_leaf else self._take_once(g))

    def _take_once(self, g: Tensor) -> Tensor:
        """Return a gradient of the values with zeros for all but the first at each place, whose sum is that of one."""
        first = self.pattern.is_first
        return g if first is None else g * wrap(first.reshape(-1, *[1] * (g.ndim - 1)))

    def stack_examples(self, *parts: Tensor) -> Tensor:
        """Return the batch of which this is one example, from `all_tensors` of all, batch in front."""
        batch: Tensor = handlers["stack_examples"](self, *parts)
        return batch

    def all_tensors(self) -> tuple[Tensor, ...]:
        """Return the values, and the tensors that say where they stand."""
        return self.entries, self.pattern.indices, *(self.pattern.compressed or ())

    def parts(self) -> tuple[Operand, ...]:
        """Return what a file of PyTorch has of the tensor: indices, values and size."""
        pattern, values = self.pattern, self._values().detach()
        if pattern.compressed is None:
            return pattern.indices, values, self.shape, pattern.is_coalesced
        return *pattern.compressed, values, self.shape

    def __deepcopy__(self, memo: dict[int, Operand]) -> Self:
        twin: Operand = make_sparse(copy.deepcopy(self.pattern, memo), copy.deepcopy(self.entries, memo))
        memo[id(self)] = twin
        return twin

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        return handlers["__reduce_ex__"](self)

    def __repr__(self, **_: object) -> str:
        return str(handlers["__repr__"](self))

    __str__ = __repr__


# Functions that read a tensor's type, shape and place only.
_STRUCTURAL = """
    dim size numel nelement ndimension element_size is_floating_point is_complex is_signed is_same_size get_device
    is_inference __len__ is_cuda type is_tensor result_type
"""
STRUCTURAL = frozenset(_STRUCTURAL.split())


def _own_node(out: Operand, name: str, args: Iterable[Operand]) -> Operand:
    """Return the result of a handler, with a node of its own that is named after the function, as PyTorch names it."""
    values = out.entries if isinstance(out, SparseTensor) else out
    if not isinstance(values, Tensor) or values.node is None or any(x is out for x in args):
        return out
    if any(isinstance(x, Tensor) and x.node is values.node for x in args):
        if name in ("requires_grad_", "to", "float", "double", "half", "coalesce") or not isinstance(out, SparseTensor):
            return out
        out = with_values(out, values.view(values.shape))
        values = out.entries
    if name == "coalesce" or name.endswith("_"):
        return out
    words = NODE_NAMES.get(name) or "".join(word[:1].upper() + word[1:] for word in name.strip("_").split("_"))
    rename_node(values, f"{words}Backward0")
    return out


NODE_NAMES = {"matmul": "Mm", "rmatmul": "Mm", "__matmul__": "Mm", "__getitem__": "Select", "softmax": "SparseSoftmax"}


# Methods of dense tensors that take a sparse operand; operators ask the class of the operand by themselves.
METHODS_WITH_OPERANDS = """
    add add_ sub sub_ subtract mul mul_ multiply div mm matmul addmm addmm_ mv bmm to copy_ index_add type_as dot
"""


def _with_dispatch(method: Operand) -> Operand:
    @wraps(method)
    def call(self: Operand, *args: Operand, **kwargs: Operand) -> Operand:
        for x in args:
            if type(x) is SparseTensor:
                return SparseTensor.__torch_function__(call, (), (self, *args), kwargs)
        return method(self, *args, **kwargs)

    vars(call)["documented_as"] = method
    return call


def make_sparse(pattern: SparsePattern, values: Tensor) -> SparseTensor:
    """Return the sparse tensor of these values at a pattern."""
    if "__getattribute__" not in vars(SparseTensor):
        # Functions, and methods of dense tensors, ask for sparse operands once there is one.
        dispatch_on_subclass(SparseTensor)
        for name in METHODS_WITH_OPERANDS.split():
            setattr(Tensor, name, _with_dispatch(getattr(Tensor, name)))
    out: Operand = object.__new__(SparseTensor)
    coalesced = pattern.is_coalesced
    init_slots(out, SparseArray(pattern.shape, pattern.indices.array, values.array, coalesced))
    out.pattern, out.entries, out.node = pattern, values, values.node
    return out


def with_values(x: SparseTensor, values: Tensor) -> SparseTensor:
    """Return a sparse tensor of the pattern of `x` with other values."""
    return make_sparse(x.pattern, values)


def replace_content(x: SparseTensor, content: SparseTensor) -> SparseTensor:
    """Give `x` the values and the pattern of `content`, and return it: what an in-place function does.

    Raises RuntimeError for a leaf that requires a gradient.
    """
    if x.requires_grad and type(x.node) is Leaf and mode.recording:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    plain = mode.interpreter is None and x.node is None and content.node is None and x.entries.array.flags.writeable
    if plain and x.pattern is content.pattern and x.dtype == content.dtype:
        x.entries.copy_(content.entries)  # which may be the gradient of another's values
        return x
    x.array, x.node, x.pattern, x.entries = content.array, content.node, content.pattern, content.entries
    return x


def values_at(x: Tensor, pattern: SparsePattern) -> Tensor:
    """Return the values of a tensor at the places of `pattern`, zero where a sparse one has none."""
    if not isinstance(x, SparseTensor):
        index = tuple(wrap(row) for row in pattern.arrays)
        return x[index]
    if x.pattern is pattern:
        return x.entries
    held = handlers["coalesce"](x)
    places = np.searchsorted(held.pattern.keys, pattern.keys)
    places = np.minimum(places, max(held.pattern.count - 1, 0))
    if not held.pattern.count:
        return pattern_zeros(pattern, x)
    found = held.pattern.keys[places] == pattern.keys
    taken: Operand = held.entries[wrap(places)]
    mask = found.reshape((-1,) + (1,) * (taken.ndim - 1))
    return taken * wrap(mask.astype(taken.array.dtype))


def pattern_zeros(pattern: SparsePattern, like: SparseTensor) -> Tensor:
    """Return zeros for the values of a pattern, of the type and dense shape of `like`."""
    return wrap(np.zeros((pattern.count, *like.entries.array.shape[1:]), like.entries.array.dtype))


def empty_of(shape: Sequence[int], layout: Layout, dtype: DtypeLike | None = None) -> SparseTensor:
    """Return a sparse tensor without values: zeros. Raises RuntimeError for a blocked layout."""
    if layout in BLOCK_LAYOUTS:
        raise RuntimeError(f"zeros: the layout {layout!r} needs the shape of a block; use sparse_bsr_tensor")
    values = zeros(0, dtype=dtype)
    if layout is sparse_coo:
        return make_sparse(SparsePattern(layout, tuple(shape), wrap(np.zeros((len(shape), 0), np.int64)), True), values)
    batch = tuple(shape[:-2])
    lines = shape[-2] if layout in ROW_LAYOUTS else shape[-1]
    compressed = wrap(np.zeros((*batch, lines + 1), np.int64)), wrap(np.zeros((*batch, 0), np.int64))
    none = wrap(np.zeros((len(shape), 0), np.int64))
    return make_sparse(SparsePattern(layout, tuple(shape), none, False, compressed, batch=batch), values)
