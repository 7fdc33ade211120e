"""The program's main module in a process that `multiprocessing` spawned: `import torch` is adjoint's there too."""

from __future__ import annotations

from adjoint.compat.run.script_runner import rerun_main

if __name__ == "__mp_main__":
    globals().update(rerun_main())
