"""What the pages show as output is what their Python prints; `python3 tools/page_output.py` mends a stale page."""

from pathlib import Path

import pytest
from tools.page_output import PAGES, ROOT, with_output

PAGE = """\
# A page

```python
x = 2
print(x)
```

More.

```python
print(x * 3)
```

```text
5
```
"""


@pytest.mark.parametrize("page", [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES])
def test_page_is_fresh(page: Path) -> None:
    pytest.importorskip("llvmlite")
    text = page.read_text(encoding="utf-8")
    assert text == with_output(text, page.stem), "stale: run `python3 tools/page_output.py`"


def test_a_stale_block_is_written_anew_and_nothing_else() -> None:
    assert with_output(PAGE, "page") == PAGE.replace("\n5\n", "\n6\n")


def test_a_shortened_block_stays_shortened() -> None:
    page = PAGE.replace("print(x * 3)", r"print('a\nb\nc\nd')").replace("\n5\n", "\n1\n…\n2\n")
    assert "```text\na\n…\nd\n```" in with_output(page, "page")
    assert "```text\na\nb\nc\nd\n```" in with_output(page.replace("\n2\n", "\n2\n3\n4\n"), "page")


def test_output_that_never_settles_is_an_error() -> None:
    with pytest.raises(ValueError, match="from run to run"):
        with_output(PAGE.replace("x = 2", "import os\nx = os.urandom(8)[0:8].hex()"), "page")


def test_a_page_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="NameError"):
        with_output(PAGE.replace("x = 2", ""), "page")
