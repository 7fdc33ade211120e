"""PyTorch's variables are set from those of mpiexec, Open MPI and Slurm; what is set stays."""

import os

import pytest

from adjoint.core.runtime.launcher_variables import is_started_by_mpi, set_torch_variables, threads_per_rank

CASES = {
    "mpich": {"PMI_RANK": "3", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2", "PMI_FD": "7"},
    "open mpi": {
        "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
        "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    },
    "slurm": {
        "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_LOCALID": "1", "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    },
}  # fmt: skip


@pytest.mark.parametrize("launcher", CASES)
def test_ranks_are_told_in_pytorchs_words(launcher: str) -> None:
    environment = dict(CASES[launcher])
    set_torch_variables(environment)
    assert (environment["RANK"], environment["WORLD_SIZE"], environment["LOCAL_RANK"]) == ("3", "4", "1")
    assert environment["LOCAL_WORLD_SIZE"] == "2"
    assert (environment["MASTER_ADDR"], environment["MASTER_PORT"]) == ("127.0.0.1", "29500")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    assert threads_per_rank(environment) == max(1, cores // 2)
    assert is_started_by_mpi(environment) is (launcher != "slurm")


@pytest.mark.parametrize(
    ("nodes", "address"),
    [("node[01-03,7],other", "node01"), ("a,b", "a"), ("rack[5,9]", "rack5"), ("alone", "127.0.0.1")],
)
def test_ranks_of_a_slurm_step_meet_on_its_first_machine(nodes: str, address: str) -> None:
    environment = CASES["slurm"] | {
        "SLURM_STEP_NODELIST": nodes, "SLURM_STEP_TASKS_PER_NODE": "4(x2),1", "SLURM_NODEID": "2",
    }  # fmt: skip
    set_torch_variables(environment)
    assert (environment["MASTER_ADDR"], environment["LOCAL_WORLD_SIZE"]) == (address, "1")


def test_a_job_script_of_slurm_is_no_rank() -> None:
    environment = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
    set_torch_variables(environment)
    assert "RANK" not in environment


def test_ranks_of_torchrun_under_an_mpi_launcher_do_not_meet_by_it() -> None:
    assert not is_started_by_mpi({"PMIX_RANK": "0", "TORCHELASTIC_RUN_ID": "none", "RANK": "1"})


def test_what_is_set_stays() -> None:
    environment = CASES["mpich"] | {"RANK": "0", "OPENBLAS_NUM_THREADS": "5", "LOCAL_WORLD_SIZE": "2"}
    before = dict(environment)
    set_torch_variables(environment)
    assert environment == before
    assert threads_per_rank(environment) is None


def test_one_process_keeps_its_threads() -> None:
    environment: dict[str, str] = {}
    set_torch_variables(environment)
    assert environment == {}
    assert threads_per_rank(environment) is None
