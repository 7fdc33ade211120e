"""Running means, from which optimizers take what the gradients were of late."""

from __future__ import annotations

from typing import Any

from adjoint.core.mode import watch
from adjoint.optim.groups import Group


def is_slow(group: Group, name: str, index: int | None = None) -> bool:
    """True if a running mean keeps more than half of itself at each step, for a coefficient that is a plain number."""

    def probe(group: Group) -> bool:
        kept = group[name] if index is None else group[name][index]
        return type(kept) is float and 0.5 < kept < 1.5

    return bool(watch(group, probe, f"{name} near 1"))


def follow(mean: Any, x: Any, share: Any, slow: bool) -> Any:
    """mean ← mean + share (x - mean), in place.

    `lerp_` of a tensor computes both of its forms: which of them is the more exact is known if the mean is `slow`.
    """
    return mean.add_((x - mean).mul_(share)) if slow else mean.lerp_(x, share)
