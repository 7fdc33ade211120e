"""The cause of an error: the line that is to blame, found from the frames and the sources when the error is raised."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint.diagnosis.causes.computing import open_program
from adjoint.diagnosis.causes.contexts import FailedProgram, SourceStep, find_step
from adjoint.diagnosis.causes.searches.crossed_names import find_crossed_names
from adjoint.diagnosis.causes.searches.cut_graphs import find_cut_cause, find_frozen_cause, find_graph_holder
from adjoint.diagnosis.causes.searches.dimensions import find_dimension_cause
from adjoint.diagnosis.causes.searches.disagreements import find_sides, order_sides
from adjoint.diagnosis.causes.searches.dtypes import find_dtype_cause, find_text_cause
from adjoint.diagnosis.causes.searches.emptiness import find_empty_cause
from adjoint.diagnosis.causes.searches.keys import find_key_cause
from adjoint.diagnosis.causes.searches.kinds import find_kind_cause
from adjoint.diagnosis.causes.searches.names import find_definition, find_late_name, find_other_attribute
from adjoint.diagnosis.causes.searches.samples import find_sample_cause
from adjoint.diagnosis.causes.searches.unfit_settings import (
    find_depth_cause,
    find_setting_cause,
    find_state_cause,
    find_view_cause,
)
from adjoint.diagnosis.causes.searches.values import find_target_cause, find_value_cause
from adjoint.diagnosis.failure import Failure

SEARCHES = (
    find_other_attribute,
    find_late_name,
    find_graph_holder,
    find_crossed_names,
    find_key_cause,
    find_empty_cause,
    find_cut_cause,
    find_frozen_cause,
    find_value_cause,
    find_target_cause,
    find_dtype_cause,
    find_text_cause,
    find_sample_cause,
    find_kind_cause,
    find_dimension_cause,
    find_view_cause,
    find_depth_cause,
    find_state_cause,
    find_definition,
)


MAX_FRAMES = 100


@dataclass(frozen=True)
class Cause:
    """The text about a line to blame, and its place; `tells_more`: the text says more than that it is to blame."""

    text: str
    place: str
    tells_more: bool = False


def find_cause(failure: Failure) -> Cause | None:
    """Return the line to blame for an error; None where nothing is known beyond the line that raised it."""
    if len(failure.stack) > MAX_FRAMES:  # a function that calls itself without an end
        return None
    program = open_program(failure)
    found = _search(failure, program)
    return None if program.is_spent else found  # no cause is better than a wrong one


def _search(failure: Failure, program: FailedProgram) -> Cause | None:
    step = find_step(program, failure.stack)
    if step is None:
        return None
    for search in SEARCHES:
        found = search(failure, step)
        if found is not None:
            return Cause(found[0], found[1].place(), tells_more=search is find_crossed_names)
    return _find_disagreement(failure, step)


def _find_disagreement(failure: Failure, step: SourceStep) -> Cause | None:
    sides = order_sides(find_sides(failure, step))
    traces = [each.trace for each in sides if each.trace is not None]
    if not traces:
        setting = find_setting_cause(failure, step)
        return None if setting is None else Cause(setting[0], setting[1].place())
    return Cause("; ".join(each.describe() for each in sides), traces[0].roots()[0].place())
