"""Running a step once on symbols: what it computes becomes a graph, what it touches becomes state.

A tensor met for the first time gives its array to the trace and holds a symbolic value until the trace ends; then all
tensors are put back as they were, whether or not the trace succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from operator import is_not
from typing import Any

import numpy as np

from adjoint.compiler.ir.graph import (
    Argument,
    Constant,
    DeferredChangeError,
    Graph,
    ScalarInput,
    Setting,
    Source,
    StateInput,
    TraceError,
    Value,
    op_of,
)
from adjoint.compiler.ir.shared_memory import CapturedRegion
from adjoint.compiler.ir.symbolic_size import SymbolicSize, size_value
from adjoint.compiler.progress import progress
from adjoint.compiler.trace.call_specs import call_signature, has_symbol, promise_spec, typed_operand
from adjoint.compiler.trace.checkpoint_blocks import CheckpointBlocks
from adjoint.compiler.trace.constant_values import find_constant_values
from adjoint.compiler.trace.equation_origins import EquationOrigins
from adjoint.compiler.trace.events.host_calls import HostCalls, return_number, show_tensor
from adjoint.compiler.trace.guards import MemoryGuard, ProbeGuard, ViewGuard
from adjoint.compiler.trace.numbers.number_tensors import stack_numbers
from adjoint.compiler.trace.numbers.symbolic_number import NumberArithmetic, SymbolicNumber, specialize_numbers
from adjoint.compiler.trace.sizes.argument_sizes import ArgumentSizes
from adjoint.compiler.trace.step_memory import STORAGE_READERS, Location, StepMemory
from adjoint.compiler.trace.symbolic_mutation import (
    carry_earlier_writes,
    check_captured_memory,
    copy_memory,
    own_gradient,
    stand_in_of,
    write_symbol,
)
from adjoint.compiler.trace.symbolic_strides import strides_unless_contiguous
from adjoint.compiler.trace.untraced import without_frame_tracing
from adjoint.core.graph.node import Leaf
from adjoint.core.graph.source_location import Site, user_site
from adjoint.core.op.evaluation import target_dtype
from adjoint.core.op.op import Op
from adjoint.core.op.spec import Spec
from adjoint.core.runtime.interpreter import Interpreter
from adjoint.core.runtime.mode import ModeScope, recorded_by_caller
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.as_strided import fills_memory, try_view
from adjoint.core.tensor.storage import InferenceStorage, share_storage, storage_of, view_of
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, Function, NumpyDtype, Operand, Operands, Params
from adjoint.ops.elementwise.select import cast
from adjoint.ops.movement.movement import slice
from adjoint.ops.mutation.view_update import replay_view

ndarray = np.ndarray
CAST_OP, SLICE_OP = op_of(cast), op_of(slice)
EQUATIONS_BETWEEN_NOTES = 256
FAMILIES_WITH_LITERALS = ("unary", "binary", "elementwise")  # whose equations may have numbers among their inputs


class Tracer(StepMemory, CheckpointBlocks, EquationOrigins, Interpreter):
    """Takes the place of NumPy for one thread while a step is traced.

    `locate(tensor)` tells how to find a captured tensor in the next call, if another may lie there then;
    `is_set(holder, key)`, whether the step has set an item of a dictionary.
    """

    traces_steps = writes_symbols = True

    def __init__(
        self,
        name: str,
        locate: Callable[[Tensor], Location | None] = lambda tensor: None,
        is_set: Callable[[object, object], bool] = lambda holder, key: False,
    ) -> None:
        StepMemory.__init__(self)
        CheckpointBlocks.__init__(self)
        EquationOrigins.__init__(self)
        self.arithmetic = NumberArithmetic()
        self.sizes = ArgumentSizes(self.arithmetic)
        self.graph = Graph(name, self.sizes.relations)
        self.probe_guards: list[ProbeGuard] = []
        self._looks: set[tuple[int, Function | str]] = set()  # at what these are
        self.state: list[tuple[Tensor, Array, Value]] = []  # tensor, its array before, its symbol
        self.on_location_fixed: Callable[[Tensor], None] = lambda tensor: None
        self.on_container_write: Callable[[object], None] = lambda container: None
        self.deferred: list[tuple[Function, object, Site]] = []  # calls for the end of each call
        self.events: HostCalls | None = None
        self.locate = locate
        self._is_set = is_set
        self._symbols: dict[int, tuple[Array, Value, Tensor]] = {}  # by the array's identity; the array is kept alive
        self._settings: dict[tuple[int, tuple[object, ...]], Tensor] = {}
        self._numbers: dict[str, Value] = {}
        # Of calls: the type that operands are converted to, None if they have it, and the result's spec.
        self._signatures: dict[Hashable, tuple[NumpyDtype | None, Spec]] = {}

    def trace(self, function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Call the step with this tracer in charge of the thread; its result, in symbols."""
        with ModeScope(interpreter=self):
            return function(*args, **kwargs)

    def bind_argument(self, tensor: Tensor, index: int, name: str, leaf: int = 0, dims: Sequence[int] = ()) -> None:
        """Make the tensor stand for the n-th argument; one given twice stands for the first.

        While the step is traced its memory is its own: the next call brings one with other relations. The
        argument is a `leaf` of all, whose sizes in `dims` are symbols.
        """
        if type(tensor.array) is ndarray:
            known = self._symbols.get(id(tensor.array))
            self._capture_array(tensor, Argument(index, name))
            if dims and known is None:
                self.put_shape(tensor, self.sizes.make_shape(tensor.array.shape, index, leaf, dims))
            if not isinstance(tensor.storage_, InferenceStorage):
                self.argument_storages.append((tensor, tensor.storage_))
                tensor.storage_ = None
                if known is not None:
                    share_storage(known[2], tensor)

    @without_frame_tracing
    def run_library_code(self, function: Function, *args: Operand) -> Any:
        return function(*args)

    @without_frame_tracing
    def emit(self, op: Op, inputs: Operands, params: Params) -> Value:
        """An op call as an equation; operands are brought to the op's common type by equations of their own."""
        operands = tuple([x.array if has_symbol(x) else self._operand(op, x) for x in inputs])
        params = {key: specialize_numbers(value) for key, value in params.items()} if params else params
        key: Hashable = None
        if SymbolicNumber in map(type, operands):
            target = target_dtype(op, tuple(map(typed_operand, inputs, operands)))
            operands, known = self._lift_numbers(op, operands, target), None
        else:
            key = call_signature(op, operands, inputs, params)
            known = self._signatures.get(key)
            target = target_dtype(op, tuple(map(typed_operand, inputs, operands))) if known is None else known[0]
        given = operands
        if target is not None:
            operands = tuple([self._convert_dtype(x, target) for x in operands])
        spec = promise_spec(op, operands, inputs, params, target) if known is None else known[1]
        if key is not None and known is None:
            self._signatures[key] = target if any(map(is_not, given, operands)) else None, spec
        if not len(self.graph.equations) % EQUATIONS_BETWEEN_NOTES:
            progress.note(f"{pluralize(len(self.graph.equations), 'equation')} traced")
        again = self.replay_draw(op) if op.effect else None
        return self.note_draw(self.graph.add(op, operands, params, spec, self.origin())) if again is None else again

    def _operand(self, op: Op, x: object) -> Operand:
        if isinstance(x, Tensor):
            return self.adopt(x) if type(x.array) is ndarray else x.array
        if isinstance(x, ndarray):
            return x.item() if x.ndim == 0 and op.family in FAMILIES_WITH_LITERALS else self.graph.constant(x)
        return x.as_number() if type(x) is SymbolicSize else x.item() if isinstance(x, np.generic) else x

    def _lift_numbers(self, op: Op, operands: Operands, target: NumpyDtype | None) -> Operands:
        """Operands in which numbers that may change have become inputs, of the type that a literal would take."""
        if op.family not in FAMILIES_WITH_LITERALS:
            return tuple(map(specialize_numbers, operands))
        others = [x.dtype for x in operands if isinstance(x, Value) and x.dtype.kind != "b"]
        return tuple(
            self._convert_dtype(self.number(x), target or (others[0] if others else np.dtype(type(x.plain_value))))
            if type(x) is SymbolicNumber
            else x
            for x in operands
        )

    def number(self, number: SymbolicNumber) -> Value:
        """The input that brings a number which is computed anew in each call, float64 or int64."""
        if (pending := self.arithmetic.pending.get(number.name)) is not None:
            return self.adopt(pending)
        if number.name in self.arithmetic.late_names:
            number = number.specialize() if self.events is None else self.events.call(return_number, (number,))
        symbol = self._numbers.get(number.name)
        if symbol is None:
            dtype = np.dtype(np.float64 if type(number.plain_value) is float else np.int64)
            symbol = self._numbers[number.name] = self.graph.input(Spec((), dtype), ScalarInput(number.name))
        return symbol

    def _convert_dtype(self, x: Operand, target: NumpyDtype) -> Operand:
        if type(x) is int and target.kind in "iu":
            return np.asarray(x).astype(target).item()  # wrapped, as eager code wraps it
        if isinstance(x, Value) and x.dtype != target:
            return self.graph.add(CAST_OP, (x,), {"dtype": target}, Spec(x.shape, target), self.origin())
        return x

    def item(self, tensor: Tensor) -> SymbolicNumber | None:
        """A number that the program reads from the tensor's one element when it has run; None for a complex one."""
        symbol = self.adopt(tensor)
        return None if symbol.dtype.kind == "c" else self.arithmetic.read(wrap(symbol))

    def read_values(self, tensor: Tensor, reader: str) -> Array:
        """The values of a small tensor of integers or truths, for which what follows holds."""
        if reader in STORAGE_READERS:
            self.refuse_storage(reader)
        return self.adopt(tensor).refuse(reader) if self.events is None else self.events.show_values(tensor, reader)

    def show(self, tensor: Tensor) -> str | None:
        return show_tensor(self.events, tensor)

    stack_numbers = stack_numbers

    def call_on_values(self, function: Function, tensors: Operands) -> Operand:
        """The result of a function that looks at values, called by each call."""
        if self.deferred and not all(isinstance(x, Tensor) for x in tensors):
            raise DeferredChangeError(
                f"it asks at {user_site()} what a call changes that takes place at its end, at {self.deferred[0][2]}: "
                "ask before that call, or outside"
            )
        return function(*tensors) if self.events is None else self.events.call(function, tensors, is_sized=True)

    def constant(self, array: object) -> Value:
        """An array which the step made from Python data."""
        symbol = self.graph.constant(array)
        self.strides.note(symbol, strides_unless_contiguous(np.asarray(array)))
        return symbol

    def adopt(self, tensor: Tensor) -> Value:
        """The tensor's symbol; on first sight its memory becomes state of the step."""
        if type(tensor.array) is ndarray:
            view = view_of(tensor)
            if view is not None and self._is_state(view.base):
                self.view_guards.append(ViewGuard(tensor, view, user_site()))
                self.note_version(tensor)
                self.cut_history_off(tensor)
                self.adopted_arrays[id(tensor)] = tensor, tensor.array
                with recorded_by_caller():
                    seen = replay_view(wrap(self.adopt(view.base)), view.steps).array
                self.fix_location(view.base)
                tensor.array = seen
            else:
                _, location = self.locations.get(id(tensor), (tensor, None))
                locate, expression = location or self.locate(tensor) or (lambda: tensor, None)
                self._capture_array(tensor, StateInput(locate, "", expression))
        symbol: Value = tensor.array
        return symbol

    detach_array = adopt

    @without_frame_tracing
    def constant_values(self, tensor: Tensor) -> Array | None:
        return find_constant_values(self, tensor)

    def guard_on_metadata(self, tensor: Tensor) -> None:
        """Make a tensor that the step read, perhaps only its shape or flags, part of what each call compares."""
        if type(tensor.array) is ndarray:
            view = view_of(tensor)
            if view is not None and self._is_state(view.base):
                self.view_guards.append(ViewGuard(tensor, view, None))
                self.guard_on_metadata(view.base)
            else:
                self._capture_array(tensor, StateInput(lambda: tensor, "", None), is_read=False)

    def is_leaf(self, tensor: Tensor) -> bool:
        return id(tensor) not in self.outside

    def _is_state(self, base: Tensor) -> bool:
        """True unless the tensor is an argument, of which each call brings another."""
        known = self._symbols.get(id(base.array)) if type(base.array) is ndarray else None
        symbol = base.array if known is None else known[1]
        if not isinstance(symbol, Value):
            return True
        return not any(isinstance(s.source, Argument) for t, _, s in self.state if t is base or s is symbol)

    def _capture_array(self, tensor: Tensor, source: Source, is_read: bool = True) -> None:
        array = tensor.array
        known = self._symbols.get(id(array))
        others: list[CapturedRegion] = []
        if known is not None and (isinstance(source, Argument) or storage_of(known[2]) is storage_of(tensor)):
            _, symbol, owner = known
            self.fix_location(owner)
            self.on_location_fixed(tensor)
            current = owner.array
        else:
            symbol = current = self.graph.input(array, source)
            self.strides.note(symbol, strides_unless_contiguous(array))
            self._symbols.setdefault(id(array), (array, symbol, tensor))
            others = self.blocks.add(CapturedRegion(tensor, array, symbol)) if is_read else []
        self.cut_history_off(tensor)
        self.state.append((tensor, array, symbol))
        self.note_version(tensor)
        self.adopted_arrays[id(tensor)] = tensor, array
        tensor.array = current
        if others:
            carry_earlier_writes(self, CapturedRegion(tensor, array, symbol), others)

    def fix_location(self, tensor: Tensor) -> None:
        """Look for no other tensor in the place of this one: another from before the step shares its memory."""
        for held, _, symbol in self.state:
            if held is tensor and isinstance(symbol.source, StateInput) and symbol.source.expression is not None:
                symbol.source = StateInput(lambda: tensor, symbol.source.name, None)
                self.on_location_fixed(tensor)

    @without_frame_tracing
    def symbols(self, inputs: Operands) -> Operands:
        return tuple([x.array if has_symbol(x) else self.adopt(x) if isinstance(x, Tensor) else x for x in inputs])

    def replacement(self, x: Tensor, out: Tensor, called: str, since: int | None) -> Tensor:
        """`out`, as it is: all memory belongs to the step."""
        return out

    @without_frame_tracing
    def strided_stand_in(self, tensor: Tensor) -> Array:
        """An array without values that lies in memory as the tensor would in an eager run."""
        return self.strides.stand_in(self.adopt(tensor))

    @without_frame_tracing
    def replace_memory(self, tensor: Tensor, value: Tensor) -> None:
        """Take note that `tensor` gets the memory of `value`, which both share from then on."""
        self.adopt(value)
        self.adopt(tensor)
        storage_of(value)
        self.fix_location(tensor)
        self.note_replacement(tensor, value)

    def rely_on_whole_memory(self, tensor: Tensor, reader: str) -> None:
        self.adopt(tensor)
        _, array = self.adopted_arrays.get(id(tensor), (tensor, None))
        if array is None and self.strides.of(tensor.array) is None:
            return
        if array is None or not fills_memory(array):
            self.refuse_storage(reader)
        source = next(symbol.source for known, _, symbol in self.state if known is tensor)
        self.view_guards.append(MemoryGuard(source.number if isinstance(source, Argument) else tensor, user_site()))

    def mark_row_major(self, out: Tensor) -> None:
        """Note that `out`, made of several ops here, is made by one eagerly: in row-major order."""
        self.strides.note(self.adopt(out), None)

    def can_view_as(self, tensor: Tensor, shape: tuple[int, ...]) -> bool:
        return try_view(self.strided_stand_in(tensor), tuple(map(size_value, shape))) is not None

    @without_frame_tracing
    def write_symbol(self, x: Tensor, out: Tensor, called: str, since: int | None) -> None:
        write_symbol(self, x, out, called, since)
        check_captured_memory(self.adopted_arrays, x, called)

    def memory_stand_in(self, array: Operand) -> Operand:
        return stand_in_of(self, array) if type(array) is Value else array

    @without_frame_tracing
    def own_gradient(self, g: Tensor, leaf: Tensor | None = None) -> Tensor:
        """A gradient in memory of its own: in the order of `leaf`, or, if it is a view, in row-major order."""
        return own_gradient(self, g, leaf)

    @without_frame_tracing
    def deepcopy_memory(self, tensor: Tensor, twin: Tensor, memo: dict[object, Tensor]) -> None:
        """Give `twin` a copy of the memory of `tensor`, which its other views share in one deep copy."""
        copy_memory(self, tensor, twin, memo)

    @without_frame_tracing
    def mark_leaf(self, tensor: Tensor, before: Leaf | None) -> None:
        """Let a leaf that the step makes stand for itself, not for its source; note the flag of others as it was."""
        if not self.is_made_here(tensor):
            self.adopt(tensor)
            self.leaves_before.setdefault(id(tensor), (tensor, before))
        elif type(tensor.array) is Value and tensor.node is not None:
            tensor.array = self.emit(SLICE_OP, (tensor.array,), {"bounds": tuple((0, n, 1) for n in tensor.shape)})

    def read_setting(self, holder: object, key: object) -> Any:
        """A Python number of `holder` as a 0-d float64 input of the step."""
        path = key if isinstance(key, tuple) else (key,)
        if self.deferred:
            raise TraceError(
                f"the compiled step reads {key!r} of an optimizer or the like at {user_site()}, after a call which may "
                f"change it at {self.deferred[0][2]}, and which comes at the very end: make that the last of the step"
            )
        setting = Setting(holder, path, ".".join(map(str, path)))
        value = setting.read()
        if len(path) == 1 and self._is_set(holder, key) and type(value) in (int, float):
            return wrap(self.graph.constant(np.float64(value)))
        known = self._settings.get((id(holder), path))
        if known is not None:
            return known
        if type(value) is SymbolicNumber:
            return wrap(self._convert_dtype(self.number(value), np.dtype(np.float64)))
        if isinstance(value, (Tensor, bool)) or not isinstance(value, (int, float)):
            self.probe_guards.append(ProbeGuard(setting, Setting.read, f"the option {setting.name}", user_site()))
            return value
        tensor = wrap(self.graph.input(np.empty((), np.float64), setting))
        self._settings[id(holder), path] = tensor
        return tensor

    def watch(self, subject: object, probe: Function, what: str, at_end: bool, contents: Function | None) -> None:
        """Retrace when `probe(subject)` changes from what it is now, or, if `at_end`, at the end of the trace.

        Of several looks at one thing the first counts: the step may change it, and change it back.
        """
        if type(subject) is Leaf and (leaf := subject.reference()) is not None and self.is_made_here(leaf):
            return  # each call makes another
        look = id(subject), probe if contents else what
        if look in self._looks:
            return
        self._looks.add(look)
        self.probe_guards.append(ProbeGuard(subject, probe, what, user_site(), at_end, contents))

    def defer(self, function: Function, argument: object) -> bool:
        self.deferred.append((function, argument, user_site()))
        return True

    def note_container_write(self, container: object) -> None:
        self.on_container_write(container)

    def restore(self, failed: bool = False) -> None:
        """Give every tensor its own array, node and gradient back; after a failure, take back what else was made."""
        self.restore_arrays()
        for tensor, memory in self.argument_storages:
            tensor.storage_ = memory
        for tensor, node in (*self.outside.values(), *self.leaves_before.values()):
            tensor.node = node
        for tensor, before, _ in self.gradients.values():
            tensor._grad = before
        self.restore_versions()
        for changed, slot, value in self._changed_outside.values():
            setattr(changed, slot, value)
        if failed:
            self.take_back()


__all__ = ["Constant", "Location", "TraceError", "Tracer"]
