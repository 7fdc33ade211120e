"""Remedies for samples of a loader that make no batch, since they have other lengths: a `collate_fn` that pads them."""

from __future__ import annotations

import ast
import re

from adjoint.core.tensor.tensor import Tensor
from adjoint.core.typing import Operand
from adjoint.diagnosis.call_stack import user_files
from adjoint.diagnosis.causes.searches.samples import find_collated_samples
from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.operands import MISSING, evaluate, find_return_in
from adjoint.diagnosis.remedies.registry import at, find_getter, remedy, shape_of
from adjoint.diagnosis.repairs.trial import compute
from adjoint.diagnosis.source_expressions import find_function, parse_source, shorten, text_of

MAX_PARTS = 4
BINARY_LOSS = re.compile(r"BCE|binary_cross_entropy|multilabel|MultiLabel")


@remedy(r"equal size, but got (\[[\d, ]*\]) at entry (\d+) and (\[[\d, ]*\]) at entry (\d+)")
def pad_samples(failure: Failure, match: re.Match[str]) -> str | None:
    """Samples whose first dimension differs: their sequences are padded, all else is put together as before."""
    first, other = shape_of(match[1]), shape_of(match[3])
    samples = find_collated_samples(failure)
    is_ragged = len(first) == len(other) > 0 and first[1:] == other[1:]
    owner = failure.locals.get("loader", failure.locals.get("self"))
    dataset = failure.locals.get("dataset", getattr(owner, "dataset", None))
    if (
        hasattr(dataset, "datasets")
        or samples is None
        or not is_ragged
        or (len(first) == 3 and {first[0], other[0]} <= {1, 3, 4})
        or 0 in other
    ):
        return None
    short = _find_short_window(dataset)
    if short is not None and int(match[4]) > int(match[2]) and other[0] < first[0]:
        return f"the last samples are shorter, {match[3]}: {short}"
    batch = _write_batch(samples)
    if batch is None:
        return None
    truths = _find_truths(failure, samples)
    if truths is not None:
        return f"samples {match[2]} and {match[4]} of a batch have {first[0]} and {other[0]} labels: {truths}"
    loader = next((each for each in failure.operands if type(each.value).__name__ == "DataLoader"), None)
    made = None if loader is None or loader.origin is None else loader.origin.value
    call = made or (failure.node.iter if isinstance(failure.node, ast.For) else failure.node)
    name = text_of(call.func) if isinstance(call, ast.Call) and "DataLoader" in text_of(call.func) else "DataLoader"
    way = "pads them to the longest" if "pad_sequence" in batch else "keeps them in a list"
    told = f"samples {match[2]} and {match[4]} of a batch have other lengths, {match[1]} and {match[3]}"
    return f"{told}: {name}(…, collate_fn=lambda batch: {batch}){at(loader)} {way}"


@remedy(r"each element in list of batch should be of equal size, but the sizes are ([\d, ]+)")
def pad_listed_samples(failure: Failure, match: re.Match[str]) -> str | None:
    """Samples with lists of other lengths."""
    batch = find_collated_samples(failure)
    written = None if batch is None else _write_batch(batch)
    if written is None:
        return None
    told = f"samples hold lists of other lengths, {match[1]}"
    return f"{told}: DataLoader(…, collate_fn=lambda batch: {written}) pads them to the longest"


def _find_truths(failure: Failure, samples: list[Operand]) -> str | None:
    """Return a row of truths, one for each class, for labels of which a loss for truths takes a batch in the loop."""
    loop = None if failure.line is None else failure.line.source.statement_of(failure.line.node)
    names = [text_of(each) for each in getattr(getattr(loop, "target", None), "elts", ())]
    for call in ast.walk(loop) if isinstance(loop, ast.For) and isinstance(samples[0], tuple) else ():
        value = evaluate(call.func, failure.frame) if isinstance(call, ast.Call) else None
        called = f"{text_of(call.func) if isinstance(call, ast.Call) else ''} {type(value).__name__}"
        if not isinstance(call, ast.Call) or not BINARY_LOSS.search(called) or len(call.args) < 2:
            continue
        place = names.index(text_of(call.args[1])) if text_of(call.args[1]) in names else len(samples[0])
        labels = [each[place] for each in samples if place < len(each)]
        if labels and all(isinstance(each, Tensor) and not each.is_floating_point() for each in labels):
            getter = find_getter(failure)
            where = "" if getter is None else f" at {getter.place()}"
            row = "F.one_hot(labels, classes).sum(0).float()"
            return f"{text_of(call.func)} takes a truth for each class, {row} of each sample{where}"
    return None


def _find_short_window(dataset: Operand) -> str | None:
    """Return the length that a dataset of windows `x[i + a:i + b]` is to tell, where its own goes past the end."""
    methods = [getattr(type(dataset), name, None) for name in ("__getitem__", "__len__")]
    codes = [getattr(each, "__code__", None) for each in methods]
    if codes[0] is None or codes[1] is None or not user_files[codes[0].co_filename]:
        return None
    source, counted = parse_source(codes[0].co_filename), find_return_in(codes[1])
    body = None if source is None else find_function(source, codes[0].co_firstlineno)
    if body is None or counted is None or len(body.args.args) < 2:
        return None
    index = body.args.args[1].arg
    for part in ast.walk(body):
        upper = part.slice.upper if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice) else None
        if not isinstance(upper, ast.BinOp) or not isinstance(part, ast.Subscript):
            continue
        terms = [term.strip() for term in text_of(upper).split("+")]
        if terms[0] == index and len(terms) > 2:
            told = f"{text_of(part)} runs past the end of {text_of(part.value)}"
            wanted = " - ".join([f"len({text_of(part.value)})", *terms[1:]])
            return f"{told}: return {wanted} + 1 at {counted.place()}, in __len__"
    return None


def _write_batch(samples: list[Operand]) -> str | None:
    """Return the expression that makes a batch of samples which are tensors, or tuples of tensors and numbers."""
    if all(isinstance(each, Tensor) for each in samples):
        return "nn.utils.rnn.pad_sequence(batch, batch_first=True)"
    counts = {len(each) if isinstance(each, tuple) else 0 for each in samples}
    if len(counts) != 1 or not 0 < (count := max(counts)) <= MAX_PARTS:
        return None
    made = []
    for place in range(count):
        parts, text = [each[place] for each in samples], f"[s[{place}] for s in batch]"
        if all(isinstance(part, Tensor) for part in parts):
            is_even = len({tuple(part.shape) for part in parts}) == 1
            made.append(f"torch.stack({text})" if is_even else f"nn.utils.rnn.pad_sequence({text}, batch_first=True)")
        elif all(isinstance(part, list) and all(isinstance(n, (int, float)) for n in part) for part in parts):
            each = f"torch.tensor(s[{place}])"
            made.append(f"nn.utils.rnn.pad_sequence([{each} for s in batch], batch_first=True)")
        else:
            made.append(f"torch.tensor({text})" if all(isinstance(part, (int, float)) for part in parts) else text)
    return f"({', '.join(made)})"


@remedy(r"setting an array element with a sequence|inhomogeneous shape|nested lists differ|expected sequence of length")
def pad_lists(failure: Failure, match: re.Match[str]) -> str | None:
    """Lists of numbers of several lengths, such as the words of sentences, that are to make one array."""
    for node in ast.walk(failure.line.node) if failure.line is not None else ():
        call = node if isinstance(node, ast.Call) and node.args else None
        held = MISSING if call is None else compute(call.args[0], failure.frame)
        if call is None or not isinstance(held, (list, tuple)) or len(held) < 2:
            continue
        sizes = [len(each) if hasattr(each, "__len__") and not isinstance(each, str) else -1 for each in held]
        if len(set(sizes)) < 2:
            continue
        name = text_of(call.args[0])
        own = failure.find_operand(name)
        if -1 in sizes:
            place = sizes.index(-1)
            told = f"{name}{at(own)} holds {shorten(repr(held[place]))} at place {place}, and a list at another"
            return f"{told}: lists of one length"
        shown = ", ".join(map(str, sizes[:MAX_PARTS])) + (", …" if len(sizes) > MAX_PARTS else "")
        item = "x" if isinstance(held[0], Tensor) else "torch.as_tensor(x)"
        padded = f"nn.utils.rnn.pad_sequence([{item} for x in {name}], batch_first=True)"
        return f"{name}{at(own)} holds {len(held)} lists of other lengths, {shown}: {padded} pads them to the longest"
    return None
