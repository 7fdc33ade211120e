"""Table of the names below PyTorch's `torch.distributed` and their homes here, in the form of `namespace`."""

from __future__ import annotations

MODULES = {
    "distributed._functional_collectives": "distributed.interface.functional_collectives",
    "distributed.algorithms.ddp_comm_hooks": "distributed.algorithms.power_sgd",
    "distributed.algorithms.ddp_comm_hooks.debugging_hooks": "distributed.algorithms.comm_hooks",
    "distributed.algorithms.ddp_comm_hooks.default_hooks": "distributed.algorithms.comm_hooks",
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook": (
        "distributed.algorithms.power_sgd powerSGD_hook=power_sgd_hook batched_powerSGD_hook=batched_power_sgd_hook"
    ),
    "distributed.nn": "distributed.interface.functional",
    "distributed.nn.functional": "distributed.interface.functional",
    "distributed.constants": "distributed.interface.c10d_names",
    "distributed.distributed_c10d": (
        "distributed distributed.interface.c10d_names _get_default_group=get_default_group "
        "_get_default_store=get_default_store _get_default_timeout=get_default_timeout "
        "_get_pg_default_device=get_pg_default_device _rank_not_in_group=rank_not_in_group "
        "_all_gather_base=all_gather_base _reduce_scatter_base=reduce_scatter_base"
    ),
    "distributed.elastic": "distributed.interface.elastic_names",
    "distributed.elastic.multiprocessing": "distributed.interface.elastic_names",
    "distributed.elastic.multiprocessing.api": "distributed.interface.elastic_names",
    "distributed.elastic.multiprocessing.errors": "distributed.interface.elastic_names",
    "distributed.elastic.multiprocessing.errors.error_handler": "distributed.interface.elastic_names",
    "distributed.elastic.multiprocessing.errors.handlers": "distributed.interface.elastic_names",
    "distributed.elastic.utils": "distributed.interface.elastic_names",
    "distributed.elastic.utils.logging": "distributed.interface.elastic_names",
    "distributed.launch": "distributed.run",
    "distributed.device_mesh": "distributed.interface.device_mesh",
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook": (
        "distributed.algorithms.model_averaging post_localSGD_hook=post_local_sgd_hook"
    ),
    "distributed.algorithms.model_averaging.averagers": "distributed.algorithms.model_averaging",
    "distributed.algorithms.model_averaging.utils": "distributed.algorithms.model_averaging",
    "distributed.optim": "distributed.algorithms.zero_redundancy_optimizer distributed.algorithms.model_averaging",
    "distributed.optim.post_localSGD_optimizer": "distributed.algorithms.model_averaging",
    "distributed.optim.zero_redundancy_optimizer": "distributed.algorithms.zero_redundancy_optimizer",
}

# Names of modules below `distributed` that raise, and say why; the reasons are beside `_C10D_HOME`'s own names.
_PROCESS_NAMES = """
    DefaultLogsSpecs LogsDest LogsSpecs MultiprocessContext PContext RunProcsResult SignalException Std
    SubprocessContext get_std_cm start_processes to_map
"""
_ABSENT_C10D_NAMES = {
    "distributed": """
        AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BarrierOptions BroadcastOptions BuiltinCommHookType
        GatherOptions Logger ProcessGroupGloo ProcessGroupMPI ProcessGroupNCCL ReduceOptions ReduceScatterOptions
        ScatterOptions register_rendezvous_handler shrink_group
    """,
    "distributed.elastic.multiprocessing": _PROCESS_NAMES,
    "distributed.elastic.multiprocessing.api": _PROCESS_NAMES,
    "distributed.launch": "launch parse_args",
    "distributed.optim": "DistributedOptimizer as_functional_optim",
    "distributed.rendezvous": "register_rendezvous_handler rendezvous",
    "distributed.run": """
        config_from_args determine_local_world_size get_args_parser get_rdzv_endpoint get_use_env launch parse_args
        parse_min_max_nnodes run run_script_path
    """,
}
_C10D_HOME = "distributed.interface.c10d_names"
NAMES = {
    f"{module}.{name}": f"{_C10D_HOME}:{name}" for module, names in _ABSENT_C10D_NAMES.items() for name in names.split()
}
NAMES |= {
    "distributed._all_gather_base": f"{_C10D_HOME}:all_gather_base",
    "distributed._reduce_scatter_base": f"{_C10D_HOME}:reduce_scatter_base",
}
# Values that describe how a tensor lies on ranks, in modules whose functions are not here.
_PLACEMENTS = {name: name for name in ("Placement", "Shard", "Replicate", "Partial")}
_PLACEMENTS |= {"_StridedShard": "StridedShard"}
NAMES |= {
    f"distributed.{module}.{name}": f"distributed.interface.placements:{home}"
    for module in ("tensor", "_tensor", "tensor.placement_types", "_tensor.placement_types")
    for name, home in _PLACEMENTS.items()
}

# Parts that are not here, with the reason.
_SHARDED = "each rank has the whole model: see DistributedDataParallel, and ZeroRedundancyOptimizer to divide the state"
_LAUNCHED = "python -m adjoint.distributed.run starts ranks, and starts them again with --max-restarts"
_CALLED = "processes call no functions of others: see send, recv and object lists"
_INTERNAL = "it serves PyTorch's own modules: a rank that is stuck or lost is named with its line"
_UPDATED = "optimizers make their step after backward: compile the whole step to have its exchanges behind backward"
_DISTRIBUTED_PARTS = {
    "autograd nn.api nn.jit optim.optimizer remote_device rpc rpc.api": _CALLED,
    "checkpoint": "rank 0 saves the state_dict with torch.save, and all load it",
    "_composable _composable.fsdp _composable.replicate _shard fsdp": _SHARDED,
    "_symmetric_memory argparse_util c10d_logger collective_utils config debug flight_recorder logging_handlers utils":
        _INTERNAL,
    "_tensor _tensor.api _tensor.placement_types tensor tensor.device_mesh tensor.parallel tensor.placement_types":
        "tensors lie on one rank: exchange parts by torch.distributed.nn.functional, in groups of a mesh",
    "algorithms.ddp_comm_hooks.ddp_zero_hook algorithms.ddp_comm_hooks.mixed_precision_hooks "
    "algorithms.ddp_comm_hooks.optimizer_overlap_hooks optim.apply_optimizer_in_backward optim.utils": _UPDATED,
    "algorithms.ddp_comm_hooks.quantization_hooks": "see fp16_compress_hook and powerSGD_hook to send fewer bytes",
    "algorithms.model_averaging.hierarchical_model_averager": "see PeriodicModelAverager, with the group to average in",
    "elastic.agent elastic.control_plane elastic.events elastic.metrics elastic.multiprocessing.redirects "
    "elastic.multiprocessing.subprocess_handler elastic.multiprocessing.tail_log elastic.rendezvous elastic.timer "
    "elastic.utils.api elastic.utils.data elastic.utils.distributed elastic.utils.log_level "
    "elastic.utils.process_state elastic.utils.store launcher": _LAUNCHED,
    "optim.functional_adadelta optim.functional_adagrad optim.functional_adam optim.functional_adamax "
    "optim.functional_adamw optim.functional_rmsprop optim.functional_rprop optim.functional_sgd "
    "optim.named_optimizer": "see torch.optim, and its functional form optim.adam.adam and others",
    "pipelining": "models are not cut into stages: see DistributedDataParallel, and send and recv for messages",
}
ABSENT = {f"distributed.{part}": why for parts, why in _DISTRIBUTED_PARTS.items() for part in parts.split()}
