"""`adjoint.fx`, which is `torch.fx`: functions and modules as graphs of calls that can be read and changed.

Modules, in reading order:

- `call_capture`: Capture of calls with proxies: while there are some, public functions and methods of tensors record
  them.
- `codegen`: Code of a graph, as PyTorch prints it: a `forward` of one line for each node.
- `graph`: Graph of calls: a function as a list of nodes that can be read, changed and written as code.
- `graph_module`: Module whose forward is the code of a graph.
- `immutable_collections`: Lists and dicts that are arguments of nodes: a graph knows its uses only if nobody changes
  them in place.
- `interpreter`: Interpreters of graphs: a graph is run node by node, with whatever a subclass does instead.
- `naming`: Names of values, and operators, in graphs and in the code that is written for them.
- `node`: Node of a graph: one call, its arguments, and the nodes that use what it returns.
- `proxy`: Proxies: stand-ins for values in a traced function, which record what is done to them.
- `qualified_names`: Names of functions in printed code: PyTorch's own, and how its functions pass on what they were
  given.
- `root_arguments`: Inputs of a traced function: a placeholder for each parameter, and those that have concrete values
  instead.
- `shape_prop`: `adjoint.fx.passes.shape_prop`: shapes and types of the values of a graph, found by running it.
- `subgraph_rewriter`: Replacement of parts of a graph that look like a pattern.
- `symbolic_trace`: Tracer of a module or function: it is run once with proxies, and its graph is what they recorded.
- `target_checks`: Checks of a graph: what its nodes name exists, and is computed before it is used.
- `wrapped_functions`: Functions that a trace records as one call: those that `wrap` names, and functions of `math`.
"""

from __future__ import annotations

from adjoint.compat.fx.graph import CodeGen, Graph
from adjoint.compat.fx.graph_module import GraphModule
from adjoint.compat.fx.interpreter import Interpreter, Transformer
from adjoint.compat.fx.node import Node, has_side_effect, map_arg
from adjoint.compat.fx.proxy import Proxy
from adjoint.compat.fx.subgraph_rewriter import replace_pattern
from adjoint.compat.fx.symbolic_trace import PH as PH
from adjoint.compat.fx.symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from adjoint.compat.fx.symbolic_trace import Tracer, symbolic_trace, wrap

__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
