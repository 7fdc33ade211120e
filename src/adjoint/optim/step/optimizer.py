"""Base class of optimizers: parameter groups with options, state for each parameter, and a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

from adjoint.autograd.grad_mode import enable_grad
from adjoint.core.graph.hooks import HookDict, RemovableHandle, add_hook
from adjoint.core.op.signature import check_keywords
from adjoint.core.runtime.explanation_slot import explain_errors
from adjoint.core.runtime.mode import (
    ModeScope,
    depends_on,
    guard_on,
    has_interpreter,
    refuse_while_tracing,
    undo_on_failure,
)
from adjoint.core.runtime.notebook import show_in_notebook
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function, StateDict
from adjoint.optim.step.hooks import (
    attach_hook,
    init_hook_tables,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    with_step_hooks,
)
from adjoint.optim.step.hyperparameters import Check, check_implementation
from adjoint.optim.step.param_groups import Group, ParamsT, as_param_groups, complete_group, required
from adjoint.optim.step.state_dict import State, pack, unpack
from adjoint.optim.step.update_rule import make_scalar_state

__all__ = ["Optimizer", "ParamsT", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required"]


class Optimizer:
    """Base class of all optimizers: parameter groups with options, and state for each parameter.

    A subclass defines `update(group)`, or overrides `step`.

    Args:
        params: iterable of parameters, of pairs (name, parameter), or of dicts with options (parameter groups).
        defaults: dict of the options for groups that do not set them.

    Attributes:
        param_groups: list of dicts, each with "params" and all options; a schedule changes their "lr".
        state: dict from a parameter to its state.

    Raises: TypeError or ValueError for parameters that are not leaf tensors, for none, and for one in two groups.

    Example:
        >>> body, head = nn.Linear(4, 4), nn.Linear(4, 1)
        >>> groups = [{"params": body.parameters()}, {"params": head.parameters(), "lr": 0.1}]
        >>> optimizer = optim.SGD(groups, lr=0.01)
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.01, 0.1]
    """

    like_parameter: tuple[str, ...] = ()  # entries of a parameter's state which have its shape
    single_numbers: tuple[str, ...] = ()  # and those which are tensors without dimensions
    hyperparameters: ClassVar[dict[str, Check]] = {}  # the names and checks of the declared ones
    _optimizer_step_pre_hooks: HookDict
    _optimizer_step_post_hooks: HookDict
    _optimizer_state_dict_pre_hooks: HookDict
    _optimizer_state_dict_post_hooks: HookDict
    _optimizer_load_state_dict_pre_hooks: HookDict
    _optimizer_load_state_dict_post_hooks: HookDict
    _opt_called = False

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        check_keywords(cls, kwargs)
        return super().__new__(cls)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = with_step_hooks(cls.step)  # type: ignore[method-assign]

    @explain_errors
    def __init__(self, params: ParamsT, defaults: Group) -> None:
        self.defaults = defaults
        self.state: State = defaultdict(dict)
        self.param_groups: list[Group] = []
        init_hook_tables(self)
        self.check_options(defaults)
        given = as_param_groups(params)
        if type(self).add_param_group is not Optimizer.add_param_group:  # a subclass has options of its own
            for group in given:
                self.add_param_group(group)
            return
        ready: list[Group] = []
        for each in given:
            ready.append(self._complete_group(each, ready))
        for group, full in zip(given, ready, strict=True):
            self._append_group(group, full)

    def collect_defaults(self, arguments: Group) -> Group:
        """Return the declared hyperparameters among a constructor's `locals()`, after their checks."""
        defaults = {name: arguments[name] for name in type(self).hyperparameters}
        self.check_options(defaults)
        if "fused" in defaults:
            check_implementation(defaults)
        return defaults

    def check_options(self, options: Group) -> None:
        """Raise ValueError for a value that the optimizer cannot use."""
        for name, check in type(self).hyperparameters.items():
            check(name, options[name])

    def add_param_group(self, param_group: Group) -> None:
        """Add a parameter group, such as layers that were frozen before.

        Args:
            param_group: dict with "params" and the options of the group; the optimizer keeps it.

        Raises: TypeError or ValueError for parameters that do not fit; the optimizer then stays as it was.

        Example:
            >>> optimizer = optim.SGD(nn.Linear(2, 1).parameters(), lr=0.1)
            >>> optimizer.add_param_group({"params": nn.Linear(1, 1).parameters(), "lr": 0.01})
            >>> len(optimizer.param_groups)
            2
        """
        refuse_while_tracing("add_param_group()")
        self._append_group(param_group, self._complete_group(param_group, self.param_groups))

    def _complete_group(self, given: object, others: list[Group]) -> Group:
        group = complete_group(given, self.defaults, others)
        try:
            self.check_options(group)
        except ValueError as error:
            raise ValueError(f"{error} in parameter group {len(others)}") from None
        return group

    def _append_group(self, given: Group, full: Group) -> None:
        given.update(full)
        self.param_groups.append(given)

    @with_step_hooks
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient, and return the closure's loss, or None.

        Args:
            closure: function that computes the loss and its gradients, called first. Default: None.

        Example:
            >>> p = nn.Parameter(ad.tensor([1.0]))
            >>> optimizer = optim.SGD([p], lr=0.5)
            >>> p.grad = ad.tensor([1.0])
            >>> optimizer.step()
            >>> p.tolist()
            [0.5]
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        if has_interpreter():
            guard_on(self, _group_identities, "parameter groups of the optimizer", at_end=True)
            undo_on_failure(_snapshot_state, self)
        with ModeScope(recording=bool(self.defaults.get("differentiable"))):
            for group in self.param_groups:
                self.update(group)
        if has_interpreter():
            guard_on(self, _state_identities, "state tensors of the optimizer", at_end=True)
        return loss

    def update(self, group: Group) -> None:
        """Change the parameters of one group. A compiled step traces this: no value of a tensor may be read here."""
        raise NotImplementedError(f"{type(self).__name__} has neither a step() nor an update() of its own")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters of the optimizer.

        Args:
            set_to_none: False to fill them with zeros in place of None. Default: True.

        Example:
            >>> p = nn.Parameter(ad.tensor([1.0]))
            >>> p.grad = ad.tensor([1.0])
            >>> optim.SGD([p]).zero_grad()
            >>> p.grad is None
            True
        """
        if has_interpreter():
            guard_on(self, _group_identities, "parameter groups of the optimizer", at_end=True)
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    if p.grad.grad_fn is not None:
                        p.grad.detach_()
                    p.grad.requires_grad_(False).zero_()

    def _patch_step_function(self) -> None:
        init_hook_tables(self)  # what classes that do without `__init__` call for hooks around their step

    def register_step_pre_hook(self, hook: Function) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return the (args, kwargs) to go on with."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Function) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Function, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before each `state_dict()`; before the hooks there are already with `prepend`."""
        return attach_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Function, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after each `state_dict()`; it may return another dict to give."""
        return attach_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Function, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before a dict is loaded, on a copy; it may return another to load."""
        return attach_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Function, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after a dict was loaded."""
        return attach_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def state_dict(self) -> StateDict:
        """Return the state and the options as a dict of plain data, in PyTorch's layout.

        The tensors in it are the optimizer's own, not copies.

        Example:
            >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=0.1)
            >>> optimizer.state_dict()["param_groups"][0]["lr"]
            0.1
        """
        for hook in list(self._optimizer_state_dict_pre_hooks.values()):
            hook(self)
        packed = pack(self.state, self.param_groups)
        for hook in list(self._optimizer_state_dict_post_hooks.values()):
            replaced = hook(self, packed)
            packed = packed if replaced is None else replaced
        return packed

    def load_state_dict(self, state_dict: StateDict) -> None:
        """Restore the state and the options from a dict of `state_dict()`.

        The optimizer copies the values. An error leaves it unchanged.

        Args:
            state_dict: dict of this optimizer's kind, from here or from PyTorch.

        Raises: KeyError or ValueError for a dict that does not fit the parameters.

        Example:
            >>> optimizer = optim.SGD([nn.Parameter(ad.ones(1))], lr=0.1)
            >>> other = optim.SGD([nn.Parameter(ad.ones(1))], lr=0.5)
            >>> other.load_state_dict(optimizer.state_dict())
            >>> other.param_groups[0]["lr"]
            0.1
        """
        refuse_while_tracing("load_state_dict()")
        state_dict = state_dict.copy()
        for hook in list(self._optimizer_load_state_dict_pre_hooks.values()):
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        state, groups = unpack(state_dict, self.param_groups, self.defaults, self.like_parameter)
        self.state = state
        for group, new in zip(self.param_groups, groups, strict=True):  # a compiled step knows the groups themselves
            group.clear()
            group.update(new)
        for entry in self.state.values():
            for name in self.single_numbers:  # old checkpoints have plain numbers there
                if name in entry and not isinstance(entry[name], Tensor):
                    entry[name] = make_scalar_state(float(entry[name]))
        for hook in list(self._optimizer_load_state_dict_post_hooks.values()):
            hook(self)

    def __getstate__(self) -> StateDict:
        return {"defaults": self.defaults, "state": dict(self.state), "param_groups": self.param_groups}

    def __setstate__(self, state: StateDict) -> None:
        self.__dict__.update(state)
        self.state = defaultdict(dict, self.state)
        init_hook_tables(self)

    _repr_html_ = show_in_notebook

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"


def _snapshot_state(optimizer: Optimizer) -> Callable[[], None]:
    """Return a function that gives the optimizer its present state back."""
    entries = {p: dict(entry) for p, entry in optimizer.state.items()}

    def restore() -> None:
        for p in [p for p in optimizer.state if p not in entries]:
            del optimizer.state[p]
        for p, entry in entries.items():
            optimizer.state[p].clear()
            optimizer.state[p].update(entry)

    return restore


def list_gradients(optimizer: Optimizer) -> list[Tensor]:
    """The gradients of an optimizer's parameters; a compiled step relies on the parameters, and on no rate."""
    guard_on(optimizer, _group_identities, "parameter groups of the optimizer", at_end=True)
    return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


def _group_identity_dependencies(optimizer: Optimizer) -> Iterator[Any]:
    """Yield the items, and the lists and dicts, that the identities depend on."""
    yield vars(optimizer), "param_groups"
    yield optimizer.param_groups
    for group in optimizer.param_groups:
        yield group, "params"
        yield group["params"]


@depends_on(_group_identity_dependencies)
def _group_identities(optimizer: Optimizer) -> tuple[int, ...]:
    return tuple([id(each) for group in optimizer.param_groups for each in (group, *group["params"])])


@depends_on(lambda optimizer: [(vars(optimizer), "state"), optimizer.state, *optimizer.state.values()])
def _state_identities(optimizer: Optimizer) -> tuple[int, ...]:
    return tuple([id(entry) for entries in optimizer.state.values() for entry in entries.values()])
