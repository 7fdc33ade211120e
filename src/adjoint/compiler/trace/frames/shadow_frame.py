"""A frame of the user's while it runs: a shadow of its stack, moved by each instruction before that is executed."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from itertools import islice, takewhile
from types import CellType, CodeType, FrameType
from typing import Any

from adjoint.compiler.trace.frames.observations import Observations
from adjoint.compiler.trace.frames.static_getattr import UNKNOWN
from adjoint.core.typing import Function

NAME_STORES = frozenset(
    ("STORE_FAST", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
)
# Returns true if its effect shows at the next instruction.
Handler = Callable[["ShadowFrame", FrameType, dis.Instruction], object]


class Handlers(dict[str, Handler]):
    """Methods for instructions, by name: each does to the stack what its instruction does."""

    def handles(self, *names: str) -> Callable[[Handler], Handler]:
        """Declare the instructions that a function is for, by names with spaces between them."""

        def register(handler: Handler) -> Handler:
            for name in " ".join(names).split():
                self[name] = handler
            return handler

        return register


class DecodedCode:
    """A function's instructions by their offsets, and where exceptions land, with the depth of the stack there.

    `unknown_instruction` is the first that no one of the `handlers` is for: a frame of this code cannot be followed.
    """

    __slots__ = ("handler_depths", "steps", "unknown_instruction")

    def __init__(self, code: CodeType, handlers: Mapping[str, Handler]) -> None:
        self.steps: dict[int, tuple[Handler, dis.Instruction, int, int]] = {}
        self.unknown_instruction: dis.Instruction | None = None
        listing = dis.Bytecode(code)
        before: list[int] = []
        instructions = list(listing)
        for i, ins in enumerate(instructions):
            after = instructions[i + 1].offset if i + 1 < len(instructions) else -1
            if ins.opname == "EXTENDED_ARG":
                before.append(ins.offset)
                continue
            handler = handlers.get(ins.opname)
            if handler is None:
                self.unknown_instruction = ins
                break
            step = (handler, ins, after, -1)
            self.steps[ins.offset] = step
            for offset in before:  # some versions report the prefix, some the instruction, some both
                self.steps[offset] = (*step[:3], ins.offset)
            before.clear()
        entries: Any = getattr(listing, "exception_entries", ())
        self.handler_depths = {entry.target: entry.depth + entry.lasti + 1 for entry in entries}


class ShadowFrame:
    """The shadow stack of one frame. Unknown values are UNKNOWN; the slots that are missing below are so, too.

    `leave(activation, frame, value)` is called when the frame is left.
    """

    __slots__ = (
        "awaited_code", "callee", "cells", "code", "keywords", "handler_depths", "leave", "outermost", "pending",
        "raising", "skipped_offset", "stack", "steps", "observer",
    )  # fmt: skip

    def __init__(
        self,
        observer: Observations,
        code: CodeType,
        decoded: DecodedCode,
        cells: dict[str, list[CellType]],
        outermost: bool,
        leave: Callable[[ShadowFrame, FrameType, object], None],
    ) -> None:
        self.observer = observer
        self.leave = leave
        self.code = code
        self.cells = cells  # those from before the step, by the names of the variables
        self.outermost = outermost
        self.stack: list[object] = []
        self.steps, self.handler_depths = decoded.steps, decoded.handler_depths
        self.pending: tuple[dis.Instruction, int] | None = None
        self.keywords: tuple[str, ...] = ()
        self.awaited_code: CodeType | None = None  # the code whose result is the top of the stack
        self.callee: object = None
        self.skipped_offset = -1
        self.raising = False  # since the last instruction

    def trace(self, frame: FrameType, event: str, arg: object) -> Function:
        """The frame's trace function."""
        if event == "opcode":
            self._step(frame)
        elif event == "return":
            self.observer.begin_instruction()
            self.leave(self, frame, UNKNOWN if self.raising else arg)
        elif event == "exception":
            self.raising = True
        return self.trace

    def receive_result(self, code: CodeType, value: object, variables: Mapping[str, object]) -> None:
        """A function called from here has returned; if that was `__init__`, the result is the object."""
        if code is self.awaited_code and self.stack and value is not UNKNOWN:
            if isinstance(self.callee, type):
                value = variables.get(code.co_varnames[0], UNKNOWN) if code.co_argcount else UNKNOWN
            self.stack[-1] = value
        self.awaited_code = None

    def await_result(self, code: CodeType | None, callee: object = None) -> None:
        """Expect that the code runs now and that its result is the top of the stack."""
        self.awaited_code, self.callee = code, callee

    def is_suspending(self, frame: FrameType) -> bool:
        """True where the frame leaves with a `yield`, to come back."""
        step = self.steps.get(frame.f_lasti)
        return step is not None and (step[1].opname in ("YIELD_VALUE", "SEND") or _is_resume(step[1]))

    def names_elements(self, frame: FrameType, count: int = 1) -> bool:
        """True where a loop begins that gives a name to each element, or to each of its `count` parts."""
        opnames = [each.opname for each in islice(self._instructions_from(frame.f_lasti), count + 4)]
        if "GET_ITER" not in opnames[:2]:  # which runs now, or when a call has returned what the loop goes over
            return False
        opnames = opnames[opnames.index("GET_ITER") + 1 :]
        head = ["FOR_ITER", "UNPACK_SEQUENCE"] if count > 1 else ["FOR_ITER"]
        stores = takewhile(NAME_STORES.__contains__, opnames[len(head) :])
        stored = sum(2 if name == "STORE_FAST_STORE_FAST" else 1 for name in stores)
        return opnames[: len(head)] == head and stored >= count

    def _instructions_from(self, offset: int) -> Iterator[dis.Instruction]:
        step = self.steps.get(offset)
        while step is not None:
            yield step[1]
            step = self.steps.get(step[2])

    def push(self, *values: object) -> None:
        """Put values on the stack, the last on top."""
        self.stack.extend(values)

    def pop(self) -> Any:
        """Take the top."""
        return self.stack.pop() if self.stack else UNKNOWN

    def pop_operands(self, count: int) -> list[Any]:
        """Take the topmost `count` values, the top last."""
        return [self.pop() for _ in range(count)][::-1]

    def _step(self, frame: FrameType) -> None:
        at = frame.f_lasti
        step = self.steps.get(at)
        if step is None or at == self.skipped_offset:
            self.skipped_offset = -1
            return
        self.observer.begin_instruction()
        handler, instruction, after, self.skipped_offset = step
        self.raising = False
        if at in self.handler_depths:
            self.pending = None
            depth = self.handler_depths[at]
            del self.stack[depth - 1 :]
            self.push(*[UNKNOWN] * (depth - len(self.stack)))
        elif self.pending is not None:
            jump, next_to_it = self.pending
            self.pending = None
            _apply_jump(self, frame, jump, at != next_to_it, instruction)
        self.awaited_code = self.callee = None
        if handler(self, frame, instruction):
            self.pending = instruction, after


def _apply_jump(a: ShadowFrame, frame: FrameType, jump: dis.Instruction, jumped: bool, now: dis.Instruction) -> None:
    """Move the stack as an instruction did, now that its outcome is seen."""
    if jump.opname == "STORE_FAST_LOAD_FAST":
        a.stack[-1] = frame.f_locals.get(jump.argval[1], UNKNOWN)
    elif jump.opname == "FOR_ITER":
        if not jumped or now.opname == "END_FOR":
            a.push(UNKNOWN)
        elif now.opname not in ("POP_TOP", "POP_ITER") or FOR_ITER_POPS_ITERATOR:
            a.pop()
    elif not jumped:  # JUMP_IF_TRUE_OR_POP
        a.pop()


SUSPENDABLE_FLAGS = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR
FOR_ITER_POPS_ITERATOR = "LOAD_FAST_LOAD_FAST" not in dis.opmap  # an exhausted iterator, before 3.13


def is_resumed(frame: FrameType, decoded: DecodedCode) -> bool:
    """True where a frame that was suspended comes back."""
    if not frame.f_code.co_flags & SUSPENDABLE_FLAGS:
        return False
    step = decoded.steps.get(frame.f_lasti)
    if step is None:
        return False
    return step[1].opname == "YIELD_VALUE" or _is_resume(step[1])


def _is_resume(ins: dis.Instruction) -> bool:
    """True for the instruction after a `yield`, at which Python 3.13 says that a frame is as it leaves."""
    return ins.opname == "RESUME" and bool((ins.arg or 0) & 3)
