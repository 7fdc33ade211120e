"""PyTorch's protocol `__torch_function__`: subclasses of Tensor, and modes, that see the calls of public functions.

Nothing of it is active until the first subclass is defined or the first mode entered. Then the public functions are
replaced, by name, by ones that dispatch to `__torch_function__`, and so are the methods of the subclass.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from functools import update_wrapper
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any, NamedTuple

from adjoint.core.runtime.fork_safety import reset_after_fork
from adjoint.core.runtime.lazy_import import names_of
from adjoint.core.runtime.package_name import display_name
from adjoint.core.runtime.slot import Slot
from adjoint.core.typing import Function, Params

NEVER_DISPATCHED = frozenset({"is_storage", "is_tensor", "manual_seed", "typename"})
# The methods that Python's operators come to, for which `__torch_function__` is asked.
OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__matmul__": "matmul", "__pow__": "pow", "__neg__": "neg", "__abs__": "abs", "__eq__": "eq", "__ne__": "ne",
    "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__iadd__": "add_", "__isub__": "sub_",
    "__imul__": "mul_", "__itruediv__": "div_", "__and__": "__and__", "__or__": "__or__", "__xor__": "__xor__",
    "__invert__": "bitwise_not", "__getitem__": "__getitem__", "__setitem__": "__setitem__", "__len__": "__len__",
    "__rsub__": "__rsub__", "__rtruediv__": "__rdiv__", "__rpow__": "__rpow__", "__rmatmul__": "__rmatmul__",
    "__mod__": "remainder", "__floordiv__": "__floordiv__", "__repr__": "__repr__", "__float__": "__float__",
    "__int__": "__int__", "__bool__": "__bool__", "__deepcopy__": "__deepcopy__", "__contains__": "__contains__",
}  # fmt: skip
TENSOR_SLOTS = ("array", "node", "storage_")  # where a tensor's own are
METHODS_NEVER_DISPATCHED = frozenset({"as_subclass", "numpy_view", "_make_subclass"})


class DispatchScope(NamedTuple):
    """Modules whose functions ask for overrides."""

    namespaces: dict[str, str]  # public modules, each with the prefix that PyTorch gives its functions
    implementations: tuple[str, ...]  # packages that define the functions
    importers: tuple[str, ...]  # beginnings of the names of modules that have imported some of them


dispatch_scope_slot: Slot[Callable[[], DispatchScope]] = Slot("dispatch_scope")


class OverrideState(threading.local):
    """The calling thread's state: whether subclasses are asked, and the active modes, innermost last."""

    subclasses_enabled = True
    modes: tuple[Any, ...] = ()


state = OverrideState()


class DisableTorchFunctionGuard:
    """A block in which `subclasses` are not asked, nor the modes from `depth` on."""

    def __init__(self, depth: int | None = None, subclasses: bool = True) -> None:
        self.depth, self.subclasses = depth, subclasses
        self.before: list[tuple[bool, tuple[Any, ...]]] = []

    def __enter__(self) -> None:
        self.before.append((state.subclasses_enabled, state.modes))
        state.subclasses_enabled = state.subclasses_enabled and not self.subclasses
        if self.depth is not None:
            state.modes = state.modes[: self.depth]

    def __exit__(self, *error: object) -> None:
        state.subclasses_enabled, state.modes = self.before.pop()


class DispatchedFunction:
    """A public function that dispatches first. Tables also find it under the original function."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.__name__ = ""
        update_wrapper(self, function)
        self.__defaults__, self.__kwdefaults__ = function.__defaults__, function.__kwdefaults__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if state.modes or state.subclasses_enabled:
            asked = overriding_arguments(_flatten_arguments(args, kwargs)) if state.subclasses_enabled else []
            if asked or state.modes:
                return dispatch(self, asked, args, kwargs)
        return self.function(*args, **kwargs)

    def __get__(self, holder: object, kind: object = None) -> Any:
        return self if holder is None else MethodType(self, holder)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __reduce__(self) -> str:
        return self.function.__qualname__

    def __repr__(self) -> str:
        return repr(self.function)


def _flatten_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterable[object]:
    """Yield the arguments, and the elements of lists and tuples among them."""
    for x in (*args, *kwargs.values()) if kwargs else args:
        if type(x) in (list, tuple):
            yield from x
        else:
            yield x


def overriding_arguments(given: Iterable[object]) -> list[Any]:
    """Return the arguments that override functions, one of each type, subclasses before their bases."""
    asked: list[Any] = []
    for x in given:
        if has_own_torch_function(type(x)) and type(x) not in map(type, asked):
            place = next((i for i, other in enumerate(asked) if isinstance(x, type(other))), len(asked))
            asked.insert(place, x)
    return asked


def has_own_torch_function(kind: type) -> bool:
    """Return whether a class overrides functions: not with `disabled_torch_function_impl`."""
    found = getattr(kind, "__torch_function__", None)
    if found is None or found is disabled_torch_function_impl:
        return False
    # Tensor has the answer, and gives none
    return kind in _subclasses or getattr(found, "__func__", None) is not default_torch_function


def dispatch(
    function: object, asked: list[Any], args: tuple[object, ...], kwargs: dict[str, Any], otherwise: object = None
) -> Any:
    """Return the first result that is not NotImplemented, of the innermost mode or of an argument.

    Raises TypeError if there is none, unless `otherwise` is given.
    """
    kinds = tuple(map(type, asked))
    if state.modes:
        depth = len(state.modes) - 1
        mode = state.modes[depth]
        with DisableTorchFunctionGuard(depth, subclasses=False):
            found = mode.__torch_function__(function, kinds, args, kwargs)
        if found is not NotImplemented:
            return found
    for x in asked:
        found = x.__torch_function__(function, kinds, args, kwargs)
        if found is not NotImplemented:
            return found
    if otherwise is not None:
        return otherwise
    named = getattr(function, "__name__", function)
    raise TypeError(
        f"Multiple dispatch failed for '{display_name.package}.{named}'; all __torch_function__ handlers returned "
        "NotImplemented:\n\n" + "\n".join(f"  - tensor subclass {kind}" for kind in kinds)
    )


def default_torch_function(
    cls: type, function: Function, types: Iterable[type], args: Iterable[Any] = (), kwargs: Params | None = None
) -> Any:
    """Call the function, and convert the tensors of its result to the subclass: the default of subclasses."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionGuard():
        found = function(*args, **(kwargs or {}))
    name = getattr(getattr(function, "__self__", None), "fget", None)
    return found if getattr(name, "__name__", "") in ("grad", "_grad", "_base") else _convert_to_subclass(found, cls)


def disabled_torch_function_impl(
    function: Function, types: Iterable[type], args: Iterable[Any] = (), kwargs: Params | None = None
) -> Any:
    """Call the function as for plain tensors: for subclasses that override nothing."""
    with DisableTorchFunctionGuard():
        return function(*args, **(kwargs or {}))


_subclasses: set[type] = set()
_shadowing: set[type] = set()  # those with attributes of their own under the names of SLOTS
_root: list[type] = []


def register_subclass(kind: Any, root: type) -> None:
    """Make the methods of the new subclass `root` of Tensor dispatch."""
    _root[:] = [root]
    ours = kind.__module__.partition(".")[0] == "adjoint" or kind in _root
    if not ours and kind.__torch_function__ is not disabled_torch_function_impl:
        dispatch_on_subclass(kind)


def dispatch_on_subclass(kind: Any) -> None:
    """Make functions, and the methods of a subclass of Tensor, ask its `__torch_function__`."""
    patch_functions()
    root = _root[0]
    _subclasses.add(kind)
    for name, seen_as in OPERATORS.items():
        if _is_from_root(kind, name):
            setattr(kind, name, _operator(name, getattr(root, seen_as, getattr(root, name))))
    if "__getattribute__" not in vars(kind):
        kind.__getattribute__ = _get
    if any(not _is_from_root(kind, name) for name in TENSOR_SLOTS):
        _shadowing.add(kind)
        kind.__setattr__ = _set


def _operator(name: str, function: Function) -> Function:
    own = getattr(_root[0], name)
    shown = _dispatched_method(function, name)

    def call(self: object, *args: object, **kwargs: object) -> Any:
        if not state.subclasses_enabled and not state.modes:
            return own(self, *args, **kwargs)
        asked = overriding_arguments((self, *args)) if state.subclasses_enabled else []
        if not asked and not state.modes:
            return own(self, *args, **kwargs)
        if name.startswith("__r") and not shown.__name__.startswith("__r"):  # `add`, for `__radd__`
            return dispatch(shown, asked, (*args, self), kwargs)
        return dispatch(shown, asked, (self, *args), kwargs)

    call.__name__ = name
    return call


def _get(self: object, name: str) -> Any:
    """Get an attribute of a tensor of a subclass; methods and properties of Tensor dispatch."""
    kind = type(self)
    if name in TENSOR_SLOTS and kind in _shadowing and _called_by_us():
        return vars(_root[0])[name].__get__(self)
    if not state.subclasses_enabled or name in METHODS_NEVER_DISPATCHED or name[:2] == "__":
        return object.__getattribute__(self, name)
    held = _find_in_mro(kind, name)
    if isinstance(held, FunctionType) and _is_from_root(kind, name):
        return MethodType(_dispatched_method(held, name), self)
    if isinstance(held, property) and _is_from_root(kind, name):
        getter = held.__get__
        return dispatch(getter, overriding_arguments((self,)), (self,), {})
    return object.__getattribute__(self, name)


def _set(self: object, name: str, value: object) -> None:
    """Set an attribute, for a subclass that has attributes under the names of Tensor's own."""
    if name in TENSOR_SLOTS and _called_by_us():
        vars(_root[0])[name].__set__(self, value)
    else:
        object.__setattr__(self, name, value)


def _called_by_us() -> bool:
    module: str = sys._getframe(2).f_globals.get("__name__", "")
    return module.startswith("adjoint.")


_methods: dict[Function, DispatchedFunction] = {}


def _dispatched_method(function: Function, name: str) -> DispatchedFunction:
    """Return the method under which overrides see the call; operators have their own."""
    if isinstance(function, DispatchedFunction):
        return function
    shown = _methods.setdefault(function, DispatchedFunction(function))
    if OPERATORS.get(name, "").startswith("__"):
        shown.__name__ = OPERATORS[name]
    return shown


def _find_in_mro(kind: type, name: str) -> Any:
    for base in kind.__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None


def _is_from_root(kind: type, name: str) -> bool:
    """Return whether the attribute is Tensor's, not one of the subclass or of another base."""
    for base in kind.__mro__:
        if name in vars(base):
            return issubclass(_root[0], base) and base is not object
    return False


def _convert_to_subclass(found: Any, cls: type) -> Any:
    if isinstance(found, _root[0]):
        if cls is _root[0] or isinstance(found, cls) or type(found) in _subclasses:
            return found
        with DisableTorchFunctionGuard():
            return found.as_subclass(cls)  # type: ignore[attr-defined]
    if isinstance(found, (tuple, list)):
        made = [_convert_to_subclass(x, cls) for x in found]
        return type(found)(*made) if hasattr(found, "_fields") else type(found)(made)
    return found


_patched_names: list[tuple[dict[str, Any], str, DispatchedFunction]] = []  # a module's names, one of them, its value


def patch_functions() -> None:
    """Replace the public functions by dispatching ones, if that was not done before."""
    if _patched_names:
        return
    made: dict[int, DispatchedFunction] = {}
    scope = dispatch_scope_slot.call()
    for space, prefix in scope.namespaces.items():
        module = import_module(space)
        for name in dir(module):
            found = getattr(module, name, None)
            if id(found) in made or not isinstance(found, FunctionType) or name in NEVER_DISPATCHED:
                continue
            if found.__module__.startswith(scope.implementations):
                made[id(found)] = DispatchedFunction(found)
                made[id(found)].__name__ = prefix + found.__name__
    for name, module in list(sys.modules.items()):
        if name in scope.namespaces or name == "torch" or name.startswith((*scope.importers, "torch.")):
            names = names_of(module)
            for key, value in list(names.items()):
                if id(value) in made:
                    names[key] = made[id(value)]
                    _patched_names.append((names, key, names[key]))


def unpatch_functions() -> None:
    """Restore the public functions; existing subclasses are then asked by their methods only."""
    while _patched_names:
        names, key, dispatched = _patched_names.pop()
        if names.get(key) is dispatched:  # nobody else has replaced it since
            names[key] = dispatched.function


def push_mode(mode: Any) -> None:
    """Let a mode see this thread's calls; the methods of all tensors dispatch while one does."""
    patch_functions()
    with _methods_lock:
        if not _pushed_modes:
            _replace_methods()
        _pushed_modes.append(mode)
    state.modes = (*state.modes, mode)


def pop_mode() -> None:
    """Remove the mode that `push_mode` added last."""
    state.modes = state.modes[:-1]
    with _methods_lock:
        _pushed_modes.pop()
        if not _pushed_modes:
            for base, name, held in _original_methods:
                setattr(base, name, held)
            _original_methods.clear()


_methods_lock = reset_after_fork(threading.RLock())
_pushed_modes: list[Any] = []
_original_methods: list[tuple[type, str, object]] = []


def dispatch_on_operands() -> None:
    """Make the methods of all tensors dispatch on their arguments, which may be of foreign classes, for good."""
    patch_functions()
    with _methods_lock:
        if not _pushed_modes:
            _replace_methods()
        _pushed_modes.insert(0, None)


def _replace_methods() -> None:
    for base in _root[0].__mro__[:-1]:
        for name, held in list(vars(base).items()):
            if (
                isinstance(held, FunctionType)
                and name not in METHODS_NEVER_DISPATCHED
                and (name[:2] != "__" or name in OPERATORS)
            ):
                shown = _dispatched_method(held, name)
                _original_methods.append((base, name, held))
                setattr(base, name, _operator_of_all(name, held, shown) if name in OPERATORS else shown)


def _operator_of_all(name: str, held: Function, shown: DispatchedFunction) -> Function:
    seen_as = getattr(_root[0], OPERATORS[name], held)
    named = _dispatched_method(seen_as, name)

    def call(self: object, *args: object, **kwargs: object) -> Any:
        if not state.modes:
            found = held(self, *args, **kwargs)
            asked = overriding_arguments(args) if found is NotImplemented and state.subclasses_enabled else []
            if not asked:
                return found
        turned = name.startswith("__r") and not named.__name__.startswith("__r")
        given = (*args, self) if turned else (self, *args)
        if state.modes:
            return dispatch(named, overriding_arguments((self, *args)), given, kwargs)
        try:
            return dispatch(named, asked, given, kwargs)
        except TypeError:  # nobody answers: Python goes on to the operand's own operator
            return NotImplemented

    call.__name__ = name
    return call
