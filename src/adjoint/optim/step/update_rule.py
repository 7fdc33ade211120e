"""Parts of update rules: a parameter's state, moving averages, penalties, and the fused in-place update."""

from __future__ import annotations

import numpy as np

from adjoint.core.dtype.dtype import default, float32, float64
from adjoint.core.graph.source_location import user_instruction
from adjoint.core.op.eager_kernels import KernelFunction, kernel_provider
from adjoint.core.op.elementwise_kernels import ARRAY, NUMBER, InPlaceKernel
from adjoint.core.runtime.mode import guard_on, mode, nondefault, tracing_paused
from adjoint.core.tensor.as_strided import owner
from adjoint.core.tensor.mutation_log import mutation_log
from adjoint.core.tensor.storage import Storage, is_inference, mark_written, storage_of, view_of
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Array, DtypeLike, Function, Operand, Operands, StateDict
from adjoint.functions.api.quiet_write import mark_quiet_write, quiet_array
from adjoint.functions.creation.creation import full, zeros_like
from adjoint.functions.elementwise.complex import view_as_real
from adjoint.optim.step.hyperparameters import Number, cast_option_scalars
from adjoint.optim.step.param_groups import Group


def init_param_state(
    state: StateDict, p: Tensor, zeros: tuple[str, ...], group: Group, ones: tuple[str, ...] = ()
) -> StateDict:
    """Return the state of `p`, after adding missing entries: a count of steps, `zeros` of its shape, and single `ones`.

    In a recorded step the tensors become copies, so that earlier steps stay as they were recorded.
    """
    if "step" not in state:
        with tracing_paused():
            state["step"] = make_scalar_state(0.0, group)
    for name in ones:
        if name not in state:
            with tracing_paused():
                state[name] = make_scalar_state(1.0)
    for name in zeros:
        if name not in state:
            with tracing_paused():
                state[name] = zeros_like(p)
    if mode.recording:
        for name, value in state.items():
            if isinstance(value, Tensor):
                state[name] = value.clone()
    return state


def read_number(t: Tensor) -> Number:
    """Return a number of a parameter's state as it is now: in float64, plain outside of tracing and recording."""
    array = _plain_number(t)
    return t.to(float64, copy=True) if array is None else float(array.item())


def write_number(t: Tensor, value: Number) -> Number:
    """Write a number of a parameter's state in place, rounded to its dtype; return it as `read_number` does."""
    array = _plain_number(t)
    if array is None or isinstance(value, Tensor):
        return (t.copy_(value) if isinstance(value, Tensor) else t.fill_(value)).to(float64)
    array.fill(value)  # a quarter of the time of an addition
    mark_quiet_write(t, array)
    return value if array.itemsize == 8 else float(array.item())


def round_number(value: Number) -> Number:
    """Return a number as PyTorch has it that makes a tensor of it: rounded to the dtype of single numbers."""
    dtype = scalar_state_dtype()
    if isinstance(value, Tensor):
        return value.to(dtype)
    return value if dtype is float64 else float(np.float32(value))


def scale_number(t: Tensor, factor: Number) -> Number:
    """Multiply a number of a parameter's state in place, in its dtype; return it as `read_number` does."""
    array = _plain_number(t)
    if array is None or isinstance(factor, Tensor):
        return t.mul_(factor.to(t.dtype) if isinstance(factor, Tensor) else factor).to(float64)
    return write_number(t, array.item() * float(array.dtype.type(factor)))


def increment_step(state: StateDict) -> Number:
    """Count one more step, and return the count as `read_number` does: a plain number saves a third of Adam."""
    t = state["step"]
    array = _plain_number(t)
    return t.add_(1.0).to(float64) if array is None else write_number(t, array.item() + 1.0)


def _plain_number(t: Tensor) -> Array | None:
    """Return the array of a number that may be read and written without ops; None where ops must do it."""
    array = None if mode.recording or mode.needs_slow_path else quiet_array(t)
    return None if array is None or array.dtype.kind != "f" else array


def make_scalar_state(value: float, group: Group | None = None) -> Tensor:
    """Return a number of a parameter's state, as PyTorch has it: in the default dtype, where float32 counts to 2²⁴."""
    fused = group is not None and bool(group.get("fused"))
    return full((), value, dtype=float32 if fused else scalar_state_dtype())


def scalar_state_dtype() -> DtypeLike:
    """Return the dtype of single numbers."""
    return float64 if default.floating is float64 else float32


def update_moving_average(mean: Tensor, x: Tensor, share: Number, slow: bool) -> Tensor:
    """Compute mean ← mean + share (x - mean) in place.

    `lerp_` with a tensor computes both of its forms; for a `slow` mean the more exact of them is known.
    """
    return mean.add_((x - mean).mul_(share)) if slow else mean.lerp_(x, share)


def add_penalty(p: Tensor, g: Tensor, weight_decay: Number, maximize: bool, decays: bool) -> Tensor:
    """Return the gradient to descend along: `g`, negated to ascend, plus that of the L2 penalty."""
    g = -g if maximize else g
    return g.add(p, alpha=weight_decay) if decays else g


def update_rows(
    native: KernelFunction,
    p: Tensor,
    g: Operand,
    states: Operands,
    numbers: tuple[Number, ...],
    facts: tuple[bool, ...],
) -> None:
    """Apply the function of an update rule to the rows that a sparse gradient has, of the parameter and its states.

    The work grows with the rows of the gradient and not with those of the parameter.
    """
    if mode.interpreter is not None and mode.interpreter.traces_steps:
        _update_traced_rows(native, (p, *states), g, numbers, facts)
        return
    held = g.coalesce()
    index, values = tuple(held.indices()), held.values()
    rows = [t.detach()[index] for t in (p, *states)]
    native.function(rows[0], values, *rows[1:], *cast_option_scalars(numbers, p), *facts)
    for tensor, part in zip((p, *states), rows, strict=True):
        write_rows(tensor, index, part)


def _update_traced_rows(
    native: KernelFunction, tensors: Operands, g: Operand, numbers: tuple[Number, ...], facts: tuple[bool, ...]
) -> None:
    """Do as `update_rows` in a traced step, where nobody knows how many rows differ.

    Each entry of the gradient computes the new row, with the sum of all entries of that row, and writes it; equal rows
    are written with the same numbers.
    """
    from adjoint.functions.sparse.row_gradient import merge_rows

    rows, values = merge_rows(g)
    before = [t.detach()[rows] for t in tensors]
    after = [row.clone() for row in before]
    native.function(after[0], values, *after[1:], *cast_option_scalars(numbers, tensors[0]), *facts)
    if g.pattern.has_gaps:  # without any row, the last one stays as it is
        held = (rows >= 0).reshape(-1, *(1,) * (values.ndim - 1))
        after = [part.where(held, row) for part, row in zip(after, before, strict=True)]
    for tensor, part in zip(tensors, after, strict=True):
        tensor[rows] = part


def write_rows(tensor: Tensor, index: tuple[Tensor, ...], part: Tensor) -> None:
    """Write `part` at the indices of a tensor, in place, without a copy of the rest of it."""
    if type(tensor.array) is not np.ndarray or mode.needs_slow_path or view_of(tensor) is not None:
        tensor[index] = part
        return
    tensor.array[tuple(i.array for i in index)] = part.array
    mark_written(tensor, user_instruction(3))


FUSABLE_OPTION_TYPES = frozenset({int, float})


class UpdateKernel(KernelFunction):
    """The function of an update rule, with kernels: for large parameters of each shape, and one for all small ones."""

    __slots__ = ("_of_elements", "_small", "writes")

    def __init__(self, name: str, function: Function, weight: float, written: tuple[int, ...]) -> None:
        super().__init__(name, function, weight, written)
        self.writes = tuple([i in written for i in range(max(written) + 1)])
        self._of_elements = InPlaceKernel(function, written)
        self._small: dict[tuple[object, ...], Function] = {}

    def find_small(self, tensors: Operands, numbers: tuple[Number, ...], facts: tuple[bool, ...]) -> Function:
        """Return the kernel for arrays of any one shape, and floats; it returns None for what is not for it."""
        key = facts, *[t is None for t in tensors]
        found = self._small.get(key)
        if found is None:
            kinds = (*[(None,) if t is None else ARRAY for t in tensors], *[NUMBER] * len(numbers), *zip(facts))
            found = self._small[key] = self._of_elements.find(kinds)
        return found


def apply_update(native: UpdateKernel, tensors: Operands, numbers: tuple[Number, ...], facts: tuple[bool, ...]) -> None:
    """Apply the function of an update rule to `tensors`: the parameter first, None where the rule has no tensor.

    Complex numbers are pairs of real ones to it.
    """
    if tensors[0].array.dtype.kind == "c":
        tensors = tuple([None if t is None else view_as_real(t) for t in tensors])
    if not try_fused_update(native, tensors, numbers, facts):
        native.function(*tensors, *cast_option_scalars(numbers, tensors[0]), *facts)


def try_fused_update(
    native: UpdateKernel, tensors: Operands, numbers: tuple[Number, ...], facts: tuple[bool, ...]
) -> bool:
    """Run the function by one kernel, and return True; return False, with nothing done, where ops must run it.

    Ops run it under recording, tracing or other modes, and for tensors that share memory or have gaps in it. They also
    run it for small parameters where a number is a tensor.
    """
    assert isinstance(native.weight, float)
    p, modes = tensors[0].array, mode.__dict__  # this thread's
    if modes["recording"] or modes["needs_slow_path"] or not kernel_provider.enabled or not p.shape:
        return False
    is_small = p.size * native.weight < kernel_provider.min_seconds
    if is_small and not FUSABLE_OPTION_TYPES.issuperset(map(type, numbers)):
        return False
    if is_small and _try_small_update(native, tensors, numbers, facts):
        return True
    written = []
    for i in native.written:  # no views, row-major, and no constants
        t = tensors[i]
        if t is None:
            continue
        array, storage = t.array, t.storage_
        if type(array) is not np.ndarray or not array.flags.carray:
            return False
        if storage is not None and type(storage) is not Storage and (view_of(t) is not None or is_inference(t)):
            return False
        written.append((storage_of(t), array))
    arrays = [None if t is None else t.array for t in tensors]
    if _is_memory_shared([array for _, array in written], arrays):
        return False
    if is_small:
        operands = [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in arrays if a is not None]
        done = native.find_small(tensors, numbers, facts)(*operands, *map(float, numbers))
    else:
        scalars = [x.array if isinstance(x, Tensor) else np.asarray(x, np.float64) for x in numbers]
        done = native.find((*arrays, *scalars, *facts), {})
    if done is None:
        return False
    _count_writes(written, 4)
    return True


def _try_small_update(
    native: UpdateKernel, tensors: Operands, numbers: tuple[Number, ...], facts: tuple[bool, ...]
) -> bool:
    """Run the kernel of a small parameter if each tensor owns its memory; it does what `try_fused_update` does."""
    arrays: list[Array] = []
    written = []
    for t, is_written in zip(tensors, native.writes):  # noqa: B905  the rest is not written
        if t is None:
            continue
        a = t.array
        if type(a) is not np.ndarray or a.base is not None:
            return False
        arrays.append(a)
        if is_written:
            storage = t.storage_
            if storage is None:
                storage = storage_of(t)
            if type(storage) is not Storage or not a.flags.writeable:
                return False
            written.append((storage, a))
    if len({*map(id, arrays)}) < len(arrays):
        return False
    # it looks at types, shapes and layout
    if native.find_small(tensors, numbers, facts)(*arrays, *map(float, numbers)) is None:
        return False
    _count_writes(written, 5)
    return True


def _count_writes(written: list[tuple[Storage[Tensor], Array]], depth: int) -> None:
    """Count a write into these arrays, which own their memory or have row-major views of it."""
    known = mutation_log.by_memory
    writes = []
    for storage, array in written:
        storage.version += 1
        writes.append(known.get(id(array)) or mutation_log.of(array))
    mutation_log.stamp(writes, user_instruction(depth))


def _is_memory_shared(written: list[Array], arrays: list[Array | None]) -> bool:
    """Return whether memory of a written tensor is that of another array too."""
    memories = set()
    for a in arrays:
        if a is not None:
            memory = a if a.base is None else owner(a)
            if id(memory) in memories or memory.base is not None:
                break
            memories.add(id(memory))
    else:
        return False  # each has memory of its own
    return any(x is not None and x is not y and np.may_share_memory(x, y) for y in written for x in arrays)


def counted_state(optimizer: Operand, p: Tensor) -> StateDict:
    """Return what an optimizer that counts its steps and evaluations keeps for a parameter; counts of 0 at first."""
    entries = optimizer.state
    guard_on(optimizer, lambda optimizer: p in optimizer.state, "whether the optimizer has begun")
    if p not in entries and nondefault.count and mode.interpreter is not None:
        mode.interpreter.note_container_write(entries)
    state = entries[p]
    for name in ("func_evals", "n_iter"):
        state.setdefault(name, 0)
    return state
