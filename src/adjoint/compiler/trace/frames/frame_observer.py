"""The witness of a trace: what the user's Python read from outside of the step, and what it wrote there.

While a step is traced its Python runs once. `FrameObserver.observe` follows the user's frames instruction by
instruction (`sys.settrace` with `f_trace_opcodes`, for the calling thread); `ShadowFrame` shadows the interpreter's
stack, so that each read, write and call is seen with the objects themselves. A place counts if its holder existed
before the step: it is a global, a closure variable of a function from before, or held by an object that was reached
through such a place.

Not seen are: what C code reads or writes by itself (a ufunc of objects, `pickle`, a `weakref` that dies, a
`contextvars.ContextVar`); objects that C code hands on, if they have no name and are no
elements of what it was given; what modules of Python, NumPy and this library keep to themselves; other threads.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CellType, CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, cast

from adjoint.compiler.trace.frames.attribute_sources import AttributeSource
from adjoint.compiler.trace.frames.cached_calls import postpone_filling
from adjoint.compiler.trace.frames.decode import decode
from adjoint.compiler.trace.frames.impure_calls import FILES_WITH_IMPURE_CODES, IMPURE_CODES, learn_imported_modules
from adjoint.compiler.trace.frames.observations import Observations, ignore_turn
from adjoint.compiler.trace.frames.shadow_frame import ShadowFrame, is_resumed
from adjoint.compiler.trace.frames.sources import MISSING, class_dict_of, find_class_entry, mro_of
from adjoint.compiler.trace.frames.trace_rules import is_user_class, is_user_file, is_user_namespace, trusted_files
from adjoint.core.graph.source_location import PACKAGE, Site
from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.typing import Function

if TYPE_CHECKING:
    from adjoint.compiler.runtime.call_turn import OwnedLock

# Python 3.12 crashes where two threads follow frames by opcodes at once; 3.11 and 3.13 do not. Source: CPython's issue
# 118415. While steps are traced `tracing_alone` sees to it; this lock is for all observers, those of replays too.
IS_PYTHON_312 = sys.version_info[:2] == (3, 12)
_observer_lock = cast("OwnedLock", reset_after_fork(threading.RLock())) if IS_PYTHON_312 else None


class FrameObserver(Observations):
    """Observes one run of a step, frame by frame."""

    def __init__(self, refuse: Callable[[str, Site], None]) -> None:
        super().__init__(refuse)
        self._shadow_frames: dict[FrameType, ShadowFrame] = {}
        self._enclosing_frames: dict[int, ShadowFrame] = {}  # by a code: that in whose constants it is, as it ran last
        self._skipped_frame: FrameType | None = None
        self._function: object = None  # the step
        self._started = False
        self.is_following = True  # new frames; `without_frame_tracing` unsets it
        self._generated: dict[int, object] = {}  # namespaces of code that was generated for this library
        learn_imported_modules()
        self._interrupts = _interrupts()

    @contextmanager
    def observe(self, function: Function | None = None, *arguments: object) -> Iterator[None]:
        """Watch this thread. The function and its arguments, and what they hold, existed before.

        Without arguments those of the first frame are taken. A refusal that the step caught is raised at the end.
        On Python 3.12 another thread's observer is waited for.
        """
        self.preexisting.add(function)
        self._function = function
        for argument in arguments:
            self.take_argument(argument)
        self._started = bool(arguments)
        if _observer_lock is not None:
            _observer_lock.acquire()
        before = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # Python 3.12 looks at `sys.settrace` whether any frame wants opcodes
        sys.settrace(self._trace_call)
        try:
            yield
        except BaseException:
            self._refusal = None  # whose traceback has this observer
            raise
        finally:
            sys.settrace(before)
            if _observer_lock is not None and _observer_lock._is_owned():  # not so in a process that the step forked
                _observer_lock.release()
            self.begin_instruction()
            self.end_turn = ignore_turn
            self._shadow_frames.clear()
            self._enclosing_frames.clear()
        if self._refusal is not None:
            try:
                raise self._refusal
            finally:
                self._refusal = None

    def find_callers(self, frame: FrameType) -> Iterator[FrameType]:
        """The frames of the step that have called this one, innermost first."""
        activation, outer = self._shadow_frames.get(frame), frame.f_back
        while activation is not None and not activation.outermost and outer is not None:
            if (known := self._shadow_frames.get(outer)) is not None:
                activation = known
                yield outer
            outer = outer.f_back

    def leave_frame(self, activation: ShadowFrame, frame: FrameType, value: object) -> None:
        """A frame was left, with `value`."""
        if activation.is_suspending(frame):
            return
        self._shadow_frames.pop(frame, None)
        caller = self._shadow_frames.get(frame.f_back) if frame.f_back is not None else None
        if caller is not None:
            caller.receive_result(frame.f_code, value, frame.f_locals)
        if activation.outermost:
            self.use(value, frame, looks_at=0)

    def _trace_call(self, frame: FrameType, event: str, arg: object) -> Function | None:
        """The trace function of the thread: called for each frame that is entered."""
        if not self.is_following:
            return None
        code = frame.f_code
        file = code.co_filename
        if file in trusted_files or not is_user_file(file):
            if file in FILES_WITH_IMPURE_CODES:
                what, caller = IMPURE_CODES.get(code), frame.f_back
                if what is None or caller is None or caller.f_code.co_filename.startswith(PACKAGE):
                    return None
                if frame.f_locals.get("a", self) is None or not self.is_own_generator(frame.f_locals.get("self")):
                    self.refuse(f"calls {code.co_name}(), which {what}", caller)
            return None
        if self._skipped_frame is not None or (file[:1] == "<" and id(frame.f_globals) in self._generated):
            return None
        called_from = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        if called_from.startswith("<frozen importlib") or code.co_name == "__del__" or code in self._interrupts:
            self._skipped_frame = frame
            frame.f_trace_lines = False
            return self._skip_frame
        if file[:1] == "<" and not is_user_namespace(frame.f_globals):
            self._generated[id(frame.f_globals)] = frame.f_globals
            return None
        activation = self._shadow_frames.get(frame)
        if activation is None:
            decoded = decode(code)
            if decoded.unknown_instruction is not None:
                self.refuse_instruction(decoded.unknown_instruction, frame)
                return None
            if is_resumed(frame, decoded):
                self.refuse(f"advances the generator {code.co_name!r}, which had begun before the step", frame)
            activation = self._shadow_frames[frame] = self._make_shadow_frame(frame, code)
        frame.f_trace_lines = False
        frame.f_trace = activation.trace  # before it asks for opcodes: Python 3.13 looks at both
        frame.f_trace_opcodes = True
        return activation.trace

    def _skip_frame(self, frame: FrameType, event: str, arg: object) -> Function:
        """The trace function of what is not the step's: what a module does while it is loaded, what interrupts it."""
        if event == "return" and frame is self._skipped_frame:
            self._skipped_frame = None
        return self._skip_frame

    def _make_shadow_frame(self, frame: FrameType, code: CodeType) -> ShadowFrame:
        outermost, self._started = not self._started, True
        caller = self._shadow_frames.get(frame.f_back) if frame.f_back is not None else None
        variables = frame.f_locals
        if outermost:
            defaults = _defaults_of(self._function)
            for argument in _argument_values(code, variables):
                if not any(argument is default for default in defaults):
                    self.take_argument(argument)
        called = caller.callee if caller is not None else self._function if outermost else None
        if isinstance(called, FunctionType) and called.__code__ is code:
            functions = [called]
        else:
            if (cached := self.cached_functions.get(code)) is not None:
                postpone_filling(self, cached, frame)
            functions = [*self._find_method(code, variables, frame)]
        cells: dict[str, list[CellType]] = {}
        nest = self._enclosing_frames.get(id(code))
        if not functions:
            functions = self._find_functions(code, variables, nested=nest is not None)
            if nest is not None:
                cells = {name: [*nest.cells.get(name, ())] for name in code.co_freevars}
        for function in functions:
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
                if id(cell) in self.preexisting.cells and not any(cell is c for c in cells.setdefault(name, [])):
                    cells[name].append(cell)
        for function in functions:
            self._read_definition(function, frame)
        activation = ShadowFrame(self, code, decode(code), cells, outermost, self.leave_frame)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._enclosing_frames[id(constant)] = activation
        return activation

    def _find_method(self, code: CodeType, variables: Mapping[str, object], frame: FrameType) -> Iterator[FunctionType]:
        """The function of a frame that is a method of its first argument."""
        if not code.co_argcount:
            return
        owner = variables.get(code.co_varnames[0])
        name, kind = code.co_name, owner if isinstance(owner, type) else type(owner)
        if name[:2] == "__" and name[-2:] != "__":
            return
        entry = find_class_entry(kind, name)
        if entry is MISSING:  # a method under another name than its function's
            same = (
                (n, e)
                for base in mro_of(kind)
                if is_user_class(base)
                for n, e in class_dict_of(base).items()
                if getattr(getattr(e, "__func__", e), "__code__", None) is code
            )
            name, entry = next(same, (name, entry))
        if isinstance(entry, property | functools.cached_property):
            parts = (entry.fget, entry.fset, entry.fdel) if isinstance(entry, property) else (entry.func,)
            function: object = next((f for f in parts if isinstance(f, FunctionType) and f.__code__ is code), None)
            place, held = AttributeSource(kind, name), cast(Any, entry)
        else:
            function = entry.__func__ if isinstance(entry, classmethod | staticmethod) else entry
            special = name[-2:] == "__" or not self.is_preexisting(owner)
            bound = isinstance(entry, classmethod) or not (special or isinstance(entry, staticmethod))
            place, held = AttributeSource(kind if special else owner, name, bound), function
        if isinstance(function, FunctionType) and function.__code__ is code:
            if self.is_preexisting(place.holder):
                self.read(place, held, frame)
                self.preexisting.add(function)
            yield function

    def _find_functions(self, code: CodeType, variables: Mapping[str, object], nested: bool) -> list[FunctionType]:
        """The functions that a frame may belong to: those of its code, with the same closure variables.

        One whose code is nested in what ran may also have been made just now, and is not searched for.
        """
        if not code.co_freevars and not code.co_argcount and not code.co_kwonlyargcount:
            return []
        if id(code) not in self.preexisting.functions and not nested:
            for function in gc.get_referrers(code):
                if isinstance(function, FunctionType) and function.__code__ is code:
                    self.preexisting.add(function)
        return [f for f in self.preexisting.functions.get(id(code), ()) if _matches_closure(f, variables)]

    def _read_definition(self, function: FunctionType, frame: FrameType) -> None:
        """Record the definition of a function: its code and its defaults, which may be replaced."""
        if not self.is_preexisting(function):
            return
        self.read(AttributeSource(function, "__code__"), function.__code__, frame)
        for name, held in (("__defaults__", function.__defaults__), ("__kwdefaults__", function.__kwdefaults__)):
            if held:
                self.read(AttributeSource(function, name), held, frame)
                self.use(held, frame)


def _argument_values(code: CodeType, variables: Mapping[str, object]) -> Iterator[Any]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    for name in code.co_varnames[:count]:
        yield variables.get(name)


def _defaults_of(function: object) -> tuple[object, ...]:
    """The default values of a function or method, which no call brings anew."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        return ()
    return (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _matches_closure(function: FunctionType, variables: Mapping[str, object]) -> bool:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            value = MISSING
        if variables.get(name, MISSING) is not value:
            return False
    return True


def _interrupts() -> frozenset[Any]:
    """The code of functions that Python calls between any two instructions: for the collector, and for signals."""
    signal = sys.modules.get("signal")  # whoever has set a handler has imported it
    handlers = [signal.getsignal(number) for number in signal.valid_signals()] if signal is not None else []
    return frozenset(code for f in (*gc.callbacks, *handlers) if (code := getattr(f, "__code__", None)) is not None)
