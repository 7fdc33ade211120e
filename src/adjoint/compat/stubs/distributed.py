"""`adjoint.distributed`: process groups, which have one member here.

Nothing is set up at first. A program that sets up a group of one process gets it, and collectives return what it has.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from typing import Any

from adjoint.core.tensor.tensor import Tensor

__all__ = [
    "ReduceOp", "Work", "all_gather", "all_gather_object", "all_reduce", "barrier", "broadcast",
    "broadcast_object_list", "destroy_process_group", "gather", "get_backend", "get_rank", "get_world_size", "group",
    "init_process_group", "is_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "new_group", "reduce",
    "scatter",
]  # fmt: skip

_backend: list[str] = []  # the name of the group's, once it is set up


class ReduceOp(Enum):
    """Reductions of the values of several processes."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


class ProcessGroup:
    """Group of this process alone."""

    def rank(self) -> int:
        """Return 0."""
        return 0

    def size(self) -> int:
        """Return 1."""
        return 1


class Work:
    """Collective that has ended."""

    def wait(self, timeout: object = None) -> bool:
        """Return True."""
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True


class group:
    """Namespace of the group that is set up: `group.WORLD`, None until then."""

    WORLD: ProcessGroup | None = None


def is_available() -> bool:
    """Return False: there is one process."""
    return False


def is_initialized() -> bool:
    """Return whether `init_process_group` was called, and `destroy_process_group` was not."""
    return bool(_backend)


def _return_false() -> bool:
    """Return False."""
    return False


is_gloo_available = is_mpi_available = is_nccl_available = is_ucc_available = is_xccl_available = _return_false
is_torchelastic_launched = _return_false


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: object = None,
    world_size: int = -1,
    rank: int = -1,
    store: object = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
) -> None:
    """Set up the group of this process. Raises NotImplementedError for several processes.

    Rank and size come from $RANK and $WORLD_SIZE unless they are given. Raises ValueError without either, or if the
    group is set up.
    """
    if _backend:
        raise ValueError("trying to initialize the default process group twice!")
    rank, world_size = (_resolve_env_int(name, n) for name, n in (("RANK", rank), ("WORLD_SIZE", world_size)))
    if (rank, world_size) != (0, 1):
        raise NotImplementedError(f"process {rank} of {world_size}: adjoint trains in one process")
    _backend.append(backend or "gloo")
    group.WORLD = ProcessGroup()


def _resolve_env_int(name: str, given: int) -> int:
    if given >= 0:
        return given
    if name not in os.environ:
        raise ValueError(
            "Error initializing adjoint.distributed using env:// rendezvous: "
            f"environment variable {name} expected, but not set"
        )
    return int(os.environ[name])


def destroy_process_group(group: object = None) -> None:
    """Remove the group. Raises AssertionError if there is none."""
    if not _backend:
        raise AssertionError("Process group cannot be None")
    _backend.clear()
    globals()["group"].WORLD = None


def get_rank(group: object = None) -> int:
    """Return 0. Raises ValueError until the group is set up, as the functions below do."""
    return _require_group(0)


def get_world_size(group: object = None) -> int:
    """Return 1."""
    return _require_group(1)


def get_backend(group: object = None) -> str:
    """Return the name given to `init_process_group`."""
    return _require_group(_backend)[0]


def new_group(*args: object, **kwargs: object) -> ProcessGroup:
    """Return a group of this process alone."""
    return _require_group(ProcessGroup())


def _exchange(name: str, doc: str) -> Callable[..., Work | None]:
    def exchange(*args: object, async_op: bool = False, **kwargs: object) -> Work | None:
        return _require_group(Work() if async_op else None)

    exchange.__name__, exchange.__doc__ = name, doc
    return exchange


barrier = _exchange("barrier", "Do nothing: there is no other process.")
all_reduce = _exchange("all_reduce", "Leave the tensor as it is: there is nothing to add.")
reduce = _exchange("reduce", "Leave the tensor as it is: there is nothing to add.")
broadcast = _exchange("broadcast", "Leave the tensor as it is.")
broadcast_object_list = _exchange("broadcast_object_list", "Leave the objects as they are.")


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: object = None, async_op: bool = False) -> Work | None:
    """Write the tensor into the only one of the list."""
    _require_group(None)
    only: Any = tensor_list[0]
    only.copy_(tensor)
    return Work() if async_op else None


def all_gather_object(object_list: list[Any], obj: Any, group: object = None) -> None:
    """Put the object into the list."""
    _require_group(None)
    object_list[0] = obj


def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int = 0, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensor into the only one of the list."""
    return all_gather(gather_list or [tensor], tensor, group, async_op)


def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int = 0, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the only tensor of the list into `tensor`."""
    return all_gather([tensor], (scatter_list or [tensor])[0], group, async_op)


def _require_group(value: Any) -> Any:
    if not _backend:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return value
