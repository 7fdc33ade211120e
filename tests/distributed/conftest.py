"""Fixtures of tests over several ranks."""

import pytest
from tests.support.ranks import why_mpi_fails


@pytest.fixture(scope="session")
def working_mpi() -> None:
    """Skip where two processes of plain MPI cannot meet."""
    if reason := why_mpi_fails():
        pytest.skip(reason)
