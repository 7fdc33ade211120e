"""`nn.parallel.DistributedDataParallel`: one model on all ranks, each with its part of the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint.core.runtime.mode import has_interpreter
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.collectives import broadcast
from adjoint.distributed.default_group import resolve_group
from adjoint.distributed.gradients.batch_shards import call_by_shards, count_own_shards
from adjoint.distributed.gradients.gradient_bucket import CommHook
from adjoint.distributed.gradients.reducer import BUCKET_BYTES, FIRST_BUCKET_BYTES, Reducer
from adjoint.distributed.process_group import ProcessGroup
from adjoint.nn.module.module import Module
from adjoint.nn.module.uninitialized import UninitializedParameter

MEBIBYTE = 1 << 20


class DistributedDataParallel(Module):
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
        if self.broadcast_buffers and self.training and self.reducer.has_exchanges():
            for buffer in self._exchanged_buffers():
                broadcast(buffer.detach(), group_src=0, group=self.process_group)
        if self.shards is None:
            return self.module(*inputs, **kwargs)
        return call_by_shards(self.module, self.named_trained, self.own_shards, self.dim, inputs, kwargs)

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


def _check_alike(held: Sequence[tuple[str, Tensor]], group: ProcessGroup) -> None:
    """Raise RuntimeError where the parameters of a rank are not those of rank 0."""
    own = [(name, tuple(parameter.shape), str(parameter.dtype)) for name, parameter in held]
    all_named = group.call("DistributedDataParallel", lambda comm: comm.allgather(own))
    for rank, named in enumerate(all_named):
        if named != all_named[0]:
            pairs = zip(named, all_named[0], strict=False)
            first = next((f"{a} and {b}" for a, b in pairs if a != b), f"{len(named)} and {len(all_named[0])} of them")
            raise RuntimeError(f"the parameters of rank {rank} are not those of rank 0: {first}")
