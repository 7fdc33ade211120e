"""Uneven inputs: a rank that has no more batches answers the collectives of the others until all have ended."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import NamedTuple

from adjoint.core.dtype.device import device
from adjoint.core.runtime.mode import depends_on, guard_on
from adjoint.core.tensor.tensor import Tensor
from adjoint.distributed.collectives import all_reduce
from adjoint.distributed.default_group import get_rank
from adjoint.distributed.process_group import ProcessGroup
from adjoint.distributed.work import Work
from adjoint.functions.creation.creation import full

MANY_MISSING_BATCHES = 1000


class JoinConfig(NamedTuple):
    """The part of a `Joinable` in the context around: none, unless `enable`."""

    enable: bool = False
    throw_on_early_termination: bool = False
    is_first_joinable: bool = False


class JoinHook:
    """The collectives that a rank without inputs answers. A subclass defines one method or both."""

    def main_hook(self) -> None:
        """Answer the collectives of one iteration of the ranks that still have inputs."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Bring all ranks to one state, when all have ended; `is_last_joiner` where this one was among the last."""


class Joinable(ABC):
    """Base class of what takes part in `Join`. A subclass defines the three methods and calls this `__init__`.

    Before the collectives of each iteration it calls `Join.notify_join_context(self)`.
    """

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = JoinConfig()

    @abstractmethod
    def join_hook(self, **kwargs: object) -> JoinHook:
        """Return the hook of one context; `kwargs` are those given to `Join`."""

    @property
    @abstractmethod
    def join_device(self) -> device:
        """The device of the collectives."""

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The ranks that take part."""


class Join:
    """Context in which ranks may have different numbers of batches.

    A rank that leaves it early answers the collectives of the others until all have left.

    Args:
        joinables: models and optimizers that exchange something in each iteration, in the order in which they do.
        enable: False for a context without effect.
        throw_on_early_termination: True to raise RuntimeError on all ranks once one has no more batches.
        kwargs: passed on to the hooks, such as `divide_by_initial_world_size` of `DistributedDataParallel`.

    Raises: ValueError without joinables, or for joinables of several groups.

    Example:
        >>> import adjoint.distributed as dist
        >>> from adjoint.distributed.algorithms.join import Join
        >>> dist.init_process_group(rank=0, world_size=1)
        >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
        >>> with Join([model]):
        ...     for batch in [ad.ones(4, 2), ad.ones(4, 2)]:
        ...         model(batch).sum().backward()
        >>> dist.destroy_process_group()
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: object
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables, self._enable, self._throw_on_early_termination = joinables, enable, throw_on_early_termination
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._process_group = joinables[0].join_process_group
        if any(joinable.join_process_group != self._process_group for joinable in joinables):
            raise ValueError("Using join context manager with multiple process groups")
        for i, joinable in enumerate(joinables):
            joinable._join_config = JoinConfig(enable, throw_on_early_termination, i == 0)

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._enable and kind is None:
                self._wait_for_others()
        finally:
            for joinable in self._joinables:
                joinable._join_config = JoinConfig()

    def _wait_for_others(self) -> None:
        """Answer the others' collectives until all have left."""
        rank, missed = get_rank(self._process_group), 0
        while _sum_over_ranks(0, self._process_group).item():
            if self._throw_on_early_termination:
                _sum_over_ranks(1, self._process_group)
                raise RuntimeError(f"Rank {rank} exhausted all inputs.")
            for hook in self._join_hooks:
                hook.main_hook()
            missed += 1
            if missed == MANY_MISSING_BATCHES:
                warnings.warn(f"rank {rank} has at least {missed} fewer inputs than other ranks", stacklevel=3)
        for hook in self._join_hooks:
            hook.post_hook(is_last_joiner=missed == 0)

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Tell ranks that have left that this one begins an iteration; return the work that did, None outside.

        The first joinable of a context tells it for all. Raises RuntimeError under `throw_on_early_termination` where a
        rank has left.
        """
        config = read_join_config(joinable)
        if not (config.enable and config.is_first_joinable):
            return None
        _sum_over_ranks(1, joinable.join_process_group)
        if config.throw_on_early_termination and _sum_over_ranks(0, joinable.join_process_group).item():
            raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return Work()


def read_join_config(joinable: Joinable) -> JoinConfig:
    """Return the part that the joinable takes in the context around. A compiled step is traced anew in another."""
    if not hasattr(joinable, "_join_config"):
        raise AssertionError(f"Check that the {type(joinable)} constructor calls the ``Joinable`` constructor")
    return guard_on(joinable, _held_config, "join context")


@depends_on(lambda joinable: [(vars(joinable), "_join_config")])
def _held_config(joinable: Joinable) -> JoinConfig:
    return joinable._join_config


def _sum_over_ranks(value: float, group: ProcessGroup) -> Tensor:
    total = full((1,), value)
    all_reduce(total, group=group)
    return total
