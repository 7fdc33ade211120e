"""Remedies for datasets and loaders: samples, samplers, lengths, processes, and what puts a batch together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sized

from adjoint.core.graph.source_location import definition_site
from adjoint.core.runtime.text_table import pluralize
from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.data.loader import DataLoader
from adjoint.data.sampler import WeightedRandomSampler
from adjoint.diagnosis.causes.called_functions import unwrap
from adjoint.diagnosis.causes.computing import open_program
from adjoint.diagnosis.causes.results import enter_call, find_returned
from adjoint.diagnosis.causes.searches.samples import find_collated_samples, find_item_path
from adjoint.diagnosis.causes.steps import trace_back
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, NamedValue, Origin, evaluate, find_return_in
from adjoint.diagnosis.remedies.registry import at, find_class, remedy
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_assignment, find_expression, text_of

MAX_STEPS_BACK = 4
MAX_RESULTS = 8  # of functions that are looked through
COUNTING = re.compile(r"randperm$|arange$|^range$|\.permutation$")


@remedy(r"Size mismatch between tensors")
def match_lengths(failure: Failure, match: re.Match[str]) -> str:
    """Tensors of a dataset with different numbers of samples."""
    given = {text_of(each): compute(each, failure.frame) for each in getattr(failure.node, "args", ())}
    sizes = {text: len(each) for text, each in given.items() if isinstance(each, Tensor) and each.ndim}
    for text, count in sizes.items():
        whole, _, cut = text.partition("[")
        held = failure.find_operand(whole)
        others = [each for each, size in sizes.items() if held is not None and size == len(held.value)]
        if cut and others and held is not None and count != len(held.value):
            told = f"{text} has {count} rows, and {others[0]} all {sizes[others[0]]}"
            return f"{told}: {others[0]}[{cut}"
    told = ", ".join(
        f"{each.text}{at(each)} has {each.value.shape[0]}" for each in failure.tensors() if each.value.ndim
    )
    return f"a sample is a row of each, so all have as many: {told}"


@remedy(r"[Ss]um of input lengths does not equal the length of the input dataset")
def split_all(failure: Failure, match: re.Match[str]) -> str:
    """Parts that are not the whole."""
    dataset, lengths = failure.locals["dataset"], failure.locals["lengths"]
    told = f"the dataset has {pluralize(len(dataset), 'sample')}, and {list(lengths)} adds up to {sum(lengths)}"
    return f"{told}; fractions such as [0.8, 0.2] need no counting"


@remedy(r"but got NoneType")
def leave_samples_out(failure: Failure, match: re.Match[str]) -> str | None:
    """A sample of which a part is None, that a method of the dataset has given for it."""
    loader = next((each.value for each in failure.operands if isinstance(each.value, DataLoader)), None)
    dataset = failure.locals.get("dataset", getattr(loader, "dataset", None))
    function = unwrap(getattr(type(dataset), "__getitem__", None))
    context = None if function is None else open_program(failure).enter(function, None, dataset)
    pending, place = [] if context is None else find_returned(context, ()), None
    for _, step in zip(range(MAX_RESULTS), pending, strict=False):  # it grows
        if isinstance(step.node, ast.Constant) and step.node.value is None:
            place = step.place()
            break
        for call in ast.walk(step.node):
            inner = enter_call(step.at(call, ()), call) if isinstance(call, ast.Call) else None
            pending += [] if inner is None else find_returned(inner, ())
    told = f"a sample of {type(dataset).__name__} holds None, which {place} gives for it"
    way = "leave such samples out when the dataset is made, or in a collate_fn="
    return None if place is None else f"{told}, and None is no part of a batch: {way}"


@remedy(r"object of type '(\w+)' has no len\(\)|'(NoneType)' object has no attribute")
def define_length(failure: Failure, match: re.Match[str]) -> str | None:
    """A dataset without a length."""
    batch = failure.locals.get("batch", failure.locals.get("samples"))
    if "NoneType" in match.groups():
        places = [i for i, each in enumerate(batch) if each is None] if isinstance(batch, (list, tuple)) else []
        if not places:
            return None
        return (
            f"sample {places[0]} of the batch is None{_find_getitem(failure)}: leave such samples out when the dataset "
            "is made, or in a collate_fn="
        )
    if match[1] == "generator":
        return "a loader takes a data set with items and a length: list(…) of the generator, or an IterableDataset"
    kind = evaluate(ast.Name(match[1], ast.Load()), failure.frame)
    if kind in (int, float, bool):
        for call in ast.walk(failure.line.node) if failure.line is not None else ():
            if isinstance(call, ast.Call) and text_of(call.func) == "len" and call.args and not failure.stack[0].called:
                x = text_of(call.args[0])
                return f"{x}{at(failure.find_operand(x))} is one {match[1]}, no list: {x} itself, without len()"
        return None
    if hasattr(kind, "forward"):
        return None  # a model, no dataset
    place = find_class(kind)
    where = "" if place is None else f" ({place})"
    named = next((name for name in ("len", "length", "__length__", "size", "_len__") if name in vars(kind)), None)
    if named is not None:
        return f"{named} of {match[1]}{where} is to be called __len__, which a loader that shuffles asks for"
    return f"{match[1]}{where} needs __len__, the number of its samples, for a loader that shuffles or draws from it"


@remedy(r"cannot sample n_sample > prob_dist\.size\(-1\) samples without replacement")
def weigh_each_sample(failure: Failure, match: re.Match[str]) -> str | None:
    """A sampler that is to draw more samples than it has weights, such as one weight for each class."""
    sampler = next((x for x in _own_objects(failure) if isinstance(x, WeightedRandomSampler)), None)
    if sampler is None:
        return None
    count, drawn = len(sampler.weights), sampler.num_samples
    loader = next((each.value for each in failure.operands if isinstance(each.value, DataLoader)), None)
    holders = [x for own in _own_objects(failure) for x in (own, *getattr(own, "__dict__", {}).values())]
    loader = loader or next((x for x in holders if isinstance(x, DataLoader)), None)
    dataset = getattr(loader, "dataset", None)
    place = _locate_object(failure, sampler)
    told = f"the WeightedRandomSampler{place} has {pluralize(count, 'weight')}{_locate_weights(failure, sampler)}"
    told += f", and draws {drawn}"
    if isinstance(dataset, Sized) and len(dataset) > count:
        return f"{told} of {len(dataset)} samples: a weight for each sample, such as class_weights[labels]"
    return f"{told}: replacement=True there, or num_samples={count} at most"


def _locate_weights(failure: Failure, sampler: Operand) -> str:
    """Return " from train.py:8" for the line that made the weights of a sampler."""
    made = open_program(failure).find_construction(sampler)
    given = made.node.args[0] if made is not None and isinstance(made.node, ast.Call) and made.node.args else None
    first = None if made is None or given is None else made.at(given, ())
    steps = [] if first is None else [*trace_back(first)][1:]
    last = next((each for each in steps if not isinstance(each.node, (ast.Name, ast.Attribute))), None)
    return "" if last is None else f" from {last.line()}"


@remedy(r"only integers, slices|indices must be integers")
def convert_subset(failure: Failure, match: re.Match[str]) -> str | None:
    """A part of a dataset whose numbers of samples are floats."""
    part = next((x for x in _own_objects(failure) if type(x).__name__ == "Subset"), None)
    indices = getattr(part, "indices", None)
    kind = getattr(indices, "dtype", None)
    if part is None or kind is None or "float" not in str(kind):
        return None
    method = "long()" if isinstance(indices, Tensor) else "astype(int)"
    place = _locate_object(failure, part)
    return f"the indices of the Subset{place} are {kind}, and samples have whole numbers: .{method}"


def _own_objects(failure: Failure) -> Iterator[Operand]:
    """Yield the objects whose methods the error has left, innermost first."""
    frames, trace = list(failure.stack[0].called), failure.error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    yield from (frame.f_locals["self"] for frame in reversed(frames) if "self" in frame.f_locals)


def _locate_object(failure: Failure, value: Operand) -> str:
    """Return " at train.py:9" for the line that gave a name of the user's frames an object."""
    for place in failure.stack:
        source, node = find_expression(place) or (None, None)
        names = [name for name, each in {**place.frame.f_globals, **place.frame.f_locals}.items() if each is value]
        if source is None or node is None:
            continue
        for scope in (source.scope_of(node), source.tree):
            statements = [find_assignment(source, scope, name, None) for name in names]
            made = next(filter(None, statements), None)
            if made is not None:
                return f" at {source.place_of(made)}"
    return ""


def _find_getitem(failure: Failure) -> str:
    """Return the line of `__getitem__` of the dataset of which a batch was put together."""
    dataset = failure.locals.get("dataset")
    owner = failure.locals.get("self")
    dataset = getattr(owner, "dataset", None) if dataset is None else dataset
    code = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
    result = None if code is None else find_return_in(code)
    if result is None:
        return ""
    scope = result.source.scope_of(result.node)
    returned = [each for each in result.source.nodes_of(ast.Return) if result.source.scope_of(each) is scope]
    empty = [each for each in returned if each.value is None or text_of(each.value) == "None"]
    return f", from __getitem__ at {result.source.place_of(empty[0] if empty else result.node)}"


@remedy(r"'str' object has no attribute|must be Tensor, not str")
def read_keys(failure: Failure, match: re.Match[str]) -> str | None:
    """The keys of a batch, or of another dict, where its values are wanted."""
    node: ast.AST | None = failure.node
    while failure.line is not None and node is not None and not isinstance(node, ast.stmt):
        for each in getattr(node, "generators", ()):
            values = (evaluate(each.iter, place.frame) for place in failure.stack)
            held = next((value for value in values if value is not MISSING), None)
            if isinstance(held, dict) and held:
                name, key = text_of(each.iter), "params" if "params" in held else next(iter(held))
                told = f"{name} is a dict of {', '.join(map(repr, list(held)[:3]))}, and a loop goes through its keys"
                return f"{told}: {name}[{key!r}], or {name}.values()"
        node = failure.line.source.parents.get(node)
    for operand in failure.operands:
        node = None if operand.origin is None else operand.origin.node
        if isinstance(operand.value, str) and isinstance(node, (ast.For, ast.AsyncFor)):
            key, name = repr(operand.value), f"{operand.text}{at(operand)}"
            return f"{name} is the key {key}, for the batch is a dict: for batch in …, and batch[{key}]"
    return None


@remedy(r"^'?(\w+)'?$")
def give_same_keys(failure: Failure, match: re.Match[str]) -> str | None:
    """Samples that are dicts of different keys."""
    samples = failure.locals.get("samples", failure.locals.get("batch"))
    if not isinstance(failure.error, KeyError) or not isinstance(samples, list) or not failure.stack[0].called:
        return None
    lacking = [i for i, each in enumerate(samples) if isinstance(each, dict) and match[1] not in each]
    if not lacking:
        return None
    told = f"sample {lacking[0]} of the batch has no {match[1]!r}, which sample 0 has"
    source = None if failure.line is None else failure.line.source
    keys = sorted(map(repr, samples[lacking[0]]))
    for node in source.nodes_of(ast.Dict) if source is not None else ():
        if source is not None and sorted(text_of(x) for x in node.keys if x) == keys:
            told += f", but {', '.join(keys)}, by {text_of(node)} at {source.place_of(node)}"
            break
    return f"{told}: all with the same keys"


@remedy(r"batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class '([\w.]+)'>")
def collate_values(failure: Failure, match: re.Match[str]) -> str:
    """Samples that hold what cannot be put together."""
    what = "None" if match[1] == "NoneType" else f"a {match[1]}"
    samples = find_collated_samples(failure) or []
    odd = next(
        ((i, path) for i, each in enumerate(samples) if (path := find_item_path(each, match[1])) is not None), None
    )
    if odd is not None:
        key = "".join(f"[{each!r}]" for each in odd[1])
        what += f" as {key} of sample {odd[0]} of the batch" if key else f" for sample {odd[0]} of the batch"
    return (
        f"__getitem__ gives {what}: tensors, arrays or numbers there, or a collate_fn= that puts its samples together"
    )


@remedy(r"(\w+) has no __getitem__, which a Dataset needs")
def define_items(failure: Failure, match: re.Match[str]) -> str:
    """A dataset whose method has another name."""
    kind = type(failure.locals.get("dataset"))
    own = [name for name in vars(kind) if name.strip("_").lower() in ("getitem", "get_item", "get", "get_items")]
    code = getattr(vars(kind).get(own[0]), "__code__", None) if own else None
    if code is not None:
        return f"{own[0]}, {definition_site(code).describe_briefly()}, is to be called __getitem__"
    return f"def __getitem__(self, i) in {match[1]}, which returns sample i"


@remedy(r"index out of range|out of bounds|^'?\d+'?$")
def fit_sampler(failure: Failure, match: re.Match[str]) -> str | None:
    """A sampler that gives indices which the loader's dataset has not."""
    node = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    for part in ast.walk(node) if node is not None else ():
        loader = evaluate(part, failure.frame) if isinstance(part, (ast.Name, ast.Attribute)) else None
        dataset, sampler = (getattr(loader, "__dict__", {}).get(name) for name in ("dataset", "sampler"))
        own = failure.find_operand(text_of(part))
        if isinstance(dataset, dict):
            told = f"the dataset of {text_of(part)}{at(own)} is a dict, and samples are read by number"
            return f"{told}: TensorDataset(*data.values()), or a list of dicts"
        outside = _find_outside(sampler, dataset)
        if outside is not None and isinstance(dataset, Sized):
            told = f"the sampler of {text_of(part)}{at(own)} gives {outside}, and its dataset"
            if "indices" in getattr(dataset, "__dict__", {}):
                whole = "shuffle=True in place of the sampler, or the whole dataset with it"
                return f"{told}, a Subset, has {pluralize(len(dataset), 'sample')}, counted from 0 within it: {whole}"
            return f"{told}, a {type(dataset).__name__}, has {pluralize(len(dataset), 'sample')}: indices below that"
        subsets = {each.text: each.value for each in failure.operands if type(each.value).__name__ == "Subset"}
        for name, subset in {text_of(part): loader, "its dataset": dataset, **subsets}.items():
            held = getattr(subset, "__dict__", {}).get("dataset") if type(subset).__name__ == "Subset" else None
            outside = None if held is None else _find_outside(subset, held)
            if outside is not None and isinstance(held, Sized):
                where = at(failure.find_operand(name))
                told = f"{name}{where} is a Subset with the index {outside}, and its dataset has {len(held)} samples"
                counted = _find_count(failure.find_operand(name), len(held))
                if counted is not None:
                    return f"{told}: {counted}"
                return f"{told}: indices from 0 to {len(held) - 1}"
    return None


def _find_count(subset: NamedValue | None, size: int) -> str | None:
    """Return which call that gave a subset its indices counts to another number than the dataset has samples."""
    origin = None if subset is None else subset.origin
    node: ast.AST | None = None if origin is None or subset is None else origin.value_of(subset.text)
    for _ in range(MAX_STEPS_BACK):
        if node is None or origin is None:
            return None
        for call in ast.walk(node):
            is_count = isinstance(call, ast.Call) and COUNTING.search(text_of(call.func)) is not None
            given = call.args[-1] if isinstance(call, ast.Call) and is_count and call.args else None
            if isinstance(call, ast.Call) and isinstance(given, ast.Constant) and given.value not in (size, None):
                place = origin.source.place_of(call)
                arguments = ", ".join([*map(text_of, call.args[:-1]), str(size)])
                return f"{text_of(call)} at {place} counts to {text_of(given)}: {text_of(call.func)}({arguments}) there"
        names = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
        found = [find_assignment(origin.source, origin.source.scope_of(each), each.id, each) for each in names[::-1]]
        origins = [Origin(origin.source, each) for each in found if isinstance(each, ast.Assign)]
        values = [(each.value_of(name.id), each) for each, name in zip(origins, names[::-1], strict=False)]
        node = next((value for value, _ in values if isinstance(value, (ast.Call, ast.Subscript))), None)
    return None


def _find_outside(sampler: Operand, dataset: Operand) -> int | None:
    """Return an index of a sampler, or of a subset, that a dataset has not."""
    indices = getattr(sampler, "__dict__", {}).get("indices", sampler)
    indices = indices.tolist() if isinstance(indices, Tensor) else indices
    if not isinstance(indices, (list, tuple, range)) or not isinstance(dataset, Sized):
        return None
    return next((i for i in indices if type(i) is int and not -len(dataset) <= i < len(dataset)), None)


@remedy(r"module name can")
def replace_dots(failure: Failure, match: re.Match[str]) -> str | None:
    """A name with a dot for a part of a model, whose paths have dots."""
    node = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    call = node.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    name = (
        target.slice if isinstance(target, ast.Subscript) else call.args[0] if call is not None and call.args else None
    )
    if name is None:
        return None
    return f"dots divide the paths of parts: {text_of(name)}.replace('.', '_')"


@remedy(r"(\w+) option (?:needs|could only be specified in multiprocessing: let) num_workers > 0")
def add_workers(failure: Failure, match: re.Match[str]) -> str:
    """An option of a loader's processes, of which it has none."""
    return f"{match[1]}= is for the processes of a loader: num_workers=2 with it, or leave it out"


@remedy(r"'(\w+)' object has no attribute '(?:randperm|randint|get_state|seed|uniform|_\w+)'")
def make_generator(failure: Failure, match: re.Match[str]) -> str | None:
    """A seed in the place of a generator."""
    node = failure.node
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        value = evaluate(keyword.value, failure.frame)
        if keyword.arg == "generator" and type(value).__name__ == match[1]:
            seed = text_of(keyword.value)
            return f"generator= is to be a generator, not its seed: torch.Generator().manual_seed({seed})"
    return None


@remedy(r"list indices must be integers or slices, not (list|tuple)|only integer tensors|unhashable type: '(list)'")
def give_batch_sampler(failure: Failure, match: re.Match[str]) -> str | None:
    """A sampler of whole batches, where one of single samples belongs."""
    source = None if failure.line is None else failure.line.source
    for call in source.calls.get("DataLoader", ()) if source is not None else ():
        if source is None:
            continue
        for keyword in call.keywords:
            if keyword.arg == "sampler" and any("in sample [" in note for note in failure.error.__notes__):
                sampler, place = text_of(keyword.value), source.place_of(keyword.value)
                told = f"{sampler} at {place} gives lists of indices, whole batches"
                return f"{told}: batch_sampler={sampler}, without batch_size"
    return None


@remedy(r"index (\d+) is out of bounds for dimension 0 with size (\d+)|list index out of range")
def choose_known_samples(failure: Failure, match: re.Match[str]) -> str | None:
    """A sampler, or a subset, with places that the data set has not."""
    loader = next((each for each in failure.operands if hasattr(each.value, "batch_sampler")), None)
    dataset = None if loader is None else loader.value.dataset
    pairs: list[tuple[Operand, Operand]] = (
        [] if loader is None else [(loader.value.sampler, dataset), (dataset, getattr(dataset, "dataset", None))]
    )
    for holder, samples in pairs:
        indices = [int(each) for each in getattr(holder, "indices", ())]
        size = len(samples) if indices and hasattr(type(samples), "__len__") else 0
        if loader is None or not size or max(indices) < size or failure.line is None:
            continue
        source, count = failure.line.source, max(indices) + 1
        written = [each for each in source.nodes_of(ast.Constant) if type(each.value) is int and each.value >= count]
        told = f"the {type(holder).__name__} of {loader.text}{at(loader)} holds places up to {count - 1}"
        told = f"{told}, and its {type(samples).__name__} has {size} samples"
        if len(written) == 1:
            return f"{told}: {size} in the place of {text_of(written[0])} at {source.place_of(written[0])}"
        return f"{told}: places below len(…) of it"
    return None
