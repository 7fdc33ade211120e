"""The settings of one library as a module: plain values are attributes, what PyTorch has as a function is one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from adjoint.compat.absent_device import constant_functions

PACKAGE = "adjoint.backends"
QUESTIONS = (
    "is_", "can_", "enable_", "get_", "preferred_", "set_flags", "version", "cudnn_sdp", "flash_sdp", "math_sdp",
    "mem_efficient_sdp", "fp16_bf16",
)  # fmt: skip


class Flags(ModuleType):
    """The module `adjoint.backends.<name>`; a dict among its values is a group of further flags."""

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(f"{PACKAGE}.{name}", f"Settings of {name}: they can be read and set, and change no result.")
        self.__spec__ = ModuleSpec(self.__name__, None)
        questions = {key: value for key, value in values.items() if key.startswith(QUESTIONS)}
        self.__dict__.update(constant_functions(self.__name__, questions))
        for key, value in values.items():
            if key not in questions:
                setattr(self, key, Flags(f"{name}.{key}", **value) if isinstance(value, dict) else value)
        sys.modules[self.__name__] = self

    @contextmanager
    def flags(self, **values: Any) -> Iterator[None]:
        """A block in which the flags have these values."""
        before = {key: getattr(self, key) for key in values if hasattr(self, key)}
        self.__dict__.update(values)
        try:
            yield
        finally:
            self.__dict__.update(before)
