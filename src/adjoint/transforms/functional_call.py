"""Modules as functions of their parameters and buffers, and functions without writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import Any, TypeVar

from adjoint.core.tensor.tensor import Tensor, detach
from adjoint.core.typing import Function, Operand
from adjoint.functions.shape.join import stack
from adjoint.nn.module.module import Module

Tensors = dict[str, Tensor]
Root = TypeVar("Root", bound=Module)
NO_MEMBER: Any = object()


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Tensors | Sequence[Tensors],
    args: object = None,
    kwargs: Mapping[str, object] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the given tensors in place of its parameters and buffers.

    Args:
        module: module to call; its own tensors are as before when the call is over.
        parameter_and_buffer_dicts: dict from dotted names to tensors, or a sequence of such dicts. A buffer that the
            call replaces is replaced in the dict.
        args: argument, or tuple of arguments, of the module. Default: None, no argument.
        kwargs: dict of keyword arguments of the module. Default: None.
        tie_weights: True to use a tensor given for one name for every name that shares it in the module. Default: True.
        strict: True to demand a tensor for every name of the module, and no others. Default: False.

    Returns: the result of the module.

    Raises: ValueError for a name in two dicts, and for two tensors for tied names; with `strict` RuntimeError.

    Example:
        >>> model = nn.Linear(1, 1)
        >>> weights = {"weight": ad.tensor([[2.0]]), "bias": ad.tensor([1.0])}
        >>> ad.func.functional_call(model, weights, ad.tensor([3.0]))
        tensor([7.])
    """
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrize_module(module, _merge_dicts(parameter_and_buffer_dicts), tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


def reparametrize_module(
    module: Module, given: Tensors, tie_weights: bool = False, strict: bool = False
) -> AbstractContextManager[None]:
    """Return a block in which the module has these tensors; its parameters are as in `functional_call`."""
    tensors = _tie_tensors(module, given) if tie_weights else dict(given)
    if strict:
        _check_names(module, tensors)
    return _swap_tensors(module, tensors, given)


def stack_module_state(models: Sequence[Module]) -> tuple[Tensors, Tensors]:
    """Return the parameters and the buffers of modules of one class, each stacked along a new first dimension.

    Stacked parameters are leaves. Raises RuntimeError for no models, and where classes, modes or `requires_grad`
    differ.
    """
    if not len(models):
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({bool(model.training) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {name: _stack_state(name, [own[name] for own in parameters]) for name in parameters[0]},
        {name: _stack_state(name, [own[name] for own in buffers]) for name in buffers[0]},
    )


def _stack_state(name: str, tensors: list[Tensor]) -> Tensor:
    wanted = {tensor.requires_grad for tensor in tensors}
    if len(wanted) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    together: Tensor = stack(tensors)
    return detach(together).requires_grad_() if wanted == {True} else together


def _merge_dicts(given: object) -> Tensors:
    if isinstance(given, dict):
        return given
    if not isinstance(given, Sequence):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
        )
    if not all(isinstance(part, dict) for part in given):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for part in given for name in part]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
    return {name: tensor for part in given for name, tensor in part.items()}


def _named_tensors(module: Module) -> Tensors:
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _tie_tensors(module: Module, given: Tensors) -> Tensors:
    """Return `given` with the same tensor at all names where the module has one tensor."""
    groups: dict[int, list[str]] = {}
    for name, tensor in _named_tensors(module).items():
        groups.setdefault(id(tensor), []).append(name)
    result = dict(given)
    for names in groups.values():
        values = {id(given[name]): given[name] for name in names if name in given}
        if len(values) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. Consider using "
                "tie_weights=False"
            )
        for value in values.values():
            result.update(dict.fromkeys(names, value))
    return result


def _check_names(module: Module, tensors: Tensors) -> None:
    own = _named_tensors(module)
    unexpected, missing = (sorted(a.keys() - b.keys()) for a, b in ((tensors, own), (own, tensors)))
    faults = [
        f"{what} key(s): {', '.join(map(repr, names))}."
        for what, names in (("Unexpected", unexpected), ("Missing", missing))
        if names
    ]
    if faults:
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(faults))


@contextmanager
def _swap_tensors(module: Module, tensors: Tensors, given: Tensors) -> Iterator[None]:
    """The tensors in the module's own places, until the end of the block."""
    before: list[tuple[str, Module, str, Any]] = []
    try:
        for path, tensor in tensors.items():
            before.append((path, *_swap_by_path(module, path, tensor)))
        yield
    finally:
        for path, owner, name, former in reversed(before):
            now = _swap_member(owner, name, former)
            if path in given and now is not NO_MEMBER:
                given[path] = now


def _swap_by_path(module: Module, path: str, tensor: Tensor) -> tuple[Module, str, Any]:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{tensor} is not an instance of adjoint.Tensor")
    stem, _, name = path.rpartition(".")
    owner = module.get_submodule(stem)
    return owner, name, _swap_member(owner, name, tensor)


def _swap_member(owner: Module, name: str, value: Any) -> Any:
    """Put a tensor under a name of a module, whatever its kind; what was there before, MISSING if nothing."""
    from adjoint.nn.module.registration import bump_version

    held = next((t for t in (owner._parameters, owner._buffers) if name in t), owner.__dict__)
    former = held.get(name, NO_MEMBER)
    if value is NO_MEMBER:
        held.pop(name, None)
    else:
        held[name] = value
    bump_version(owner)
    return former


def replace_all_batch_norm_modules_(root: Root) -> Root:
    """Return `root`, in which batch normalization no longer keeps running statistics: each uses those of its batch.

    Such a module writes nothing, and can be mapped over.
    """
    from adjoint.nn.layers.normalization import BatchNorm

    for module in root.modules():
        if isinstance(module, BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def functionalize(func: Function, *, remove: str = "mutations") -> Function:
    """Return `func`, which may write in place: tracing and transforms follow writes and views as they stand.

    Raises: RuntimeError for a `remove` other than "mutations" and "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "'mutations' and 'mutations_and_views'"
        )

    @wraps(func)
    def call(*args: object, **kwargs: object) -> Operand:
        return func(*args, **kwargs)

    return call
