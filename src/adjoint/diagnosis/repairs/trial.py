"""Trials of expressions: the user's expression is carried out again, on copies, as it stands and as it could stand."""

from __future__ import annotations

import ast
import builtins
import copy
import inspect
import operator
import threading
import time
import warnings
from types import BuiltinFunctionType, FrameType, ModuleType

import numpy as np

from adjoint.core.graph.source_location import library_files
from adjoint.core.random.generator import Generator, default_generator
from adjoint.core.runtime.mode import ModeScope, mode, nondefault
from adjoint.core.runtime.package_name import is_name_of_package
from adjoint.core.tensor.memory_format import preserve_format
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.tensor.torch_function import DispatchedFunction
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import Stack
from adjoint.diagnosis.operands import MISSING, evaluate, is_module

MAX_COPIED_ELEMENTS = 1 << 20
MAX_COPIED_ITEMS = 1 << 10
MIN_SECONDS, MAX_SHARE = 1.0, 0.5  # of the time of the thread, for trials in all: errors that are caught may be many
read_clock = getattr(time, "thread_time", time.process_time)  # a browser has no threads, and no clock of theirs
PURE_BUILTINS = frozenset(
    (
        "abs",
        "bool",
        "complex",
        "dict",
        "enumerate",
        "float",
        "int",
        "iter",
        "len",
        "list",
        "max",
        "min",
        "next",
        "range",
        "reversed",
        "round",
        "set",
        "slice",
        "sorted",
        "str",
        "sum",
        "tuple",
        "zip",
    )
)
# they change what no copy holds, or wait
EFFECTS = frozenset(
    (
        "backward",
        "compile",
        "export",
        "load",
        "manual_seed",
        "open",
        "optimize_for_inference",
        "register_hook",
        "retain_grad",
        "save",
        "seed",
        "share_memory_",
        "step",
        "to_file",
        "tofile",
    )
)
SETTERS = ("set_", "use_", "enable_")  # how functions begin that change what all others do
STORES = {"setitem()": operator.setitem, "setattr()": setattr}  # of statements that store, by names that none has
PLAIN_TYPES = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), slice, range, np.generic, np.dtype)
FORBIDDEN = (ast.Lambda, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


class _TrialState(threading.local):
    """The calling thread's state: True while it carries out a trial, whose errors nobody explains."""

    active = False
    spent = 0.0  # seconds


running = _TrialState()


class UntriableError(Exception):
    """An expression that cannot be carried out again without an effect, or without running the user's code."""


class Trial:
    """An expression of a frame, with copies of the values that it names."""

    def __init__(self, expression: ast.expr, frame: FrameType) -> None:
        self.expression, self.frame = expression, frame
        self.recording = mode.recording
        self.count = 0  # elements that were copied
        self.memo: dict[int, tuple[object, Operand]] = {}  # copies by identity, with what they are copies of
        self.stack: Stack = []  # from the frame outward, where what follows in the callers matters too
        self.given: dict[str, Operand] = {}  # values of names that the frame does not know yet, or knows otherwise

    def fails_alike(self, error: BaseException) -> bool:
        """Return whether the expression, as it stands, fails as it did."""
        for self.recording in (mode.recording, False):  # a block of no_grad has ended before an error is explained
            try:
                self.run(self.expression)
            except UntriableError:
                return False
            except Exception as own:  # noqa: BLE001  what the user's line may raise
                if type(own) is type(error) and str(own) == str(error):
                    return True
        return False

    def run(self, expression: ast.expr) -> Operand:
        """Return the value of an expression of the frame's names, computed of copies. Raises what it raises."""
        start = read_clock()
        if running.spent > MIN_SECONDS + MAX_SHARE * start:
            raise UntriableError
        if nondefault.count and (mode.interpreter or mode.forward_levels or mode.saved_tensor_hooks):
            raise UntriableError  # a trace or a transform would take the ops for the user's
        self.memo, self.count = {}, 0
        binder = _Binder(self)
        state = default_generator.get_state()
        running.active = True
        try:
            with warnings.catch_warnings(), ModeScope(anomaly_detector=None):  # who watches ops sees none of these
                warnings.simplefilter("ignore")
                bound = ast.Expression(binder.visit(copy.deepcopy(expression)))
                for node in ast.walk(bound):  # `ast.fix_missing_locations` leaves a reference cycle at each call
                    if "lineno" in node._attributes:
                        vars(node).update(lineno=1, end_lineno=1, col_offset=0, end_col_offset=0)
                with ModeScope(recording=self.recording):
                    return eval(compile(bound, "<trial>", "eval"), binder.values)  # of safe calls alone
        finally:
            running.active = False
            running.spent += read_clock() - start
            default_generator.set_state(state)

    def copy(self, value: Operand) -> Operand:
        """Return a copy of a value of the library, of NumPy or of Python. Raises UntriableError for others."""
        known = self.memo.get(id(value))
        if known is None:
            known = self.memo[id(value)] = value, self._copy(value)
        return known[1]

    def _copy(self, value: Operand) -> Operand:
        if isinstance(value, PLAIN_TYPES) or value is NotImplemented:
            return value
        if isinstance(value, Tensor):
            if not _is_of_library(type(value)) or not isinstance(value.array, np.ndarray):
                raise UntriableError
            self._count(value.numel())
            made = value.detach().clone(memory_format=preserve_format)
            return made.requires_grad_(value.requires_grad)
        if type(value) is np.ndarray and value.dtype.kind != "O":
            self._count(value.size)
            return value.copy(order="K")
        if type(value) in (list, tuple, set):
            self._count(len(value), MAX_COPIED_ELEMENTS // MAX_COPIED_ITEMS)
            return type(value)(map(self.copy, value))
        if type(value) is dict or type(value).__name__ == "OrderedDict":
            self._count(len(value), MAX_COPIED_ELEMENTS // MAX_COPIED_ITEMS)
            return type(value)((self.copy(key), self.copy(each)) for key, each in value.items())
        if is_module(value):
            return self._copy_module(value)
        if type(value) is Generator:
            generator = Generator()
            generator.set_state(value.get_state())
            return generator
        if isinstance(value, tuple) and _is_of_library(type(value)):
            parts = [self.copy(each) for each in value]
            return type(value)._make(parts) if hasattr(value, "_make") else type(value)(parts)
        is_function = isinstance(value, (type, ModuleType)) or callable(value)
        if is_function and is_safe(value):
            return value
        if is_function:
            raise UntriableError
        if _is_of_library(type(value)) and hasattr(value, "param_groups"):
            for group in value.param_groups:
                self.copy(group["params"])  # to count them
            return copy.deepcopy(value)
        is_stateless = _is_of_library(type(value)) and not hasattr(value, "__next__")
        if is_stateless and all(map(_is_own, getattr(value, "__dict__", {}).values())):
            return value  # a dtype, a device, a loader of the library's dataset: no call of a trial changes them
        raise UntriableError

    def _copy_module(self, module: Operand) -> Operand:
        parts = list(module.modules())
        tables = [table for each in parts for name, table in vars(each).items() if name.endswith("hooks")]
        if not all(_is_of_library(type(each)) for each in parts) or any(tables):
            raise UntriableError
        for each in (*module.parameters(), *module.buffers()):
            if not isinstance(each.array, np.ndarray):
                raise UntriableError
            self._count(each.numel())
        if any(isinstance(each, Tensor) and each.node is not None for part in parts for each in vars(part).values()):
            raise UntriableError  # it keeps a result, which has no copy
        return copy.deepcopy(module)

    def _count(self, elements: int, factor: int = 1) -> None:
        self.count += elements * factor
        if self.count > MAX_COPIED_ELEMENTS:
            raise UntriableError


def compute(node: ast.expr, frame: FrameType) -> Operand:
    """Return the value of an expression, computed again of copies where it is no name; MISSING where it cannot be."""
    value = evaluate(node, frame)
    if value is not MISSING:
        return value
    try:
        return Trial(node, frame).run(node)
    except Exception:  # noqa: BLE001  the expression may be the one that failed
        return MISSING


def runs(node: ast.expr, frame: FrameType) -> bool:
    """Return whether an expression can be carried out on copies, and raises nothing."""
    try:
        Trial(node, frame).run(node)
    except Exception:  # noqa: BLE001  what a changed line may raise
        return False
    return True


def is_safe(function: Operand) -> bool:
    """Return whether a call runs code of the library, NumPy or Python alone, and has no effect outside of it."""
    if isinstance(function, DispatchedFunction):  # as all are, once a subclass of Tensor is there
        function = function.function
    name = getattr(function, "__name__", "")
    if is_module(function) or name in EFFECTS or name.startswith(SETTERS):
        return False
    if any(function is each for each in STORES.values()):
        return True
    if isinstance(function, type):
        pure = PURE_BUILTINS | {"object"}
        return _is_of_library(function) or (function.__module__ == "builtins" and function.__name__ in pure)
    code = getattr(function, "__code__", None)
    if code is not None:
        return library_files[code.co_filename]
    if isinstance(function, (BuiltinFunctionType, np.ufunc)) or inspect.ismethoddescriptor(function):
        owner = getattr(function, "__module__", None) or "builtins"
        is_pure = owner == "builtins" and vars(builtins).get(function.__name__) is function
        return (is_pure and function.__name__ in PURE_BUILTINS) or owner.partition(".")[0] in (
            "numpy",
            "math",
            "_operator",
        )
    return callable(function) and _is_of_library(type(function))


def _is_of_library(kind: type) -> bool:
    return is_name_of_package(kind.__module__) or kind.__module__.partition(".")[0] == "numpy"


def _is_own(value: object) -> bool:
    """Return whether a value that an object holds is Python's, NumPy's or the library's own."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_own, value))
    return isinstance(value, PLAIN_TYPES) or _is_of_library(type(value)) or (callable(value) and is_safe(value))


class _Binder(ast.NodeTransformer):
    """Names, attributes and functions of an expression, bound to copies of their values."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.own = trial, set[str]()
        self.values: dict[str, Operand] = {"__builtins__": {}}

    def visit(self, node: ast.AST) -> Operand:
        if isinstance(node, FORBIDDEN):
            raise UntriableError
        if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)):
            return self._visit_comprehension(node)
        return super().visit(node)

    def _bind(self, value: Operand) -> ast.Name:
        name = f"_{len(self.values)}"
        self.values[name] = self.trial.copy(value)
        return ast.Name(name, ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.own:
            return node
        value = STORES.get(node.id, self.trial.given.get(node.id, MISSING))
        value = evaluate(node, self.trial.frame) if value is MISSING else value
        if value is MISSING:
            raise UntriableError
        return self._bind(value)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if node.attr.startswith("_") or node.attr in EFFECTS:
            raise UntriableError
        is_given = any(isinstance(each, ast.Name) and each.id in self.trial.given for each in ast.walk(node))
        value = MISSING if is_given else evaluate(node, self.trial.frame)
        if value is not MISSING:
            return self._bind(value)
        owner = MISSING if is_given else evaluate(node.value, self.trial.frame)
        if isinstance(owner, ModuleType) and is_safe(getattr(owner, node.attr, None)):
            return self._bind(getattr(owner, node.attr))
        return ast.Attribute(self.visit(node.value), node.attr, ast.Load())

    def _visit_comprehension(self, node: Operand) -> Operand:
        names = {part.id for each in node.generators for part in ast.walk(each.target) if isinstance(part, ast.Name)}
        before, self.own = self.own, self.own | names
        result = self.generic_visit(node)
        self.own = before
        return result
