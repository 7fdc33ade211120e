"""Every workload: ours eager and compiled beside PyTorch's ways and JAX's, and beside what the machine can do at all.

    python3 dev.py bench [--only NAME …] [--threads 1 2] [--rounds N] [--quick] [--out FOLDER]

ADJOINT_ORACLE=1 before it has PyTorch installed; JAX is taken where it is found; what is absent is left out. Each way
runs in a process of its own, held to cores and threads; they take turns in rounds, the others stopped meanwhile, and
medians count. All start from the same weights and data, and their results must agree. On one thread the seconds of
work count, which other processes on the machine do not lengthen; on more, those of the clock. A ratio is the fastest
peer's time over that of ours compiled: above 1, ours is faster. Results go to results.json and peers.svg in this
folder, unless the run was quick; paths are relative to the project.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from .bars import picture
from .contest import ROOT, Outcome, contest, fastest, first_step
from .limits import Limits, limits
from .measure import allowed_cores, machine, table
from .variants import EAGER, OURS, VARIANTS
from .workloads import WORKLOADS
from .workloads.workload import Workload

HERE = ROOT / "benchmarks"
STARTING = ("mlp-784", "gpt-128")  # whose first step is measured from the start of a process
STARTERS = (OURS, "torch.compile", "jax.jit, state donated")
REMEMBERED = ("resnet", "gpt-384")  # whose memory is compared
MIB = 2**20


def main() -> None:
    """Measure what is asked for, print it, and keep it."""
    given = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that stopped processes end too
    cores = allowed_cores()
    print(machine(), end="\n\n")
    rounds, seconds = (given.rounds or 3, 0.1) if given.quick else (given.rounds or 15, 0.4)
    found: dict[str, Any] = {"machine": machine(), "limits": {}, "workloads": {}, "startup": {}}
    for threads in given.threads:
        if threads > len(cores):
            print(f"{threads} threads need {threads} cores; this program may use {len(cores)}: left out\n")
            continue
        limit = limits(threads, cores)
        found["limits"][str(threads)] = asdict(limit)
        print(_told_limits(threads, limit), end="\n\n", flush=True)
        outcomes = {}
        variants = {name: VARIANTS[name] for name in given.variants}
        with busy(given.busy):
            for name in given.only:
                outcomes[name] = contest(name, threads, cores, rounds, seconds, progress, variants)
                progress("")
                print(_details(WORKLOADS[name], threads, outcomes[name], limit), end="\n\n", flush=True)
        kept = {name: _kept(WORKLOADS[name], each, limit) for name, each in outcomes.items()}
        found["workloads"][str(threads)] = kept
        print(_summary(threads, outcomes, limit), end="\n\n")
        print(_memory(outcomes), end="\n\n")
    if given.startup:
        found["startup"] = startup(cores, 1 if given.quick else 5)
        print(_startups(found["startup"]), end="\n\n")
    if given.out is not None:
        _write(given.out, found)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many other processes on the machine that compute without end."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def startup(cores: list[int], repeats: int) -> dict[str, Any]:
    """Medians of the seconds from the start of a process to the result of its first step, by the clock and of work: no
    cache, then the cache which that left.
    """
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for name in STARTING:
        for variant in STARTERS:
            for _ in range(repeats):
                with tempfile.TemporaryDirectory() as folder:
                    for how in ("cold", "from disk"):
                        progress(f"{name}: first step of {variant}, {how}")
                        taken = first_step(name, variant, cores, folder)
                        if taken is not None:
                            found.setdefault(f"{name}, {variant}", {}).setdefault(how, []).append(taken)
    progress("")
    return {
        name: {how: tuple(map(median, zip(*taken, strict=True))) for how, taken in each.items()}
        for name, each in found.items()
    }


def _details(workload: Workload, threads: int, outcomes: dict[str, Outcome], limit: Limits) -> str:
    """Every variant of one workload."""
    bound, clock = _bound(workload, limit), clock_of(threads)
    ours = outcomes.get(OURS)
    rows = []
    for variant, outcome in outcomes.items():
        if outcome.wall is None or outcome.cpu is None:
            if outcome.absent != "no such way":
                rows.append((variant, outcome.absent, *[""] * 6))
            continue
        taken = median(getattr(outcome, clock).seconds)
        ratio = f"{taken / getattr(ours, clock).median:.2f}" if ours is not None and ours.wall is not None else ""
        spread = " – ".join(map(short, outcome.wall.spread))
        numbers = (short(outcome.wall.median), spread, short(outcome.cpu.median), ratio, f"{100 * bound / taken:.0f} %")
        apart = f"{outcome.apart:.0e}" if outcome.agrees else f"DIFFERS {outcome.apart:.0e}"
        rows.append((variant, *numbers, apart, f"{outcome.peak / MIB:.0f} MiB"))
    head = f"{workload.title}; {threads} thread(s), bound {short(bound)}"
    columns = ("", "clock", "p10 – p90", "work", "over ours", "of bound", "apart", "peak")
    return f"{head}\n{table(columns, rows)}"


def _summary(threads: int, outcomes: dict[str, dict[str, Outcome]], limit: Limits) -> str:
    """One line for each workload."""
    rows = []
    for name, each in outcomes.items():
        workload, ours = WORKLOADS[name], each.get(OURS)
        if ours is None or ours.wall is None or ours.cpu is None:
            rows.append((name, ours.absent if ours else "not asked for", *[""] * 6))
            continue
        taken = getattr(ours, clock_of(threads)).median
        eager = each[EAGER].cpu.median if EAGER in each and each[EAGER].cpu is not None else None  # type: ignore[union-attr]
        cells = [name, short(ours.wall.median), short(ours.cpu.median), short(eager) if eager else ""]
        peer = fastest(each, clock_of(threads))
        if peer is None:
            cells += ["", "", ""]
        else:
            cells += [f"{short(peer[1])} {peer[0]}", f"{peer[1] / taken:.2f}", _mark(peer[1] / taken, workload.target)]
        rows.append((*cells, f"{100 * _bound(workload, limit) / taken:.0f} %"))
    columns = ("workload", "ours, clock", "ours, work", "eager, work", "fastest peer", "ratio", "target", "of bound")
    counted = "seconds of work" if clock_of(threads) == "cpu" else "seconds by the clock"
    return f"{threads} thread(s): the ratio is of {counted}\n{table(columns, rows)}"


def _memory(outcomes: dict[str, dict[str, Outcome]]) -> str:
    """Memory at the peak, of the process and beyond what its library takes when it is imported."""
    rows = []
    for name in (name for name in REMEMBERED if name in outcomes):
        theirs = outcomes[name].get("torch eager")
        for variant, outcome in outcomes[name].items():
            if outcome.wall is not None:
                told = [f"{count / MIB:.0f} MiB" for count in (outcome.process, outcome.peak)]
                ratios = ["", ""]
                if theirs is not None and theirs.peak:
                    ratios = [f"{outcome.process / theirs.process:.2f}", f"{outcome.peak / theirs.peak:.2f}"]
                target = "≤ 0.70" if variant == OURS else ""
                rows.append((f"{name}, {variant}", told[0], ratios[0], told[1], ratios[1], target))
    columns = ("peak memory of training", "process", "over torch eager", "beyond import", "over torch eager", "target")
    return table(columns, rows) if rows else ""


def _startups(found: dict[str, Any]) -> str:
    targets = {f"mlp-784, {OURS}": "≤ 0.5 s · 0.25 s", f"gpt-128, {OURS}": "≤ 2.0 s · 0.5 s"}
    rows = []
    for name, each in found.items():
        cells = [f"{each[how][i]:.2f} s" if how in each else "" for how in ("cold", "from disk") for i in (0, 1)]
        rows.append((name, *cells, targets.get(name, "")))
    return table(("process start to first step", "cold, clock", "work", "from disk, clock", "work", "target"), rows)


def _told_limits(threads: int, limit: Limits) -> str:
    rates = ", ".join(f"{size / 2**20:g} MiB {rate / 1e9:.0f}" for size, rate in limit.bandwidth.items())
    return f"{threads} thread(s): {limit.flops / 1e9:.0f} GFLOP/s in float32 products; GB/s of sums over {rates}"


def _bound(workload: Workload, limit: Limits) -> float:
    work = workload.work()
    return work.bound(limit.flops, limit.bytes_per_second(work.bytes))


def clock_of(threads: int) -> str:
    """The clock that counts: work of one thread, which others on the machine do not lengthen; the wall's of more."""
    return "cpu" if threads == 1 else "wall"


def _mark(ratio: float, target: float) -> str:
    return f"≥ {target:g} {'✓' if ratio >= target else '✗'}"


def _kept(workload: Workload, outcomes: dict[str, Outcome], limit: Limits) -> dict[str, Any]:
    """What results.json says of a workload."""
    return {
        "title": workload.title,
        "target": workload.target,
        "bound": _bound(workload, limit),
        **asdict(workload.work()),
        "variants": {name: facts(each) for name, each in outcomes.items() if each.absent != "no such way"},
    }


def facts(outcome: Outcome) -> dict[str, Any]:
    """What results.json says of a variant; `losses` are the first number of each result."""
    if outcome.wall is None or outcome.cpu is None:
        return {"absent": outcome.absent}
    clocks = {clock: getattr(outcome, clock) for clock in ("wall", "cpu")}
    return {
        **{clock: {"median": samples.median, "spread": samples.spread} for clock, samples in clocks.items()},
        "agrees": outcome.agrees,
        "apart": outcome.apart,
        "losses": [result[0] for result in outcome.results],
        "peak": outcome.peak,
        "process": outcome.process,
        "first": outcome.first,
    }


def _write(folder: Path, found: dict[str, Any]) -> None:
    """Keep what was measured beside what an earlier call measured of other workloads on the same machine."""
    path = folder / "results.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if before.get("machine") == found["machine"]:
        workloads = before["workloads"]
        for threads, each in found["workloads"].items():
            workloads[threads] = workloads.get(threads, {}) | each
        found |= {
            "workloads": workloads,
            "limits": before["limits"] | found["limits"],
            "startup": before["startup"] | found["startup"],
        }
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (folder / "peers.svg").write_text(picture(found), encoding="utf-8")
    print(f"written: {path} and peers.svg")


def short(seconds: float) -> str:
    """Three figures, with the unit that fits."""
    scale, unit = (1e6, "µs") if seconds < 1e-3 else (1e3, "ms") if seconds < 1 else (1.0, "s")
    return f"{seconds * scale:#.3g}".rstrip(".") + f" {unit}"


def progress(what: str) -> None:
    """Show what is being done, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{what}", end="", file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="NAME",
                        help=f"workloads: {', '.join(WORKLOADS)}")  # fmt: skip
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), metavar="NAME",
                        help=f"ways: {', '.join(VARIANTS)}")  # fmt: skip
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="beside N processes that compute all the time")
    parser.add_argument("--quick", action="store_true", help="few short rounds; nothing is written without --out")
    parser.add_argument("--startup", action="store_true", help="also the time from process start to first step")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where results.json and peers.svg go")
    given = parser.parse_args()
    if not given.quick and not given.busy:
        given.out = given.out or HERE
        given.startup = given.startup or given.only == list(WORKLOADS)
    return given


if __name__ == "__main__":
    main()
