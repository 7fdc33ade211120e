"""Displays in notebooks: the slot of what makes them.

A notebook asks for `_repr_html_`; where that is None it shows the printed text. What makes the HTML is imported then.
"""

from __future__ import annotations

from collections.abc import Callable

from adjoint.core.runtime.slot import Slot

display_slot: Slot[Callable[[object], str | None]] = Slot("display", lambda value: None)


def show_in_notebook(value: object) -> str | None:
    """Return the HTML that notebooks show for a value; None where its printed text is to be shown."""
    return display_slot.call(value)
