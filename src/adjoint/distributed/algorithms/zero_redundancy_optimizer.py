"""`ZeroRedundancyOptimizer`: each rank keeps the state of its share of the parameters, and updates only these.

Source: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (SC 2020): the
first of its stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias, cast

import numpy as np

from adjoint.core.dtype.device import device
from adjoint.core.graph.source_location import user_site
from adjoint.core.runtime.mode import ModeScope, has_interpreter
from adjoint.core.tensor.storage import mark_written
from adjoint.core.tensor.tensor import Tensor, wrap
from adjoint.core.typing import Array, StateDict
from adjoint.distributed.algorithms.join import Join, Joinable, JoinHook
from adjoint.distributed.collectives import broadcast
from adjoint.distributed.default_group import resolve_group
from adjoint.distributed.interface.objects import gather_object
from adjoint.distributed.process_group import ProcessGroup
from adjoint.functions.creation.creation import empty
from adjoint.functions.shape.join import cat
from adjoint.ops import collectives as ops
from adjoint.ops.collectives import ReduceOp
from adjoint.optim.step.optimizer import Optimizer
from adjoint.optim.step.param_groups import Group, ParamsT

PARAMETER_KEYS = ("params", "param_names")
Loss: TypeAlias = Any  # what a closure returns
Closure: TypeAlias = Callable[[], Loss]


class ZeroJoinHook(JoinHook):
    """Updates of a rank without inputs: the others wait for its share of the parameters."""

    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self.zero = zero

    def main_hook(self) -> None:
        self.zero.update_and_share()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Optimizer whose state is divided among the ranks: each updates its share of the parameters, and gives it to all.

    The largest parameters are dealt out first, each to the rank that has least. Gradients are those of all ranks, as
    `DistributedDataParallel` leaves them.

    Args:
        params: parameters, or groups of them, the same on all ranks.
        optimizer_class: the optimizer, such as `optim.Adam`; `defaults` are its options.
        process_group: the ranks. Default: all.
        parameters_as_bucket_view: True to lay each rank's parameters side by side in memory, and to exchange them from
            there without copies.

    Attributes:
        optim: this rank's optimizer, with its share of each group.

    Raises: TypeError or ValueError for parameters that are none. NotImplementedError for `overlap_with_ddp`.

    Example:
        >>> import adjoint.distributed as dist
        >>> dist.init_process_group(rank=0, world_size=1)
        >>> model = nn.Linear(2, 1)
        >>> optimizer = dist.optim.ZeroRedundancyOptimizer(model.parameters(), optim.Adam, lr=0.1)
        >>> model(ad.ones(4, 2)).sum().backward()
        >>> optimizer.step()
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        params: ParamsT,
        optimizer_class: type[Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: object,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp=True is not there; call step() after backward, or compile "
                "the whole step, whose exchanges lie between its products"
            )
        self.process_group = resolve_group(process_group)
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self.global_rank = self.process_group.ranks[self.rank]
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self.like_parameter, self.single_numbers = optimizer_class.like_parameter, optimizer_class.single_numbers
        self._sizes = [0] * self.world_size
        self._shares: list[list[list[Tensor]]] = []  # by group and rank
        self._gathered: dict[int, StateDict] | None = None
        Joinable.__init__(self)
        Optimizer.__init__(self, params, defaults)
        self._shares = [self._deal_out(group["params"]) for group in self.param_groups]
        make: Callable[..., Optimizer] = optimizer_class
        self.optim = make(self._own_groups(), **defaults)
        copy_options(self.optim.param_groups, self.param_groups)
        self._buckets = self._lay_side_by_side() if parameters_as_bucket_view else []

    # The parameters' shares

    def _deal_out(self, parameters: list[Tensor]) -> list[list[Tensor]]:
        """Return each rank's share of the parameters of a group."""
        shares: list[list[Tensor]] = [[] for _ in range(self.world_size)]
        for parameter in sorted(parameters, key=lambda p: p.numel(), reverse=True):
            least = self._sizes.index(min(self._sizes))
            shares[least].append(parameter)
            self._sizes[least] += parameter.numel()
        return shares

    def _own_groups(self) -> list[Group]:
        """Return the groups with this rank's parameters alone."""
        return [
            {**group, "params": shares[self.rank]} | name_parameters(group, shares[self.rank])
            for group, shares in zip(self.param_groups, self._shares, strict=True)
        ]

    def _share_of(self, rank: int) -> list[Tensor]:
        return [parameter for shares in self._shares for parameter in shares[rank]]

    def _lay_side_by_side(self) -> list[list[Array]]:
        """Move each rank's parameters into memory of one piece for each type; return these, by rank."""
        buckets = []
        for rank in range(self.world_size):
            pieces = []
            for parameters in divide_by_type(self._share_of(rank)):
                piece = np.concatenate([parameter.array.reshape(-1) for parameter in parameters])
                begin = 0
                for parameter in parameters:
                    parameter.data = wrap(piece[begin : begin + parameter.numel()].reshape(parameter.shape))
                    begin += parameter.numel()
                pieces.append(piece)
            buckets.append(pieces)
        return buckets

    def add_param_group(self, param_group: Group) -> None:
        """Add a parameter group, on all ranks."""
        super().add_param_group(param_group)
        if "optim" not in vars(self):  # the first groups, which are dealt out together
            return
        sizes = list(self._sizes)
        self._shares.append(self._deal_out(self.param_groups[-1]["params"]))
        try:
            self.optim.add_param_group(self._own_groups()[-1])
        except BaseException:  # a bad option: all stays as it was
            self.param_groups.pop()
            self._shares.pop()
            self._sizes = sizes
            raise
        copy_options(self.optim.param_groups, self.param_groups)
        if self.parameters_as_bucket_view:
            self._buckets = self._lay_side_by_side()

    # The step

    def step(self, closure: Closure | None = None, **kwargs: object) -> Loss:
        """Update this rank's share of the parameters, and give it to the others; return the closure's loss, or None."""
        Join.notify_join_context(self)
        return self.update_and_share(closure, **kwargs)

    def update_and_share(self, closure: Closure | None = None, **kwargs: object) -> Loss:
        """Carry out a step, of which a context of uneven inputs need not be told."""
        with self._shared_groups():
            loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        copy_options(self.param_groups, self.optim.param_groups)
        if self.world_size > 1:
            with ModeScope(recording=False):
                self._exchange()
        return loss

    @contextmanager
    def _shared_groups(self) -> Iterator[None]:
        """Return a block in which the optimizer has the groups of this one, with its own share of their parameters.

        A schedule changes these groups, and a compiled step reads the options where they were when it was traced.
        """
        own, all_parameters = self.optim.param_groups, [group["params"] for group in self.param_groups]
        self.optim.param_groups = self.param_groups
        for group, shares in zip(self.param_groups, self._shares, strict=True):
            group["params"] = shares[self.rank]
        try:
            yield
        finally:
            self.optim.param_groups = own
            for group, parameters in zip(self.param_groups, all_parameters, strict=True):
                group["params"] = parameters

    def _exchange(self) -> None:
        """Give each rank's share to all."""
        if self._buckets and not has_interpreter():
            for rank, pieces in enumerate(self._buckets):
                for piece in pieces:
                    broadcast(wrap(piece), group=self.process_group, group_src=rank)
                for parameter in self._share_of(rank) if rank != self.rank else ():
                    mark_written(parameter, user_site())
            return
        every = [parameter for rank in range(self.world_size) for parameter in self._share_of(rank)]
        for kind in dict.fromkeys(parameter.dtype for parameter in every):
            shares = [[p for p in self._share_of(rank) if p.dtype == kind] for rank in range(self.world_size)]
            sizes = [sum(p.numel() for p in share) for share in shares]
            padding = empty(max(sizes) - sizes[self.rank], dtype=kind)
            whole = cat([*[p.detach().reshape(-1) for p in shares[self.rank]], padding])
            received = cast("Tensor", ops.all_gather(whole, group=self.process_group, how=ReduceOp.SUM))
            for rank, share in enumerate(shares):
                begin = rank * max(sizes)
                for parameter in share if rank != self.rank else ():
                    parameter.copy_(received.narrow(0, begin, parameter.numel()).view(parameter.shape))
                    begin += parameter.numel()

    # State dicts

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the state of all ranks to rank `to`, whose `state_dict()` has it then. All ranks call it."""
        own = self.optim.state_dict()["state"]
        index = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        numbered = {index[id(p)]: own[i] for i, p in enumerate(self._share_of(self.rank)) if i in own}
        parts: list[dict[int, StateDict]] | None = [] if self.rank == to else None
        gather_object(numbered, parts, group=self.process_group, group_dst=to)
        self._gathered = None if parts is None else {key: value for part in parts for key, value in part.items()}

    def state_dict(self) -> StateDict:
        """Return the state of all ranks as `consolidate_state_dict` brought it here, in the plain optimizer's layout.

        Raises: RuntimeError where it has not been brought to this rank.
        """
        if self._gathered is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you meant to save the global "
                "state."
            )
        packed = super().state_dict()
        return {**packed, "state": dict(sorted(self._gathered.items()))}

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the options, and the state of this rank's share, from the whole state of any number of ranks."""
        own = {id(parameter) for parameter in self._share_of(self.rank)}
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        numbers = [number for group in state_dict.get("param_groups", ()) for number in group["params"]]
        others = {number for number, p in zip(numbers, parameters, strict=False) if id(p) not in own}
        if "state" in state_dict:
            kept = {number: entry for number, entry in state_dict["state"].items() if number not in others}
            state_dict = {**state_dict, "state": kept}
        super().load_state_dict(state_dict)
        self.optim.state.clear()
        self.optim.state.update(self.state)
        self.state.clear()
        copy_options(self.param_groups, self.optim.param_groups)

    # Uneven inputs

    def join_hook(self, **kwargs: object) -> JoinHook:
        """Return the hook that updates this rank's share when it has no more inputs."""
        return ZeroJoinHook(self)

    @property
    def join_device(self) -> device:
        """The CPU."""
        return device("cpu")

    @property
    def join_process_group(self) -> ProcessGroup:
        """The ranks."""
        return self.process_group


def name_parameters(group: Group, share: list[Tensor]) -> Group:
    """Return the entry of the share's names, where the group has names."""
    if "param_names" not in group:
        return {}
    names = {id(p): name for p, name in zip(group["params"], group["param_names"], strict=True)}
    return {"param_names": [names[id(parameter)] for parameter in share]}


def copy_options(source: list[Group], target: list[Group]) -> None:
    """Give each group of `target` the options of that of `source`."""
    for given, taken in zip(source, target, strict=True):
        taken.update({key: value for key, value in given.items() if key not in PARAMETER_KEYS})


def divide_by_type(parameters: list[Tensor]) -> list[list[Tensor]]:
    """Return the parameters of each type, in their order."""
    kinds = dict.fromkeys(parameter.dtype for parameter in parameters)
    return [[parameter for parameter in parameters if parameter.dtype == kind] for kind in kinds]
