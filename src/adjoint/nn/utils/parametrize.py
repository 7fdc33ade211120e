"""Parameters that are functions of others: computed anew whenever they are read, from what is trained instead."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, NoReturn

from adjoint.core.dtype.dtype import dtype
from adjoint.core.runtime.mode import ModeScope
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.nn.containers.containers import ModuleDict, ModuleList
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations"]
__all__ += ["transfer_parametrizations_and_params", "type_before_parametrizations"]


class ParametrizationCache:
    """Number of open `cached` blocks, and the values computed in them."""

    depth: ClassVar[int] = 0
    found: ClassVar[dict[tuple[int, str], Tensor]] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor only once within the block, when it is first read."""
    ParametrizationCache.depth += 1
    try:
        yield
    finally:
        ParametrizationCache.depth -= 1
        if not ParametrizationCache.depth:
            ParametrizationCache.found = {}


class ParametrizationList(ModuleList):
    """Modules that compute a tensor in sequence from `original`, or from `original0`, ….

    Raises: ValueError if a `right_inverse` gives first values of another type. Unless `unsafe`, also where the tensor
    would get another shape or type.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, kind = tuple(original.shape), original.dtype
        with ModeScope(recording=False):
            value: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        value = module.right_inverse(value)
        if not isinstance(value, Tensor) and not isinstance(value, Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(value).__name__}"
            )
        self.is_tensor = isinstance(value, Tensor)
        self.ntensors = 1 if self.is_tensor else len(value)
        if isinstance(value, Tensor):
            if value.dtype != kind:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {kind}\nright_inverse(original).dtype: {value.dtype}"
                )
            _assign_values(original, value)
            _register(self, "original", original)
        else:
            for i, each in enumerate(value):
                if not isinstance(each, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                        f"{i} of the sequence with type {type(each).__name__}."
                    )
                held = each.detach()
                if isinstance(original, Parameter):
                    held = Parameter(held, original.requires_grad)
                _register(self, f"original{i}", held)
        if not unsafe:
            _check("Registering a parametrization", self(), shape, kind)

    def right_inverse(self, value: Tensor) -> None:
        """Take the originals of which the tensor would be `value`. Raises RuntimeError if a module cannot say them."""
        with ModeScope(recording=False):
            found: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                found = module.right_inverse(found)
            if self.is_tensor:
                if not isinstance(found, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(found).__name__}")
                _assign_values(self.original, found, self.original.dtype)
                return
            if not isinstance(found, Sequence) or len(found) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of {pluralize(self.ntensors, 'tensor')}, as at first. "
                    f"Got {found!r}"
                )
            for i, each in enumerate(found):
                own = getattr(self, f"original{i}")
                _assign_values(own, each, own.dtype)

    def forward(self) -> Tensor:
        first, *rest = self
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        x: Tensor = first(*(getattr(self, name) for name in names))
        for module in rest:
            x = module(x)
        return x


def _assign_values(own: Tensor, value: Tensor, kind: dtype | None = None) -> None:
    """Let a tensor, which stays the same object, have these values and this shape."""
    if kind is not None and value.dtype != kind:
        raise ValueError(f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has {kind}")
    if value is own:
        return
    with ModeScope(recording=False):
        if tuple(value.shape) == tuple(own.shape):
            own.copy_(value)
        else:
            own.data = value.detach().clone()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check(what: str, found: object, shape: tuple[int, ...], kind: dtype) -> None:
    if not isinstance(found, Tensor):
        raise ValueError(f"{what} must return a tensor. Got {type(found).__name__}.")
    if found.dtype != kind:
        raise ValueError(
            f"{what} may not change the dtype of the tensor, unless the `unsafe` flag is enabled.\n"
            f"unparametrized dtype: {kind}\nparametrized dtype: {found.dtype}"
        )
    if tuple(found.shape) != shape:
        raise ValueError(
            f"{what} may not change the shape of the tensor, unless the `unsafe` flag is enabled.\n"
            f"unparametrized shape: {shape}\nparametrized shape: {tuple(found.shape)}"
        )


def _check_inverse(found: object, own: Tensor, name: str) -> None:
    if not isinstance(found, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got {type(found).__name__}.")
    for what in ("dtype", "shape"):
        if getattr(found, what) != getattr(own, what):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, "
                f"unless the `unsafe` flag is enabled.\nmodule.{name}.{what}: {getattr(own, what)}\n"
                f"returned {what}: {getattr(found, what)}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let `module.tensor_name` be `parametrization` of what it was, which stands in `module.parametrizations` now.

    A `right_inverse` of the parametrization gives the first values, and those when the tensor is assigned to. Raises
    ValueError for names of no parameter or buffer and, unless `unsafe`, where shape or type would change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        held = module.parametrizations[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            _check("Registering a parametrization", after, tuple(before.shape), before.dtype)
            if hasattr(parametrization, "right_inverse"):
                _check_inverse(parametrization.right_inverse(after), before, tensor_name)
        held.append(parametrization)
        held.unsafe = held.unsafe or unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(type(module), tensor_name)
        module.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _inject_new_class(module: Module) -> None:
    """Put a class between the module and its own, for properties of this one module."""
    kind = type(module)

    def refuse(self: Module) -> NoReturn:
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")

    def deepcopy_module(self: Module, memo: dict[int, Any]) -> Module:
        if id(self) not in memo:
            twin = memo[id(self)] = self.__new__(type(self))
            state = {k: v for k, v in self.__dict__.items() if k not in ("_compiled_call_impl", "_detours")}
            own = type(self)
            fields = {k: v for k, v in vars(own).items() if k != "__weakref__"}
            twin.__class__ = type(own.__name__, own.__bases__, fields)
            twin.__setstate__(copy.deepcopy(state, memo))
        return memo[id(self)]

    fields = {
        "__getstate__": refuse,
        "__deepcopy__": deepcopy_module,
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
    }
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), fields)


def _inject_property(kind: type[Module], name: str) -> None:
    def read(self: Module) -> Tensor:
        if not ParametrizationCache.depth:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in ParametrizationCache.found:
            ParametrizationCache.found[key] = self.parametrizations[name]()
        return ParametrizationCache.found[key]

    def write(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(kind, name, property(read, write))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return True if this tensor of the module, or any if none is named, is parametrized."""
    held = module._modules.get("parametrizations")
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor an ordinary one again: with its values of now, or else those of its original.

    Raises ValueError if it is not parametrized, or if there are several originals and none of them is it.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if not held.is_tensor and not leave_parametrized:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    original = held.original if held.is_tensor else held.original0
    if leave_parametrized:
        with ModeScope(recording=False):
            value = getattr(module, tensor_name).detach()
        if held.is_tensor:
            _assign_values(original, value)
        else:
            original = Parameter(value.clone(), original.requires_grad) if isinstance(original, Parameter) else value
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that the module had before any parametrization."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrize a module of the same class as another one is, with its originals; one tensor, or all.

    Raises AssertionError if the first is not parametrized.
    """
    if not is_parametrized(from_module):
        return to_module
    if type_before_parametrizations(from_module) is not type_before_parametrizations(to_module):
        raise AssertionError("both modules must be of one class")
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, copy.deepcopy(getattr(from_module, name).detach()))
        held = from_module.parametrizations[name]
        for parametrization in held:
            register_parametrization(to_module, name, parametrization, unsafe=held.unsafe)
        other = to_module.parametrizations[name]
        for key, value in held._parameters.items():
            _assign_values(getattr(other, key), value)
    return to_module
