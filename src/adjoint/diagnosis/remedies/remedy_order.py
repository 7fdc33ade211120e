"""The remedies in the order in which they are tried: what knows the kind of mistake comes before what is general."""

from __future__ import annotations

import re
from types import ModuleType

from adjoint.diagnosis.failure import Failure
from adjoint.diagnosis.remedies import (
    classes,
    functions,
    holders,
    kinds,
    layers,
    losses,
    modules,
    objects,
    operations,
    training,
    transforms,
    wording,
)
from adjoint.diagnosis.remedies.data import (
    loading,
    ragged_samples,
    truths,
    values,
)
from adjoint.diagnosis.remedies.gradients import (
    custom_functions,
    derivatives,
    freed_graphs,
    passes,
)
from adjoint.diagnosis.remedies.language import (
    arguments,
    callables,
    conditions,
    exchanged_names,
    keywords,
    loops,
    messages,
    missing_attributes,
    missing_keys,
    missing_values,
    names,
    overridden_methods,
    own_attributes,
    own_functions,
    plain_values,
    python_numbers,
    results,
    sources_of_none,
    told_causes,
    unpacking,
)
from adjoint.diagnosis.remedies.registry import Remedy, registered_remedies
from adjoint.diagnosis.remedies.requirements import (
    advice,
    checkpoint_files,
    dimension_counts,
    dtypes,
    function_transforms,
    left_out,
    made_sizes,
    module_parts,
    named_results,
    near_misses,
    one_truth,
    sparse_layouts,
    training_calls,
    value_ranges,
)
from adjoint.diagnosis.remedies.requirements import derivatives as missing_derivatives
from adjoint.diagnosis.remedies.shapes import (
    attention,
    batches,
    broadcasting,
    conversions,
    fitting,
    index_dimensions,
    indices,
    joins,
    lost_dimensions,
    masks,
    merged_samples,
    products,
    recurrent,
    shortcuts,
    size_origins,
    target_shapes,
    unpacked_values,
    views,
)
from adjoint.diagnosis.remedies.trials import (
    changed_lines,
    exchanged_arguments,
    flags,
    options,
    origins,
    settings,
)
from adjoint.diagnosis.repairs.refutation import is_refuted

# A module's own remedies are tried in the order in which it defines them.
MODULES: tuple[ModuleType, ...] = (
    exchanged_names,
    exchanged_arguments,
    loops,
    plain_values,
    sources_of_none,
    own_functions,
    results,
    overridden_methods,
    names,
    messages,
    advice,
    checkpoint_files,
    missing_derivatives,
    dimension_counts,
    dtypes,
    function_transforms,
    left_out,
    made_sizes,
    module_parts,
    near_misses,
    sparse_layouts,
    training_calls,
    value_ranges,
    functions,
    callables,
    merged_samples,
    batches,
    unpacked_values,
    training,
    objects,
    named_results,
    layers,
    shortcuts,
    classes,
    kinds,
    python_numbers,
    holders,
    loading,
    ragged_samples,
    values,
    freed_graphs,
    custom_functions,
    passes,
    derivatives,
    losses,
    target_shapes,
    truths,
    attention,
    indices,
    index_dimensions,
    conversions,
    recurrent,
    missing_values,
    modules,
    operations,
    keywords,
    missing_attributes,
    unpacking,
    missing_keys,
    size_origins,
    masks,
    broadcasting,
    lost_dimensions,
    fitting,
    products,
    views,
    joins,
    transforms,
    wording,
    one_truth,
    conditions,
    flags,
    options,
    origins,
    changed_lines,
    arguments,
    settings,
    own_attributes,
    told_causes,
)


def order_remedies() -> list[tuple[re.Pattern[str], Remedy]]:
    """Return the remedies of all modules with their patterns; at the end those of general advice, of all modules."""
    found = [each for module in MODULES for each in registered_remedies[module.__name__]]
    return [each[:2] for each in sorted(found, key=lambda each: each[2])]


REMEDIES = order_remedies()


def find_remedy(failure: Failure) -> str | None:
    """Return the advice of the first remedy that knows the error, and that no trial refutes; None if none does."""
    if "in DataLoader worker process" in failure.message and "\nat " in failure.message:
        return None  # the worker has told it
    for pattern, function in REMEDIES:
        match = pattern.search(failure.message)
        try:
            advice = None if match is None else function(failure, match)
        except Exception as error:  # noqa: BLE001  one that fails hides neither the others nor the note
            report_failed_remedy(error)
            continue
        advice = re.sub(r"\.unsqueeze\((-?\d)\)\.squeeze\(\1\)", "", advice or "")
        if advice and not is_refuted(failure, advice):
            return advice
    return None


def report_failed_remedy(error: Exception) -> None:
    """Take the error of a remedy: it is the library's own fault, of which the user is not told; tests are."""
