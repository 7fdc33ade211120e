"""Names of `torch.distributed.distributed_c10d` that programs ask for besides groups and collectives."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

from adjoint.compat.module_alias import MissingClass
from adjoint.core.dtype.device import device
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.collectives import (
    Group,
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    barrier,
    reduce_scatter_tensor,
)
from adjoint.distributed.default_group import (
    BACKENDS,
    DEFAULT_TIMEOUT_SECONDS,
    count_groups,
    get_backend,
    get_rank,
    is_non_member,
    open_default_store,
    resolve_group,
)
from adjoint.distributed.interface.store import Store
from adjoint.distributed.mpi import has_mpi
from adjoint.distributed.process_group import ProcessGroup
from adjoint.distributed.work import Work
from adjoint.ops.collectives import ReduceOp

log = logging.getLogger("adjoint.distributed")
default_pg_timeout = timedelta(seconds=DEFAULT_TIMEOUT_SECONDS)
default_pg_nccl_timeout = None
reduce_op = ReduceOp
GroupName = str
RankType = int
all_gather_single = all_gather_base = all_gather_into_tensor
reduce_scatter_single = reduce_scatter_base = reduce_scatter_tensor
_breakpoints = count()

# Names that are not here: why, and what to use instead. They can be imported, and raise when they are called.
ABSENT_NAMES = {
    "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BarrierOptions BroadcastOptions GatherOptions "
    "ReduceOptions ReduceScatterOptions ScatterOptions": "call the collective, whose arguments these are",
    "BuiltinCommHookType": "see torch.distributed.algorithms.ddp_comm_hooks for communication hooks",
    "Logger": "exchanges are told by explain(), and by ADJOINT_DISTRIBUTED_DEBUG=1",
    "ProcessGroupGloo ProcessGroupMPI ProcessGroupNCCL": "init_process_group and new_group make groups, over MPI",
    "register_rendezvous_handler rendezvous": (
        "ranks meet by env://, tcp://, file:// or a store given to init_process_group; make a TCPStore or a FileStore"
    ),
    "DefaultLogsSpecs LogsDest LogsSpecs MultiprocessContext PContext RunProcsResult SignalException Std "
    "SubprocessContext get_std_cm start_processes to_map launch config_from_args determine_local_world_size "
    "get_args_parser get_rdzv_endpoint get_use_env parse_args parse_min_max_nnodes run run_script_path": (
        "python -m adjoint.distributed.run starts ranks, with torchrun's options"
    ),
    "DistributedOptimizer": "processes call no functions of others: see ZeroRedundancyOptimizer",
    "as_functional_optim": "optimizers make their step after backward, or in a compiled step",
    "shrink_group": "a rank that is lost ends all: --max-restarts starts them again from their checkpoint",
}


class Backend(str):
    """Name of a backend, in small letters; all mean MPI. Raises ValueError for what is no string."""

    __slots__ = ()
    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = "undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"
    backend_list = ("undefined", *BACKENDS)

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, but got {name!r}")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(cls, name: str, *args: object, **kwargs: object) -> None:
        """Raise NotImplementedError: MPI is the only engine."""
        raise NotImplementedError(f"Backend.register_backend: {name!r} would be another engine; ranks exchange by MPI")


class BackendConfig:
    """The backend of each kind of device: the same for all."""

    def __init__(self, backend: str) -> None:
        self.device_backend_map = {kind: Backend(backend) for kind in ("cpu", "cuda")}

    def get_device_backend_map(self) -> dict[str, Backend]:
        """Return the backend of each kind of device."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{backend}" for kind, backend in self.device_backend_map.items())


def is_backend_available(backend: str) -> bool:
    """Return whether programs that ask for the backend are served: by MPI, except those that are for GPUs."""
    return backend.lower() in {Backend.GLOO, Backend.MPI} and has_mpi()


def get_backend_config(group: Group = None) -> str:
    """Return the backend of each kind of device, as "cpu:gloo,cuda:gloo"."""
    return repr(BackendConfig(get_backend(group)))


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the number of this process on its machine. Raises RuntimeError where neither launcher nor caller says."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to "
            "work, assuming you are not running in a multi-device context and want the code to run locally instead."
        )
    return int(fallback_rank)


def get_pg_count() -> int:
    """Return the number of groups that this process is in."""
    return count_groups()


def supports_complex(reduceOp: ReduceOp) -> bool:
    """Return whether complex tensors have the reduction: sums and means."""
    return reduceOp in {ReduceOp.SUM, ReduceOp.AVG}


@contextmanager
def record_comm(name: str) -> Iterator[None]:
    """Return a block whose exchanges are told under their own names."""
    yield


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float = 3600) -> None:
    """Stop one rank in the debugger; the others wait for it. The first `skip` calls do nothing."""
    if next(_breakpoints) < skip:
        return
    if get_rank() == rank:
        sys.breakpointhook()  # noqa: T100  what it is for
    barrier()


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Group = None, async_op: bool = False
) -> Work | None:
    """Reduce each tensor of a list; the work is that of the last, which ends last."""
    works = [all_reduce(tensor, op, group, async_op) for tensor in tensors]
    return works[-1] if works else None


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]],
    input_tensor_list: Sequence[Tensor],
    group: Group = None,
    async_op: bool = False,
) -> Work | None:
    """Write the i-th tensors of all ranks' lists into the i-th of each rank's list."""
    work = None
    for i, tensor in enumerate(input_tensor_list):
        work = all_gather([tensors[i] for tensors in output_tensor_lists], tensor, group, async_op)
        if work is not None:
            work.wait()
    return work


# Private names, which the table of names maps to these


def get_default_group() -> ProcessGroup:
    """Return the group of all ranks."""
    return resolve_group(None)


def get_default_store() -> Store:
    """Return a store that all ranks share."""
    resolve_group(None)
    return open_default_store()


def get_default_timeout(backend: str) -> timedelta:
    """Return how long ranks wait for one another unless they are told."""
    return default_pg_timeout


def rank_not_in_group(group: object) -> bool:
    """Return whether this rank is none of the group's."""
    return is_non_member(group)


def get_pg_default_device(group: Group = None) -> device:
    """Return the CPU."""
    return device("cpu")


def __getattr__(name: str) -> object:
    for names, reason in ABSENT_NAMES.items():
        if name in names.split():
            return MissingClass(name, (), {"__module__": "adjoint.distributed", "reason": reason})
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
