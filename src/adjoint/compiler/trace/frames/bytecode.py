"""The instructions of Python's bytecode, by name: their effect on the stack; for Python 3.11 to 3.15."""

from __future__ import annotations

import dis
import opcode
from types import CodeType, FrameType
from typing import Any

from adjoint.compiler.trace.frames import calls
from adjoint.compiler.trace.frames.shadow_frame import Handler, Handlers, ShadowFrame
from adjoint.compiler.trace.frames.static_getattr import UNKNOWN, OneOf, one_of

HANDLERS = Handlers()
handles = HANDLERS.handles


class NullSlot:
    """The type of `NULL`, the empty slot beside what is called."""

    __slots__ = ()


NULL = NullSlot()


class NewContainer(list[Any]):
    """A container that the step has just built, by what was put into it."""


@handles(
    "ASYNC_GEN_WRAP BEFORE_ASYNC_WITH BEFORE_WITH BUILD_INTERPOLATION BUILD_STRING BUILD_TEMPLATE CALL_INTRINSIC_1 "
    "CALL_INTRINSIC_2 CHECK_EG_MATCH CHECK_EXC_MATCH CLEANUP_THROW CONVERT_VALUE END_ASYNC_FOR END_SEND FORMAT_SIMPLE "
    "FORMAT_VALUE FORMAT_WITH_SPEC GET_AITER GET_ANEXT GET_AWAITABLE GET_YIELD_FROM_ITER IMPORT_STAR "
    "INTERPRETER_EXIT LIST_TO_TUPLE LOAD_SPECIAL PREP_RERAISE_STAR PRINT_EXPR RAISE_VARARGS RERAISE RETURN_CONST SEND "
    "TO_BOOL UNARY_INVERT UNARY_NEGATIVE UNARY_NOT UNARY_POSITIVE WITH_EXCEPT_START"
)
def handle_other(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """Any other instruction that is known: it uses the values it takes, and what it leaves is unknown."""
    try:
        effect = dis.stack_effect(ins.opcode, ins.arg if ins.opcode >= dis.HAVE_ARGUMENT else None, jump=False)
    except ValueError:
        effect = 0
    values = a.pop_operands(1 + max(0, -effect))
    for value in values:
        a.observer.use(value, frame)
    a.push(*[one_of(values)] * (1 + max(0, effect)))


def change_stack(count: int, *pushed: object) -> Handler:
    """Return the handler of instructions that take `count` values, look into none, and leave `pushed`."""

    def handler(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
        if count:
            del a.stack[-count:]
        a.stack.extend(pushed)

    return handler


handles(
    "RESUME NOP CACHE PRECALL COPY_FREE_VARS MAKE_CELL JUMP_FORWARD JUMP_BACKWARD_NO_INTERRUPT DELETE_FAST "
    "DELETE_NAME NOT_TAKEN SETUP_ANNOTATIONS GEN_START"
)(change_stack(0))
# The value goes where only the step sees it, or is compared with None.
handles(
    "STORE_FAST STORE_FAST_MAYBE_NULL POP_TOP LIST_APPEND SET_ADD RETURN_VALUE POP_JUMP_IF_NONE "
    "POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE"
)(change_stack(1))
handles("MAP_ADD", "STORE_FAST_STORE_FAST")(change_stack(2))
handles("PUSH_NULL")(change_stack(0, NULL))
handles("PUSH_EXC_INFO LOAD_CLOSURE LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR LOAD_LOCALS RETURN_GENERATOR")(
    change_stack(0, UNKNOWN)
)
handles("YIELD_VALUE")(change_stack(1, UNKNOWN))  # the value that the yield receives
handles("IS_OP")(change_stack(2, UNKNOWN))


@handles("LOAD_CONST", "LOAD_SMALL_INT")
def load_constant(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A constant; the code of a function is of no interest."""
    a.push(UNKNOWN if isinstance(ins.argval, CodeType) else ins.argval)


@handles("LOAD_COMMON_CONSTANT")
def load_common_constant(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A constant of which there is one for all code: -1, None, `tuple`, since Python 3.14."""
    a.push(getattr(opcode, "_common_constants", {ins.arg: UNKNOWN})[ins.arg])


@handles("POP_EXCEPT", "END_FOR", "POP_ITER", "POP_BLOCK")
def pop_values(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """Pop as many values as the instruction does."""
    a.pop_operands(max(0, -dis.stack_effect(ins.opcode, ins.arg if ins.opcode >= dis.HAVE_ARGUMENT else None)))


@handles("COPY")
def copy_value(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """The n-th value from the top, again."""
    depth = ins.arg or 1
    a.push(a.stack[-depth] if len(a.stack) >= depth else UNKNOWN)


@handles("SWAP")
def swap_values(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """The top and the n-th value change places."""
    values = a.pop_operands(ins.arg or 2)
    values[0], values[-1] = values[-1], values[0]
    a.push(*values)


@handles("GET_ITER")
def get_iterator(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`iter(x)`: of a loop that names each element, so that what it reads of one is seen, the elements alone."""
    value = a.pop()
    if a.names_elements(frame):
        a.observer.use_elements(value, frame)
    else:
        a.observer.use(value, frame)
    a.push(one_of([value]))


@handles("FOR_ITER")
def for_iter(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> bool:
    """The next element, or the end of the loop."""
    return True


@handles(
    "JUMP_BACKWARD POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_TRUE "
    "POP_JUMP_BACKWARD_IF_FALSE"
)
def end_turn(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """The end of a loop's turn; before Python 3.12 that of a `while` is where its condition decides."""
    if ins.opname != "JUMP_BACKWARD":
        condition = a.pop()
        if "NONE" not in ins.opname:
            a.observer.use(condition, frame)
    a.observer.end_turn(frame, ins.argval)


@handles(
    "POP_JUMP_IF_TRUE POP_JUMP_IF_FALSE POP_JUMP_FORWARD_IF_TRUE POP_JUMP_FORWARD_IF_FALSE "
    "LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE"
)
def use_top(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """The top is popped and looked into."""
    a.observer.use(a.pop(), frame)


@handles("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def jump_or_pop(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> bool:
    """`x and y`, `x or y` before 3.12: popped unless it jumps."""
    if a.stack:
        a.observer.use(a.stack[-1], frame)
    return True


@handles("BUILD_TUPLE")
def build_tuple(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A tuple; if its elements are known, such a one."""
    parts = a.pop_operands(ins.arg or 0)
    a.push(NewContainer(parts) if any(part is UNKNOWN or isinstance(part, OneOf) for part in parts) else tuple(parts))


@handles("BUILD_SLICE")
def build_slice(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A slice."""
    a.pop_operands(ins.arg or 2)
    a.push(UNKNOWN)


@handles("BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_CONST_KEY_MAP")
def build_container(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A container of its own, with elements that may be from before."""
    effect = dis.stack_effect(ins.opcode, ins.arg)
    parts = a.pop_operands(1 - effect)
    for key in parts if ins.opname == "BUILD_SET" else parts[::2] if ins.opname == "BUILD_MAP" else ():
        a.observer.look_at_text(key, frame)
    a.push(NewContainer(parts))


@handles("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE")
def make_function(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A function of the step's own."""
    a.pop_operands(1 - dis.stack_effect(ins.opcode, ins.arg if ins.opcode >= dis.HAVE_ARGUMENT else None))
    a.push(UNKNOWN)


@handles("UNPACK_SEQUENCE", "UNPACK_EX")
def unpack(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """The elements, the first on top."""
    value = a.pop()
    a.observer.use(value, frame)
    count = dis.stack_effect(ins.opcode, ins.arg) + 1
    known = type(value) in (tuple, list) and len(value) == count and ins.opname == "UNPACK_SEQUENCE"
    a.push(*(reversed(value) if known else [UNKNOWN] * count))


@handles("GET_LEN")
def get_length(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`len(x)` of a subject of `match`, above it."""
    if a.stack:
        a.observer.use(a.stack[-1], frame)
    a.push(UNKNOWN)


@handles("MATCH_MAPPING", "MATCH_SEQUENCE", "MATCH_KEYS")
def match_container(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A test of the subject, which stays below its outcome."""
    for value in a.stack[-2:]:
        a.observer.use(value, frame)
    a.push(UNKNOWN)


@handles("KW_NAMES")
def keyword_names(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """The names of the keyword arguments of the call that follows."""
    a.keywords = ins.argval if isinstance(ins.argval, tuple) else a.code.co_consts[ins.arg or 0]


@handles("CALL", "CALL_KW")
def call_function(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`f(x, name=y)`."""
    a.observer.leave_at_call()
    names = a.pop() if ins.opname == "CALL_KW" else a.keywords
    a.keywords = ()
    args = a.pop_operands(ins.arg or 0)
    first, second = a.pop_operands(2)
    if first is NULL:
        callee = second
    elif second is NULL:
        callee = first
    else:
        callee, args = first, [second, *args]
    count = len(args) - len(names)
    _record_call(a, frame, callee, tuple(args[:count]), dict(zip(names, args[count:], strict=True)))


@handles("CALL_FUNCTION_EX")
def call_function_ex(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`f(*args, **kwargs)`."""
    count = 1 - dis.stack_effect(ins.opcode, ins.arg)
    values = [value for value in a.pop_operands(count) if value is not NULL]
    callee, *rest = values or [UNKNOWN]
    for value in rest:
        a.observer.use(value, frame)
    args = tuple(rest[0]) if rest and isinstance(rest[0], tuple | list) else tuple(map(one_of, [rest[:1]]))
    keywords = rest[1] if len(rest) > 1 and type(rest[1]) is dict else {}
    if len(rest) > 1 and not keywords and rest[1] != {}:
        args = (*args, one_of(rest[1:]))
    _record_call(a, frame, callee, args, keywords)


def _record_call(
    a: ShadowFrame, frame: FrameType, callee: object, args: tuple[object, ...], keywords: dict[str, object]
) -> None:
    a.push(UNKNOWN)
    a.stack[-1] = calls.record_call(a, frame, callee, args, keywords)
