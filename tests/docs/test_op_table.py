"""docs/ops.md is as the ops are declared; `python3 tools/op_table.py` writes it anew."""

from __future__ import annotations

import pytest
from tools.op_table import PAGE, op_table


@pytest.mark.claim("4.24")
def test_the_table_of_ops_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == op_table(), "stale: run `python3 tools/op_table.py`"


@pytest.mark.claim("4.24")
def test_the_table_says_what_the_nodes_do() -> None:
    rows = {row.split("`")[1]: row for row in op_table().splitlines() if row.startswith("| `")}
    assert rows["mul"].split("|")[2:5] == [" `MulBackward0` ", " x: y; y: x ", " all "]
    assert rows["exp"].split("|")[2:5] == [" `ExpBackward0` ", " x: out ", " all "]
    assert rows["add"].split("|")[3] == " nothing "
    assert "none" in rows["argsort"]
