"""The instructions that read and write: names, attributes, items, operators."""

from __future__ import annotations

import dis
import importlib.util
import sys
from collections import deque
from contextlib import suppress
from types import FrameType

from adjoint.compiler.trace.frames import attributes_items, calls
from adjoint.compiler.trace.frames.bytecode import NULL, NewContainer
from adjoint.compiler.trace.frames.container_snapshot import MUTABLE
from adjoint.compiler.trace.frames.late_texts import is_made_text
from adjoint.compiler.trace.frames.shadow_frame import Handlers, ShadowFrame
from adjoint.compiler.trace.frames.sources import MISSING, BuiltinSource, CellSource, GlobalSource, ItemSource
from adjoint.compiler.trace.frames.static_getattr import UNKNOWN, one_of
from adjoint.compiler.trace.numbers.number_text import parse_format

HANDLERS = Handlers()
handles = HANDLERS.handles


class PendingModule(str):
    """The name of a module that is being imported."""

    __slots__ = ()


@handles("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_FAST_AND_CLEAR")
def load_local(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A local variable."""
    a.push(frame.f_locals.get(ins.argval, UNKNOWN))


@handles("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def load_two_locals(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """Two local variables."""
    variables = frame.f_locals
    a.push(*(variables.get(name, UNKNOWN) for name in ins.argval))


@handles("STORE_FAST_LOAD_FAST")
def store_and_load(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> bool:
    """One local variable is set, then one is loaded: what a loop hands out is seen when it is set."""
    value, (target, source) = a.pop(), ins.argval
    a.push(value if source == target else frame.f_locals.get(source, UNKNOWN))
    return value is UNKNOWN and source == target


@handles("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
def load_global(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A global; in the body of a class perhaps a name of the class."""
    name, value = ins.argval, UNKNOWN
    if ins.opname == "LOAD_FROM_DICT_OR_GLOBALS":
        a.pop()
    own = frame.f_locals if ins.opname != "LOAD_GLOBAL" and frame.f_locals is not frame.f_globals else {}
    if name in own:
        value = own[name]
    elif name in frame.f_globals:
        value = frame.f_globals[name]
        a.observer.read(GlobalSource(frame.f_globals, name), value, frame)
    else:
        value = frame.f_builtins.get(name, UNKNOWN)
        if value is not UNKNOWN:
            a.observer.read(BuiltinSource(frame.f_globals, name), value, frame)
    is_called = ins.opname == "LOAD_GLOBAL" and bool((ins.arg or 0) & 1)
    if is_called:
        a.push(NULL)
    a.push(value)
    if name not in own:
        a.stack[-1] = a.observer.lead_away(frame.f_globals, name, value, is_called)


@handles("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
def load_cell(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A variable shared with a function inside or around this one."""
    if ins.opname == "LOAD_FROM_DICT_OR_DEREF":
        a.pop()
    value, cells = frame.f_locals.get(ins.argval, UNKNOWN), a.cells.get(ins.argval, ())
    for cell in cells if ins.argval != "__class__" else ():  # which is set when the class is made
        held = CellSource(cell, ins.argval).read()
        if held is not MISSING:
            a.observer.read(CellSource(cell, ins.argval), held, frame)
            value = held if value is UNKNOWN else value
            if held is value:
                value = a.observer.lead_cell_away(cell, frame, value)
    a.push(value)


@handles("LOAD_ATTR", "LOAD_METHOD")
def load_attribute(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`x.name`, and the function of `x.name()`."""
    method = ins.opname == "LOAD_METHOD" or (sys.version_info >= (3, 12) and bool((ins.arg or 0) & 1))
    holder = a.pop()
    if method:
        a.push(NULL)
    a.push(UNKNOWN)
    a.observer.look_at_text(holder, frame)  # by its methods
    value = attributes_items.get_attribute(a, frame, holder, ins.argval)
    a.stack[-1] = a.observer.lead_away(holder, ins.argval, value)


@handles("LOAD_SUPER_ATTR")
def load_super(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`super().name`."""
    _, kind, this = a.pop_operands(3)
    if (ins.arg or 0) & 1:
        a.push(NULL)
    a.push(UNKNOWN)
    a.stack[-1] = attributes_items.get_attribute(a, frame, calls.make_super(kind, this), ins.argval)


@handles("IMPORT_NAME")
def import_module(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """A module, by its name: it may be loaded only now."""
    level, names = a.pop_operands(2)
    name = ins.argval
    if level:
        with suppress(ImportError, TypeError):
            name = importlib.util.resolve_name("." * level + name, frame.f_globals.get("__package__"))
    for loaded in {name, name.partition(".")[0]} & sys.modules.keys():
        a.observer.read(ItemSource(sys.modules, loaded), sys.modules[loaded], frame)
    a.push(PendingModule(name if names else name.partition(".")[0]))


@handles("IMPORT_FROM")
def import_from(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`from module import name`."""
    module = a.stack[-1] if a.stack else UNKNOWN
    if isinstance(module, PendingModule):
        module = sys.modules.get(module, UNKNOWN)
    a.push(UNKNOWN)
    a.stack[-1] = attributes_items.get_attribute(a, frame, module, ins.argval)


@handles("BINARY_SUBSCR")
def load_item(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`x[key]`."""
    container, key = a.pop_operands(2)
    a.push(UNKNOWN)
    value = attributes_items.get_item(a, frame, container, key)
    a.stack[-1] = a.observer.lead_away(container, key, value) if type(container) is dict else value


@handles("BINARY_OP")
def binary_operation(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`x + y`, and `x += y`, which changes a container; in Python 3.14 also `x[key]`."""
    if ins.argrepr == "[]":
        load_item(a, frame, ins)
        return
    left, right = a.pop_operands(2)
    if ins.argrepr in ("+", "+=") and _add_texts(a, left, right):
        return
    made = parse_format(left) if ins.argrepr == "%" and type(left) is str else None
    if made is not None:
        a.observer.use(right, frame, looks_at=0)
        a.observer.texts.show(made)
        a.push(a.observer.texts.combine([left, right]))
        return
    a.push(UNKNOWN)
    a.observer.use(right, frame, looks_at=2 if type(left) is str else 1)
    in_place = ins.argrepr.endswith("=")
    if not (ins.argrepr == "+=" and isinstance(left, list | deque | bytearray)):
        a.observer.use(left, frame)
    if in_place and isinstance(left, MUTABLE) and not isinstance(left, NewContainer):
        a.observer.change(left, frame)
        a.observer.preexisting.note_new(right)
        a.stack[-1] = left


@handles("COMPARE_OP", "CONTAINS_OP")
def compare(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`x == y` and `key in x`."""
    left, right = a.pop_operands(2)
    a.push(UNKNOWN)
    if ins.opname == "CONTAINS_OP" and attributes_items.has_item(a, frame, right, left):
        return
    a.observer.use(left, frame, looks_at=2)
    a.observer.use(right, frame, looks_at=2)


@handles("STORE_ATTR", "DELETE_ATTR")
def store_attribute(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`x.name = value`."""
    holder = a.pop()
    value = a.pop() if ins.opname == "STORE_ATTR" else MISSING
    attributes_items.set_attribute(a, frame, holder, ins.argval, value)


@handles("STORE_SUBSCR", "DELETE_SUBSCR")
def store_item(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`x[key] = value`."""
    container, key = a.pop_operands(2)
    value = a.pop() if ins.opname == "STORE_SUBSCR" else MISSING
    a.observer.look_at_text(key, frame)
    attributes_items.set_item(a, frame, container, key, value)


@handles("STORE_SLICE")
def store_slice(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`x[i:j] = value`."""
    value, container, *_ = a.pop_operands(4)
    attributes_items.set_item(a, frame, container, UNKNOWN, value)


@handles("BINARY_SLICE")
def load_slice(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`x[i:j]`."""
    container = a.pop_operands(3)[0]
    a.observer.use(container, frame)
    a.push(one_of([container]))


@handles("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME")
def store_global(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`global name; name = value`."""
    value = MISSING if ins.opname == "DELETE_GLOBAL" else a.pop()
    if ins.opname != "STORE_NAME" or frame.f_locals is frame.f_globals:
        place = GlobalSource(frame.f_globals, ins.argval)
        a.observer.write(place, place.read(), frame)
        a.observer.preexisting.note_new(value)


@handles("STORE_DEREF", "DELETE_DEREF")
def store_cell(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`nonlocal name; name = value`."""
    value = a.pop() if ins.opname == "STORE_DEREF" else MISSING
    for cell in a.cells.get(ins.argval, ()):
        place = CellSource(cell, ins.argval)
        a.observer.write(place, place.read(), frame)
        a.observer.preexisting.note_new(value)


@handles("MATCH_CLASS")
def match_class(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`case Kind(name=…)` reads attributes."""
    subject, kind, names = a.pop_operands(3)
    if isinstance(kind, type) and isinstance(names, tuple) and subject is not UNKNOWN:
        matched = getattr(kind, "__match_args__", ())
        for name in (*matched[: ins.arg or 0], *names):
            attributes_items.get_attribute(a, frame, subject, name)
    a.await_result(None)
    a.push(UNKNOWN)


@handles("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE")
def format_value(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """`{x:spec}` in an f-string, and `x!r`."""
    has_spec = ins.opname == "FORMAT_WITH_SPEC" or (ins.opname == "FORMAT_VALUE" and bool((ins.arg or 0) & 4))
    spec = a.pop() if has_spec else None
    value = a.pop()
    if has_spec:
        a.observer.use(spec, frame)
    if has_spec or not (is_made_text(value) or type(value) is str):
        a.observer.use(value, frame)
    made = a.observer.texts.combine([value])
    if not (has_spec and ins.opname == "FORMAT_VALUE" and (ins.arg or 0) & 3):  # both at once: the text is laid out
        a.observer.texts.show()
    a.push(made)


@handles("BUILD_STRING")
def build_string(a: ShadowFrame, frame: FrameType, ins: dis.Instruction) -> None:
    """The pieces of an f-string, in one."""
    a.push(a.observer.texts.combine(a.pop_operands(ins.arg or 0)))


def _add_texts(a: ShadowFrame, left: object, right: object) -> bool:
    """Push the sum of two texts; False if these are none."""
    texts = a.observer.texts
    if not (texts.is_late(left) or texts.is_late(right)):
        return False
    a.push(texts.combine([left, right]))
    return True
