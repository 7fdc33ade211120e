"""Attributes of a module, and the protocol by which its functions see them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, Self, TypeVar

from adjoint.core.graph.hooks import HookDict
from adjoint.core.runtime.slot import Slot
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import StateDict
from adjoint.nn.module.parameter import Parameter

Part = TypeVar("Part", bound="ModuleState[Any]")


class ModuleState(Protocol[Part]):
    """A module as its own functions see it, which stand below the class: `Part` is what its parts are."""

    _state_key_versions: ClassVar[dict[str, int]]
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]

    _forward_pre_hooks: HookDict
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks: HookDict
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _backward_pre_hooks: HookDict
    _backward_hooks: HookDict
    _is_full_backward_hook: bool | None
    _state_dict_pre_hooks: HookDict
    _state_dict_hooks: HookDict
    _state_dict_hooks_returning: OrderedDict[int, bool]
    _load_state_dict_pre_hooks: HookDict
    _load_state_dict_post_hooks: HookDict

    @property
    def _modules(self) -> Mapping[str, Part | None]: ...  # a dict, in which some classes leave no place free
    def _get_name(self) -> str: ...
    def children(self) -> Iterator[Part]: ...
    def parameters(self) -> Iterator[Parameter]: ...
    def buffers(self) -> Iterator[Tensor]: ...
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self: ...
    def get_extra_state(self) -> Any: ...
    def set_extra_state(self, state: Any) -> None: ...
    def _save_to_state_dict(self, destination: StateDict, prefix: str, keep_vars: bool) -> None: ...
    def state_dict(
        self, *, destination: StateDict | None = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Tensor]: ...
    def _load_from_state_dict(
        self,
        state_dict: StateDict,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None: ...
    def named_modules(
        self, memo: set[Part] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Part]]: ...
    def get_submodule(self, target: str) -> Part: ...


AnyModule = ModuleState[Any]  # with parts of whatever kind

# The class of all modules, `nn.Module`, for those below that ask whether something is one.
module_class_slot: Slot[Callable[[], type]] = Slot("module_class")
