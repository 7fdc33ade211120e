"""One page about two training runs: a single HTML file that needs nothing else, not even a script."""

from __future__ import annotations

import linecache
import platform
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from chart import Series, line_chart, pixels

import adjoint as ad

if TYPE_CHECKING:
    from digits import Digits, Run

STYLE = Path(__file__).with_name("report.css")
SHOWN = 24  # misclassified digits at most
ORIGIN = re.compile(r"(?P<file>.+):(?P<line>\d+) in (?P<function>\S+)")


def page(digits: Digits, eager: Run, compiled: Run, differences: Sequence[float]) -> str:
    """The page as HTML."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Adjoint: scanned digits, learned twice</title>
<style>
{STYLE.read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<h1>Scanned digits, learned twice</h1>
<p>A small convolutional network learned {len(digits.train_x):,} scanned digits of 8 × 8 pixels: once eagerly, and once
more from the same start, with the whole training step as one compiled program. Both runs are the same lines of
Python.</p>
{_figures(eager, compiled, differences)}
</header>
<main>
{_curves(eager, compiled, differences)}
{_mistakes(digits, compiled)}
{_program(compiled)}
</main>
<footer>
<p>{_versions()}</p>
<p>The digits are those of scikit-learn: the test part of “Optical Recognition of Handwritten Digits” by E. Alpaydin and
C. Kaynak, UCI Machine Learning Repository.</p>
</footer>
</body>
</html>
"""


def _figures(eager: Run, compiled: Run, differences: Sequence[float]) -> str:
    slow, fast = eager.fastest(), compiled.fastest()
    figures = [
        (f"{compiled.accuracies[-1]:.1%}", "test accuracy, compiled", f"{eager.accuracies[-1]:.1%} eagerly"),
        (f"{np.max(differences):.1e}", "largest relative difference of the losses", f"over {len(differences)} steps"),
        (
            f"{slow / fast:.1f} ×",
            "speed ratio, on this machine",
            f"fastest step {slow * 1e3:.2f} ms eager, {fast * 1e3:.2f} ms compiled",
        ),
        (f"{compiled.first_call:.2f} s", "of processor time in the first call", f"{compiled.compilations} programs"),
    ]
    items = "".join(
        f"<div><dt>{what}</dt><dd><b>{value}</b> <small>{more}</small></dd></div>" for value, what, more in figures
    )
    return f"<dl>{items}</dl>"


def _curves(eager: Run, compiled: Run, differences: Sequence[float]) -> str:
    losses = line_chart(
        "Loss at each step", f"Both curves fall from {eager.losses[0]:.2f} to about {np.mean(eager.losses[-20:]):.3f}.",
        [Series("eager", "eager", eager.losses), Series("compiled", "compiled", compiled.losses)], "step",
        lambda v: f"{v:g}", log=True,
    )  # fmt: skip
    apart = line_chart(
        "Relative difference of the two losses", f"It stays at or below {np.max(differences):.1e}; 1e-04 is allowed.",
        [Series("|eager − compiled| / eager", "compiled", differences, dots=True)], "step",
        lambda v: f"{v:.0e}", log=True, y_range=(1e-9, 1e-3), limit=(1e-4, "allowed"),
    )  # fmt: skip
    accuracies = line_chart(
        "Test accuracy after each epoch", f"The last is {compiled.accuracies[-1]:.1%}.",
        [Series("eager", "eager", eager.accuracies), Series("compiled", "compiled", compiled.accuracies)],
        "epoch", lambda v: f"{v:.0%}", first=1, y_range=(min(0.9, *eager.accuracies, *compiled.accuracies), 1.0),
        limit=(0.97, "asked for"),
    )  # fmt: skip
    same = "Loss at each step. The thin compiled curve lies on the wide eager one."
    rounding = "How far the two are apart, relative to the loss. No dot where they are equal to the last bit."
    return f"""<section>
<h2>Two runs, one curve</h2>
<div class="charts">
<figure>{losses}<figcaption>{same}</figcaption></figure>
<figure>{apart}<figcaption>{rounding}</figcaption></figure>
<figure>{accuracies}<figcaption>Share of the held-out digits recognised after each epoch.</figcaption></figure>
</div>
</section>"""


def _mistakes(digits: Digits, run: Run) -> str:
    labels = digits.test_y.numpy()
    wrong = np.flatnonzero(run.probabilities.argmax(1) != labels)
    cards = "".join(_mistake(digits.test_x.numpy()[i, 0], int(labels[i]), run.probabilities[i]) for i in wrong[:SHOWN])
    more = f" The first {SHOWN} of them:" if len(wrong) > SHOWN else ""
    return f"""<section>
<h2>What it gets wrong</h2>
<p><b>{len(wrong)} misclassified</b> of {len(labels)} digits that it never saw.{more}</p>
<ul class="mistakes">{cards}</ul>
</section>"""


def _mistake(image: Any, label: int, probabilities: Any) -> str:
    top = np.argsort(-probabilities, kind="stable")[:3]
    bars = "".join(
        f'<li{" class=true" if i == label else ""}><span>{i}</span><i style="--share:{probabilities[i]:.4f}"></i>'
        f"<span>{probabilities[i]:.1%}</span></li>"
        for i in top
    )
    scan = pixels(image, f"Scan of a {label} that was read as a {top[0]}")
    words = f"<p>read as <b>{top[0]}</b>, is <b>{label}</b></p>"
    return f'<li>{scan}{words}<ol aria-label="most likely digits">{bars}</ol></li>'


@dataclass(frozen=True)
class Source:
    """A line of the program that was compiled, as `kernels` names it."""

    name: str
    line: int
    text: str
    part: str  # the module that was running, and `backward`


def _source(origin: str) -> Source:
    where, *part = origin.split(" · ")
    found = ORIGIN.fullmatch(where)
    if found is None:
        return Source(where, 0, "", " · ".join(part))
    text = linecache.getline(found["file"], int(found["line"])).strip().partition("  #")[0]
    return Source(Path(found["file"]).name, int(found["line"]), text, " ".join(part[-2:]))


def _program(run: Run) -> str:
    if not run.kernels:
        return "<section><h2>The program</h2><p>llvmlite is not installed, so both runs were eager.</p></section>"
    summary, _, listing = run.explained.partition("\n")
    summary = re.sub(r"\d{5,}", lambda number: f"{int(number[0]):,}", summary)
    listing = re.sub(r"from \S*[/\\]", "from ", listing)
    rows = "".join(_row(i, kernel) for i, kernel in enumerate(run.kernels))
    return f"""<section>
<h2>The program that ran</h2>
<p>Forward, backward and update of a full batch, in order. A <em>kernel</em> is native code made for this step; a
<em>call</em> is one call of NumPy.</p>
<p class="plan"><b>Memory plan.</b> {escape(summary)}.</p>
<h3>From your lines …</h3>
<table class="lines">
<caption>Every line that computes, with its gradient, and in how many kernels and calls it has a part</caption>
<thead><tr><th scope="col">Line</th><th scope="col">Source</th><th scope="col">Kernels</th>
<th scope="col">Calls</th></tr></thead>
<tbody>{_lines(run.kernels)}</tbody>
</table>
<h3>… to kernels</h3>
<table class="kernels">
<caption>{len(run.kernels)} kernels and calls, in the order in which they run</caption>
<thead><tr><th scope="col">#</th><th scope="col">Operations</th><th scope="col">Results</th><th scope="col">From</th>
<th scope="col">Why it begins here</th></tr></thead>
<tbody>{rows}</tbody>
</table>
<details><summary>The same as text, from <code>step.explain()</code></summary><pre>{escape(listing)}</pre></details>
</section>"""


def _lines(kernels: Iterable[dict[str, Any]]) -> str:
    counts: dict[tuple[str, int, str], Counter[str]] = {}
    for kernel in kernels:
        for place in {(s.name, s.line, s.text) for s in map(_source, kernel["lines"])}:
            counts.setdefault(place, Counter())[kernel["kind"]] += 1
    return "".join(
        f'<tr><th scope="row">{escape(name)}:{line}</th><td><code>{escape(text)}</code></td>'
        f"<td>{count['kernel']}</td><td>{count['call']}</td></tr>"
        for (name, line, text), count in sorted(counts.items())
    )


def _row(index: int, kernel: dict[str, Any]) -> str:
    counts = Counter(kernel["ops"])
    ops = " ".join(f"<code>{escape(op)}</code>" + (f"<small>×{n}</small>" if n > 1 else "") for op, n in counts.items())
    results = [f"<code>{escape(r)}</code>" for r in kernel["results"]]
    more = f" <small>and {len(results) - 2} more</small>" if len(results) > 3 else ""
    shown = ", ".join(results[:2] if more else results) + more
    reason = escape(kernel["reason"])
    return (
        f'<tr class="{kernel["kind"]}"><th scope="row">{index} <span>{kernel["kind"]}</span></th>'
        f'<td data-name="Operations">{ops}</td><td data-name="Results">{shown}</td>'
        f'<td data-name="From">{_origins(kernel["lines"])}</td><td data-name="Begins here">{reason}</td></tr>'
    )


def _origins(origins: Iterable[str]) -> str:
    """The lines with the modules that ran there, each line once."""
    parts: dict[tuple[str, int, str], list[str]] = {}
    for source in map(_source, origins):
        parts.setdefault((source.name, source.line, source.text), []).append(source.part)
    return "<br>".join(
        f'<span title="{escape(text)}">{escape(name)}:{line}</span> '
        f"<small>{escape(', '.join(filter(None, ran)))}</small>"
        for (name, line, text), ran in parts.items()
    )


def _versions() -> str:
    found = [f"Adjoint {ad.__version__}", f"Python {platform.python_version()}"]
    for package in ("numpy", "llvmlite", "scikit-learn"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"no {package}")
    return ", ".join([*found, f"{platform.system()} on {platform.machine()}"]) + "."
