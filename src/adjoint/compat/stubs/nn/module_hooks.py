"""`torch.nn.modules.module`: `Module` and the hooks for all modules.

`_global_forward_hooks` and the like, read or set here, are the dictionaries of `global_hooks`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from adjoint.nn.module.hooks import (
    global_hooks,
    refresh_hook_tables,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from adjoint.nn.module.load_state_dict import IncompatibleKeys as _IncompatibleKeys  # noqa: F401
from adjoint.nn.module.module import Module
from adjoint.nn.module.state_dict import EXTRA_STATE_KEY

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]
GLOBAL_HOOK_PREFIX = "_global"
_EXTRA_STATE_KEY_SUFFIX = EXTRA_STATE_KEY


class GlobalHooksModule(ModuleType):
    """Module whose names with the prefix are attributes of `global_hooks`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(GLOBAL_HOOK_PREFIX) and hasattr(global_hooks, name.removeprefix(GLOBAL_HOOK_PREFIX)):
            refresh_hook_tables(global_hooks)  # who has the dictionary may put hooks in it
            return getattr(global_hooks, name.removeprefix(GLOBAL_HOOK_PREFIX))
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith(GLOBAL_HOOK_PREFIX):
            setattr(global_hooks, name.removeprefix(GLOBAL_HOOK_PREFIX), value)
        else:
            super().__setattr__(name, value)


def _addindent(s_: str, numSpaces: int) -> str:
    """Indent each line but the first."""
    return s_.replace("\n", "\n" + numSpaces * " ")


sys.modules[__name__].__class__ = GlobalHooksModule
