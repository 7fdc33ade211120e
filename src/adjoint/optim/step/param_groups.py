"""Parameter groups: parameters with their options."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from adjoint.core.tensor.sparse_array import is_sparse
from adjoint.core.tensor.tensor import Tensor

Group = dict[str, Any]
ParamsT = Iterable[Tensor] | Iterable[Group] | Iterable[tuple[str, Tensor]]


class _Required:
    """Default of an option that each group must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def as_param_groups(params: ParamsT) -> list[Any]:
    """Return the parameters or groups of a constructor as groups. Raises TypeError or ValueError for other values."""
    if isinstance(params, Tensor):
        raise TypeError(
            "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
            + _type_name(params)
        )
    groups = list(params)
    if not groups:
        raise ValueError("optimizer got an empty parameter list")
    return groups if isinstance(groups[0], dict) else [{"params": groups}]


def complete_group(given: object, defaults: Group, others: Iterable[Group]) -> Group:
    """Return a new group: `given` with a list of parameters, their names apart, and missing options from `defaults`.

    Raises: TypeError for parameters that are no tensors. ValueError for tensors that are not leaves, that `others` have
    already, or of which only some have names.
    """
    if not isinstance(given, dict):
        raise TypeError(f"param_group must be a dict, but got {type(given)}")
    if "params" not in given:
        raise KeyError("a parameter group needs its parameters under the key 'params'")
    params, names = _split_names(given["params"])
    for name, value in defaults.items():
        if value is required and name not in given:
            raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
    group = {**defaults, **given, "params": params}
    if names:
        group["param_names"] = names
    for i, param in enumerate(params):
        if not isinstance(param, Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_type_name(param)}")
        if not (defaults.get("differentiable") or param.is_leaf or param.retains_grad):
            raise ValueError(f"can't optimize a non-leaf Tensor: {describe_parameter(group, i)}")
    if len({id(p) for p in params}) != len(params):
        warnings.warn(
            "optimizer contains a parameter group with duplicate parameters, each updated as often as it is there: "
            + describe_parameter(group, _first_duplicate_index(params)),
            stacklevel=4,
        )
    for other in others:
        if ("param_names" in group) != ("param_names" in other):
            kind = "with" if "param_names" in group else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. "
                f"cannot add param group {kind} names to the optimizer"
            )
        taken = {id(p) for p in other["params"]}
        for i, param in enumerate(params):
            if id(param) in taken:
                raise ValueError(
                    f"some parameters appear in more than one parameter group: {describe_parameter(group, i)}"
                )
    return group


def _split_names(given: Any) -> tuple[list[Any], list[str]]:
    """Return the parameters, and their names if they came as pairs (name, parameter)."""
    if isinstance(given, Tensor):
        return [given], []
    if isinstance(given, (set, frozenset)):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    items = list(given)
    names = [item[0] for item in items if isinstance(item, tuple)]
    if names and len(names) != len(items):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [item[1] if isinstance(item, tuple) else item for item in items], names


def describe_parameter(group: Group, i: int) -> str:
    """Describe parameter `i` of a group in an error, by its name if it has one."""
    names = group.get("param_names")
    what = f"parameter {names[i]!r}" if names and i < len(names) else f"parameter {i} of its group"
    return f"{what}, shape {list(group['params'][i].shape)}"


def parameter_index(group: Group, param: Tensor) -> int:
    """Return the index of a parameter in its group."""
    return next(i for i, other in enumerate(group["params"]) if other is param)


def _first_duplicate_index(params: list[Tensor]) -> int:
    seen: set[int] = set()
    for i, param in enumerate(params):
        if id(param) in seen:
            return i
        seen.add(id(param))
    raise AssertionError("no parameter is repeated")


def _type_name(value: object) -> str:
    return type(value).__name__


def params_with_grad(group: Group, sparse: bool = False) -> list[Tensor]:
    """Return the parameters with a gradient. Raises RuntimeError for a sparse one unless `sparse`."""
    found = []
    for p in group["params"]:
        g = p.grad
        if g is None:
            continue
        if not sparse and is_sparse(g):
            raise RuntimeError(
                f"{describe_parameter(group, parameter_index(group, p))}, has a sparse gradient. This optimizer "
                "does not support sparse gradients, please consider SparseAdam instead, SGD or Adagrad; or give the "
                "Embedding sparse=False"
            )
        found.append(p)
    return found
