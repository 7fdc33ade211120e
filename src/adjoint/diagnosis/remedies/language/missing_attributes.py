"""Remedies for attributes that a module, an optimizer or another object of the library has not."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from difflib import get_close_matches
from types import ModuleType
from typing import NamedTuple, TypeAlias

from adjoint.core.runtime.package_name import display_name, is_name_of_package
from adjoint.core.runtime.similar_names import find_elsewhere, find_shared_word, find_similar_name, find_spelling
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.causes.computing import open_program
from adjoint.diagnosis.causes.steps import trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, is_module
from adjoint.diagnosis.remedies.language.keywords import SYNONYMS
from adjoint.diagnosis.remedies.registry import remedy, try_in_order
from adjoint.diagnosis.source_expressions import SourceFile, text_of


class AttributeAccess(NamedTuple):
    """An expression that asks an object for an attribute that it has not."""

    source: SourceFile
    node: ast.Attribute
    owner: Operand

    @property
    def attribute(self) -> str:
        return self.node.attr

    @property
    def name(self) -> str:
        """The text of the object."""
        return text_of(self.node.value)

    @property
    def parent(self) -> ast.AST | None:
        return self.source.parents.get(self.node)

    @property
    def parts(self) -> dict[str, Operand]:
        """The modules within a module."""
        return vars(self.owner)["_modules"]

    @property
    def member_names(self) -> list[str]:
        """The names of the parts, parameters and buffers of a module."""
        return [name for table in ("_modules", "_parameters", "_buffers") for name in vars(self.owner)[table]]

    def find_similar(self) -> str | None:
        """Return what a module has that is named nearly so."""
        known = [*self.member_names, *vars(self.owner), *dir(type(self.owner))]
        similar = find_similar_name(self.attribute, known) or find_shared_word(self.attribute, self.member_names)
        return similar or _find_abbreviated(self.owner, self.attribute)

    @property
    def hint(self) -> str:
        similar = self.find_similar()
        return f"{self.name}.{similar} is meant, perhaps; " if similar and not similar.isdigit() else ""


@remedy(r"has no attribute '(\w+)'(?:\. Did you mean: .*)?$")
def name_attributes(failure: Failure, match: re.Match[str]) -> str | None:
    """An attribute that an object, a class or a module of the library has not."""
    told_kind = re.match(r"'(\w+)' object", failure.message)
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        if failure.line is None or not isinstance(node, ast.Attribute) or node.attr != match[1]:
            continue
        owner = evaluate(node.value, failure.frame)
        owner = getattr(failure.error, "obj", None) if owner is MISSING else owner
        if owner is None or (told_kind is not None and type(owner).__name__ != told_kind[1]):
            continue
        ways = ADVICE_ON_MODULES if is_module(owner) else ADVICE_ON_OBJECTS
        access = AttributeAccess(failure.line.source, node, owner)
        advice = try_in_order(ways, failure, access)
        if advice is not None:
            return advice
    return None


def _index_part(failure: Failure, access: AttributeAccess) -> str | None:
    """Return the part of a module that holds them by number which has the attribute."""
    for number, part in access.parts.items():
        known = vars(part)
        if number.isdigit() and access.attribute in {*known["_parameters"], *known["_modules"], *known}:
            return f"{access.name} holds parts by number: {access.name}[{number}].{access.attribute}"
    return None


def _ask_plain_model(failure: Failure, access: AttributeAccess) -> str | None:
    """Return how to ask a model around which there is no DistributedDataParallel."""
    if access.attribute != "module" or not isinstance(access.parent, ast.Attribute):
        return None
    told = f"{access.name} is a {type(access.owner).__name__}, and no DistributedDataParallel is around it"
    return f"{told}: {access.name}.{access.parent.attr}"


def _ask_parameters(failure: Failure, access: AttributeAccess) -> str | None:
    """Return how to ask the parameters of a model for their device or type."""
    if access.attribute not in ("device", "dtype"):
        return None
    name = access.name
    return f"the parameters of {name} have it, and not {name} itself: next({name}.parameters()).{access.attribute}"


def _list_parts_of_layer(failure: Failure, access: AttributeAccess) -> str | None:
    """Return what a layer of the library has."""
    kind = type(access.owner).__name__
    if not _is_of_library(access.owner) or kind in ("Sequential", "Module"):
        return None
    own = f"it has {', '.join(access.member_names)}" if access.member_names else f"{kind} has no {access.attribute}"
    return _choose_parts(failure, access.name, access.owner, access.attribute) or f"{access.hint}{own}"


def _list_methods(failure: Failure, access: AttributeAccess) -> str | None:
    """Return the methods of a class of the user's, of which another one is called."""
    if not isinstance(access.parent, ast.Call) or access.parent.func is not access.node or access.find_similar():
        return None
    kind = type(access.owner)
    methods = [name for name, each in vars(kind).items() if inspect.isfunction(each) and name[0] != "_"]
    told = f"{kind.__name__} has no method {access.attribute}, only {', '.join(methods) or 'those of nn.Module'}"
    return f"{told}: def {access.attribute}(self, …) there, or a function of your own"


def _number_part(failure: Failure, access: AttributeAccess) -> str | None:
    """Return the number of the part that is meant, in a module that holds its parts by number."""
    held, name, similar, parent = access.member_names, access.name, access.find_similar(), access.parent
    if not held or not all(each.isdigit() for each in held):
        return None
    if similar in held:
        told = f"{name} holds its parts by number, and has no {access.attribute}"
        return f"{told}: {name}[{similar}], the {type(access.parts[similar]).__name__}"
    last = f" to {name}[{len(held) - 1}]" if len(held) > 1 else ""
    told = f"{name} holds its parts by number, {name}[0]{last}, and has no {access.attribute}"
    wanted = parent.attr if isinstance(parent, ast.Attribute) else ""
    fitting = [key for key in held if hasattr(access.parts[key], wanted)] if wanted else []
    if fitting:
        return f"{told}: {name}[{fitting[-1]}].{wanted}"
    return f"{told}: {name}[0], or a Sequential of an OrderedDict, which names them"


def _assign_in_init(failure: Failure, access: AttributeAccess) -> str:
    """Return what a module of the user's has, and where to give it the attribute."""
    attributes = [name for name in vars(access.owner) if not name.startswith("_") and name != "training"]
    known = ", ".join([*access.member_names, *attributes]) or "no parts"
    told = f"{access.hint}it has {known}"
    return f"{told}: assign self.{access.attribute} in __init__"


def _ask_parameter_groups(failure: Failure, access: AttributeAccess) -> str | None:
    """Return where an optimizer keeps what it was made with."""
    groups = vars(access.owner).get("param_groups") if hasattr(access.owner, "__dict__") else None
    key = SYNONYMS.get(access.attribute, access.attribute)
    if not isinstance(groups, list) or not groups or key not in groups[0]:
        return None
    return f"{access.name} keeps it for each group of parameters: {access.name}.param_groups[0][{key!r}]"


def _name_similar(failure: Failure, access: AttributeAccess) -> str | None:
    """Return what an object of the library has that is named nearly so."""
    owner, attribute, name = access.owner, access.attribute, access.name
    if not _is_of_library(owner):
        return None
    has_functions = isinstance(owner, (ModuleType, Tensor))
    similar = find_similar_name(attribute, dir(owner), _find_function if has_functions else lambda name: None)
    if similar is not None:
        return f"{'' if similar.startswith(f'{display_name.package}.') else f'{name}.'}{similar} is meant, perhaps"
    public = [each for each in dir(owner) if not each.startswith("_")]
    longer = [each for each in public if each.startswith(attribute)]
    near = longer if len(longer) == 1 else get_close_matches(attribute, public, 1, 0.75)
    words = attribute.split("_")
    if not near and words[1:]:  # the first and the last word of a longer name
        near = [each for each in public if each.split("_")[:: len(words) - 1] == words[:: len(words) - 1]]
    return f"{name}.{near[0]} is meant, perhaps" if near and type(owner).__name__ != "GradScaler" else None


def _count_items(failure: Failure, access: AttributeAccess) -> str | None:
    """Return how to count what an object holds."""
    is_count = access.attribute in ("size", "length", "shape", "count", "num_samples")
    if not is_count or isinstance(access.owner, (ModuleType, Tensor)) or not hasattr(access.owner, "__len__"):
        return None
    return f"len({access.name}) counts what a {type(access.owner).__name__} holds"


def _find_abbreviated(owner: Operand, name: str) -> str | None:
    """Return the only part of a module whose class is named so for short: of `bn`, the BatchNorm2d."""
    parts = vars(owner).get("_modules", {}) if hasattr(owner, "__dict__") else {}
    short, found = name.lower().strip("_0123456789"), []
    for key, part in parts.items():
        kind = type(part).__name__
        initials = "".join(each for each in kind if each.isupper()).lower()
        if len(short) > 1 and (short in (initials, kind.lower()) or kind.lower().startswith(short)):
            found.append(key)
    return found[0] if len(found) == 1 else None


def _find_function(name: str) -> str | None:
    """Return where in the package a name is that a module or a tensor has not: `adjoint.nn.functional.relu6`."""
    place = find_elsewhere(name)
    return None if place is None else f"{display_name.package}.{place}"


def _is_of_library(owner: Operand) -> bool:
    """Return whether a value is a module, a class or an instance of a class of the library."""
    if isinstance(owner, ModuleType):
        name = owner.__name__
    else:
        name = (owner if isinstance(owner, type) else type(owner)).__module__
    return is_name_of_package(name)


def _choose_parts(failure: Failure, name: str, part: Operand, attribute: str) -> str | None:
    """Return what to ask of the parts of a model, of which some have not the attribute."""
    goes_through = any(each.f_code.co_name == "apply" for place in failure.stack[1:2] for each in place.called)
    scope = None if failure.line is None else failure.line.source.scope_of(failure.line.node)
    for loop in ast.walk(scope) if scope is not None else ():
        if isinstance(loop, ast.For) and any(
            isinstance(each, ast.Name) and each.id == name for each in ast.walk(loop.target)
        ):
            goes_through = True
    if not goes_through:
        return None
    kind = type(part).__name__
    near = find_spelling(attribute, [*vars(part).get("_parameters", ()), *vars(part).get("_modules", ())])
    if near is not None:
        return f"{name} is a {kind}, which has no {attribute}: {name}.{near} is meant, perhaps"
    return (
        f"{name} is each part in turn, and {kind} has no {attribute}: if hasattr({name}, {attribute!r}), or "
        f"isinstance({name}, nn.Linear), before it"
    )


def _instantiate_loss(failure: Failure, access: AttributeAccess) -> str | None:
    """Return the call of a class, with the inputs of its instance, that has made an object in a value's place."""
    made = open_program(failure).find_construction(access.owner)
    call = None if made is None else made.node
    if made is None or not isinstance(call, ast.Call) or not call.args:
        return None
    inputs = [made.context.program.compute(made.at(each, ())) for each in call.args]
    if not any(isinstance(each, Tensor) for each in inputs):
        return None
    given = list(trace_back(made.at(call.func, ())))[-1]
    told = f"{access.name} is a {type(access.owner).__name__}, which {text_of(call)} at {made.place()} makes"
    return f"{told}, as {text_of(call.func)} is the class: {text_of(given.node)}() at {given.place()}"


def _use_value_of_call(failure: Failure, access: AttributeAccess) -> str | None:
    """Return the statement that calls a loss and lets go of its value, where the value is asked of the loss itself."""
    for node in access.source.nodes_of(ast.Expr) if access.attribute in ("backward", "item") else ():
        call = node.value
        if isinstance(call, ast.Call) and text_of(call.func) == access.name:
            told = f"{access.name} is the function, and {text_of(call)} at {access.source.place_of(node)}"
            return f"{told} gives the value: value = {text_of(call)} there, and value here"
    return None


Advise: TypeAlias = "Callable[[Failure, AttributeAccess], str | None]"

# What knows more of the object comes first.
ADVICE_ON_MODULES: tuple[Advise, ...] = (
    _index_part,
    _ask_plain_model,
    _ask_parameters,
    _instantiate_loss,
    _use_value_of_call,
    _list_parts_of_layer,
    _list_methods,
    _number_part,
    _assign_in_init,
)
ADVICE_ON_OBJECTS: tuple[Advise, ...] = (_ask_parameter_groups, _name_similar, _count_items)
