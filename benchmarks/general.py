"""Kinds of work that Adjoint was not tuned on: ours eager and compiled beside PyTorch eager and torch.compile.

    python3 dev.py bench general [--only NAME …] [--threads 1 2] [--rounds N] [--quick] [--no-torch-compile]

ADJOINT_ORACLE=1 before it has PyTorch installed. Each way runs in a process of its own; they take turns in rounds, and
medians count: seconds of work on one thread, of the clock on more. All start from the same seed, and their results must
agree. A ratio is PyTorch's time over ours: above 1, ours is faster. Where torch.compile refuses a load, or there is no
C++ compiler for it, PyTorch eager is the only peer.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from statistics import geometric_mean, median

from .contest import Outcome, contest, fastest
from .measure import allowed_cores, machine, table
from .peers import clock_of, progress, short
from .variants import EAGER, OURS, VARIANTS
from .workloads.general import LOADS

TORCH, TORCH_COMPILE = "torch eager", "torch.compile"
MIN_EAGER_RATIO, MIN_COMPILED_RATIO = 1.0, 1.5  # the targets for each load


def main() -> None:
    """Measure the loads that are asked for, and print a line for each."""
    options = parse_arguments()
    cores = allowed_cores()
    print(f"{machine()}; load of the machine before: {os.getloadavg()[0]:.1f}\n")
    rounds, seconds = (options.rounds or 3, 0.1) if options.quick else (options.rounds or 9, 0.4)
    names = [OURS, EAGER, TORCH] + [TORCH_COMPILE] * (not options.no_torch_compile)
    variants = {name: VARIANTS[name] for name in names}
    for threads in options.threads:
        outcomes = {}
        for name in options.only:
            outcomes[name] = contest(name, threads, cores, rounds, seconds, progress, variants)
            progress("")
            print(f"{LOADS[name].title}: {describe_outcomes(outcomes[name], threads)}", flush=True)
        print(f"\n{summarize(outcomes, threads)}\n")


def describe_outcomes(outcomes: Mapping[str, Outcome], threads: int) -> str:
    """The time of each way, or why there is none."""
    words = []
    for name, outcome in outcomes.items():
        seconds = get_seconds(outcome, threads)
        words.append(f"{name} {outcome.absent if seconds is None else short(seconds)}")
        if seconds is not None and not outcome.agrees:
            words[-1] += f" (DIFFERS by {outcome.apart:.0e})"
    return ", ".join(words)


def summarize(outcomes: Mapping[str, Mapping[str, Outcome]], threads: int) -> str:
    """A table with both ratios of each load, and their geometric means."""
    rows, eager_ratios, compiled_ratios = [], [], []
    for name, each in outcomes.items():
        ours, eager, torch = (get_seconds(each[way], threads) for way in (OURS, EAGER, TORCH))
        peer = fastest(each, clock_of(threads))
        if ours is None or eager is None or torch is None or peer is None:
            rows.append((name, *["–"] * 6))
            continue
        eager_ratios.append(torch / eager)
        compiled_ratios.append(peer[1] / ours)
        marks = [" ✗" * (eager_ratios[-1] < MIN_EAGER_RATIO), " ✗" * (compiled_ratios[-1] < MIN_COMPILED_RATIO)]
        rows.append((
            name, short(torch), short(eager), f"{eager_ratios[-1]:.2f}{marks[0]}", f"{short(peer[1])} {peer[0]}",
            short(ours), f"{compiled_ratios[-1]:.2f}{marks[1]}",
        ))  # fmt: skip
    if eager_ratios:
        rows.append((
            "geometric mean", "", "", f"{geometric_mean(eager_ratios):.2f}", "", "",
            f"{geometric_mean(compiled_ratios):.2f}",
        ))  # fmt: skip
    columns = ("load", TORCH, "ours eager", "ratio", "fastest peer", "ours compiled", "ratio")
    return f"{threads} thread(s)\n{table(columns, rows)}"


def get_seconds(outcome: Outcome, threads: int) -> float | None:
    """The median of a call: of work on one thread, by the clock on more."""
    samples = getattr(outcome, clock_of(threads))
    return None if samples is None else median(samples.seconds)


def parse_arguments() -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=LOADS, default=list(LOADS), metavar="NAME",
                        help=f"loads: {', '.join(LOADS)}")  # fmt: skip
    parser.add_argument("--threads", nargs="+", type=int, default=[1], metavar="N")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--quick", action="store_true", help="few short rounds")
    parser.add_argument("--no-torch-compile", action="store_true", help="leave torch.compile out: it takes minutes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
