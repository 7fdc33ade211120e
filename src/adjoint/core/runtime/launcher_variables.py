"""Environment variables by which launchers tell a process its rank: PyTorch's names are set from those of others."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import MutableMapping

# rank, number of ranks, rank on this machine, number of ranks there
TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
# those of a step: sbatch's own shell has rank and size of the job, too, and is no rank
SLURM = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE")
OTHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    SLURM,
)
# set where the launcher's own MPI lets the ranks meet
MET_BY_MPI = ("PMI_FD", "PMI_PORT", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
DEFAULT_PORT = "29500"
LOST_RANK_STATUS = 75  # the exit status of a rank that ends because another one was lost
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ADJOINT_NUM_THREADS")


def is_started_by_mpi(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Return whether mpiexec, or another launcher that MPI knows, started this process, and not torchrun under it."""
    return "TORCHELASTIC_RUN_ID" not in environment and any(name in environment for name in MET_BY_MPI)


def set_torch_variables(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables that PyTorch programs read, as torchrun would, where mpiexec or Slurm started this process.

    What is set stays.
    """
    if "RANK" in environment:
        return
    told = next((names for names in OTHERS if names[0] in environment and names[1] in environment), None)
    if told is not None:
        pairs = zip(TORCH, told, strict=True)
        environment.update({ours: environment[name] for ours, name in pairs if name in environment})
        if told == SLURM:
            environment["LOCAL_WORLD_SIZE"] = _tasks_of_node(environment)
        environment.setdefault("LOCAL_RANK", environment["RANK"])
        environment.setdefault("LOCAL_WORLD_SIZE", environment["WORLD_SIZE"])
        environment.setdefault("MASTER_ADDR", _first_host(environment))
        environment.setdefault("MASTER_PORT", DEFAULT_PORT)


def _tasks_of_node(environment: MutableMapping[str, str]) -> str:
    """Return the number of ranks on this machine; Slurm lists those of all, as in "4(x2),1"."""
    counts: list[str] = []
    for block in environment.get(SLURM[3], environment[SLURM[1]]).split(","):
        count, _, times = block.rstrip(")").partition("(x")
        counts += [count] * int(times or 1)
    return counts[int(environment.get("SLURM_NODEID", "0")) % len(counts)]


def _first_host(environment: MutableMapping[str, str]) -> str:
    """Return where rank 0 is: the first machine of a Slurm step; this machine where there is one, or no list."""
    hosts = environment.get("SLURM_STEP_NODELIST", "")  # "node[01-03,7],other"
    if "PMI_RANK" in environment or not re.search(r"[\[,]", hosts):
        return "127.0.0.1"
    name, bracket, numbers = re.split(r"(\[)|,", hosts, maxsplit=1)
    return name + re.split(r"[-,\]]", numbers)[0] if bracket else name


def threads_per_rank(environment: MutableMapping[str, str] = os.environ) -> int | None:
    """Return a rank's share of this machine's processors; None for one rank, or where the user set a number.

    Ranks that each take all processors wait for one another.
    """
    local = read_local_size(environment)
    if local < 2 or any(name in environment for name in THREADS):
        return None
    return max(1, count_processors() // local)


def read_local_size(environment: MutableMapping[str, str] = os.environ) -> int:
    """Return the number of this machine's ranks by $LOCAL_WORLD_SIZE; 0 where it is not told."""
    local = environment.get("LOCAL_WORLD_SIZE", "")
    return int(local) if local.isdigit() else 0


def count_processors() -> int:
    """Return the number of processors on which this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def node_name() -> str:
    """Return the name of the place whose ranks share memory: the host, and its network namespace."""
    if "ADJOINT_NODE" in os.environ:
        return os.environ["ADJOINT_NODE"]
    try:
        namespace = os.stat("/proc/self/ns/net").st_ino
    except OSError:
        namespace = 0
    return f"{socket.gethostname()} {namespace}"
