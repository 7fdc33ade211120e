"""State dicts of optimizers in PyTorch's layout, with numbers for parameters: packed and unpacked."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy
from typing import Any

import numpy as np

from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import StateDict
from adjoint.functions.creation.creation import tensor
from adjoint.optim.step.param_groups import Group, describe_parameter

State = defaultdict[Any, StateDict]  # by parameter; what a saved dict has of none, by its number


def pack(state: State, groups: list[Group]) -> StateDict:
    """Return {"state": {number: …}, "param_groups": [{…, "params": [number, …]}]}, with the optimizer's own tensors."""
    numbers: dict[int, int] = {}
    start = 0
    for group in groups:
        for i, param in enumerate(group["params"], start):
            numbers.setdefault(id(param), i)
        start += len(group["params"])
    packed = [
        {**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[id(p)] for p in group["params"]]}
        for group in groups
    ]
    entries = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in state.items()}
    return {"state": entries, "param_groups": packed}


def unpack(
    saved: StateDict, groups: list[Group], defaults: Group, like_parameter: tuple[str, ...]
) -> tuple[State, list[Group]]:
    """Return new state and new groups for the parameters of `groups`, copied from `saved`; no argument changes.

    State takes its parameter's dtype, except "step", which keeps its own. Options that `saved` lacks stay as they are.

    Raises: KeyError for a dict that is no optimizer's. ValueError if groups, their sizes, or the shapes of the entries
    `like_parameter` disagree with the parameters.
    """
    for key in ("state", "param_groups"):
        if key not in saved:
            raise KeyError(f"load_state_dict: a state dict has 'state' and 'param_groups', this no {key!r}")
    saved_groups = saved["param_groups"]
    if len(groups) != len(saved_groups):
        raise ValueError(
            "loaded state dict has a different number of parameter groups: "
            f"{len(saved_groups)}, the optimizer has {len(groups)}"
        )
    owners: dict[object, tuple[Group, int]] = {}
    for n, (group, theirs) in enumerate(zip(groups, saved_groups, strict=True)):
        if len(group["params"]) != len(theirs["params"]):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: group "
                f"{n} has {pluralize(len(theirs['params']), 'parameter')}, the optimizer's {len(group['params'])}"
            )
        owners.update({number: (group, i) for i, number in enumerate(theirs["params"])})
    state: State = defaultdict(dict)
    for number, entries in saved["state"].items():
        if number not in owners:
            state[number] = deepcopy(entries)
            continue
        group, i = owners[number]
        param = group["params"][i]
        for name in like_parameter:
            shape = getattr(entries.get(name), "shape", None)
            if shape is not None and tuple(shape) != param.shape:
                raise ValueError(
                    f"loaded state dict: {name} has shape {list(shape)}, but belongs to {describe_parameter(group, i)}"
                )
        state[param] = {name: _copy_state_value(value, param, name) for name, value in entries.items()}
    merged = []
    for group, theirs in zip(groups, saved_groups, strict=True):
        loaded = {key: _copy_state_value(value, None, key) for key, value in theirs.items() if key != "params"}
        missing = {key: group[key] for key in (*defaults, "param_names") if key in group and key not in loaded}
        merged.append({**loaded, **missing, "params": group["params"]})
    return state, merged


def _copy_state_value(value: Any, param: Tensor | None, name: str | None = None) -> Any:
    """Return a copy that shares nothing with `value`; arrays of other libraries become tensors."""
    if isinstance(value, Tensor) or (hasattr(value, "__array__") and not isinstance(value, np.generic)):
        # a parameter's gradient-wanting twin has no place in state: NumPy copies the values alone
        array = value.numpy(force=True) if isinstance(value, Tensor) else np.asarray(value)
        floats = param is not None and name != "step" and param.is_floating_point()
        return tensor(array, dtype=param.dtype if param is not None and floats else None)
    if isinstance(value, dict):
        return {key: _copy_state_value(item, param, key) for key, item in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(_copy_state_value(item, param) for item in value)
    return deepcopy(value)
