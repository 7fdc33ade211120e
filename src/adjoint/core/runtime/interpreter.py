"""The interpreter of a thread: it receives op calls in place of NumPy."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from adjoint.core.typing import Function, Operand, Operands, Params

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from adjoint.core.op.op import Op


class Interpreter:
    """Receives op calls in place of NumPy: while a step is traced, within `vmap`, on the device "meta".

    Each method has the default of an interpreter that leaves everything to eager evaluation: `emit` declines, notices
    are ignored, and services that only a compiled step offers are not there. A subclass overrides what it treats in
    another way. Source: the stack of interpreters in JAX's core, of which the innermost is `mode.interpreter`.
    """

    traces_steps = False  # True if ops become equations of a graph
    writes_symbols = False  # True if `write_symbol` carries out writes into memory

    # Op calls and their operands

    def emit(self, op: Op, inputs: Operands, params: Params) -> Operand:
        """Return the array of the op's result; None if NumPy should compute it."""
        return None

    def run_library_code(self, function: Function, *args: Operand) -> Any:
        """Return `function(*args)`, which runs nothing of the user's: a tracer need not look for that."""
        return function(*args)

    def refuse_sparse_gradient(self, use: str) -> None:
        """Raise an error for a sparse gradient that cannot be used here as it is."""

    # Layers that an export keeps whole

    def resize(self, x: Operand, new: Operands, scales: Operands, mode: str, aligned: bool) -> Operand:
        """Return (N, C, …) interpolated to the `new` sizes as one op; None if its ops are received."""
        return None

    def sweep(
        self, kind: str, input: Operand, sizes: Operands, start: Operands, weights: Operands, reverse: bool
    ) -> Operand:
        """Return one direction of a recurrent layer as one op, and its last states; None if its ops are received."""
        return None

    # What stands for tensors

    def symbols(self, inputs: Operands) -> Operands:
        """Return what a node saves in place of the inputs of its op."""
        return tuple(getattr(x, "array", x) for x in inputs)

    def constant(self, array: Operand) -> Operand:
        """Return the array that stands for Python data."""
        return array

    def adopt(self, tensor: Operand) -> Operand:
        """Return the array of a tensor, which becomes state of a traced step when it is first used."""
        return tensor.array

    def constant_values(self, tensor: Operand) -> Operand:
        """Return the values of a tensor as an ndarray if they are the same in each call of a traced step; else None."""

    def detach_array(self, tensor: Operand) -> Operand:
        """Return the array of a tensor without its history."""
        return tensor.array

    def is_leaf(self, tensor: Operand) -> bool:
        """Return whether a tensor that is a leaf here is one outside, too."""
        return True

    def captured_tensors(self) -> list[Operand]:
        """Return the tensors from before the step that it used."""
        return []

    # Writes

    def replacement(self, x: Operand, out: Operand, called: str, since: int | None) -> Operand:
        """Return the tensor whose values `x` takes; None if the write took place in a level around this one."""
        return out

    def write_symbol(self, x: Operand, out: Operand, called: str, since: int | None) -> None:
        """Write the value of `out` into `x`. Only called if `writes_symbols`."""

    def replace_memory(self, tensor: Operand, value: Operand) -> None:
        """Take note that `tensor` gets the memory of `value`."""
        self.adopt(tensor)
        self.adopt(value)

    def own_gradient(self, g: Operand, leaf: Operand = None) -> Operand:
        """Return a gradient in memory of its own."""
        return g

    def deepcopy_memory(self, tensor: Operand, twin: Operand, memo: Operand) -> None:
        """Give `twin` a copy of the memory of `tensor`. Only called if `traces_steps`."""

    def refuse_write(self, called: str) -> None:
        """Raise an error: `called` would write to memory that tensors without a common base share."""

    def refuse_form(self, called: str) -> None:
        """Raise an error: `called` would change the shape of a tensor from before the step."""

    def refuse_call(self, called: str) -> None:
        """Raise an error: `called` has an effect that a compiled step would not repeat."""

    # Reads

    def item(self, tensor: Operand) -> Operand:
        """Return the number that a program reads from a tensor of one element; None if it is read from memory."""
        return None

    def is_batched(self, x: Operand) -> bool:
        """Return whether a tensor has another value for each example of a batch."""
        return False

    def holds_for_all(self, truth: Operand) -> bool:
        """Return the truth of one element: of a batch, whether all examples have it."""
        return bool(truth)

    def show(self, tensor: Operand) -> str | None:
        """Return the text of a tensor in a traced step, or one that stands for it; None elsewhere."""

    def read_values(self, tensor: Operand, reader: str) -> Operand:
        """Return the values of a tensor that has none here, or raise an error that names `reader`."""
        return tensor.array.refuse(reader)

    def stack_numbers(self, data: Operand, kind: Operand) -> Operand:
        """Return the tensor of a number or of nested lists; None if its elements are known."""
        return None

    def call_on_values(self, function: Function, tensors: Operands) -> Operand:
        """Return `function(*tensors)`, tensors whose sizes only values tell."""
        return function(*tensors)

    def read_setting(self, holder: Any, key: tuple[int | str, ...] | str) -> Operand:
        """Return `holder[key]`, or `holder[k1][k2]…` for a tuple of keys."""
        for k in key if type(key) is tuple else (key,):
            holder = holder[k]
        return holder

    def can_view_as(self, tensor: Operand, shape: tuple[int, ...]) -> bool:
        """Return whether the tensor's memory can be seen under another shape."""
        return True

    def strided_stand_in(self, tensor: Operand) -> Operand:
        """Return an array without values that has the tensor's shape and strides; None if it is row-major."""
        return None

    def memory_stand_in(self, array: Operand) -> Operand:
        """Return the array by whose memory writes are logged."""
        return array

    def tensor_around(self, tensor: Operand) -> tuple[Operand, AbstractContextManager[object]] | None:
        """Return a batch of which a tensor is one example, and the block in which that is a tensor; None for others."""

    def rely_on_whole_memory(self, tensor: Operand, reader: str) -> None:
        """Take note that a tensor is to fill its memory, which `reader` looks at."""

    # Notices

    def watch(self, subject: object, probe: Function, what: str, at_end: bool, contents: Function | None) -> None:
        """Take note that the program relies on `probe(subject)`."""

    def touch_gradient(self, tensor: Operand, kind: str) -> None:
        """Take note that `.grad` of a tensor is about to be read ("read") or replaced ("write")."""

    def mark_leaf(self, tensor: Operand, before: Operand) -> None:
        """Take note that a tensor asks for a gradient from now on, or no longer; `before`: its node until now."""

    def follow(self, node: object) -> None:
        """Take note that the gradient of `node` is computed next; None when the backward pass is over."""

    def enter_module(self, name: str) -> None:
        """Take note that ops belong to the module `name` until `leave_module`."""

    def leave_module(self) -> None:
        """Take note that the innermost module has returned."""

    def mark_row_major(self, out: Operand) -> None:
        """Take note that eager evaluation makes `out` by one op, in row-major order."""

    def note_container_write(self, container: object) -> None:
        """Take note that a hook is about to put something into a container."""

    def kept_values(self) -> Iterable[object]:
        """Return what a step has put into objects from before it."""
        return ()

    # Services

    def apply_function(self, function: type, args: tuple[object, ...]) -> Any:
        """Return what the forward of a custom Function returns; NotImplemented if it runs op by op."""
        return NotImplemented

    def defer(self, function: Callable[[Any], object], argument: object) -> bool:
        """Call `function(argument)` at the end of each call of the step; False if there is no step."""
        return False

    def undo_on_failure(self, prepare: Callable[[Any], Callable[[], None]], subject: object) -> None:
        """Call what `prepare(subject)` returns if the trace fails."""

    def checkpoint_scope(self) -> AbstractContextManager[object]:
        """Return a block whose results the backward pass computes again instead of saving them.

        It gives what `repeat_scope` takes; None if backward runs the function again by itself.
        """
        return nullcontext()

    def repeat_scope(self, draws: Operand) -> AbstractContextManager[bool]:
        """Return a block in which a checkpointed function may run again, if it gives true, with the same draws."""
        return nullcontext(False)


EAGER = Interpreter()  # leaves all to NumPy
