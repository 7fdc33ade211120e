"""Memory that several tensors share: its version, and how each tensor views it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from adjoint.core.graph.node import Leaf
from adjoint.core.graph.object_allocation import make_allocator
from adjoint.core.graph.source_location import InstructionLocation, Site
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.runtime.slot import Slot
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.typing import Operand, Operands, Params

if TYPE_CHECKING:
    from adjoint.core.graph.tensor_like import TensorLike
    from adjoint.core.op.op import Op

ref = weakref.ref
Seen = TypeVar("Seen", bound="TensorLike")  # the tensors that see a memory


MIN_PRUNED_ALIASES = 32  # of fewer, the search for dead ones takes longer for each than to register it


class Storage(Generic[Seen]):
    """The memory shared by a tensor, its views and detached aliases. A tensor never aliased or written has none."""

    __slots__ = ("aliases", "prune_at", "version")

    def __init__(self) -> None:
        self.version = 0
        self.aliases: list[weakref.ref[Seen]] = []
        self.prune_at = MIN_PRUNED_ALIASES

    def alive_aliases(self) -> list[Seen]:
        """Return the live tensors that share this memory."""
        self.aliases = [r for r in self.aliases if r() is not None]
        return [t for r in self.aliases if (t := r()) is not None]

    def forget_symbols(self) -> None:
        """Remove the tensors that hold a symbol of a step whose trace has ended."""
        self.aliases = [weakref.ref(t) for t in self.alive_aliases() if type(t.array) is np.ndarray]

    def add(self, tensor: Any) -> None:
        """Add `tensor` to those that share this memory."""
        aliases = self.aliases
        aliases.append(ref(tensor))
        if len(aliases) > self.prune_at:
            self.prune()

    def prune(self) -> None:
        """Remove dead tensors: a parameter may get a new view in each step, and drop it."""
        self.aliases = [r for r in self.aliases if r() is not None]
        self.prune_at = 2 * len(self.aliases) + MIN_PRUNED_ALIASES


allocate_storage = make_allocator(Storage)  # without `__init__`, a call of Python's


class CreationMeta(Enum):
    """The way in which a view was made, which may forbid in-place writes in recording mode: PyTorch's CreationMeta."""

    NORMALLY = 0
    NO_GRAD_MODE = 1
    MULTI_OUTPUT_NODE = 2
    IN_CUSTOM_FUNCTION = 3
    INFERENCE_MODE = 4
    STALE_INFERENCE = 5  # in inference mode, and its base was written outside of it since


# an enumeration takes 60 ns to look up a member
DEFAULT_CREATION, NO_GRAD_CREATION = CreationMeta.NORMALLY, CreationMeta.NO_GRAD_MODE


class ViewStep(NamedTuple):
    """One op on the way from a base to its view, which can be replayed on arrays and in the graph."""

    op: Op
    params: Params
    before: tuple[int, ...]
    after: tuple[int, ...]


Steps: TypeAlias = tuple[Operands, ...]  # each the parts of a `ViewStep`, or of an index expression
# The steps of an index expression, from the shape that it is applied to and the key.
index_steps_slot: Slot[Callable[[tuple[int, ...], Operand], tuple[Steps, str]]] = Slot("index_steps")


class View(Generic[Seen]):
    """The place of a view in the memory of its base, in place of a `Storage`.

    `base` is the tensor that owns the memory, itself no view, and `steps` lead from it here. `path` holds the steps as
    plain tuples; in place of its first one may stand a path that is longer than a view of a view of a view … should
    copy. One without an op is an index expression, with the key for parameters. A detached twin, which shares memory
    but takes no part in the history of the base, has the `Storage` itself.
    """

    __slots__ = ("base", "creation_meta", "path", "storage")
    base: Seen
    creation_meta: CreationMeta
    path: tuple[Any, ...]
    storage: Storage[Seen]

    @property
    def steps(self) -> tuple[ViewStep, ...]:
        """The steps, first to last."""
        parts, path = [], self.path
        while path and type(path[0][0]) is tuple:  # a step begins with an op
            parts.append(path[1:])
            path = path[0]
        steps: list[ViewStep] = []
        for step in chain(path, *reversed(parts)):
            expanded = (step,) if step[0] is not None else index_steps_slot.call(step[2], step[1])[0]
            steps += [ViewStep(*each) for each in expanded]
        return tuple(steps)


def make_view(storage: Storage[Seen], base: Seen, path: tuple[Any, ...], made: CreationMeta) -> View[Seen]:
    """Make a `View` without `__init__`, which would cost one more call for each view."""
    view: View[Seen] = View()
    view.storage, view.base, view.path, view.creation_meta = storage, base, path, made
    return view


MAX_FLAT_PATH_STEPS = 256


class InferenceStorage(Storage[Any]):
    """The one storage of all tensors made in inference mode, whose writes are not counted."""

    __slots__ = ()


class InferenceLeaf(InferenceStorage):
    """The storage of an inference tensor that requires grad. It has no node: ops among such tensors are not recorded.

    `leaf` is its node where it meets tensors that are recorded.
    """

    __slots__ = ("leaf",)

    def __init__(self, leaf: Leaf) -> None:
        super().__init__()
        self.leaf = leaf


class ReplacedStorage(Storage[Any]):
    """The storage of a tensor whose memory was replaced; its writes and those of former views count together."""

    __slots__ = ("former",)

    def __init__(self, former: Storage[Any]) -> None:
        self.former = former
        super().__init__()

    @property
    def version(self) -> int:
        """The number of writes into either memory."""
        return self.former.version

    @version.setter
    def version(self, count: int) -> None:
        self.former.version = max(count, self.former.version)


def make_replacement_storage(tensor: Any) -> Storage[Any]:
    """Make a storage for new memory of `tensor`, which continues its version."""
    held = storage_of(tensor)
    former = held.former if isinstance(held, ReplacedStorage) else held
    fresh = ReplacedStorage(former) if any(t is not tensor for t in former.alive_aliases()) else Storage()
    fresh.version = former.version
    fresh.add(tensor)
    return fresh


INFERENCE = InferenceStorage()
StorageCount: TypeAlias = tuple[Storage[Any], int]  # a storage, and a number of writes
Memory: TypeAlias = Storage[Any] | View[Any] | None  # a tensor's: None until it is shared or written


def is_inference(x: Operand) -> bool:
    """Return whether `x`, which may be anything, is a tensor made in inference mode."""
    return isinstance(getattr(x, "storage_", None), InferenceStorage)


def storage_of(tensor: Seen) -> Storage[Seen]:
    """Return the tensor's storage, which is made on first use."""
    held = tensor.storage_
    if held is None:
        held = tensor.storage_ = allocate_storage()
        held.version, held.prune_at, held.aliases = 0, MIN_PRUNED_ALIASES, [ref(tensor)]
    return held.storage if type(held) is View else held


def view_of(tensor: Seen) -> View[Seen] | None:
    """Return the `View` of `tensor` if it is a view whose history goes through its base; else None."""
    held = tensor.storage_
    if type(held) is not View:
        return None
    around = held.base.storage_
    storage = around.storage if type(around) is View else around
    return held if storage is held.storage else None  # the base may have been given other memory


def share_storage(source: Any, alias: Any) -> None:
    """Register that `alias` shares the memory of `source`, without its history."""
    storage = storage_of(source)
    if isinstance(storage, InferenceStorage):
        alias.storage_ = INFERENCE
        return
    alias.storage_ = storage
    storage.add(alias)


def share_view(
    source: TensorLike, alias: TensorLike, op: Op, params: Params, made: CreationMeta = DEFAULT_CREATION
) -> None:
    """Register that `alias` is `op(source, **params)` in the same memory."""
    share_steps(source, alias, ((op, params, source.array.shape, alias.array.shape),), made)


def share_steps(source: TensorLike, alias: TensorLike, steps: Steps, made: CreationMeta = DEFAULT_CREATION) -> None:
    """Register that `steps` lead from `source` to `alias` in the same memory."""
    storage = storage_of(source)
    if isinstance(storage, InferenceStorage):
        alias.storage_ = INFERENCE
        return
    if nondefault.count and made is DEFAULT_CREATION and not mode.recording:
        made = CreationMeta.INFERENCE_MODE if mode.inference else CreationMeta.NO_GRAD_MODE
        if mode.inference and source.node is not None:
            alias.node = Leaf(alias)  # as in PyTorch, where such a view still requires grad
    around = None if source.storage_ is storage else view_of(source)
    if around is None:
        base, path = source, steps
    else:
        base = around.base
        path = (*around.path, *steps) if len(around.path) < MAX_FLAT_PATH_STEPS else (around.path, *steps)
        if made is DEFAULT_CREATION:
            made = around.creation_meta
    alias.storage_ = make_view(storage, base, path, made)
    storage.add(alias)


def mark_written(tensor: TensorLike, site: Site | InstructionLocation, part: Operand = None, times: int = 1) -> None:
    """Count in-place writes into the memory, or into `part` of it, and log them for the nodes that saved it."""
    storage = storage_of(tensor)
    if not isinstance(storage, InferenceStorage):
        storage.version += times
    if type(part) is np.ndarray:
        mutation_log.record_part(part, site)
    elif type(tensor.array) is np.ndarray:
        mutation_log.record(tensor.array, site)


def keep_freed_memory() -> None:
    """Have glibc keep the memory of freed arrays, up to 64 MiB, for the next ones.

    It returns freed memory of over 128 KiB to the system, and each 4 KiB of the next array then cost a page fault,
    which takes longer than to fill them: a third of an uncompiled step of a small CNN. The limit rises to the largest
    array that was freed, up to 32 MiB; so one is made here and freed, and nothing is written into it. A limit that the
    user has set, as by MALLOC_TRIM_THRESHOLD_, stays. Source: mallopt(3), M_MMAP_THRESHOLD.
    """
    np.empty(MAX_GLIBC_MMAP_THRESHOLD_BYTES - PAGE_MARGIN_BYTES, np.uint8)


MAX_GLIBC_MMAP_THRESHOLD_BYTES = 32 << 20
PAGE_MARGIN_BYTES = 1 << 16  # for the header and the rounding to pages, of up to 64 KiB
keep_freed_memory()
