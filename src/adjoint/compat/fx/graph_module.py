"""Module whose forward is the code of a graph."""

from __future__ import annotations

import copy
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from itertools import accumulate, count
from typing import NoReturn, Self

from adjoint.compat.fx.codegen import PythonCode, PyTreeCodeGen
from adjoint.compat.fx.graph import Graph
from adjoint.compat.fx.immutable_collections import Argument
from adjoint.compat.fx.naming import standard_globals
from adjoint.core.runtime.package_name import display_name
from adjoint.core.runtime.slot import Slot
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Function
from adjoint.nn.module.module import Module
from adjoint.nn.module.parameter import Parameter

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_numbers = count()
tracer_class_slot: Slot[Callable[[], type]] = Slot("tracer_class")  # the tracer of code that is loaded


class GraphModule(Module):
    """Module that runs a graph: its `forward` is the code of the graph.

    Each one has a class of its own, which holds that function. After a change of the graph call `recompile()`.

    Args:
        root: the module that has the attributes and modules which the graph names, or a dict of these by their names.
        graph: the graph, which belongs to this module from now on.
        class_name: the name of the class.
    """

    _graph: Graph
    _code: str

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        base = next(each for each in cls.__mro__ if not vars(each).get("_is_for_one_graph"))
        return super().__new__(type("GraphModuleImpl", (base,), {"_is_for_one_graph": True}))

    def __init__(self, root: Module | dict[str, Argument], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [node.target for node in graph.nodes if node.op in {"get_attr", "call_module"}]
        if isinstance(root, Module):
            self.training = getattr(root, "training", self.training)
            if isinstance(root, _CodeOnlyModule):
                targets = [*root._modules, *root._buffers, *root._parameters, *targets]
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for target in sorted(targets, key=lambda each: each.count(".")):
                if target not in root:
                    raise RuntimeError(f"Node referenced target {target} but that target was not provided in ``root``!")
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        tracer = graph._tracer_cls
        self._tracer_cls = None if tracer is None or "<locals>" in tracer.__qualname__ else tracer
        self._tracer_extras = graph._tracer_extras or {}
        self.meta: dict[str, Argument] = {}

    @property
    def graph(self) -> Graph:
        """Return the graph; assign one to run that."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(graph)}")
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """Return the code of `forward`."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated! Call recompile()")
        return self._code

    def recompile(self) -> PythonCode:
        """Make `forward` anew from the graph, and return its code."""
        generator = self._graph._codegen
        if isinstance(generator, PyTreeCodeGen):
            self._in_spec, self._out_spec = generator.pytree_info.in_spec, generator.pytree_info.out_spec
        made = self._graph.python_code(root_module="self")
        self._code = made.src
        setattr(type(self), "forward", _execute(made.src, made.globals, self._graph._co_fields)["forward"])  # noqa: B010
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        return made

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module under a path, with empty modules on the way. Returns False if something else is there."""
        *path, name = target.split(".")
        module: Argument = self
        for part in path:
            if getattr(module, part, None) is None:
                setattr(module, part, Module())
            module = getattr(module, part)
            if not isinstance(module, Module):
                return False
        module.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a path, and return whether there was one."""
        *path, name = target.split(".")
        module: Argument = self
        for part in path:
            module = getattr(module, part, None)
            if not isinstance(module, Module):
                return False
        if not isinstance(getattr(module, name, None), Module):
            return False
        delattr(module, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that the graph neither calls nor reads attributes of."""
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op in {"call_module", "get_attr"}:
                used.update(accumulate(node.target.split("."), "{}.{}".format))
            if node.op == "call_module":
                below = (name for name, _ in self.get_submodule(node.target).named_modules())
                used.update(f"{node.target}.{name}" for name in below if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **options: object) -> str:
        """Return the code as that of a class, with those of modules inside, and print it."""
        text = "\n".join(_iterate_class_lines(self, self._get_name()))
        if print_output:
            sys.stdout.write(f"{text}\n")
        return text

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> NoReturn:
        """Raise NotImplementedError: modules are not written as source files."""
        raise NotImplementedError("to_folder: write `code` to a file, and save state_dict() with adjoint.save")

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([repr(self), self._code, hint])

    def __reduce__(self) -> tuple[Function, tuple[dict[str, Argument], str]]:
        state = self.__dict__.copy()
        made = self.recompile()
        del state["_graph"]
        return reduce_graph_module, (state, _format_imports(made.globals))

    def __deepcopy__(self, memo: dict[int, Argument]) -> GraphModule:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        graph = copy.deepcopy(self._graph, memo)
        rest = {name: value for name, value in self.__dict__.items() if name != "_graph"}
        root = _CodeOnlyModule(copy.deepcopy(rest, memo))
        GraphModule.__init__(made, root, graph, type(self).__name__)
        for name, value in vars(root).items():
            made.__dict__.setdefault(name, value)
        made.meta = root.__dict__.get("meta", {})
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph, type(self).__name__)
        made.meta = self.meta
        return made


display_name.place(GraphModule, "fx.graph_module")


class _CodeOnlyModule(Module):
    """Module with the state of another one, and code without a graph."""

    def __init__(self, body: dict[str, Argument]) -> None:
        super().__init__()
        self.__dict__.update(body)


def reduce_graph_module(body: dict[str, Argument], import_block: str) -> GraphModule:
    """Rebuild a GraphModule: its code is traced, with all modules as leaves."""
    tracer_class: Argument = body.get("_tracer_cls") or tracer_class_slot.call()
    names = _execute(f"{import_block}\n{body['_code']}", {}, {})
    root = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": names["forward"]})(body)
    keeping = type("KeepModules", (tracer_class,), {"is_leaf_module": lambda self, module, name: True})
    graph = keeping().trace(root, **body.get("_tracer_extras", {}))
    graph._tracer_cls = tracer_class
    made = GraphModule(root, graph)
    for name, value in body.items():
        if not hasattr(made, name):
            setattr(made, name, value)
    return made


def _execute(source: str, names: dict[str, Argument], fields: dict[str, Argument]) -> dict[str, Argument]:
    """Execute code whose lines tracebacks show, and return its global names."""
    file = f"<eval_with_key>.{next(_numbers)}"
    if fields:
        file += f" from {fields['co_filename']}:{fields['co_firstlineno']} in {fields['co_name']}"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = dict(names)
    exec(compile(source, file, "exec", dont_inherit=True), names)
    return names


def _format_imports(names: dict[str, Argument]) -> str:
    """Return the statements that import global names."""
    known = standard_globals()
    lines = {
        known[name][0] if name in known else f"from {value.__module__} import {value.__qualname__} as {name}"
        for name, value in names.items()
    }
    return "\n".join(sorted(lines))


def _iterate_class_lines(module: GraphModule, name: str) -> Iterator[str]:
    """Yield the code of a module as that of a class, and those of modules inside."""
    yield f"class {name}({display_name.package}.nn.Module):"
    below = [module.graph.python_code("self", verbose=True).src.lstrip("\n").split("\n")]
    children = ((name, child) for name, child in module.named_children() if isinstance(child, GraphModule))
    below += (list(_iterate_class_lines(child, name)) for name, child in children)
    yield from ("" if not line or line.isspace() else f"    {line}" for lines in below for line in lines)


def _copy_attr(from_module: Argument, to_module: Argument, target: str) -> None:
    """Let a module have an attribute at a path of another one; modules on the way are made."""
    *path, name = target.split(".")
    for part in path:
        source, made = getattr(from_module, part), getattr(to_module, part, None)
        if source is made:
            return
        if made is None:
            setattr(to_module, part, made := Module())
        from_module, to_module = source, made
    _set_attribute(to_module, name, getattr(from_module, name))


def _assign_attr(from_obj: Argument, to_module: Argument, target: str) -> None:
    """Give a module an attribute at a path; modules on the way are made."""
    *path, name = target.split(".")
    for part in path:
        if getattr(to_module, part, None) is None:
            setattr(to_module, part, Module())
        to_module = getattr(to_module, part)
    _set_attribute(to_module, name, from_obj)


def _set_attribute(module: Argument, name: str, value: Argument) -> None:
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)
