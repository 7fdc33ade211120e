"""Every public name of torch.distributed and its modules in PyTorch 2.13 is here, or raises and says what to use."""

import importlib
import inspect
import json
from pathlib import Path

import pytest
from tests.support.ranks import needs_mpi, outputs, run_ranks

import adjoint.distributed as dist
from adjoint.compat.distributed_names import ABSENT
from adjoint.compat.module_alias import AbsentModule, MissingClass
from adjoint.distributed.interface import c10d_names
from adjoint.distributed.interface.elastic_names import ChildFailedError, ProcessFailure, record

# Functions of torch.distributed: the names of their parameters, private ones apart
SIGNATURES = """
    all_gather tensor_list tensor group async_op
    all_gather_coalesced output_tensor_lists input_tensor_list group async_op
    all_gather_into_tensor output_tensor input_tensor group async_op
    all_gather_object object_list obj group
    all_gather_single output_tensor input_tensor group async_op
    all_reduce tensor op group async_op
    all_reduce_coalesced tensors op group async_op
    all_to_all output_tensor_list input_tensor_list group async_op
    all_to_all_single output input output_split_sizes input_split_sizes group async_op
    barrier group async_op device_ids timeout
    batch_isend_irecv p2p_op_list
    breakpoint rank skip timeout_s
    broadcast tensor src group async_op group_src
    broadcast_object_list object_list src group device group_src
    destroy_process_group group
    gather tensor gather_list dst group async_op group_dst
    gather_object obj object_gather_list dst group group_dst
    get_backend group
    get_backend_config group
    get_default_backend_for_device device
    get_global_rank group group_rank
    get_group_rank group global_rank
    get_node_local_rank fallback_rank
    get_pg_count
    get_process_group_ranks group
    get_rank group
    get_world_size group
    group
    init_device_mesh device_type mesh_shape mesh_dim_names backend_override
    init_process_group backend init_method timeout world_size rank store group_name pg_options device_id
    irecv tensor src group tag group_src
    is_available
    is_backend_available backend
    is_gloo_available
    is_initialized
    is_mpi_available
    is_nccl_available
    is_torchelastic_launched
    is_ucc_available
    is_xccl_available
    isend tensor dst group tag group_dst
    monitored_barrier group timeout wait_all_ranks
    new_group ranks timeout backend pg_options use_local_synchronization group_desc device_id sort_ranks
    new_subgroups group_size group timeout backend pg_options group_desc
    new_subgroups_by_enumeration ranks_per_subgroup_list timeout backend pg_options group_desc
    record_comm name
    recv tensor src group tag group_src
    recv_object_list object_list src group device group_src use_batch
    reduce tensor dst op group async_op group_dst
    reduce_scatter output input_list op group async_op
    reduce_scatter_single output input op group async_op
    reduce_scatter_tensor output input op group async_op
    register_rendezvous_handler scheme handler
    rendezvous url rank world_size **kwargs
    scatter tensor scatter_list src group async_op group_src
    scatter_object_list scatter_object_output_list scatter_object_input_list src group group_src
    send tensor dst group tag group_dst
    send_object_list object_list dst group device group_dst use_batch
    shrink_group ranks_to_exclude group shrink_flags pg_options
    split_group parent_pg split_ranks timeout pg_options group_desc backend
    supports_complex reduceOp
"""
# Its other names
VALUES = """
    AllToAllOptions AllreduceCoalescedOptions AllreduceOptions Backend BackendConfig BarrierOptions
    BroadcastOptions BuiltinCommHookType DeviceMesh DistBackendError DistError DistNetworkError
    DistStoreError FileStore GatherOptions GradBucket GroupMember GroupName HashStore Logger P2POp PrefixStore
    ProcessGroup ProcessGroupGloo QueueEmptyError RankType ReduceOp ReduceOptions ReduceScatterOptions Reducer
    ScatterOptions Store TCPStore Work default_pg_timeout log reduce_op
"""
# Modules below it that are here, and their public names
MODULES = """
    algorithms:
    algorithms.ddp_comm_hooks: DDPCommHookType register_ddp_comm_hook
    algorithms.ddp_comm_hooks.debugging_hooks: noop_hook
    algorithms.ddp_comm_hooks.default_hooks: allreduce_hook bf16_compress_hook bf16_compress_wrapper
        fp16_compress_hook fp16_compress_wrapper
    algorithms.ddp_comm_hooks.post_localSGD_hook: PostLocalSGDState post_localSGD_hook
    algorithms.ddp_comm_hooks.powerSGD_hook: PowerSGDState batched_powerSGD_hook powerSGD_hook
    algorithms.join: Join JoinHook Joinable
    algorithms.model_averaging:
    algorithms.model_averaging.averagers: ModelAverager PeriodicModelAverager
    algorithms.model_averaging.utils: average_parameters average_parameters_or_parameter_groups
        get_params_to_average
    constants: default_pg_nccl_timeout default_pg_timeout
    device_mesh: DeviceMesh init_device_mesh
    elastic:
    elastic.multiprocessing: DefaultLogsSpecs LogsDest LogsSpecs MultiprocessContext PContext ProcessFailure
        RunProcsResult SignalException Std SubprocessContext start_processes to_map
    elastic.multiprocessing.api: DefaultLogsSpecs LogsDest LogsSpecs MultiprocessContext PContext RunProcsResult
        SignalException Std SubprocessContext get_std_cm to_map
    elastic.multiprocessing.errors: ChildFailedError ErrorHandler ProcessFailure get_error_handler record
    elastic.multiprocessing.errors.error_handler: ErrorHandler
    elastic.multiprocessing.errors.handlers: get_error_handler
    elastic.utils:
    elastic.utils.logging: get_logger
    launch: launch main parse_args
    nn:
    nn.functional: all_gather all_reduce all_to_all all_to_all_single broadcast gather reduce reduce_scatter
        scatter
    optim: DistributedOptimizer PostLocalSGDOptimizer ZeroRedundancyOptimizer as_functional_optim
    optim.post_localSGD_optimizer: PostLocalSGDOptimizer
    optim.zero_redundancy_optimizer: ZeroRedundancyOptimizer
    rendezvous: register_rendezvous_handler rendezvous
    run: config_from_args determine_local_world_size get_args_parser get_rdzv_endpoint get_use_env main
        parse_args parse_min_max_nnodes run run_script_path
"""
# Modules below it that are not
ABSENT_MODULES = """
    algorithms.ddp_comm_hooks.ddp_zero_hook algorithms.ddp_comm_hooks.mixed_precision_hooks
    algorithms.ddp_comm_hooks.optimizer_overlap_hooks algorithms.ddp_comm_hooks.quantization_hooks
    algorithms.model_averaging.hierarchical_model_averager argparse_util autograd c10d_logger checkpoint
    collective_utils config debug elastic.agent elastic.control_plane elastic.events elastic.metrics
    elastic.multiprocessing.redirects elastic.multiprocessing.subprocess_handler
    elastic.multiprocessing.tail_log elastic.rendezvous elastic.timer elastic.utils.api elastic.utils.data
    elastic.utils.distributed elastic.utils.log_level elastic.utils.process_state elastic.utils.store
    flight_recorder fsdp launcher logging_handlers nn.api nn.jit optim.apply_optimizer_in_backward
    optim.functional_adadelta optim.functional_adagrad optim.functional_adam optim.functional_adamax
    optim.functional_adamw optim.functional_rmsprop optim.functional_rprop optim.functional_sgd
    optim.named_optimizer optim.optimizer optim.utils pipelining remote_device rpc tensor utils
"""

OTHERWISE = {
    "rendezvous": "the module of that name, in which the function says what to use",
    "register_rendezvous_handler": "raises", "shrink_group": "raises",
    "group": "a namespace", "reduce_op": "the reductions themselves",
}  # fmt: skip


def read_signatures() -> dict[str, list[str]]:
    return {name: parameters for name, *parameters in (line.split() for line in SIGNATURES.strip().splitlines())}


def read_modules() -> dict[str, list[str]]:
    lines = " ".join(line if line.startswith("        ") else f"\n{line}" for line in MODULES.splitlines()).split("\n")
    pairs = [line.split(":") for line in lines if ":" in line]
    return {module.strip(): names.split() for module, names in pairs}


@pytest.mark.parametrize("name", [name for name in read_signatures() if name not in OTHERWISE])
def test_functions_take_pytorchs_arguments(name: str) -> None:
    found = [each for each in inspect.signature(getattr(dist, name)).parameters if not each.startswith("_")]
    assert found == read_signatures()[name]


@pytest.mark.parametrize("name", [*VALUES.split(), *OTHERWISE, *read_signatures()])
def test_names_are_those_of_distributed_c10d_too(name: str) -> None:
    c10d = importlib.import_module("adjoint.distributed.distributed_c10d")
    assert getattr(dist, name) is not None
    found, other = getattr(c10d, name), getattr(dist, name)
    assert found is other or isinstance(other, MissingClass)


@pytest.mark.parametrize("module", read_modules())
def test_modules_have_their_names(module: str) -> None:
    found = importlib.import_module(f"adjoint.distributed.{module}")
    assert not isinstance(found, AbsentModule)
    for name in read_modules()[module]:
        assert getattr(found, name) is not None or name == "default_pg_nccl_timeout"


@pytest.mark.parametrize("module", ABSENT_MODULES.split())
def test_modules_that_are_not_here_say_what_to_use(module: str) -> None:
    found = importlib.import_module(f"adjoint.distributed.{module}")
    assert isinstance(found, AbsentModule)
    told = r"SomeClass is not part of adjoint: .*(see|by|compile|start|named|saves)"
    with pytest.raises(NotImplementedError, match=told):
        found.SomeClass()
    assert ABSENT[f"distributed.{module}"] == found.reason


def test_names_that_are_not_here_say_what_to_use() -> None:
    for names, reason in c10d_names.ABSENT_NAMES.items():
        for name in names.split():
            with pytest.raises(NotImplementedError, match=f"{name} is not part of adjoint: "):
                getattr(c10d_names, name)()
            assert reason
    with pytest.raises(AttributeError, match="none_such"):
        c10d_names.none_such
    fsdp = importlib.import_module("adjoint.distributed.fsdp").FullyShardedDataParallel
    assert not isinstance(3, fsdp)
    with pytest.raises(NotImplementedError, match="see DistributedDataParallel"):
        fsdp(None)


def test_backends_and_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dist.Backend("GLOO") == dist.Backend.GLOO == "gloo"
    with pytest.raises(ValueError, match="must be string-ish"):
        dist.Backend(3)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="ranks exchange by MPI"):
        dist.Backend.register_backend("own", None)
    assert not dist.is_backend_available("nccl")
    assert [dist.supports_complex(op) for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX)] == [True, False]
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert dist.get_node_local_rank(3) == 3
    with pytest.raises(RuntimeError, match="LOCAL_RANK is not in the environment"):
        dist.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert dist.get_node_local_rank(3) == 2
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        assert dist.get_backend_config() == "cpu:gloo,cuda:gloo"
        assert dist.get_pg_count() == 1
        with dist.record_comm("a name"):
            dist.breakpoint(rank=1)  # another rank
    finally:
        dist.destroy_process_group()


def test_errors_of_ranks_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "errors" / "rank.json"

    @record
    def fail(how: BaseException | None) -> str:
        if how is not None:
            raise how
        return "well"

    assert fail(None) == "well"
    assert fail(SystemExit(0)) is None
    with pytest.raises(SystemExit):
        fail(SystemExit(3))
    with pytest.raises(ValueError, match="why"):
        fail(ValueError("why"))
    assert not path.exists()
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    with pytest.raises(ValueError, match="why"):
        fail(ValueError("why"))
    told = json.loads(path.read_text())["message"]
    assert told["message"] == "ValueError: why"
    assert "Traceback" in told["extraInfo"]["py_callstack"]
    ends = {0: ProcessFailure(0, 10, 1, "", timestamp=5), 1: ProcessFailure(1, 11, 1, "", timestamp=4)}
    assert ChildFailedError("train", ends).get_first_failure() == (1, ends[1])


PROGRAM = """
    import adjoint.run

    adjoint.run.stand_in()
    import torch
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d

    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    store = c10d._get_default_store()
    store.set(f"rank {rank}", str(rank))
    print(store.get(f"rank {1 - rank}"), c10d._get_default_group() is dist.group.WORLD)
    group = dist.new_group([1, 0], sort_ranks=False)
    assert dist.get_rank(group) == 1 - rank and not c10d._rank_not_in_group(group)
    pair = [torch.ones(2) * (rank + 1), torch.ones(1) * (rank + 1)]
    dist.all_reduce_coalesced(pair)
    gathered = [[torch.empty(2), torch.empty(1)] for _ in range(count)]
    dist.all_gather_coalesced(gathered, [x + rank for x in pair])
    out = torch.empty(2)
    dist._all_gather_base(out, torch.ones(1) * rank)
    print(pair[0].tolist(), pair[1].item(), [[x.tolist() for x in parts] for parts in gathered], out.tolist())
"""


@needs_mpi
def test_groups_and_the_store_that_all_ranks_have(tmp_path: Path) -> None:
    sums = "[3.0, 3.0] 3.0 [[[3.0, 3.0], [3.0]], [[4.0, 4.0], [4.0]]] [0.0, 1.0]"
    expected = [f"b'{1 - rank}' True\n{sums}" for rank in range(2)]
    assert outputs(run_ranks(tmp_path, 2, PROGRAM)) == expected
