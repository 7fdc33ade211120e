"""`mp.spawn` raises what a process has raised, and ends the others."""

from pathlib import Path

import pytest
from tests.support.scripts import run

PROGRAM = """
    import os, signal, sys, time
    import torch.multiprocessing as mp

    def work(i, how):
        if i == 1 and how == "raise":
            raise ValueError("bad input")
        if i == 1 and how == "exit":
            sys.exit(3)
        if i == 1 and how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how != "end":
            time.sleep(60)

    if __name__ == "__main__":
        began = time.monotonic()
        for method in ("fork", "spawn"):
            try:
                assert mp.start_processes(work, (sys.argv[1],), 2, start_method=method) is None
                print("ended")
            except mp.ProcessRaisedException as error:
                print(error.error_index, "ValueError: bad input" in str(error), "in work" in str(error))
            except mp.ProcessExitedException as error:
                print(error.error_index, error.exit_code, error.signal_name, error.msg)
        assert time.monotonic() - began < 50
        context = mp.spawn(work, ("end",), nprocs=2, join=False)
        assert len(context.pids()) == 2
        while not context.join(timeout=1):
            pass
        assert context.join()  # all have ended before
"""


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("end", "ended"),
        ("raise", "1 True True"),
        ("exit", "1 3 None process 1 terminated with exit code 3"),
        ("kill", "1 -9 SIGKILL process 1 terminated with signal SIGKILL"),
    ],
)
def test_a_failure_is_raised_and_ends_the_others(how: str, told: str, tmp_path: Path) -> None:
    done = run(tmp_path, "script.py", how, script=PROGRAM)
    assert (done.status, done.out.splitlines()) == (0, [told, told]), done.error
