"""Set-up of process groups: the one of all ranks, and groups of some of them."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from math import inf
from multiprocessing.util import Finalize
from typing import Any, TypeAlias

from adjoint.core.dtype.device import cuda_devices
from adjoint.core.dtype.device import device as Device
from adjoint.core.runtime.launcher_variables import (
    is_started_by_mpi,
    node_name,
    set_torch_variables,
    threads_per_rank,
)
from adjoint.core.runtime.mode import depends_on, guard_on, nondefault
from adjoint.core.runtime.threads import set_num_threads
from adjoint.data.sampler import rank_slot
from adjoint.distributed import rendezvous
from adjoint.distributed.call_checks import CallChecker, DebugLevel, get_debug_level
from adjoint.distributed.interface.file_store import agree_on_address, meet_by_file, split_options
from adjoint.distributed.interface.store import HashStore, Store
from adjoint.distributed.interface.tcp_store import TCPStore
from adjoint.distributed.mpi import Communicator, has_mpi, initialize_mpi, mpi_module
from adjoint.distributed.process_group import ProcessGroup
from adjoint.distributed.rank_end import end_all_after_uncaught_errors, leave_ranks
from adjoint.distributed.rank_watch import CollectiveCall, RankWatch, find_shared_files

BACKENDS = ("mpi", "gloo", "nccl", "ucc", "xccl")  # names that programs give; all mean MPI here
ENV = "env://"
DEFAULT_TIMEOUT_SECONDS = 1800.0
SomeRanks: TypeAlias = Any  # a ProcessGroup; GroupMember.NON_GROUP_MEMBER to ranks that are not in it


class group:
    """Namespace of the group of all ranks: `group.WORLD`, None until it is set up."""

    WORLD: ProcessGroup | None = None


class GroupMember(group):
    """Namespace of the group of all ranks, and of what `new_group` gives ranks that are not in the group."""

    NON_GROUP_MEMBER = -100


_groups_made = [0]  # by `new_group`, which all ranks call in one order
_groups: list[ProcessGroup] = []  # all that are set up, the one of all ranks first
_watch: list[RankWatch] = []


def is_available() -> bool:
    """Return True: a group of one process needs nothing, and others MPI."""
    return True


def is_initialized() -> bool:
    """Return whether `init_process_group` was called, and `destroy_process_group` was not."""
    return _guard_on_world() is not None


@depends_on(lambda _: [_groups])
def _find_world(_: object) -> ProcessGroup | None:
    return group.WORLD


def _guard_on_world() -> ProcessGroup | None:
    """Return the group of all ranks, on which the caller relies: with another one a compiled step is traced anew."""
    return guard_on(group, _find_world, "the group of all ranks")


def is_mpi_available() -> bool:
    """Return whether mpi4py is installed; it is not loaded."""
    return has_mpi()


def is_gloo_available() -> bool:
    """Return whether programs that ask for gloo are served, by MPI."""
    return has_mpi()


def is_nccl_available() -> bool:
    """Return False: there are no GPUs; but whether MPI is there where CUDA means the CPU."""
    return cuda_devices.count > 0 and has_mpi()


def is_ucc_available() -> bool:
    """Return False."""
    return False


is_xccl_available = is_ucc_available


def is_torchelastic_launched() -> bool:
    """Return whether torchrun, or `python -m adjoint.distributed.run`, started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_default_backend_for_device(device: Device | str) -> str:
    """Return "gloo", PyTorch's for CPUs; "nccl" for CUDA, where it means the CPU."""
    return "nccl" if cuda_devices.has(Device(device).type) else "gloo"


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
) -> None:
    """Set up the group of all ranks, which meet over MPI.

    Rank and size come from the arguments, or from the launcher: mpiexec's, Slurm's, or $RANK and $WORLD_SIZE, with
    $MASTER_ADDR and $MASTER_PORT where rank 0 is met. With one process MPI is not loaded.

    Args:
        backend: "mpi"; "gloo" and others mean MPI too, and `get_backend` returns what was asked for.
        init_method: "env://", "tcp://host:port", or "file:///path" of a new file; "?rank=0&world_size=2" may follow.
        store: where ranks meet instead; rank and size are given with it.
        timeout: how long ranks wait for one another, at the start and in collectives. Default: 30 minutes.

    Raises: ValueError where the group is set up already, or rank, size or address are missing; RuntimeError without
    MPI; TimeoutError if ranks do not come in time.
    """
    if group.WORLD is not None:
        raise ValueError("trying to initialize the default process group twice!")
    name = (backend or "mpi").lower()
    if not set(name.replace("cpu:", "").replace("cuda:", "").split(",")) <= {*BACKENDS, "undefined"}:
        raise ValueError(f"unknown backend {backend!r}: {', '.join(BACKENDS)}")
    if store is not None and init_method is not None:
        raise ValueError("Cannot specify both init_method and store.")
    set_torch_variables()
    init_method, options = split_options(init_method)
    rank, world_size = options.get("rank", rank), options.get("world_size", world_size)
    if store is not None and min(rank, world_size) < 0:
        raise ValueError("rank and world_size must be given with a store")
    rank, world_size = _resolve_number("RANK", rank), _resolve_number("WORLD_SIZE", world_size)
    if not 0 <= rank < world_size:
        raise ValueError(f"rank {rank} is not one of {world_size}: ranks are 0 to world_size - 1")
    seconds = DEFAULT_TIMEOUT_SECONDS if timeout is None else timeout.total_seconds()
    if world_size > 1 and not _watch:  # MPI begins once in a process
        address = None if is_started_by_mpi() else _resolve_address(init_method, store, rank, world_size, seconds)
        _begin_mpi(rank, world_size, address, seconds)
    comm = mpi_module().COMM_WORLD.Dup() if world_size > 1 else None
    made = ProcessGroup(comm, list(range(world_size)), name)
    if comm is not None and get_debug_level() is DebugLevel.DETAIL:
        made.checker = CallChecker(comm.Dup())
    _set_world(made)


def _begin_mpi(rank: int, size: int, address: tuple[str, int] | None, seconds: float) -> None:
    """Let the ranks meet, watch one another, and end together."""
    comm = initialize_mpi(rank, size, address, seconds)
    _remove_names_of_shared_memory(comm)
    nodes = comm.allgather(node_name())
    _watch_ranks(comm, address, seconds, one_machine=len(set(nodes)) == 1)
    # a program that starts its ranks by itself tells no number of those on this machine
    if (threads := threads_per_rank({"LOCAL_WORLD_SIZE": str(nodes.count(nodes[rank])), **os.environ})) is not None:
        set_num_threads(threads)
    end_all_after_uncaught_errors(rank, _watch, has_launcher=address is None)
    # processes of multiprocessing run these, and no handlers of atexit; others run them by atexit
    Finalize(None, leave_ranks, [_watch], exitpriority=0)


def _remove_names_of_shared_memory(comm: Communicator) -> None:
    """Remove the files by which MPICH's ranks of this machine have met: whatever ends them now, no memory is left."""
    comm.Barrier()  # all have mapped it
    for path in find_shared_files():
        if "mpich_shm" in path:
            with suppress(OSError):  # another rank was first
                os.unlink(path)


def _resolve_number(variable: str, given: int) -> int:
    if given >= 0:
        return given
    if variable not in os.environ:
        raise ValueError(
            "Error initializing adjoint.distributed using env:// rendezvous: "
            f"environment variable {variable} expected, but not set"
        )
    return int(os.environ[variable])


def _resolve_address(
    init_method: str | None, store: Store | None, rank: int, world_size: int, seconds: float
) -> tuple[str, int]:
    """Return where rank 0 is met. Raises ValueError where nothing says so."""
    if store is not None:
        return agree_on_address(store, rank, world_size, seconds)
    if init_method is not None and init_method.startswith("file://"):
        return meet_by_file(init_method.removeprefix("file://"), rank, world_size, seconds)
    if init_method is not None and init_method.startswith("tcp://"):
        host, _, number = init_method.removeprefix("tcp://").rpartition(":")
        return host, int(number)
    if init_method not in {None, ENV}:
        raise ValueError(f"init_method {init_method!r}: ranks meet by env://, tcp://host:port or file:///path")
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise ValueError(
            "Error initializing adjoint.distributed using env:// rendezvous: "
            f"environment variable {missing[0]} expected, but not set"
        )
    port = int(os.environ["MASTER_PORT"])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # torchrun's own store listens at the port; a restart must not meet the rendezvous of the run before
        port += 1 + int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    return os.environ["MASTER_ADDR"], port


def _watch_ranks(comm: Communicator, address: tuple[str, int] | None, seconds: float, *, one_machine: bool) -> None:
    """Begin to watch the others; where the launcher's MPI let them meet, a server for that is started first."""
    if address is None:
        host, key = "127.0.0.1" if one_machine else socket.gethostname(), secrets.token_bytes(16)
        port = rendezvous.start_server(host, 0, comm.size, seconds, key, meets=False) if comm.rank == 0 else 0
        host, port, key = comm.bcast((host, port, key), 0)
        address = host, port
    else:
        key = rendezvous.job_key(address[0])

    def current_call() -> CollectiveCall | None:
        """Return the exchange in which this rank waits, or the last that it made, whichever group's."""
        calls = [each.current_call for each in _groups if each.current_call is not None]
        waiting = [call for call in calls if call.began != inf]
        return max(waiting or calls, key=lambda call: call.number, default=None)

    _watch.append(RankWatch(comm.rank, address, key, current_call, seconds))


def _set_world(world: ProcessGroup | None) -> None:
    group.WORLD = world
    if world is None:
        _groups.clear()
    else:
        _groups.append(world)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Free a group, or all of them. Raises AssertionError if there is none."""
    whole = GroupMember.WORLD
    if whole is None:
        raise AssertionError("Process group cannot be None")
    if group is not None and group is not whole:
        group.close()
        _groups.remove(group)
        return
    for each in reversed(_groups):
        each.close()
    _set_world(None)


def resolve_group(group: ProcessGroup | None) -> ProcessGroup:
    """Return the group, or that of all ranks. Raises ValueError until it is set up, or where this rank is not in it."""
    found = GroupMember.WORLD if group is None else group
    if nondefault.count and group is None:
        _guard_on_world()
    if found is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    if not isinstance(found, ProcessGroup):
        raise ValueError("Invalid process group specified: this rank is not a member of the group")
    return found


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the number of this process in the group; -1 if it is not in it."""
    return -1 if is_non_member(group) else resolve_group(group).rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of processes in the group; -1 if this one is not in it."""
    return -1 if is_non_member(group) else resolve_group(group).size()


@rank_slot.fill
def _rank_and_size() -> tuple[int, int]:
    """Return the rank of this process and the number of ranks; 0 and 1 until the group is set up."""
    return (get_rank(), get_world_size()) if is_initialized() else (0, 1)


def get_backend(group: ProcessGroup | None = None) -> str:
    """Return the name given to `init_process_group`."""
    return resolve_group(group).backend


def is_non_member(group: object) -> bool:
    """Return whether this is what `new_group` gives ranks that are not in the group."""
    return group == GroupMember.NON_GROUP_MEMBER


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """Return the numbers that the group's processes have among all, in its order."""
    return list(resolve_group(group).ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the number among all of a process that has `group_rank` in the group."""
    return resolve_group(group).ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the number in the group. Raises ValueError for a process that is not in it."""
    ranks = resolve_group(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def count_groups() -> int:
    """Return the number of groups that this process is in."""
    return len(_groups)


def open_default_store() -> Store:
    """Return a store that all ranks share: the one beside rank 0; with one process, one of its own."""
    if not _watch:
        return HashStore()
    return TCPStore(*_watch[0].address, key=_watch[0].key)


def find_group(ranks: Sequence[int]) -> ProcessGroup | None:
    """Return a group that has these ranks, the oldest; None where there is none."""
    return next((each for each in _groups if each.ranks == sorted(ranks)), None)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
    sort_ranks: bool = True,
) -> SomeRanks:
    """Return a group of some ranks; to the others `GroupMember.NON_GROUP_MEMBER`.

    All ranks call it, in the same order. `sort_ranks=False` numbers them in the order given. Raises: ValueError for
    ranks that are not there, or twice.
    """
    whole = resolve_group(None)
    chosen = list(range(whole.size())) if ranks is None else sorted(ranks) if sort_ranks else list(ranks)
    if len(set(chosen)) != len(chosen) or not set(chosen) <= set(range(whole.size())):
        raise ValueError(f"new_group: ranks {chosen} are not different ones of 0 to {whole.size() - 1}")
    name = backend or whole.backend
    if whole.comm is None:
        made = ProcessGroup(None, [0], name)
        _groups.append(made)
        return made
    inside = whole.rank() in chosen
    color = 0 if inside else mpi_module().UNDEFINED
    number = chosen.index(whole.rank()) if inside else 0
    part = whole.call("new_group", lambda comm: comm.Split(color, number))
    _groups_made[0] += 1
    if not inside:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(part, chosen, name)
    made.checker, made.number = whole.checker, _groups_made[0]
    _groups.append(made)
    return made


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[SomeRanks, list[SomeRanks]]:
    """Return this rank's group, and all, of `group_size` neighbours each; default: the ranks of one machine.

    Raises: ValueError where the number of ranks is no multiple.
    """
    ranks = get_process_group_ranks(group)
    count = len(ranks)
    size = int(os.environ.get("LOCAL_WORLD_SIZE", count)) if group_size is None else group_size
    if size < 1 or count % size:
        raise ValueError(f"The world size ({count}) must be divisible by group_size={size}")
    return new_subgroups_by_enumeration([ranks[i : i + size] for i in range(0, count, size)], timeout, backend)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[SomeRanks, list[SomeRanks]]:
    """Return this rank's group, and all, one for each list of ranks. Raises ValueError for a rank in two of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    listed = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(listed)) != len(listed):
        raise ValueError("The new group's rank should be unique")
    groups = [new_group(ranks, timeout, backend) for ranks in ranks_per_subgroup_list]
    own = next((each for each in groups if not is_non_member(each)), None)
    return own, groups


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Return this rank's part of a group, None if it is in no part. All ranks of the group call it, and no others.

    Args:
        split_ranks: the parts, as numbers in the group.

    Raises: ValueError for no parts, an empty one, and for ranks that are not there, or twice.
    """
    parent = resolve_group(parent_pg)
    if not split_ranks or not all(split_ranks):
        raise ValueError("split_ranks cannot be None or empty, nor a part of it")
    listed = [rank for ranks in split_ranks for rank in ranks]
    if len(set(listed)) != len(listed) or not set(listed) <= set(range(parent.size())):
        raise ValueError(f"split_group: ranks {listed} are not different ones of 0 to {parent.size() - 1}")
    color = next((i for i, ranks in enumerate(split_ranks) if parent.rank() in ranks), None)
    if parent.comm is None:
        made = ProcessGroup(None, list(parent.ranks), parent.backend)
    else:
        number = mpi_module().UNDEFINED if color is None else color
        part = parent.call("split_group", lambda comm: comm.Split(number, parent.rank()))
        if color is None:
            return None
        made = ProcessGroup(part, [parent.ranks[i] for i in sorted(split_ranks[color])], parent.backend)
    _groups.append(made)
    return made
