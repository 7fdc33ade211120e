"""tools/reach.py: which tests a change reaches."""

from pathlib import Path

import pytest
from tools.reach import edited_names, find_reach, parse_diff

FILES = {
    "src/adjoint/__init__.py": "",
    "src/adjoint/ops/gamma.py": "LIMIT = 3\n\n\ndef lgamma(x):\n    return x\n\n\ndef erf(x):\n    return x\n",
    "src/adjoint/functions/special.py": "from adjoint.ops import gamma\n\nloggamma = gamma.lgamma\n",
    "src/adjoint/functions/other.py": "from adjoint.ops.gamma import erf\n\nwide = erf\n",
    "tests/ops/test_gamma.py": "", "tests/ops/test_every_op.py": "", "tests/functions/test_special.py": "",
    "tests/functions/test_other.py": "", "tests/nn/test_layer.py": "from adjoint.ops.gamma import lgamma\n",
    "tests/nn/test_apart.py": "lgamma = None\n",
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project: two ops in a module, two modules that use one each, and tests."""
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_edited_function_reaches_its_tests_its_users_and_the_tests_of_every_op(root: Path) -> None:
    reach = find_reach(root, {"src/adjoint/ops/gamma.py": {5}})
    assert reach.files == ["tests/ops/test_gamma.py", "tests/functions/test_special.py", "tests/nn/test_layer.py"]
    assert (reach.narrowed, reach.names) == (["tests/ops/test_every_op.py"], ["lgamma"])


def test_edit_outside_of_functions_reaches_all_that_import_the_module(root: Path) -> None:
    reach = find_reach(root, {"src/adjoint/ops/gamma.py": None})
    assert set(reach.files) >= {"tests/functions/test_special.py", "tests/functions/test_other.py"}
    assert reach.narrowed == []


def test_edited_test_reaches_itself(root: Path) -> None:
    assert find_reach(root, {"tests/nn/test_apart.py": {1}}).files == ["tests/nn/test_apart.py"]


def test_names_around_lines() -> None:
    text = FILES["src/adjoint/ops/gamma.py"]
    assert edited_names(text, {1, 5}) == ["LIMIT", "lgamma"]
    assert edited_names(text, {8}) == ["erf"]
    assert edited_names(text, None) == []


def test_lines_of_a_diff() -> None:
    diff = (
        "--- a/one.py\n+++ b/one.py\n@@ -3 +3,2 @@\n-a\n+b\n+c\n@@ -9,2 +10,0 @@\n-d\n-e\n"
        "--- a/two.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
    )
    assert dict(parse_diff(diff)) == {"one.py": {3, 4, 10}, "two.py": {0}}
