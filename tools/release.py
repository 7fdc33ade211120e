"""The package as users get it: `python3 dev.py release` builds it into dist/, checks it, and tries it elsewhere.

Build and checks run in an environment made of the group `release` in pyproject.toml. The wheel is then installed into
fresh environments, and tests/smoke runs in each, copied out of the tree. Nothing is uploaded: `twine upload dist/*`
does that, once the addresses under `[project.urls]` lead to this source.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MIN_RATING = 9  # of pyroma's 10
# How each environment installs the wheel: "without" has only the requirements named, as where llvmlite has no wheel.
ENVIRONMENTS = {
    "newest NumPy, llvmlite": ["{wheel}"],
    "NumPy 2.0, llvmlite 0.45": ["{wheel}[bfloat16]", "numpy==2.0.*", "llvmlite==0.45.*"],
    "newest NumPy, without llvmlite": ["--no-deps", "{wheel}", "numpy>=2.0"],
    "NumPy 2.0, without llvmlite": ["--no-deps", "{wheel}", "numpy==2.0.*"],
}


def main(arguments: list[str]) -> int:
    """Build, check and try; tell how each environment fared."""
    if arguments:
        sys.exit("release takes no arguments")
    with tempfile.TemporaryDirectory(prefix="adjoint-release-") as folder:
        wheel = build_and_check(Path(folder))
        ends = [f"{name}: {try_wheel(wheel, name, Path(folder))}" for name in ENVIRONMENTS]
    tell(f"{wheel.name}, {wheel.stat().st_size / 1e6:.2f} MB", *ends)
    return int(any("failed" in end for end in ends))


def build_and_check(folder: Path) -> Path:
    """Return the wheel in dist/, made from the sdist beside it; both pass twine and pyroma, and no link is relative."""
    group = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["release"]
    python = make_environment(folder / "build", group)
    shutil.rmtree(DIST, ignore_errors=True)
    run(python, "-m", "build", "--outdir", str(DIST), str(ROOT))
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    run(python, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
    told = run(python, "-m", "pyroma", str(sdist), output=subprocess.PIPE)
    rating = re.search(r"Final rating: (\d+)/10", told)
    if rating is None or int(rating[1]) < MIN_RATING:
        sys.exit(f"release: pyroma gives less than {MIN_RATING} of 10:\n{told}")
    if found := find_relative_links(read_metadata(wheel)):
        sys.exit(f"release: the description links to files that an index does not have: {', '.join(found)}")
    return wheel


def read_metadata(wheel: Path) -> str:
    """Return the wheel's METADATA, of which the long description is a part."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def find_relative_links(text: str) -> list[str]:
    """Return the targets of Markdown's links and pictures that are no addresses."""
    return re.findall(r"\]\((?!https?://|#|mailto:)([^)\s]*)\)", text)


def try_wheel(wheel: Path, name: str, folder: Path) -> str:
    """Install the wheel into a fresh environment and run the smoke tests there."""
    place = folder / re.sub(r"\W+", "-", name)
    requirements = [each.format(wheel=wheel) for each in ENVIRONMENTS[name]]
    python = make_environment(place, requirements)
    subprocess.run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "pytest>=8.4"], check=True)
    tests = shutil.copytree(ROOT / "tests" / "smoke", place / "smoke", ignore=shutil.ignore_patterns("__pycache__"))
    found = subprocess.run([python, "-c", "import llvmlite"], stderr=subprocess.DEVNULL, check=False)
    has_compiler = found.returncode == 0
    if has_compiler == ("without" in name):
        return f"failed: llvmlite is {'there' if has_compiler else 'missing'}"
    variables = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    variables["ADJOINT_CACHE_DIR"] = str(place / "cache")
    options = ["-q", "-W", "error", "--rootdir", str(place), "-p", "no:cacheprovider"]
    command = [python, "-m", "pytest", *options, str(tests)]
    tell(name)
    code = subprocess.run(command, cwd=place, env=variables, check=False).returncode
    return "passed" if code == 0 else f"failed, exit status {code}"


def make_environment(place: Path, requirements: list[str]) -> str:
    """Make a virtual environment with these requirements and return its Python."""
    venv.create(place, with_pip=True)
    python = str(place / ("Scripts" if os.name == "nt" else "bin") / "python")
    run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *requirements)
    return python


def tell(*lines: str) -> None:
    """Write lines below an empty one, now: what is started writes beside them."""
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    sys.stdout.flush()


def run(*command: str, output: int | None = None) -> str:
    """Run a command, which has to succeed, and return what it writes where `output` is a pipe."""
    done = subprocess.run(command, check=True, text=True, stdout=output)
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
