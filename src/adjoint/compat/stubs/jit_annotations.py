"""`adjoint.jit.annotations`: names of types for annotations."""

from __future__ import annotations

import typing
from typing import TypeVar

_T = TypeVar("_T")
Any, Dict, List, Optional, Tuple, Union = (
    getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple", "Union")
)


class BroadcastingList(list[_T]):
    """A list, or one value that stands for a list of equal ones."""


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList
