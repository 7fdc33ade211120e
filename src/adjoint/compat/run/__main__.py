"""`python -m adjoint.run script.py args…`, or `python -m adjoint.run -m module args…`."""

from __future__ import annotations

import sys

from adjoint.compat.run.script_runner import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
