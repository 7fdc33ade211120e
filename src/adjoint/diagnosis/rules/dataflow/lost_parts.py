"""Parts that no model has registered: who holds them, and the lines that made them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from adjoint.core.graph.node import Leaf
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.findings import Place, place_of_origin
from adjoint.diagnosis.operands import Origin
from adjoint.diagnosis.source_expressions import find_assignment, parse_source
from adjoint.diagnosis.watch.events import ModuleCall, OptimizerRecord
from adjoint.diagnosis.watch.facts import leaves_below
from adjoint.diagnosis.watch.frames import place_of_attribute, place_of_class_attribute
from adjoint.diagnosis.watch.source_lines import nodes_at
from adjoint.nn.module.module import Module

MAX_DEPTH = 4  # of lists and dicts within each other


def find_owner(parameter: Operand, roots: list[Module]) -> Module | None:
    """Return the module that has a parameter of its own."""
    for root in roots:
        for part in root.modules():
            if any(p is parameter for p in part._parameters.values()):
                return part
    return None


def is_from_lost_leaf(value: Operand, trained: Collection[int]) -> bool:
    """Return whether an attribute was computed once, from parameters that no name and no optimizer holds."""
    if not isinstance(value, Tensor) or value.node is None or type(value.node) is Leaf:
        return False
    leaves = leaves_below((value,))
    return bool(leaves) and not any(leaf.variable is not None and id(leaf.variable) in trained for leaf in leaves)


def find_making(place: Place | None) -> Place | None:
    """Return the line that gave the name which a line calls its value."""
    source = None if place is None else parse_source(place.site.file)
    for call in nodes_at(place, ast.Call) if place is not None else ():
        if source is not None and isinstance(call.func, ast.Name):
            made = find_assignment(source, source.scope_of(call), call.func.id, call)
            if made is not None:
                return place_of_origin(Origin(source, made))
    return None


def find_holder(owner: Module, module: Module) -> tuple[str, Place | None]:
    """Return the attribute of a module whose list or dict holds another module, and the line that set it."""
    for key, value in [*vars(owner).items(), *vars(type(owner)).items()]:
        if value is module:
            return key, place_of_class_attribute(type(owner), key)
        parts = (part for each in modules_in(value) for part in each.modules())
        if key[:1] != "_" and any(module is part for part in parts):
            return key, place_of_attribute(owner, key)
    return "", None


def is_item(tensor: Operand, held: Operand) -> bool:
    """Return whether a list, tuple or dict of the program holds a tensor."""
    items = held.values() if type(held) is dict else held if type(held) in (list, tuple) else ()
    return any(each is tensor for each in items)


def describe_lost_tensor(name: str, tensor: Operand, held: Operand) -> tuple[str, str]:
    """Return what is wrong with an attribute that is, or holds, a tensor to be trained, and what to do."""
    if is_item(tensor, held):
        what = f"{name} is a {type(held).__name__} of Python that holds tensors {tuple(tensor.shape)} to be trained"
        problem = f"{what}: parameters() does not list them, and no optimizer has them"
        return problem, f"nn.Parameter{'Dict' if isinstance(held, dict) else 'List'}(…)"
    what = f"{name} {tuple(tensor.shape)} is a tensor that requires grad but no Parameter"
    problem = f"{what}: parameters() does not list it, and no optimizer has it"
    return problem, f"self.{name.rpartition('.')[2]} = nn.Parameter(…)"


def share_parameters(records: Sequence[OptimizerRecord]) -> bool:
    """Return whether two optimizers have the same parameters, where one was meant to have others."""
    sets = [frozenset(map(id, record.parameters())) for record in records]
    return len(set(sets)) < len(sets)


def modules_in(value: Operand, depth: int = 0) -> Iterator[Module]:
    """Yield the modules in lists and dicts of Python, and in those within them."""
    held = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for each in held if depth < MAX_DEPTH else ():
        if isinstance(each, Module):
            yield each
        else:
            yield from modules_in(each, depth + 1)


def find_callers(call: ModuleCall) -> list[ModuleCall]:
    """Return the calls around a module's call, the innermost first."""
    found, parent = [], call.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found
