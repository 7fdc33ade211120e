"""The memory of the tensors that a step finds: which it replaces, and how often it writes what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np

from adjoint.compiler.ir.graph import EntangledMemoryError, SparseGradientError, StorageReadError, TraceError, Value
from adjoint.compiler.ir.shared_memory import CapturedRegion, MemoryBlocks
from adjoint.compiler.trace.guards import MemoryGuard, ValuesGuard, ViewGuard
from adjoint.compiler.trace.symbolic_strides import SymbolicStrides
from adjoint.core.graph.hooks import guard_on_hooks
from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import user_site
from adjoint.core.graph.tensor_like import TensorLike
from adjoint.core.tensor.storage import InferenceStorage, Memory, StorageCount, View, ViewStep, storage_of
from adjoint.core.tensor.tensor import Tensor, shallow_copy
from adjoint.core.typing import Array

Location = tuple[Callable[[], Any], Callable[[Callable[[Any], str]], str] | None]
STORAGE_READERS = frozenset({"storage()", "untyped_storage()", "is_set_to()", "is_shared()", "data_ptr()"})


class MemoryReplacement:
    """A tensor that `.data = value` gave other memory: what stands for its `former` memory, and what it was before.

    `former` is None where the new values are written over the old ones.
    """

    __slots__ = ("former", "leaf_spec", "storage", "tensor", "value")
    former: Tensor | None

    def __init__(self, tensor: Tensor, value: Tensor) -> None:
        self.tensor, self.value, self.storage = tensor, value, tensor.storage_
        self.former = shallow_copy(tensor)
        if tensor.storage_ is not None:
            storage_of(tensor).add(self.former)
        self.leaf_spec = (tensor.node.shape, tensor.node.dtype) if type(tensor.node) is Leaf else None

    def restore(self) -> None:
        """Give the tensor its storage back, and its leaf the shape of its gradient."""
        self.tensor.storage_ = self.storage
        if self.leaf_spec is not None and type(self.tensor.node) is Leaf:
            self.tensor.node.shape, self.tensor.node.dtype = self.leaf_spec


class StepMemory:
    """The part of a tracer that knows the tensors from before the step, and what the step does to their memory."""

    def __init__(self) -> None:
        self.replaced: dict[int, MemoryReplacement] = {}  # by id: tensors from before the step given other memory
        self.adopted_arrays: dict[int, tuple[Tensor, Array]] = {}  # by id: tensors that hold symbols, their arrays
        # what was written into a part of another value
        self.partial_writes: dict[Value, tuple[Value, tuple[ViewStep, ...]]] = {}
        self.locations: dict[int, tuple[Tensor, Location]] = {}  # by id: of gradients that the step reads
        self.stand_ins: dict[Value, Array] = {}
        self.strides = SymbolicStrides()
        self.blocks = MemoryBlocks()
        self.view_guards: list[ViewGuard | ValuesGuard | MemoryGuard] = []
        self.argument_storages: list[tuple[Tensor, Memory]] = []  # each with its own before the step
        self.gradients: dict[int, tuple[Tensor, Tensor | None, str]] = {}  # first access: tensor, .grad before, kind
        self.outside: dict[int, tuple[Tensor, Any]] = {}  # tensors with a history from before the step: their nodes
        self.leaves_before: dict[int, tuple[Tensor, Leaf | None]] = {}  # by id: of those whose `requires_grad` it sets
        self._changed_outside: dict[tuple[int, str], tuple[Tensor | Leaf, str, object]] = {}
        self.undo: list[Callable[[], None]] = []  # what a failed trace takes back
        self._versions: dict[int, StorageCount] = {}  # by id: storages, and their versions before the step
        self.find_kept: Callable[[], Iterable[object]] = tuple  # what the step has put into objects from before it

    def is_made_here(self, tensor: TensorLike) -> bool:
        """True for a tensor that the step made: no call finds its `.grad`, and none leaves it behind."""
        return type(tensor.array) is not np.ndarray and id(tensor) not in self.adopted_arrays

    def kept_values(self) -> Iterable[object]:
        """What the step has put into objects from before it."""
        return self.find_kept()

    def cut_history_off(self, tensor: Tensor) -> None:
        """Leave a history from before the step outside: within, the tensor is a leaf. A leaf's hooks run within."""
        node = tensor.node
        if type(node) is Leaf and node.hooks is not None:
            guard_on_hooks(node)
        elif node is not None and type(node) is not Leaf:
            self.outside[id(tensor)] = (tensor, node)
            tensor.node = Leaf(tensor)

    def captured_tensors(self) -> list[Tensor]:
        """The tensors from before the step that it used."""
        return [tensor for tensor, _ in self.adopted_arrays.values()]

    def current_tensor(self, region: CapturedRegion) -> Tensor:
        """Return the tensor that holds what a region of memory from before the step has now."""
        replaced = self.replaced.get(id(region.tensor))
        return region.tensor if replaced is None or replaced.former is None else replaced.former

    def touch_gradient(self, tensor: Tensor, kind: str) -> None:
        """Take note of what a tensor had as `.grad` when the step first came to it."""
        if id(tensor) in self.gradients or self.is_made_here(tensor):
            return
        before = tensor._grad
        self.gradients[id(tensor)] = (tensor, before, kind)
        if kind == "read" and before is not None and type(before.array) is np.ndarray:
            self.locations[id(before)] = (before, (lambda: tensor._grad, lambda name: f"{name(tensor)}._grad"))

    def is_unread(self, sparse: Any) -> bool:
        """True if the step used no values of a sparse tensor that it found."""
        return id(sparse.entries) not in self.adopted_arrays

    def storage_before(self, tensor: Tensor) -> Memory:
        """Return the storage that a tensor had before the step."""
        held = next((storage for argument, storage in self.argument_storages if argument is tensor), tensor.storage_)
        return held.storage if isinstance(held, View) else held

    def note_replacement(self, tensor: Tensor, value: Tensor) -> None:
        """Take note that `tensor`, which holds a symbol, gets the memory of `value`."""
        known = self.replaced.get(id(tensor))
        if known is not None:
            known.value = value
        elif id(tensor) in self.adopted_arrays:
            self.replaced[id(tensor)] = MemoryReplacement(tensor, value)

    def note_version(self, tensor: Tensor) -> None:
        """Take note of how often a tensor was written before the step."""
        if tensor.storage_ is not None and not isinstance(tensor.storage_, InferenceStorage):
            storage = storage_of(tensor)
            self._versions.setdefault(id(storage), (storage, storage.version))

    def count_writes(self, tensor: Tensor) -> tuple[int, int]:
        """Return the identity of the storage that a tensor had before, and how often the step has written it."""
        replaced = self.replaced.get(id(tensor))
        held = tensor if replaced is None or replaced.former is None else replaced.former
        if held.storage_ is None or isinstance(held.storage_, InferenceStorage):
            return id(held), 0
        storage = storage_of(held)
        return id(storage), storage.version - self._versions.get(id(storage), (storage, 0))[1]

    def restore_arrays(self) -> None:
        """Give each tensor its own array, and the storage that the step replaced."""
        for tensor, array in self.adopted_arrays.values():
            tensor.array = array
        for replaced in self.replaced.values():
            replaced.restore()

    def restore_versions(self) -> None:
        """Take back the counts of writes, since a call counts its own; storages forget the tensors of the step."""
        for tensor, _ in self.adopted_arrays.values():
            if tensor.storage_ is not None:
                storage = storage_of(tensor)
                storage.forget_symbols()
                if not isinstance(storage, InferenceStorage):
                    storage.version = self._versions.get(id(storage), (storage, 0))[1]

    def outside_slots(self) -> list[tuple[Tensor | Leaf, str, object]]:
        """The slots of tensors that hold something else while the step is traced, and what they have outside."""
        found: dict[tuple[int, str], tuple[Tensor | Leaf, str, object]] = {}
        for slot, held in (
            ("array", self.adopted_arrays.values()),
            ("storage_", self.argument_storages),
            ("node", self.outside.values()),
            ("node", self.leaves_before.values()),
            ("_grad", self.gradients.values()),
        ):
            found.update({(id(tensor), slot): (tensor, slot, value) for tensor, value, *_ in held})
        return [*{**found, **self._changed_outside}.values()]

    def change_outside(self, tensor: Tensor | Leaf, slot: str, value: object) -> None:
        """Leave a tensor, or a leaf, with another value in a slot when the trace ends."""
        self._changed_outside[id(tensor), slot] = tensor, slot, value

    def put_shape(self, tensor: Tensor, shape: tuple[int, ...]) -> None:
        """Let a symbol have this shape, and while the step is traced the leaf to which its gradients come."""
        tensor.array.shape = shape
        if type(node := tensor.node) is Leaf:
            self.change_outside(node, "shape", node.shape)
            node.shape = shape

    def undo_on_failure(self, prepare: Callable[[object], Callable[[], None]], subject: object) -> None:
        """Let a failed trace take back what is about to happen to `subject`."""
        self.undo.append(prepare(subject))

    def take_back(self) -> None:
        """Undo what the trace made besides symbols, such as the state of an optimizer."""
        for undo in reversed(self.undo):
            undo()

    def refuse_write(self, called: str) -> None:
        """Raise EntangledMemoryError: an in-place op reached memory that other tensors see in another form."""
        raise EntangledMemoryError(
            f"{called} reaches memory that another tensor sees in another form (of another type, or as a view that "
            f"cannot be told from its base), at {user_site()}: clone() one of them"
        )

    def refuse_sparse_gradient(self, use: str) -> NoReturn:
        """Raise SparseGradientError: which rows a sparse gradient has is known in each call only."""
        raise SparseGradientError(
            f"{use}, at {user_site()}: a compiled step computes the sparse gradient of an Embedding(sparse=True), "
            "scales and clips it, and updates rows by it, but knows no rows, which are others in each call"
        )

    def refuse_storage(self, reader: str) -> NoReturn:
        """Raise StorageReadError: a program is given the elements of tensors, not the memory around them."""
        raise StorageReadError(
            f"{reader} at {user_site()} looks at the memory of a tensor itself, which is more than its elements, or "
            "has another order"
        )

    def refuse_form(self, called: str) -> None:
        """Raise TraceError: what was there before the step keeps its shape and strides from call to call."""
        raise TraceError(
            f"{called}() changes the shape of a tensor from before the step, at {user_site()}; a compiled step cannot "
            f"do that yet: use {called[:-1]}(), whose result is another tensor, or call it outside"
        )

    def refuse_call(self, called: str) -> None:
        """Raise TraceError: what changes Python or a generator would do so in the first call only."""
        raise TraceError(
            f"{called} inside a compiled step would run only while the step is traced: call it outside (at "
            f"{user_site()})"
        )
