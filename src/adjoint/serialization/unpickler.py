"""Read pickles without Python's own unpickler: a small stack machine that can call nothing but what it is given.

Protocols 0 to 5 are understood as far as plain data need them. Source: CPython's pickletools, which documents each
opcode.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from adjoint.core.typing import Function
from adjoint.serialization.dict_keys import KeyHashes
from adjoint.serialization.zip_archive import FileError

MARK = object()
# Items that calls may copy, for each byte of the pickle: none that Python writes copies more than two
MAX_COPIES_PER_BYTE = 3
ENTRY_COST = 4  # what an entry of a dict or set is counted as, which takes more memory than one of a tuple
NUMBER_FORMATS = {"J": "<i", "K": "<B", "M": "<H", "G": ">d"}
# A length in one of these formats follows the opcode, and then so many bytes
SIZED_FORMATS = dict.fromkeys("\x8cUC\x8a", "<B") | dict.fromkeys("XTB\x8b", "<I") | dict.fromkeys("\x8d\x8e\x96", "<Q")
CONSTANT_OPCODES: dict[str, Callable[[], Any]] = {")": tuple, "]": list, "}": dict, "\x8f": set}
CONSTANT_OPCODES |= {"N": lambda: None, "\x88": lambda: True, "\x89": lambda: False}
TEXT_OPCODES = "X\x8c\x8d"
BYTE_TEXT_OPCODES = "UT"
LONG_OPCODES = "\x8a\x8b"
TEXT_TYPES = (str, bytes, bytearray)
SIZED_TYPES = (list, tuple, dict, set, frozenset, *TEXT_TYPES)
MEMO_PUT_FORMATS = {"q": "<B", "r": "<I"}
MEMO_GET_FORMATS = {"h": "<B", "j": "<I"}


class Rules(NamedTuple):
    """Permissions and values of a pickle.

    `find(module, name)` gives what a name stands for, or raises; `calls` has what is called where the pickle calls it,
    `news` where it asks for a bare instance of a class; `build(instance, state)` sets an instance's state and returns
    it; `persistent_load(id)` gives what lies outside.
    """

    find: Callable[[str, str], Any]
    calls: dict[Any, Function]
    news: dict[Any, Function]
    build: Callable[[Any, Any], Any]
    persistent_load: Callable[[Any], Any]
    encoding: str = "utf-8"  # of text written by Python 2


def unpickle(data: memoryview, rules: Rules, at: int = 0) -> tuple[Any, int]:
    """Return the value of the pickle at a place of `data`, and its end. Raises FileError if it is not sound."""
    machine = _PickleMachine(data, rules, at)
    try:
        return machine.run(), machine.at
    except MemoryError:
        raise
    except FileError as error:
        raise FileError(f"{error} (byte {machine.at} of the pickle)") from None
    except Exception as error:
        raise FileError(f"the pickle is damaged near byte {machine.at}: {type(error).__name__}: {error}") from error


class _PickleMachine:
    def __init__(self, data: memoryview, rules: Rules, at: int) -> None:
        self.data = data
        self.rules = rules
        self.at = at
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.copy_charge = 0
        self.hashes = KeyHashes()

    def run(self) -> Any:
        while True:
            code = chr(self._read_struct("<B"))
            if code == ".":
                if len(self.stack) != 1:
                    raise FileError(f"the pickle ends with {len(self.stack)} values instead of one")
                return self.pop()
            self._step(code)

    def _step(self, code: str) -> None:
        push = self.stack.append
        if code in CONSTANT_OPCODES:
            push(CONSTANT_OPCODES[code]())
        elif code in NUMBER_FORMATS:
            push(self._read_struct(NUMBER_FORMATS[code]))
        elif code in SIZED_FORMATS:
            push(self._read_sized(code))
        elif code in MEMO_PUT_FORMATS:
            self.memo[self._read_struct(MEMO_PUT_FORMATS[code])] = self.stack[-1]
        elif code in MEMO_GET_FORMATS:
            push(self.memo[self._read_struct(MEMO_GET_FORMATS[code])])
        elif code == "(":
            push(MARK)
        elif code in OPCODE_HANDLERS:
            OPCODE_HANDLERS[code](self)
        else:
            raise FileError(f"the pickle has the opcode {code!r}, which no file of tensors needs")

    def _read_struct(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def _read_bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.at:
            raise FileError(f"{count} bytes are announced, but only {len(self.data) - self.at} follow")
        self.at += count
        return bytes(self.data[self.at - count : self.at])

    def _read_sized(self, code: str) -> Any:
        data = self._read_bytes(self._read_struct(SIZED_FORMATS[code]))
        if code in TEXT_OPCODES:
            return data.decode("utf-8", "surrogatepass")
        if code in BYTE_TEXT_OPCODES:
            return data if self.rules.encoding == "bytes" else data.decode(self.rules.encoding)
        if code in LONG_OPCODES:
            return int.from_bytes(data, "little", signed=True)
        return bytearray(data) if code == "\x96" else data

    def line(self) -> str:
        """Return the text up to the end of the line."""
        end = self.at
        while self.data[end] != 10:
            end += 1
            if end - self.at > 1000:
                raise FileError("a name of more than 1000 bytes")
        text = self._read_bytes(end - self.at).decode()
        self.at += 1
        return text

    def pop_mark(self) -> list[Any]:
        """Remove the last mark and the values above it, and return these."""
        stack, i = self.stack, len(self.stack) - 1
        while stack[i] is not MARK:
            i -= 1
            if i < 0:
                raise FileError("the pickle uses a mark that it has not set")
        items = stack[i + 1 :]
        del stack[i:]
        return items

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is MARK:
            raise FileError("the pickle uses a mark as a value")
        return value

    def top(self, *kinds: type) -> Any:
        """Return the uppermost value, which must be of one of these very types."""
        value = self.stack[-1]
        if type(value) not in kinds:
            raise FileError(f"the pickle adds items to a {type(value).__name__}")
        return value

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict, OrderedDict, Counter)
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.charge(self.hashes.check_key(key))
            target[key] = value

    def extend(self, items: list[Any]) -> None:
        self.top(list).extend(items)

    def add(self, items: list[Any]) -> None:
        target = self.top(set)
        for item in items:
            self.charge(self.hashes.check_key(item))
            target.add(item)

    def make_tuple(self, count: int) -> None:
        items = tuple(self.pop() for _ in range(count))
        self.stack.append(items[::-1])

    def find(self) -> None:
        name = self.pop()
        module = self.pop()
        if type(module) is not str or type(name) is not str:
            raise FileError("the pickle names something by what is no text")
        self.stack.append(self.rules.find(module, name))

    def call(self, allowed: dict[Any, Function]) -> None:
        """Replace f and its arguments by f(*arguments), if f is allowed."""
        arguments = self.pop()
        function = self.pop()
        call = allowed.get(function) if callable(function) else None
        if call is None or type(arguments) is not tuple:
            what = getattr(function, "__qualname__", type(function).__name__)
            raise FileError(f"the pickle calls {what}, which is not allowed")
        self.count(*arguments)
        self.stack.append(call(*arguments))

    def build(self) -> None:
        state = self.pop()
        self.count(state)
        self.stack.append(self.rules.build(self.pop(), state))

    def count(self, *values: Any) -> None:
        """Charge what a call may copy: a few bytes must not multiply into much memory."""
        sized = [value for value in values if isinstance(value, SIZED_TYPES)]
        texts = [part for value in sized if type(value) is tuple for part in value if isinstance(part, TEXT_TYPES)]
        entries = [value for value in sized if isinstance(value, (list, set, frozenset))]  # become those of dicts
        self.charge(sum(map(len, sized)) + sum(map(len, texts)) + (ENTRY_COST - 1) * sum(map(len, entries)))

    def charge(self, items: int) -> None:
        """Count items that are copied or hashed. FileError for a pickle that has too much of it for its length."""
        self.copy_charge += items
        if self.copy_charge > MAX_COPIES_PER_BYTE * len(self.data) + 1000:
            raise FileError(
                "the pickle copies the same values again and again: it would take far more memory than it has"
            )

    def memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def version(self) -> None:
        protocol = self._read_struct("<B")
        if protocol > 5:
            raise FileError(f"the pickle is of protocol {protocol}, of which nothing is known")

    def push_global_by_line(self) -> None:
        module = self.line()
        self.stack.append(self.rules.find(module, self.line()))

    def append(self) -> None:
        item = self.pop()
        self.extend([item])

    def set_item(self) -> None:
        value = self.pop()
        key = self.pop()
        self.set_items([key, value])

    def make_dict(self) -> None:
        items = self.pop_mark()
        self.stack.append({})
        self.set_items(items)

    def make_frozenset(self) -> None:
        items = self.pop_mark()
        for item in items:
            self.charge(self.hashes.check_key(item))
        self.stack.append(frozenset(items))

    def drop(self) -> None:
        self.stack.pop()

    def skip_frame(self) -> None:
        self._read_struct("<Q")


OPCODE_HANDLERS: dict[str, Callable[[_PickleMachine], Any]] = {
    "\x80": _PickleMachine.version,
    "\x95": _PickleMachine.skip_frame,
    "c": _PickleMachine.push_global_by_line,
    "\x93": _PickleMachine.find,
    "R": lambda m: m.call(m.rules.calls),
    "\x81": lambda m: m.call(m.rules.news),
    "b": _PickleMachine.build,
    "Q": lambda m: m.stack.append(m.rules.persistent_load(m.pop())),
    "0": _PickleMachine.drop,
    "1": _PickleMachine.pop_mark,
    "2": lambda m: m.stack.append(m.stack[-1]),
    "a": _PickleMachine.append,
    "e": lambda m: m.extend(m.pop_mark()),
    "s": _PickleMachine.set_item,
    "u": lambda m: m.set_items(m.pop_mark()),
    "d": _PickleMachine.make_dict,
    "l": lambda m: m.stack.append(m.pop_mark()),
    "t": lambda m: m.stack.append(tuple(m.pop_mark())),
    "\x85": lambda m: m.make_tuple(1),
    "\x86": lambda m: m.make_tuple(2),
    "\x87": lambda m: m.make_tuple(3),
    "\x90": lambda m: m.add(m.pop_mark()),
    "\x91": _PickleMachine.make_frozenset,
    "\x94": _PickleMachine.memoize,
}
