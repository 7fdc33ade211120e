"""Main module of a process that `multiprocessing` spawned, in which `import torch` means adjoint too."""

from __future__ import annotations

from adjoint.compat.run.script_runner import rerun_main

if __name__ == "__mp_main__":
    globals().update(rerun_main())
