"""In-place writes on symbols: each tensor that sees the memory stands for its part of the new value."""

from __future__ import annotations

from collections.abc import Container, Mapping
from sys import getrefcount
from typing import Protocol

from adjoint.compiler.ir.graph import Graph, OverlapError, Value, ValueOrigin, op_of
from adjoint.compiler.ir.shared_memory import CapturedRegion, MemoryBlocks, carry_values
from adjoint.compiler.ir.symbolic_size import concrete_sizes
from adjoint.compiler.trace.symbolic_strides import SymbolicStrides, is_view
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op.op import Op
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.mode import mode, recorded_by_caller
from adjoint.core.tensor.external_aliases import is_externally_aliased
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.storage import ViewStep, share_storage, storage_of, view_of
from adjoint.core.tensor.tensor import Tensor, shallow_copy, wrap
from adjoint.core.typing import Array, Operands, Params
from adjoint.ops.elementwise.select import copy
from adjoint.ops.mutation.inplace import check_separate
from adjoint.ops.mutation.view_update import put_steps, replay_view

Steps = tuple[ViewStep, ...]
COPY = op_of(copy)


class SymbolicMemory(Protocol):
    """The symbols that stand for memory, and their layout."""

    graph: Graph
    strides: SymbolicStrides
    partial_writes: dict[Value, tuple[Value, Steps]]  # what was written into a part of another value
    stand_ins: dict[Value, Array]  # arrays without values for the memories that values stand for, whatever is in them
    blocks: MemoryBlocks
    adopted_arrays: dict[int, tuple[Tensor, Array]]  # by id: tensors from before the step, their arrays

    def adopt(self, tensor: Tensor) -> Value: ...

    def emit(self, op: Op, inputs: Operands, params: Params) -> Value: ...

    def current_tensor(self, region: CapturedRegion) -> Tensor: ...

    def storage_before(self, tensor: Tensor) -> object: ...

    def fix_location(self, tensor: Tensor) -> None: ...

    def origin(self) -> ValueOrigin: ...

    def refuse_write(self, called: str) -> None: ...


def write_symbol(memory: SymbolicMemory, x: Tensor, out: Tensor, called: str, since: int | None) -> None:
    """Let `x` stand for `out`, and all that see its memory for what they see then.

    What was computed since then may keep the old value: symbols do not change.
    """
    view = view_of(x)
    base = x if view is None else view.base
    for tensor in (x, out, base):
        memory.adopt(tensor)
    history = mode.recording and (x.node is not None or out.node is not None or base.node is not None)
    detached = view is not None and not history and view.storage.aliases[0]() is not base
    _record_write(memory, x.array, base, since, detached)
    # one that the step has not met will stand for its part of the base when it does
    seeing = [t for t in storage_of(x).alive_aliases() if type(t.array) is Value and storage_of(t) is storage_of(x)]
    with recorded_by_caller():
        new = wrap(_fit_to_memory_of(memory, out, x))
        root, way = _find_root(memory, base, seeing)
        place = stand_in_of(memory, root.array)
        steps = way if view is None else (*way, *view.steps)
        whole = new
        if steps:
            whole = wrap(_fit_to_memory_of(memory, put_steps(wrap(root.array), new, steps), root))
            memory.partial_writes[new.array] = whole.array, steps
        memory.stand_ins[whole.array] = place
        parts = {root.array: whole, x.array: new}
        apart = [t for t in seeing if not _replay_alias(memory, t, parts)]
        _replay_alias(memory, base, parts)
        if memory.blocks.shared:
            seeing += _carry_write(memory, parts, called, since, out.node is not None or x.node is not None)
        for t in apart:
            if not _replay_alias(memory, t, parts):
                memory.refuse_write(called)
    for t, part in [(t, parts[t.array]) for t in (*seeing, x, base, root)]:
        t.array = part.array


def _record_write(
    memory: SymbolicMemory, value: Value, base: Tensor, since: int | None, only_part: bool = False
) -> None:
    """Note a write into the memory of `base`; not where eager code saves copies, since NumPy has that memory, too.

    `only_part`: what lies beside `value` there counts as not written.
    """
    _, array = memory.adopted_arrays.get(id(base), (base, None))
    if array is not None and is_externally_aliased(array):
        memory.blocks.exported[id(base)] = None
    elif only_part:
        mutation_log.record_part(stand_in_of(memory, value), user_instruction(1))
    else:
        mutation_log.record(stand_in_of(memory, value), user_instruction(1), since)


def stand_in_of(memory: SymbolicMemory, value: Value) -> Array:
    """Return an array without values that lies where `value` would in an eager run, among all that see its memory."""
    steps: Steps = ()
    while value not in memory.stand_ins and (
        value in memory.partial_writes or (is_view(value) and memory.strides.shows_operand(value))
    ):
        value, path = _step_towards_base(memory, value)
        steps = (*path, *steps)
    if value not in memory.stand_ins:
        memory.stand_ins[value] = memory.strides.stand_in(value)
    known = [step._replace(params=concrete_sizes(step.params)) for step in steps]
    seen: Array = replay_view(memory.stand_ins[value], tuple(known))
    return seen


def _carry_write(
    memory: SymbolicMemory, parts: dict[Value, Tensor], called: str, since: int | None, is_recorded: bool
) -> list[Tensor]:
    """Add to `parts` what the regions have that overlap those with new values; the tensors that see it."""
    seeing: list[Tensor] = []
    for block in memory.blocks.shared.values():
        changed = [(region, v) for region in block if (v := _value_of(memory, region)) in parts]
        if not changed:
            continue
        for region in block:
            memory.fix_location(region.tensor)
        for region in block:
            before = _value_of(memory, region)
            if before in parts:
                continue
            storage = memory.storage_before(region.tensor)
            known = [memory.storage_before(source.tensor) for source, _ in changed]
            if is_recorded and storage is not None and any(storage is other for other in known):
                raise OverlapError(f"{called} records a write into memory of arguments that are views of one another")
            value = before
            for source, former in changed:
                value = _carry_into(memory, source, parts[former].array, region, value, called)
            if value is not before:
                _record_write(memory, before, region.tensor, since)
                memory.stand_ins[value] = stand_in_of(memory, before)
                memory.blocks.note_carried(region, before is not region.symbol)
                seeing += _add_parts(memory, region, before, value, parts)
        for region, _ in changed:
            if region.symbol in memory.blocks.carried:
                memory.blocks.written.add(region.symbol)
    return seeing


def carry_earlier_writes(memory: SymbolicMemory, region: CapturedRegion, others: list[CapturedRegion]) -> None:
    """Let a region that the step meets now see what was written through others."""
    for source in others:
        value = _value_of(memory, source)
        before = _value_of(memory, region)
        if value is not source.symbol:
            for known in (region, *others):
                memory.fix_location(known.tensor)
            with recorded_by_caller():
                seen = _carry_into(memory, source, value, region, before, "an in-place op")
                if seen is not before:
                    memory.blocks.note_carried(region, before is not region.symbol)
                    parts: dict[Value, Tensor] = {}
                    for t in _add_parts(memory, region, before, seen, parts):
                        t.array = parts[t.array].array


def _carry_into(
    memory: SymbolicMemory, source: CapturedRegion, value: Value, region: CapturedRegion, before: Value, called: str
) -> Value:
    """The value of a region, a part of whose memory has that of another region; `before` if it has no part."""
    try:
        seen = carry_values(memory, value, source.array, before, region.array)
    except ValueError:
        memory.refuse_write(called)
        raise
    if seen is before:
        return before
    return _place_with_strides(memory, seen, memory.strides.of(before), True, always_copy=True)


def _add_parts(
    memory: SymbolicMemory, region: CapturedRegion, before: Value, value: Value, parts: dict[Value, Tensor]
) -> list[Tensor]:
    """Add the new value of a region to `parts`, and those of its views; the tensors that have them."""
    tensor = memory.current_tensor(region)
    parts[before] = wrap(value)
    held = storage_of(tensor)
    seeing = [t for t in held.alive_aliases() if type(t.array) is Value and storage_of(t) is held and t is not tensor]
    return [tensor, *(t for t in seeing if _replay_alias(memory, t, parts))]


def _value_of(memory: SymbolicMemory, region: CapturedRegion) -> Value:
    value: Value = memory.current_tensor(region).array
    return value


def check_captured_memory(adopted: Mapping[int, tuple[Tensor, Array]], x: Tensor, called: str) -> None:
    """Raise OverlapError if `x` or its base is read-only, or repeats elements.

    `adopted` are, by their ids, the tensors from before the step with their arrays. The call is eager then, which
    raises an error, or sees that one value goes to all that lie at one place.
    """
    view = view_of(x)
    for tensor in (x,) if view is None else (x, view.base):
        _, array = adopted.get(id(tensor), (tensor, None))
        if array is not None and (tensor is x or not array.flags.writeable):
            try:
                check_separate(array, called, view_of(tensor))
            except RuntimeError as error:
                raise OverlapError(*error.args) from None


def copy_memory(memory: SymbolicMemory, tensor: Tensor, twin: Tensor, memo: dict[object, Tensor]) -> None:
    """Give `twin` a copy of the memory of `tensor`; views of one memory share the copy, which `memo` keeps."""
    root = memory.adopt(tensor)
    steps: Steps = ()
    while root in memory.partial_writes or is_view(root):
        value, path = _step_towards_base(memory, root)
        root, steps = value, (*path, *steps)
    copied = memo.get(root)
    with recorded_by_caller():
        if copied is None:
            strides = memory.strides.dense_strides_of(root)
            for block in memory.blocks.shared.values():
                values = {_value_of(memory, region) for region in block}
                if root in values and not values.isdisjoint(memo):
                    memory.refuse_write("deepcopy()")
            copied = memo[root] = wrap(_place_with_strides(memory, root, strides, True, always_copy=True))
        twin.array = replay_view(wrap(copied.array), steps).array
    share_storage(copied, twin)


def own_gradient(memory: SymbolicMemory, g: Tensor, leaf: Tensor | None) -> Tensor:
    """A gradient in memory of its own: in the order of `leaf`, or, if it is a view, in row-major order."""
    shared = _is_shared(memory, g)
    if leaf is not None:
        strides = memory.strides.dense_strides_of(memory.adopt(leaf))
    else:
        strides = None if is_view(g.array) else memory.strides.of(g.array)
    out = shallow_copy(g)
    out.array, out.storage_ = _place_with_strides(memory, memory.adopt(g), strides, shared), None
    return out


def _fit_to_memory_of(memory: SymbolicMemory, out: Tensor, x: Tensor) -> Value:
    """The value of `out` as the memory of `x` takes it: one that stands for nothing else, and lies as `x` does."""
    shared = _is_shared(memory, out)
    return _place_with_strides(memory, out.array, memory.strides.of(x.array), shared, shared)


def _is_shared(memory: SymbolicMemory, tensor: Tensor) -> bool:
    """True if the tensor's symbol has a part elsewhere."""
    # references: the graph's, the tensor's, that of what knows its strides, and that of getrefcount's argument
    return getrefcount(tensor.array) > 3 + memory.strides.has_computed(tensor.array)


def _place_with_strides(
    memory: SymbolicMemory, value: Value, strides: tuple[int, ...] | None, shared: bool, always_copy: bool = False
) -> Value:
    """The value in memory with these strides; as a value of its own where it is shared with other memory."""
    alike = memory.strides.has_strides(value, strides)
    if always_copy or (shared and not alike):
        value = memory.graph.add(COPY, (value,), {}, Spec(value.shape, value.dtype), memory.origin())
        memory.strides.note(value, strides)
    elif not alike:
        memory.strides.note(value, strides)
    return value


def _replay_alias(memory: SymbolicMemory, t: Tensor, parts: dict[Value, Tensor]) -> bool:
    """Add the part of the new value that `t` sees to `parts`; False if it cannot be told from them."""
    if t.array in parts:
        return True
    view = view_of(t)
    if view is not None and type(view.base.array) is Value and _replay_alias(memory, view.base, parts):
        parts[t.array] = replay_view(parts[view.base.array], view.steps)
        return True
    source, path = trace_views_to(memory, t.array, parts)
    if source is not None:
        parts[t.array] = replay_view(parts[source], path)
    return source is not None


def _find_root(memory: SymbolicMemory, base: Tensor, seeing: list[Tensor]) -> tuple[Tensor, Steps]:
    """The tensor of which `base`, a detached twin of a view, is a part, and how: itself if it is none."""
    owners = {t.array: t for t in seeing}
    root = base
    way: Steps = ()
    source, path = trace_views_to(memory, base.array, owners)
    while source is not None:
        root, way = owners[source], (*path, *way)
        source, path = trace_views_to(memory, source, owners)
    return root, way


def trace_views_to(memory: SymbolicMemory, value: Value, known: Container[Value]) -> tuple[Value | None, Steps]:
    """The first of the `known` values of which `value` was made by views alone, and these."""
    steps: Steps = ()
    while value in memory.partial_writes or is_view(value):
        value, path = _step_towards_base(memory, value)
        steps = (*path, *steps)
        if value in known:
            return value, steps
    return None, ()


def _step_towards_base(memory: SymbolicMemory, value: Value) -> tuple[Value, Steps]:
    """The value of which another is a view, or into which it was written, and the steps from there."""
    if value in memory.partial_writes:
        return memory.partial_writes[value]
    source: Value = value.inputs[0]
    return source, (ViewStep(value.op, value.params, source.shape, value.shape),)
