"""Tensors of modules whose shapes are not known yet, and how a module learns them from its first input."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

from adjoint.core.runtime.mode import ModeScope, undo_on_failure
from adjoint.core.tensor.size import Size
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import DeviceLike, DtypeLike, StateDict
from adjoint.functions.creation.creation import empty
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Buffer, Parameter
from adjoint.nn.module.state_dict import own_tensors

__all__ = ["LazyModuleMixin", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class Uninitialized(Tensor):
    """A tensor without a shape, until `materialize` gives it one."""

    __slots__ = ()
    materialized_type: ClassVar[type[Tensor]]

    def materialize(
        self, shape: int | tuple[int, ...] | Size, device: DeviceLike = None, dtype: DtypeLike = None
    ) -> None:
        """Take a shape, and become an ordinary tensor of this type, whose values are not set."""
        values = empty(shape, device=device, dtype=self.dtype if dtype is None else dtype)
        undo_on_failure(_keep_class, self)
        with ModeScope(recording=False):
            self.data = values
        kind: Any = self.materialized_type
        self.__class__ = kind

    @property
    def shape(self) -> Size:
        """Raise RuntimeError: there is no shape yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def numel(self) -> int:
        """Raise RuntimeError, as `shape` does."""
        return self.shape.numel()

    def share_memory_(self) -> Self:
        """Raise RuntimeError: there are no values yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self, **_: object) -> str:
        return f"<{type(self).__name__}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if id(self) not in memo:
            kind: Any = type(self)
            memo[id(self)] = kind(self.requires_grad, None, self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        return type(self), (self.requires_grad, None, self.dtype)


class UninitializedParameter(Uninitialized, Parameter):
    """A parameter whose shape the first input of its module says."""

    __slots__ = ()
    materialized_type = Parameter

    def __new__(cls, requires_grad: bool = True, device: DeviceLike = None, dtype: DtypeLike = None) -> Self:
        return super().__new__(cls, empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(Uninitialized, Buffer):
    """A buffer whose shape the first input of its module says."""

    __slots__ = ()
    materialized_type = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: DeviceLike = None, dtype: DtypeLike = None, persistent: bool = True
    ) -> Self:
        made = super().__new__(cls, empty(0, device=device, dtype=dtype), persistent=persistent)
        return made.requires_grad_(requires_grad)


def _keep_class(tensor: Tensor) -> Callable[[], None]:
    """Return what gives `tensor` the class that it has now."""
    kind = type(tensor)

    def restore() -> None:
        tensor.__class__ = kind

    return restore


def _keep_attributes(module: Module) -> Callable[[], None]:
    """Return what gives `module` the class, attributes and hooks that it has now."""
    kind, attributes = type(module), dict(vars(module))
    tables = {name: dict(held) for name, held in attributes.items() if isinstance(held, dict)}

    def restore() -> None:
        module.__class__ = kind
        vars(module).clear()
        vars(module).update(attributes)
        for name, entries in tables.items():
            vars(module)[name].clear()
            vars(module)[name].update(entries)

    return restore


def is_lazy(param: Tensor | None) -> bool:
    """Return True if a parameter or buffer has no shape yet."""
    return isinstance(param, Uninitialized)


def check_initialized(param: Tensor, what: str, doing: str) -> None:
    """Raise ValueError if a parameter that `what` is to work on has no shape yet."""
    if is_lazy(param):
        raise ValueError(
            f"The module passed to `{what}` can't have uninitialized parameters. Make sure to run the dummy forward "
            f"before applying {doing}"
        )


if TYPE_CHECKING:
    ModuleBase = Module  # of the classes that have the mixin
else:
    ModuleBase = object


class LazyModuleMixin(ModuleBase):
    """Mixin before a Module among the bases: `initialize_parameters` gets the first input and gives shapes by it.

    It must `materialize` all uninitialized parameters and buffers of the module. The module then becomes a
    `cls_to_become`, if that is not None. The first call raises RuntimeError if some are left.
    """

    cls_to_become: ClassVar[type[Module] | None] = None

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(self._infer_parameters, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give all parameters their shapes. Subclasses define it."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return True if a parameter or buffer has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _save_to_state_dict(self, destination: StateDict, prefix: str, keep_vars: bool) -> None:
        for name, tensor in own_tensors(self):
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()

    def _lazy_load_hook(self, state_dict: StateDict, prefix: str, *_: object) -> None:
        """Take the shapes of the tensors that are about to be loaded."""
        for name, tensor in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if given is not None and isinstance(tensor, Uninitialized) and not is_lazy(given):
                tensor.materialize(given.shape)

    def _infer_parameters(self, module: Any, args: tuple[object, ...], kwargs: dict[str, object] | None = None) -> None:
        undo_on_failure(_keep_attributes, module)
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        for name in ("_initialize_hook", "_load_hook"):
            getattr(module, name).remove()
            delattr(module, name)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> Module:
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy forward pass to "
            "correctly initialize the modules"
        )
