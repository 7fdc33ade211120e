"""Python source of what a step did to Python objects: assignments, where the place is one, else calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from adjoint.compiler.trace.frames.attribute_sources import AttributeSource
from adjoint.compiler.trace.frames.container_snapshot import set_items
from adjoint.compiler.trace.frames.sources import (
    MISSING,
    CellSource,
    GlobalSource,
    ItemSource,
    NameOf,
    Source,
)
from adjoint.compiler.trace.step_outputs import Effect, OutputRef
from adjoint.core.runtime import pytree


def tree_code(structure: pytree.Structure, leaves: Iterator[str], name: NameOf) -> str:
    """Return the source of a tree, put together from the sources of its leaves."""
    kind = structure.kind
    if kind is None:
        return next(leaves)
    if kind not in (tuple, list, dict):
        codes = "".join(f"{next(leaves)}, " for _ in range(pytree.leaf_count(structure)))
        return f"{name(pytree.unflatten)}({name(structure)}, iter(({codes})))"
    parts = [tree_code(part, leaves, name) for part in structure.parts]
    if kind is dict:
        keys = [key_code(key, name) for key in structure.keys]
        return f"{{{', '.join(f'{key}: {part}' for key, part in zip(keys, parts, strict=True))}}}"
    inside = "".join(f"{part}, " for part in parts)
    return f"({inside})" if kind is tuple else f"[{inside}]"


def key_code(key: object, name: NameOf) -> str:
    """Return the source of a key."""
    return repr(key) if type(key) in (int, str) else name(key)


def effect_code(
    effect: Effect, stem: str, leaf_code: Callable[[OutputRef], str], name: NameOf
) -> tuple[list[str], list[str]]:
    """Return the lines that compute an effect's values, into variables that begin with `stem`, and those that write."""
    leaves = map(leaf_code, effect.leaves)
    write, structure = effect.write, effect.structure
    if isinstance(write, partial) and write.func is set_items and structure.kind is dict:
        (holder,) = write.args
        values = [tree_code(part, leaves, name) for part in structure.parts]
        targets = [f"{name(holder)}[{key_code(key, name)}]" for key in structure.keys]
    else:
        values = [tree_code(structure, leaves, name)]
        gone = any(leaf.kind == "object" and leaf.of is MISSING for leaf in effect.leaves)
        target = None if gone else _target_code(getattr(write, "__self__", None), name)
        if target is None:
            return [f"{stem} = {values[0]}"], [f"{name(write)}({stem})"]
        targets = [target]
    variables = [f"{stem}_{j}" for j in range(len(values))]
    return (
        [f"{variable} = {value}" for variable, value in zip(variables, values, strict=True)],
        [f"{target} = {variable}" for target, variable in zip(targets, variables, strict=True)],
    )


def _target_code(place: object, name: NameOf) -> str | None:
    """Return the source of a place as the target of an assignment; None if it takes more."""
    if not isinstance(place, Source):
        return None
    plain = type(place) is AttributeSource and not place.bound and place.name.isidentifier()
    return place.expression(name) if plain or type(place) in (GlobalSource, CellSource, ItemSource) else None
