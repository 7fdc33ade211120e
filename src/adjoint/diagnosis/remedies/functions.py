"""Remedies for functions that are given: called too early, with another result than a transform or a loader takes."""

from __future__ import annotations

import ast
import inspect
import re

from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.callbacks import SIGNATURE_ERROR, find_callbacks, name_given_arguments
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import evaluate, find_origin, find_return_in, is_module
from adjoint.diagnosis.remedies.registry import argument_node, at, named_parts, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import SourceFile, find_function, parse_source, text_of
from adjoint.nn.module.module import Module


@remedy(r"'NoneType' object is not callable")
def give_function_itself(failure: Failure, match: re.Match[str]) -> str | None:
    """A function that is called where it is registered, so that its result is registered."""
    source: SourceFile | None = None if failure.line is None else failure.line.source
    if not failure.stack[0].called or source is None:
        return None
    for call in source.nodes_of(ast.Call):
        takes_function = text_of(call.func).rpartition(".")[2].startswith("register_")
        given = [
            *(call.args if takes_function else ()),
            *(each.value for each in call.keywords if str(each.arg).endswith(("_fn", "hook", "lambda"))),
        ]
        for argument in given:
            function = evaluate(argument.func, failure.frame) if isinstance(argument, ast.Call) else None
            if (
                isinstance(argument, ast.Call)
                and inspect.isfunction(function)
                and user_files[function.__code__.co_filename]
            ):
                name = text_of(argument.func)
                home = parse_source(function.__code__.co_filename)
                made = None if home is None else find_function(home, function.__code__.co_firstlineno)
                inner = made.body[-1].name if made is not None and isinstance(made.body[-1], ast.FunctionDef) else None
                if inner is not None:
                    where = definition_site(function.__code__).describe_briefly()
                    return f"{name}, {where}, returns nothing: return {inner} at its end"
                told = f"{text_of(argument)} at {source.place_of(argument)} calls {name}, and gives its result"
                return f"{told}: {name} without its brackets there"
    return None


@remedy(r"^'(\w+)' object has no attribute '(\w+)'$")
def give_other_object(failure: Failure, match: re.Match[str]) -> str | None:
    """An object of another kind than a function of the library works on, where the frame has one of that kind."""
    node = failure.node
    if (
        not isinstance(node, ast.Call)
        or not failure.stack[0].called
        or match[2].startswith("_")
        or match[2] in dir(Tensor)
    ):
        return None
    for argument in (*node.args, *(each.value for each in node.keywords)):
        value = evaluate(argument, failure.frame)
        if type(value).__name__ != match[1]:
            continue
        for name, other in {**failure.frame.f_globals, **failure.frame.f_locals}.items():
            if (
                match[2] in getattr(other, "__dict__", {})
                and not isinstance(other, type)
                and not inspect.ismodule(other)
            ):
                own = next((each for each in failure.operands if each.value is value), None)
                kind = type(other).__name__
                return (
                    f"{text_of(argument)}{at(own)} is a {match[1]}, and {name}, a {kind}, has {match[2]}: "
                    f"{text_of(node.func)}({name})"
                )
    return None


@remedy(
    r"iter\(\) returned non-iterator of type '(\w+)'|__len__\(\) should return|"
    r"'(\w+)' object cannot be interpreted as an integer"
)
def return_iterator(failure: Failure, match: re.Match[str]) -> str | None:
    """An `__iter__` of the user's that gives a list or a tensor."""
    if not match[1]:
        return None
    source: SourceFile | None = None if failure.line is None else failure.line.source
    for node in source.nodes_of(ast.FunctionDef) if source is not None else ():
        if source is None or node.name != "__iter__":
            continue
        result = next(
            (each for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None), None
        )
        if result is not None and result.value is not None:
            text = text_of(result.value)
            way = f"iter({text}.tolist())" if match[1] == "Tensor" else f"iter({text})"
            return (
                f"__iter__ at {source.place_of(result)} returns a {match[1]}, and an iterator is wanted: return {way}"
            )
    return None


@remedy(
    r"Expected f\(\*args\) to return a Tensor, got <class '(\w+)'>|should contain a single element|if has_aux is True|"
    r"returned by the function given to \w+ should"
)
def return_scalar(failure: Failure, match: re.Match[str]) -> str | None:
    """A function whose derivative is asked for, and that gives more than one number."""
    node = failure.node
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)] if node is not None else []
    for argument in (argument for call in calls for argument in call.args):
        function = evaluate(argument, failure.frame)
        code = getattr(function, "__code__", None)
        if code is None or not user_files[code.co_filename]:
            continue
        name, result = text_of(argument), find_return_in(code)
        where = "" if result is None else f", {result.describe()},"
        value = None if result is None else getattr(result.node, "value", None)
        if "has_aux" in match[0]:
            return f"{name}{where} gives one value: return it and what comes with it, or leave has_aux=True out"
        if match[1] in ("float", "int") and value is not None:
            text = text_of(value).removesuffix(".item()")
            text = text[6:-1] if text.startswith("float(") else text
            if isinstance(value, ast.Constant):
                return f"{name}{where} gives the same number for all inputs: a tensor that is computed of them"
            return f"{name}{where} gives a Python number, which has no graph: return {text}"
        if match[1]:
            return f"{name}{where} gives a {match[1]}: the loss first, and has_aux=True for what comes with it"
        return (
            f"{name}{where} gives several numbers: .sum() or .mean() of them there, or jacobian for a derivative "
            "of each"
        )
    return None


@remedy(r"Sequential Schedulers expects number of schedulers .* number of schedulers (\d+)")
def give_milestones(failure: Failure, match: re.Match[str]) -> str:
    """Another number of milestones than changes of schedule."""
    count = int(match[1]) - 1
    return f"{match[1]} schedulers change {count} times: milestones=[{', '.join(['…'] * count)}], the epochs at which"


@remedy(
    r"Fan in and fan out can not be computed for tensor with fewer than 2 dimensions|"
    r"Only tensors with 2 or more dimensions are supported"
)
def fill_vector(failure: Failure, match: re.Match[str]) -> str:
    """An initialisation by fans of a vector, such as a bias."""
    x = next(iter(failure.tensors()), None)
    name = "the bias" if x is None else x.text
    size = "" if x is None else f", {tuple(x.value.shape)},"
    if x is not None and x.origin is not None and isinstance(x.origin.node, ast.For):
        return f"{name}{size} is a vector, as biases are, and a matrix is wanted: if {name}.ndim > 1: before it"
    if name.endswith(".weight") and x is not None:
        return f"{name}{size} is a vector, such as that of a normalisation: if {name}.ndim > 1: before it"
    return f"{name}{size} is a vector, and fans are those of a matrix: nn.init.zeros_({name}), or leave it as it is"


@remedy(r"attribute '(\w+)' already exists")
def keep_one_assignment(failure: Failure, match: re.Match[str]) -> str | None:
    """A buffer, parameter or module under a name that is taken."""
    source: SourceFile | None = None if failure.line is None else failure.line.source
    node = failure.node
    scope = None if source is None or node is None else source.scope_of(node)
    for statement in ast.walk(scope) if scope is not None else ():
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if source is not None and any(text_of(each) == f"self.{match[1]}" for each in targets):
            return f"self.{match[1]} at {source.place_of(statement)} is a plain attribute of that name: leave it out"
    return f"{match[1]} is a method or an attribute of the module: another name"


@remedy(r"^(\w+) has no attribute `([\w.]+)`")
def name_submodules(failure: Failure, match: re.Match[str]) -> str | None:
    """A part that a model has not, by its path."""
    model = failure.named_module()
    if model is None:
        return None
    names = [name for name, _ in model.value.named_modules() if name]
    return f"{model.text}{at(model)} has the parts {', '.join(map(repr, names[:12]))}"


@remedy(r"offsets has to be a 1D Tensor but got None")
def give_offsets(failure: Failure, match: re.Match[str]) -> str:
    """Indices of one dimension for a layer that sums bags of them."""
    x = next(iter(failure.tensors()), None)
    name = "ids" if x is None else x.text
    return f"{name}.unsqueeze(0) is one bag of all; or offsets=, where each bag begins"


@remedy(r"Can't access the shape of an uninitialized parameter|uninitialized parameter")
def run_once(failure: Failure, match: re.Match[str]) -> str:
    """A parameter of a lazy layer, which has no size before its first input."""
    return "a lazy layer takes its sizes from its first input: run the model on one batch before this line"


@remedy(r"assigned grad has data of a different size: .* size \[([\d, ]*)\] to a tensor of size \[([\d, ]*)\]")
def fit_gradient(failure: Failure, match: re.Match[str]) -> str:
    """A gradient of another shape than its tensor."""
    node = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    name = text_of(target.value) if isinstance(target, ast.Attribute) else "x"
    return f"{name} is [{match[2]}], and its gradient has that shape: {name}.grad = torch.ones_like({name})"


@remedy(SIGNATURE_ERROR.pattern, is_last=True)
def fit_callback(failure: Failure, match: re.Match[str]) -> str | None:
    """A function of the user's that the library calls with another number of arguments than it takes."""
    named = match[1].rpartition(".")[2]
    callback = next((each for each in find_callbacks(failure.stack, failure.message) if each.is_called(named)), None)
    if callback is None or not (match[2] or match[3]) or failure.frame.f_code is callback.code:
        return None
    node = failure.node
    passed = node.args[1:] if isinstance(node, ast.Call) and node.args else []
    function = node.args[0] if isinstance(node, ast.Call) and passed else None
    bound = 1 if callback.parameters[:1] == ("self",) else 0
    if (
        match[3]
        and function is not None
        and text_of(function).rpartition(".")[2] == named
        and isinstance(node, ast.Call)
    ):
        missing = callback.parameters[bound + len(passed) :]
        keywords = [text_of(each) for each in node.keywords]
        call = f"{text_of(node.func)}({', '.join([*map(text_of, node.args), *missing, *keywords])})"
        where = definition_site(callback.code).describe_briefly()
        return f"{callback.name}, {where}, takes {', '.join(callback.parameters[bound:])}: {call}"
    count = len(callback.parameters)
    given = int(match[2]) if match[2] else count - int(match[3])
    if bound and match[3] and given == 1 and not named.startswith("__"):
        names = {**failure.frame.f_globals, **failure.frame.f_locals}
        kind = match[1].rpartition(".")[0].rpartition(".")[2]
        owner = next((name for name, each in names.items() if type(each).__name__ == kind), "an object")
        told = f"{callback.name}, {definition_site(callback.code).describe_briefly()}, is a method of no object"
        return f"{told}, so that what it is called with is self: {owner}.{named} where it is given"
    where = definition_site(callback.code).describe_briefly()
    if given == count + 1 and named.startswith("__") and callback.parameters[:1] != ("self",):
        return f"{callback.name}, {where}, lacks self: def {named}({', '.join(('self', *callback.parameters))})"
    if named in ("__getitem__", "__len__", "__iter__"):
        own = ", ".join(callback.parameters[:given])
        return f"{callback.name}, {where}, is given {own} alone: def {named}({own})"
    if "kwargs" in callback.parameters and match[3] == "1" and "output" in (*callback.parameters, "output"):
        told = f"{callback.name}, {where}, takes {', '.join(callback.parameters)}, and a hook gets no kwargs by itself"
        return f"{told}: with_kwargs=True where it is registered"
    wanted = ", ".join(name_given_arguments(failure.error, callback, given))
    form = f"lambda {wanted}: …" if named == "<lambda>" else f"def {named}({wanted})"
    if match[3] and named != "<lambda>" and given:
        form += f", or a lambda that gives the others, lambda {wanted}: {named}({wanted}, …)"
    where = definition_site(callback.code).describe_briefly()
    told = f"{callback.name}, {where}, is called with {pluralize(given, 'argument')}, and it takes {count}"
    return f"{told}: {form}"


@remedy(r"^'Tensor' object has no attribute '(\w+)'|^'Parameter' object has no attribute '(\w+)'")
def ask_model(failure: Failure, match: re.Match[str]) -> str | None:
    """A method of models that is asked of what a model gave."""
    name = match[1] or match[2]
    node = failure.node
    owner = (
        next((each.value for each in ast.walk(node) if isinstance(each, ast.Attribute) and each.attr == name), None)
        if node
        else None
    )
    if owner is None or name not in dir(Module) or failure.line is None:
        return None
    call: ast.expr | None = owner
    if isinstance(owner, (ast.Name, ast.Attribute)):
        origin = find_origin(failure.line.source, owner, failure.stack)
        call = None if origin is None else origin.value
    model = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
    if isinstance(call, ast.Call) and is_module(model):
        return (
            f"{text_of(owner)} is a tensor, which {text_of(call.func)} gave, and {name} belongs to the model: "
            f"{text_of(call.func)}.{name}(…)"
        )
    models = [key for key, each in {**failure.frame.f_globals, **failure.frame.f_locals}.items() if is_module(each)]
    return f"{text_of(owner)} is a tensor, and {name} belongs to a model: {models[0]}.{name}(…)" if models else None


@remedy(r"^not (?:enough|all) arguments (?:for format string|converted during string formatting)")
def give_tuple(failure: Failure, match: re.Match[str]) -> str | None:
    """A text with more places than values beside its %."""
    node = failure.node
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mod):
        return None
    template = evaluate(node.left, failure.frame)
    count = len(re.findall(r"%(?!%)", template)) if isinstance(template, str) else 0
    given = len(node.right.elts) if isinstance(node.right, ast.Tuple) else 1
    parent = None if failure.line is None else failure.line.source.parents.get(node)
    rest = parent.args[parent.args.index(node) + 1 :] if isinstance(parent, ast.Call) and node in parent.args else []
    if given + len(rest) == count and rest:
        return f"{text_of(node.left)} has {count} places: % ({', '.join(map(text_of, (node.right, *rest)))})"
    return f"{text_of(node.left)} has {count} places, and {given} values are given: % (…) with {count} of them"


@remedy(r"save\(\) missing 1 required positional argument: 'f'")
def give_object(failure: Failure, match: re.Match[str]) -> str | None:
    """A path without what is to be saved."""
    node, given = failure.node, argument_node(failure, 0)
    if given is None or not isinstance(node, ast.Call) or not isinstance(evaluate(given, failure.frame), str):
        return None
    models = [key for key, each in {**failure.frame.f_globals, **failure.frame.f_locals}.items() if is_module(each)]
    saved = f"{models[-1]}.state_dict()" if models else "…"
    return f"what is saved comes first, then the path: {text_of(node.func)}({saved}, {text_of(given)})"


@remedy(r"f must be a path or an open binary file")
def swap_path(failure: Failure, match: re.Match[str]) -> str | None:
    """A path and what is to be saved, the wrong way round."""
    first, second = argument_node(failure, 0), argument_node(failure, 1)
    if first is None or second is None or failure.line is None or not isinstance(failure.line.node, ast.Call):
        return None
    return (
        f"what is saved comes first, then the path: {text_of(failure.line.node.func)}({text_of(second)}, "
        f"{text_of(first)})"
    )


@remedy(
    r"too few for a safetensors file|not a (?:safetensors|zip|checkpoint)|unpickling stack underflow|"
    r"invalid load key|PytorchStreamReader|could not find MARK"
)
def read_other_file(failure: Failure, match: re.Match[str]) -> str:
    """A file that no save wrote."""
    path = argument_node(failure, 0)
    name = "the file" if path is None else text_of(path)
    if ".npy file" in failure.message:
        return f"{name} is an array that NumPy saved: torch.from_numpy(np.load({name}))"
    if re.search(r"\.(?:txt|csv|json|yaml)\W*$", name):
        return f"{name} is a text, and no file of torch.save: np.loadtxt, json or csv read such files"
    return f"{name} holds no checkpoint: look at what wrote it, or at whether it was written (or downloaded) to its end"


@remedy(r"^list indices must be integers or slices, not str")
def choose_dict(failure: Failure, match: re.Match[str]) -> str | None:
    """A key that is asked of a list of dictionaries."""
    node = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    for part in ast.walk(node) if node is not None else ():
        held = compute(part.value, failure.frame) if isinstance(part, ast.Subscript) else None
        if not isinstance(part, ast.Subscript) or not isinstance(held, list):
            continue
        name, key = text_of(part.value), text_of(part.slice)
        if held and isinstance(held[0], dict) and isinstance(part.ctx, ast.Store):
            return f"{name} is a list of {pluralize(len(held), 'dict')}: for each in {name}: each[{key}] = …"
        if held and isinstance(held[0], dict):
            read = f"{name}[0][{key}]" if len(held) == 1 else f"[each[{key}] for each in {name}]"
            if compute(part.slice, failure.frame) not in held[0]:
                return f"{name}{at(failure.find_operand(name))} is a list of {len(held)}, by their places: {name}[0]"
            return f"{name} is a list of {pluralize(len(held), 'dict')}: {read}"
        return f"{name} is a list, whose items have places and no names: {name}[0], or a dict"
    return None


@remedy(r"(\w+): Expected input to be 1D or 2D, got 3D")
def loop_over_steps(failure: Failure, match: re.Match[str]) -> str | None:
    """A sequence where a cell takes one step of it."""
    layer, x = failure.module(), next(iter(failure.tensors()), None)
    if layer is None:
        return None
    name = "x" if x is None else x.text
    return (
        f"{layer.text}{at(layer)} computes one step: nn.{match[1].removesuffix('Cell')}, or a loop, h = "
        f"{layer.text}({name}[:, t], h) for each t"
    )


@remedy(r"valid sizes range from \[([\d, ]+)\] to \[([\d, ]+)\]")
def choose_output_size(failure: Failure, match: re.Match[str]) -> str:
    """An output size that a transposed convolution cannot have."""
    return f"output_size=({match[2]}), or ({match[1]}); another stride or kernel for others"


@remedy(r"more than one element of the written-to tensor refers to a single memory location")
def copy_expanded(failure: Failure, match: re.Match[str]) -> str:
    """A write into a tensor that `expand` made, whose rows are one."""
    node = failure.node
    x = next(iter(failure.tensors()), None)
    target = text_of(node.target) if isinstance(node, ast.AugAssign) else "x" if x is None else x.text
    return (
        f"{target}{at(x)} has rows that are one in memory, as expand makes them: {target} = {target}.clone() before it"
    )


@remedy(
    r"object of type '(int|float|bool|NoneType)' has no len\(\)|'(int|float|bool|"
    r"NoneType)' object is not (?:iterable|subscriptable)"
)
def give_collection(failure: Failure, match: re.Match[str]) -> str | None:
    """A number that an object of the library was made with, where it goes through several values."""
    kind = match[1] or match[2]
    for part in named_parts(failure):
        held = getattr(part.value, "__dict__", {}) if type(part.value).__module__.startswith("adjoint.data") else {}
        for name, value in held.items():
            if (
                type(value).__name__ == kind
                and part.origin is not None
                and re.search(rf"\b{value}\b", part.origin.describe())
            ):
                told = f"{part.text} at {part.origin.describe()} has {name}={value}, one {kind}, where several belong"
                return f"{told}: {f'range({value})' if kind == 'int' else '[…]'} there"
    return None
