"""The module: parameters, buffers and other modules under names, and a forward which calls functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, Self, cast, get_type_hints

from adjoint.core.op.signature import check_keywords
from adjoint.core.runtime.compile_slot import compile_slot
from adjoint.core.runtime.mode import mode, nondefault
from adjoint.core.runtime.notebook import show_in_notebook
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, StateDict
from adjoint.nn.module import hooks, module_path, registration, traversal
from adjoint.nn.module import load_state_dict as loading
from adjoint.nn.module import state_dict as state
from adjoint.nn.module import to as conversion
from adjoint.nn.module.call_with_hooks import call_with_hooks
from adjoint.nn.module.hooks import global_hooks, has_hooks
from adjoint.nn.module.module_state import module_class_slot
from adjoint.nn.module.parameter import Buffer, Parameter

__all__ = ["Module"]


class Module:
    """Base class of all layers and models.

    A subclass calls `super().__init__()`, assigns parameters, buffers and modules as attributes, and defines `forward`.
    Assignment registers them by attribute name. A call of the module runs its hooks and `forward`.

    Args:
        args, kwargs: only for `call_super_init = True`, which passes them on to the next base class.

    Attributes:
        training: True after `train()` and at first, False after `eval()`.

    Raises: TypeError for arguments without `call_super_init`, NotImplementedError in a call without `forward`.

    Example:
        >>> class Scale(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.weight = nn.Parameter(ad.ones(2))
        >>> [name for name, _ in Scale().named_parameters()]
        ['weight']
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]
    _state_key_versions: ClassVar[dict[str, int]] = {}  # the `_version` of the class that brought a name into the state
    call_super_init: bool = False  # whether `__init__` goes on to the next class among the bases
    _compiled_call_impl: Function | None = None

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        if kwargs:
            check_keywords(cls, kwargs)
        make: Function = super().__new__  # of a class that is another base of the module's
        return cast("Self", make(cls) if make is object.__new__ else make(cls, *args, **kwargs))

    def __init__(self, *args: object, **kwargs: object) -> None:
        if not self.call_super_init and (args or kwargs):
            _refuse_arguments(self, args, kwargs)
        held = self.__dict__
        held.setdefault("_version", 0)
        held["training"] = True
        held["_parameters"] = {}
        held["_buffers"] = {}
        held["_modules"] = {}
        held["_non_persistent_buffers_set"] = set()  # names of the buffers that are not part of the state
        for name in hooks.HOOK_ATTRIBUTE_NAMES & held.keys():
            del held[name]
        hooks.refresh_hook_tables(self)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the module's output; subclasses define it.

        Call the module itself rather than this method: the call also runs hooks.

        Args:
            args, kwargs: the arguments of the module's call.

        Raises: NotImplementedError in a module without `forward`.

        Example:
            >>> class Double(nn.Module):
            ...     def forward(self, x):
            ...         return 2 * x
            >>> Double()(ad.tensor([1.0, 3.0]))
            tensor([2., 6.])
        """
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def _wrapped_call_impl(self, *args: object, **kwargs: object) -> Any:
        try:
            own, shared = self._detours, global_hooks._detours
            traced = nondefault.count and mode.interpreter is not None
            if traced or (own and any(own)) or (shared and any(shared)):
                if self._compiled_call_impl is not None and not traced:
                    return self._compiled_call_impl(*args, **kwargs)
                return self._call_impl(*args, **kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            module_path.refuse_other_inputs(error, self, args)
            module_path.add_module_path(error, self)
            raise

    __call__: Function = _wrapped_call_impl

    def _call_impl(self, *args: object, **kwargs: object) -> Any:
        forward = self.forward
        if nondefault.count and mode.interpreter is not None:
            module_path.guard_module_versions(self)
            forward = partial(module_path.trace_forward, self, forward)
        if has_hooks(self):
            return call_with_hooks(self, forward, args, kwargs)
        return forward(*args, **kwargs)

    def compile(self, *args: object, **kwargs: object) -> None:
        """Compile all later calls of this module, including its hooks.

        Args:
            args, kwargs: arguments of `adjoint.compile`.

        Example:
            >>> model = nn.Linear(3, 2)
            >>> model.compile()
            >>> model(ad.ones(4, 3)).shape
            adjoint.Size([4, 2])
        """
        self._compiled_call_impl = compile_slot.call(self._call_impl, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__
        if "_parameters" in held and name in held["_parameters"]:  # most are
            return held["_parameters"][name]
        for table in ("_buffers", "_modules"):
            if table in held and name in held[table]:
                return held[table][name]
        if name in hooks.HOOK_ATTRIBUTE_NAMES:
            hooks.make_hook_tables(self)
            return held[name]
        made = getattr(type(self), name, None)
        if isinstance(made, property):  # it raised an AttributeError, which brought Python here
            return made.__get__(self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name: str, value: object) -> None:
        registration.set_attribute(self, name, value, REGISTRY_TABLES)

    def __delattr__(self, name: str) -> None:
        registration.delete_attribute(self, name)

    def __dir__(self) -> list[str]:
        held = self.__dict__
        names = {*dir(type(self)), *held, *held["_parameters"], *held["_buffers"], *held["_modules"]}
        return sorted(name for name in names if not name[:1].isdigit())

    def __getstate__(self) -> StateDict:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        state.pop("_detours", None)
        return state

    def __setstate__(self, state: StateDict) -> None:
        self.__dict__.update(state)
        hooks.refresh_hook_tables(self)

    def __repr__(self) -> str:
        extra = [line for line in self.extra_repr().split("\n") if line]
        children = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self._modules.items()]
        if len(extra) == 1 and not children:
            return f"{self._get_name()}({extra[0]})"
        lines = "".join(f"\n  {line}" for line in (*extra, *children))
        return f"{self._get_name()}({lines}\n)" if lines else f"{self._get_name()}()"

    _repr_html_ = show_in_notebook

    def extra_repr(self) -> str:
        """Return the settings to show in the module's `repr`."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and in all submodules, and return the module.

        Dropout and batch normalization depend on the mode.

        Args:
            mode: False for evaluation mode. Default: True.

        Raises: ValueError for a mode that is not a bool.

        Example:
            >>> model = nn.Sequential(nn.Dropout(0.5)).train(False)
            >>> model[0].training
            False
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode here and in all submodules, and return the module.

        It is short for `train(False)`.

        Example:
            >>> nn.Dropout(0.5).eval()(ad.ones(3))
            tensor([1., 1., 1.])
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set `requires_grad` of all parameters, and return the module.

        Args:
            requires_grad: False to freeze the parameters. Default: True.

        Example:
            >>> layer = nn.Linear(2, 1).requires_grad_(False)
            >>> layer.weight.requires_grad
            False
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters.

        Args:
            set_to_none: False to fill them with zeros in place of None. Default: True.

        Example:
            >>> layer = nn.Linear(2, 1)
            >>> layer(ad.ones(2)).sum().backward()
            >>> layer.zero_grad()
            >>> layer.weight.grad is None
            True
        """
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad = None if set_to_none else parameter.grad.detach().zero_()

    def apply(self, fn: Callable[[Module], object]) -> Self:
        """Call `fn` on every submodule and then on the module itself, and return the module.

        Children come before their parents.

        Args:
            fn: function of a module.

        Example:
            >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            >>> _ = model.apply(lambda module: print(type(module).__name__))
            Linear
            ReLU
            Sequential
        """
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def children(self) -> Iterator[Module]:
        """Return an iterator over the modules directly below, each once.

        Example:
            >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            >>> [type(module).__name__ for module in model.children()]
            ['Linear', 'ReLU']
        """
        return (module for _, module in self.named_children())

    def modules(self) -> Iterator[Module]:
        """Return an iterator over this module and all below it, each once.

        Example:
            >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            >>> [type(module).__name__ for module in model.modules()]
            ['Sequential', 'Linear', 'ReLU']
        """
        return (module for _, module in self.named_modules())

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Return an iterator over the parameters, each once.

        Args:
            recurse: False to leave out the parameters of submodules. Default: True.

        Example:
            >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
            >>> sum(p.numel() for p in model.parameters())
            13
        """
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Return an iterator over the buffers, each once.

        Args:
            recurse: False to leave out the buffers of submodules. Default: True.

        Example:
            >>> len(list(nn.BatchNorm1d(2).buffers()))
            3
        """
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    register_parameter = registration.register_parameter
    register_buffer = registration.register_buffer
    register_module = registration.register_module
    add_module = registration.register_module

    named_children = traversal.named_children
    named_modules = traversal.named_modules
    named_parameters = traversal.named_parameters
    named_buffers = traversal.named_buffers
    get_submodule = traversal.get_submodule
    set_submodule = traversal.set_submodule
    get_parameter = traversal.get_parameter
    get_buffer = traversal.get_buffer

    to = conversion.to
    float = conversion.to_float
    double = conversion.to_double
    half = conversion.to_half
    bfloat16 = conversion.to_bfloat16
    cpu = conversion.to_cpu
    cuda = ipu = xpu = mtia = conversion.to_accelerator
    type = conversion.to_type
    to_empty = conversion.to_empty
    share_memory = conversion.share_memory
    _apply = conversion.convert_tensors

    state_dict = state.state_dict
    load_state_dict = loading.load_state_dict
    get_extra_state = state.get_extra_state
    set_extra_state = state.set_extra_state
    _save_to_state_dict = state.save_own_state
    _load_from_state_dict = loading.load_own_state
    register_state_dict_pre_hook = state.register_state_dict_pre_hook
    register_state_dict_post_hook = state.register_state_dict_post_hook
    _register_state_dict_hook = state.register_returning_hook
    register_load_state_dict_pre_hook = loading.register_load_state_dict_pre_hook
    register_load_state_dict_post_hook = loading.register_load_state_dict_post_hook
    _register_load_state_dict_pre_hook = loading.register_any_pre_hook

    register_forward_pre_hook = hooks.register_forward_pre_hook
    register_forward_hook = hooks.register_forward_hook
    register_full_backward_pre_hook = hooks.register_full_backward_pre_hook
    register_full_backward_hook = hooks.register_full_backward_hook
    register_backward_hook = hooks.register_backward_hook


def _refuse_arguments(module: Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    name = type(module).__name__
    if kwargs:
        raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
    raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")


# Types in place of their names: a module without annotations of its own has these, and fastai evaluates them elsewhere.
Module.__annotations__ = get_type_hints(Module)


@module_class_slot.fill
def _module_class() -> type[Module]:
    return Module


REGISTRY_TABLES = (
    ("_parameters", Parameter, "parameter", "nn.Parameter or None"),
    ("_modules", Module, "child module", "nn.Module or None"),
    ("_buffers", Buffer, "buffer", "nn.Buffer, Tensor or None"),
)
