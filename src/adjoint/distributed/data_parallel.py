"""`nn.parallel.DistributedDataParallel`: one model on all ranks, each with its part of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.core.dtype.device import device
from adjoint.core.dtype.dtype import int64
from adjoint.core.runtime.mode import has_interpreter
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.algorithms.join import Join, Joinable, JoinHook, read_join_config
from adjoint.distributed.collectives import all_gather_into_tensor, broadcast
from adjoint.distributed.default_group import resolve_group
from adjoint.distributed.gradients.batch_shards import call_by_shards, count_own_shards
from adjoint.distributed.gradients.gradient_bucket import CommHook
from adjoint.distributed.gradients.reducer import BUCKET_BYTES, FIRST_BUCKET_BYTES, Reducer
from adjoint.distributed.process_group import ProcessGroup
from adjoint.functions.creation.creation import empty, tensor
from adjoint.nn.module.module import Module
from adjoint.nn.module.uninitialized import UninitializedParameter

MEBIBYTE = 1 << 20


class DataParallelJoinHook(JoinHook):
    """Answers of a rank without inputs to the passes of the others."""

    def __init__(self, model: DistributedDataParallel) -> None:
        self.model = model

    def main_hook(self) -> None:
        told = self.model._tell_ranks([-1, 0, 0, 0])
        root, syncs_buffers, syncs_gradients, exchanges_used = told.amax(0).tolist()
        if syncs_buffers:
            self.model._sync_buffers(root)
        if syncs_gradients:
            self.model.reducer.answer(bool(exchanges_used))

    def post_hook(self, is_last_joiner: bool) -> None:
        group = self.model.process_group
        root = int(self.model._tell_ranks([group.rank() if is_last_joiner else -1, 0, 0, 0]).amax().item())
        _broadcast_all(self.model.module, root, group)
        self.model.reducer.active = None


class DistributedDataParallel(Module, Joinable):
    """Module that calls its `module`, and averages gradients over the ranks of a group while backward goes on.

    Parameters and buffers of rank 0 are given to all when it is made; later buffers, before each training forward.

    Args:
        module: the model, with the same parameters on each rank.
        device_ids, output_device, check_reduction: accepted; there are no devices to choose.
        dim: along which `shards` are cut. Default: 0.
        broadcast_buffers, forward_sync_buffers: False to leave each rank its own buffers, such as running statistics.
        process_group, device_mesh: the ranks. Default: all.
        bucket_cap_mb: size of the buckets in which gradients are exchanged. Default: 25, the first 1.
        find_unused_parameters: True where parameters may take no part in a loss; their gradients count as zero.
        gradient_as_bucket_view: True to let `.grad` be the memory in which eager passes exchange gradients.
        static_graph: True where a pass may compute a gradient in parts, as checkpoints with `use_reentrant=True` do
            around shared weights: gradients are exchanged at its end. Unused parameters are found, too.
        shards: number of parts of the global batch that are computed apart, so that training has the same bits on any
            number of ranks that divides them; each has 1, 2, 4, … parts of its batch.
        init_sync: False to leave the parameters as they are.

    Raises: ValueError before `init_process_group`, and for `shards` that ranks cannot share; RuntimeError for a module
    without parameters that require grad, or with others than rank 0 has; in backward RuntimeError for parameters
    without a gradient.

    Example:
        >>> import adjoint as ad
        >>> import adjoint.distributed as dist
        >>> dist.init_process_group(rank=0, world_size=1)
        >>> model = ad.nn.parallel.DistributedDataParallel(ad.nn.Linear(2, 1))
        >>> model(ad.ones(4, 2)).shape
        adjoint.Size([4, 1])
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: object = None,
        output_device: object = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        shards: int | None = None,
        device_mesh: Any = None,
        forward_sync_buffers: bool | None = None,
        **options: object,
    ) -> None:
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if isinstance(device_ids, (list, tuple)) and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        group = resolve_group(process_group if device_mesh is None else device_mesh.get_group(mesh_dim=0))
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        ignored = self.parameters_to_ignore
        held = [(name, parameter) for name, parameter in module.named_parameters() if name not in ignored]
        if any(isinstance(parameter, UninitializedParameter) for _, parameter in held):
            raise RuntimeError(
                "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy "
                "forward pass to correctly initialize the modules"
            )
        named = [(name, parameter) for name, parameter in held if parameter.requires_grad]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self.module = module
        self.dim = dim
        self.broadcast_buffers = broadcast_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.device_ids = list(device_ids) if isinstance(device_ids, (list, tuple)) else []
        self.output_device, self.static_graph = output_device, static_graph
        self.find_unused_parameters, self.gradient_as_bucket_view = find_unused_parameters, gradient_as_bucket_view
        if init_sync and group.size() > 1:
            _check_alike(held, group)
            for tensor in (*(parameter for _, parameter in held), *self._exchanged_buffers()):
                broadcast(tensor.detach(), group_src=0, group=group)
        cap = BUCKET_BYTES if bucket_cap_mb is None else int(bucket_cap_mb * MEBIBYTE)
        first = min(FIRST_BUCKET_BYTES, cap)
        self.shards, self.own_shards = shards, 1 if shards is None else count_own_shards(shards, group.size())
        Joinable.__init__(self)
        self._divide_by_initial_world_size = True
        vars(self)["process_group"] = group
        vars(self)["reducer"] = Reducer(
            named, group, first, cap, find_unused_parameters, gradient_as_bucket_view, is_sum_first=shards is not None
        )
        vars(self)["named_trained"] = named
        self.reducer.is_static = static_graph

    def _exchanged_buffers(self) -> list[Tensor]:
        """Return the buffers that ranks share."""
        return [buffer for name, buffer in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def will_sync_module_buffers(self) -> bool:
        """Return whether a training forward gives rank 0's buffers to all."""
        return bool(self.broadcast_buffers and self.reducer.has_exchanges() and self._exchanged_buffers())

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: object) -> None:
        """Leave these parameters and buffers of a module, by their names, to each rank."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        Join.notify_join_context(self)
        root, self.reducer.active = 0, None
        syncs_buffers = self.training and self.will_sync_module_buffers()
        if read_join_config(self).enable:
            exchanges_used = self.find_unused_parameters and not has_interpreter()
            own = [self.process_group.rank(), syncs_buffers, self.reducer.is_wanted, exchanges_used]
            told = self._tell_ranks(own)
            root = int(told[:, 0].max().item()) if syncs_buffers else 0
        if syncs_buffers:
            self._sync_buffers(root)
        if self.shards is None:
            return self.module(*inputs, **kwargs)
        return call_by_shards(self.module, self.named_trained, self.own_shards, self.dim, inputs, kwargs)

    def _sync_buffers(self, root: int) -> None:
        """Give all ranks the buffers of rank `root`."""
        for buffer in self._exchanged_buffers():
            broadcast(buffer.detach(), group_src=root, group=self.process_group)

    def _tell_ranks(self, own: list[int]) -> Tensor:
        """Return what all ranks tell of an iteration, and take the number of those that have inputs.

        They tell their number, -1 without inputs, and whether they exchange buffers, gradients, and their use.
        """
        told = empty(self.process_group.size(), len(own), dtype=int64)
        all_gather_into_tensor(told, tensor(own, dtype=int64), group=self.process_group)
        self.reducer.active = None if self._divide_by_initial_world_size else (told[:, 0] >= 0).sum()
        return told

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Return a context in which backward passes add to this rank's own gradients; the next pass averages them."""
        name = "is_paused_in_trace" if has_interpreter() else "is_wanted"
        before = getattr(self.reducer, name)
        setattr(self.reducer, name, has_interpreter())
        try:
            yield
        finally:
            setattr(self.reducer, name, before)

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """Return a context in which ranks may have different numbers of batches.

        Ranks that have left it answer the others' exchanges with gradients of zero; at its end all get the parameters
        of the last.

        Args:
            divide_by_initial_world_size: False to average over the ranks that still have inputs.
            enable: False for a context without effect.
            throw_on_early_termination: True to raise RuntimeError on all ranks once one has no more batches.
        """
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: object) -> JoinHook:
        """Return the hook that answers the others' passes when this rank has no more inputs."""
        self._divide_by_initial_world_size = bool(kwargs.get("divide_by_initial_world_size", True))
        return DataParallelJoinHook(self)

    @property
    def join_device(self) -> device:
        """The CPU."""
        return device("cpu")

    @property
    def join_process_group(self) -> ProcessGroup:
        """The ranks."""
        group: ProcessGroup = self.process_group
        return group

    @property
    def require_backward_grad_sync(self) -> bool:
        """True if backward averages gradients."""
        wanted: bool = self.reducer.is_wanted
        return wanted

    @require_backward_grad_sync.setter
    def require_backward_grad_sync(self, wanted: bool) -> None:
        self.reducer.is_wanted = wanted

    def _set_static_graph(self) -> None:
        """Take each pass to go the same way, as `static_graph=True` does."""
        self.static_graph = self.reducer.is_static = True

    def register_comm_hook(self, state: object, hook: CommHook) -> None:
        """Have `hook(state, bucket)` average the gradients of each bucket; it returns a future of them.

        Raises: TypeError for a hook that cannot be called; RuntimeError where there is one already.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.buckets[0].hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.set_hook(state, hook)


def _broadcast_all(module: Module, root: int, group: ProcessGroup) -> None:
    """Give all ranks the parameters and buffers of one."""
    for each in (*module.parameters(), *module.buffers()):
        broadcast(each.detach(), group_src=root, group=group)


def _check_alike(held: Sequence[tuple[str, Tensor]], group: ProcessGroup) -> None:
    """Raise RuntimeError where the parameters of a rank are not those of rank 0."""
    own = [(name, tuple(parameter.shape), str(parameter.dtype)) for name, parameter in held]
    all_named = group.call("DistributedDataParallel", lambda comm: comm.allgather(own))
    for rank, named in enumerate(all_named):
        if named != all_named[0]:
            pairs = zip(named, all_named[0], strict=False)
            first = next((f"{a} and {b}" for a, b in pairs if a != b), f"{len(named)} and {len(all_named[0])} of them")
            raise RuntimeError(f"the parameters of rank {rank} are not those of rank 0: {first}")
