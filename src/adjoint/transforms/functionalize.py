"""Programs without writes: modules that keep no statistics, and functions whose writes nobody need see."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """`root`, where no batch normalization keeps running statistics any longer: all use their batch's alone.

    Such a module writes nothing, and can be mapped over.
    """
    from adjoint.nn.layers.normalization import BatchNorm

    for module in root.modules():
        if isinstance(module, BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func`, which may write in place: tracing and transforms follow writes and views as they stand.

    Raises RuntimeError for a `remove` other than "mutations" and "mutations_and_views".
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "'mutations' and 'mutations_and_views'"
        )

    @wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return call
