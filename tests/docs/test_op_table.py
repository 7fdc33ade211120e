"""docs/ops.md is as the ops are declared; `python3 tools/op_table.py` writes it anew."""

import pytest
from tools.op_table import PAGE, op_table


@pytest.mark.claim("4.24")
def test_the_table_of_ops_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == op_table(), "stale: run `python3 tools/op_table.py`"


@pytest.mark.claim("4.24")
def test_a_row_has_the_declaration_of_its_op() -> None:
    lines = [line for line in op_table().splitlines() if line.startswith("| `")]
    rows = {line.split("`")[1]: line.split(" | ") for line in lines}
    assert rows["mul"][1:] == [
        "`np.multiply(x, y)`", "dx: `MULTIPLY.call(g, y)`; dy: `MULTIPLY.call(g, x)`", "x: y; y: x",
        "`MulBackward0`", "`mul(x, y)` |",
    ]  # fmt: skip
    assert rows["exp"][1:5] == ["`np.exp(x)`", "dx: `MULTIPLY.call(g, out)`", "x: out", "`ExpBackward0`"]
    assert (rows["add"][3], rows["reshape"][5], rows["mm"][5]) == ("–", "view |", "matmul |")
    assert (rows["sum"][5], rows["argsort"][2:5]) == ("fold by `add` |", ["–", "–", "–"])
