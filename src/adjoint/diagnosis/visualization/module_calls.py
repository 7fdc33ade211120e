"""Modules of nodes: exactly, where the model runs under hooks; from parameters and lines, where it has run before."""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from threading import get_ident
from types import CodeType, FunctionType
from typing import NamedTuple

from adjoint.core.graph.node import GraphNode, OutputSlot, Vertex, next_sequence_nr
from adjoint.core.graph.source_location import library_files
from adjoint.core.op.spec import describe
from adjoint.core.typing import Operand
from adjoint.diagnosis.visualization.graph_contents import iter_tensors
from adjoint.diagnosis.visualization.user_names import iter_parameter_names
from adjoint.nn.module.hooks import register_module_forward_hook, register_module_forward_pre_hook
from adjoint.nn.module.module import Module

MAX_TENSORS = 6  # of a call's arguments or results
Path = tuple[str, ...]  # the keys of the boxes around a node, outermost first


class ModuleBox(NamedTuple):
    """A box for a module, or for one of its calls: its key, its name in the module around it, and the module.

    `values`: types and shapes of what a call was given and returned.
    """

    key: str
    label: str
    module: Module
    values: dict[str, str]


class ModuleCalls:
    """The calls of modules while a model runs: which nodes each of them made, by sequence numbers."""

    def __init__(self, name: str, model: Module) -> None:
        self.names = {id(part): path for path, part in reversed(list(model.named_modules(remove_duplicate=False)))}
        self.names[id(model)] = name
        self.boxes: dict[str, ModuleBox] = {}
        self.starts: list[int] = []  # in these moments the innermost call changes, to the call with this path
        self.paths: list[Path] = []
        self.open: list[tuple[Module, Path]] = []
        self.counts: dict[int, int] = {}
        self.thread = get_ident()

    @contextmanager
    def record(self) -> Iterator[None]:
        """Note the calls of modules within the block."""
        handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: Module, args: Operand) -> None:
        if get_ident() != self.thread:  # the hooks are those of all modules, in whichever thread
            return
        count = self.counts[id(module)] = self.counts.get(id(module), 0) + 1
        around = self.open[-1][1] if self.open else ()
        name = self.names.get(id(module), type(module).__name__)
        parent = self.names.get(id(self.open[-1][0]), "") if len(self.open) > 1 else ""
        label = name.removeprefix(f"{parent}.") + ("" if count == 1 else f" (call {count})")
        key = f"{name}#{count}"
        self.boxes[key] = ModuleBox(key, label, module, {"inputs": _describe_tensors(args)})
        self.open.append((module, (*around, key)))
        self._note()

    def _leave(self, module: Module, args: Operand, output: Operand) -> None:
        if get_ident() == self.thread and any(each is module for each, _ in self.open):
            while (left := self.open.pop())[0] is not module:
                pass
            self.boxes[left[1][-1]].values["outputs"] = _describe_tensors(output)
            self._note()

    def _note(self) -> None:
        self.starts.append(next_sequence_nr())
        self.paths.append(self.open[-1][1] if self.open else ())

    def path_of(self, node: GraphNode) -> Path:
        """Return the calls in which a node was made."""
        i = bisect_right(self.starts, node.sequence_nr)
        return self.paths[i - 1] if i else ()


class ModuleTree:
    """The modules that the user has names for, to find those of nodes that were made before."""

    def __init__(self, modules: Sequence[tuple[str, Module]]) -> None:
        self.named = modules
        self.modules = {path: part for name, module in modules for path, part in module.named_modules(prefix=name)}
        # a ModuleList has no forward
        self.callable = {path for path, part in self.modules.items() if type(part).forward is not Module.forward}
        self.owners: dict[Vertex, str] = {}
        for leaf, name in iter_parameter_names(modules):
            self.owners[leaf] = name.rpartition(".")[0]
        self.paths_of_code: dict[CodeType, list[str]] = {}
        for path, module in self.modules.items():
            for code in _codes_of(type(module)):
                self.paths_of_code.setdefault(code, []).append(path)

    def boxes(self) -> dict[str, ModuleBox]:
        """Return a box for each module, by its dotted name."""
        tops = {name for name, _ in self.named}
        return {
            path: ModuleBox(path, path if path in tops else path.rpartition(".")[2], module, {})
            for path, module in self.modules.items()
        }

    def infer_paths(self, nodes: Sequence[GraphNode], running: Container[CodeType]) -> dict[GraphNode, Path]:
        """Return the modules of nodes, oldest first in `nodes`; `running`: the functions that still run.

        A node that takes a parameter, or what was computed from parameters alone, is their module's. One from a line of
        a module's method is that module's; of several modules of this class, the one around the parameters used last,
        or next. The library's nodes for one call in the user's program, and those of functions that modules call, are
        of the module that contains their neighbours.
        """
        known = self._list_owners(nodes)
        called = self._list_called(nodes, known)
        following = _next_known(known)
        found: dict[GraphNode, Path] = {}
        before: str | None = None
        last: GraphNode | None = None
        for i, node in enumerate(nodes):
            path, after = known[i], following[i]
            if path is not None:
                before = path
            elif (module := called[i]) is not None:
                inner = "" if before is None or after is None else _common([before, after])
                path = inner if f"{inner}.".startswith(f"{module}.") else module
            elif node.code in self.paths_of_code:
                at = node.instruction_offset
                is_again = last is not None and last.code is node.code and last.instruction_offset >= at
                path = self._choose(node.code, [after, before] if is_again else [before, after])
            elif before is not None and after is not None and node.code not in running:
                path = _common([before, after])
            if path:
                found[node] = tuple(prefix for prefix in _prefixes(path) if prefix in self.modules)
            last = node
        return found

    def _list_owners(self, nodes: Sequence[GraphNode]) -> list[str | None]:
        """Return for each node the module whose parameters it takes; None for one that takes none."""
        of_parameters = self.owners.copy()  # and of what was computed from parameters alone
        found: list[str | None] = []
        for node in nodes:
            sources = [parent.owner if isinstance(parent, OutputSlot) else parent for parent in node.parents]
            taken = [of_parameters[parent] for parent in sources if parent is not None and parent in of_parameters]
            owner = _common(taken) or None if taken else None
            if owner is not None and len(taken) == len(sources):
                of_parameters[node] = owner
            found.append(owner)
        return found

    def _list_called(self, nodes: Sequence[GraphNode], known: Sequence[str | None]) -> list[str | None]:
        """Return for each node the module that the user's instruction calls, if its parameters tell; None else."""
        found: list[str | None] = []
        pairs = zip(nodes, known, strict=True)
        for (code, _), group in groupby(pairs, lambda pair: (pair[0].code, pair[0].instruction_offset)):
            run = [path for _, path in group]
            owners = [path for path in run if path is not None]
            shared = _common(owners) if owners else ""
            around = [path for path in self.paths_of_code.get(code, ()) if f"{shared}.".startswith(f"{path}.")]
            caller = max(around, key=len, default="")
            inside = [path for path in _prefixes(shared) if len(path) > len(caller) and path in self.callable]
            found += [(inside[0] if inside else shared) or None] * len(run)
        return found

    def _choose(self, code: CodeType, near: Sequence[str | None]) -> str | None:
        """Return the module whose method has this code: of several the one around a path in `near`."""
        candidates = self.paths_of_code[code]
        for path in near:
            around = [each for each in candidates if path is not None and f"{path}.".startswith(f"{each}.")]
            if around:
                return max(around, key=len)
        return candidates[0] if len(candidates) == 1 else None


def _describe_tensors(values: Operand) -> str:
    return ", ".join(describe(tensor.array) for _, tensor in islice(iter_tensors(values, ""), MAX_TENSORS))


def _next_known(known: Sequence[str | None]) -> list[str | None]:
    """Return for each place what is known there or next after it."""
    following: list[str | None] = []
    for path in reversed(known):
        following.append(path if path is not None else following[-1] if following else None)
    return following[::-1]


def _codes_of(kind: type) -> Iterable[CodeType]:
    """Return the codes of the methods that the user's classes of a module have."""
    for each in inspect.getmro(kind):
        for function in vars(each).values():
            if isinstance(function, FunctionType) and not library_files[function.__code__.co_filename]:
                yield function.__code__


def _prefixes(path: str) -> Iterator[str]:
    """Yield "model", "model.block", "model.block.fc" for the last of them."""
    for i, letter in enumerate(path):
        if letter == ".":
            yield path[:i]
    yield path


def _common(paths: Sequence[str]) -> str:
    """Return the dotted name that all begin with; "" if there is none."""
    shared = list(_prefixes(paths[0]))
    for path in paths[1:]:
        own = set(_prefixes(path))
        shared = [prefix for prefix in shared if prefix in own]
    return shared[-1] if shared else ""
