"""The display of a value in a notebook, by its class, and that of the doctor's report.

A class asks for it by `_repr_html_ = show_in_notebook`; its printed text stays what it is.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

from adjoint.autograd.debug.backward_steps import BackwardSteps, Step
from adjoint.autograd.debug.memory_report import MemoryReport
from adjoint.core.graph.hooks import HookableNode
from adjoint.core.runtime.html import render_frame
from adjoint.core.runtime.mode import has_interpreter
from adjoint.core.tensor.tensor import Tensor
from adjoint.data.dataset import Dataset
from adjoint.data.loader import DataLoader
from adjoint.diagnosis.displays.graph_display import render_memory_report, render_node
from adjoint.diagnosis.displays.module_display import has_own_display, render_module
from adjoint.diagnosis.displays.tensor_display import render_tensor
from adjoint.diagnosis.displays.training_display import render_dataset, render_loader, render_optimizer
from adjoint.diagnosis.findings import Finding, Report
from adjoint.diagnosis.visualization.step_display import render_step, render_steps
from adjoint.nn.module.module import Module
from adjoint.optim.step.optimizer import Optimizer


def render_doctor_report(report: Report) -> str:
    """Render the findings, each with its line and what to do."""
    findings = "\n".join(map(_render_finding, report.findings))
    return render_frame(f"<p><b>{escape(report.title)}</b></p>" + (f"\n<ol>{findings}</ol>" if findings else ""))


def _render_finding(finding: Finding) -> str:
    """Return the item of a list: the line, what is wrong with it, what to do."""
    line = f"<p><code>{escape(finding.line)}</code></p>" if finding.line else ""
    return (
        f'<li>{line}<p><span class="marked">{escape(finding.problem)}</span> '
        f'<span class="dim">[{escape(finding.kind)}]</span></p><p>try: {escape(finding.advice)}</p></li>'
    )


DISPLAYS: dict[type, Callable[[Any], str | None]] = {
    Tensor: render_tensor,
    Module: render_module,
    HookableNode: render_node,
    MemoryReport: render_memory_report,
    BackwardSteps: render_steps,
    Step: render_step,
    Report: render_doctor_report,
    Optimizer: render_optimizer,
    DataLoader: render_loader,
    Dataset: render_dataset,
}


def render(value: object) -> str | None:
    """Render a value for a notebook; None where its printed text is to be shown."""
    if has_own_display(value):
        return None
    if has_interpreter():  # values are not there while a step is traced
        return None
    return next(display(value) for kind, display in DISPLAYS.items() if isinstance(value, kind))
