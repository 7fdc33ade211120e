"""PyTorch's own samples in every mode of use: what is right, in percent. `python3 tools/samples.py eager vmap`.

It needs PyTorch: `ADJOINT_ORACLE=1 python3 dev.py test` makes `.venv-oracle`, whose Python runs it.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Run the modes, write each function that differs as it is found, and then the table."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    warnings.simplefilter("ignore")
    from tests.support.sample_modes.modes import MODES
    from tests.support.sample_modes.sweep import run, summary

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modes", nargs="*", help=f"of {', '.join(MODES)}; all of them by default")
    parser.add_argument("--only", default="", metavar="PATTERN", help="functions whose name contains this pattern")
    parser.add_argument("--limit", type=int, help="of each function and element type, at most so many samples")
    parser.add_argument("--reasons", action="store_true", help="show what differs for a reason too")
    options = parser.parse_args()
    outcomes = []
    for mode in options.modes or MODES:
        for outcome in run(mode, options.only, options.limit):
            outcomes.append(outcome)
            if outcome.wrong and (options.reasons or not outcome.reason):
                about = (
                    f"{outcome.mode} {outcome.name} {outcome.kind}: {outcome.wrong} of {outcome.wrong + outcome.right}"
                )
                sys.stdout.write(f"{about} · {outcome.reason or outcome.first}\n")
                sys.stdout.flush()
    sys.stdout.write(f"\n{summary(outcomes)}\n")
    return int(any(o.wrong and not o.reason for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
