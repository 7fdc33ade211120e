"""What every test of modules leaves behind: no hooks of all modules."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def no_hooks_remain() -> Iterator[None]:
    # here: the package sets filters of warnings, which are lost if this file is the first to import it
    from adjoint.nn.module.hooks import CALL_HOOK_NAMES, REGISTRATION_HOOK_NAMES, global_hooks

    yield
    left = [name for name in (*CALL_HOOK_NAMES, *REGISTRATION_HOOK_NAMES) if getattr(global_hooks, name)]
    for name in left:
        getattr(global_hooks, name).clear()
    assert not left
