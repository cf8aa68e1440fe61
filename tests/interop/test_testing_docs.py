"""The Python code of docs/testing.md runs as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.interop

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "testing.md").read_text()
BLOCK = re.compile(r"```python\n(.*?)```\n+(?:```text\n(.*?)```)?", re.DOTALL)
BLOCKS = [(match[1], match[2] or "") for match in BLOCK.finditer(PAGE)]
PYTEST = [code for code, _ in BLOCKS if "def test_" in code or "fixture" in code]
SCRIPTS = [(code, output) for code, output in BLOCKS if code not in PYTEST and "ConnectWorker" not in code]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=100, check=False, cwd=folder,
        env={**environment, "PYTHONPATH": str(PROJECT / "src")},
    )  # fmt: skip


def test_the_tests_pass(tmp_path: Path) -> None:
    for number, code in enumerate(PYTEST):
        is_conftest = "kafka_options" in code
        name = "conftest.py" if is_conftest else f"test_{number}.py"
        (tmp_path / name).write_text(("import pytest\n" if is_conftest else "") + code)
    done = run(tmp_path, "-m", "pytest", "-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider", ".")
    assert done.stdout.count(" passed") == 1, done.stdout + done.stderr
    assert f"{sum(code.count('def test_') for code in PYTEST)} passed" in done.stdout, done.stdout


@pytest.mark.parametrize("number", range(len(SCRIPTS)))
def test_a_script_prints_what_the_page_says(tmp_path: Path, number: int) -> None:
    code, output = SCRIPTS[number]
    done = run(tmp_path, "-c", code)
    *_, last = output.splitlines() or [""]
    assert last in done.stdout + done.stderr
    assert (done.returncode == 1) == last.startswith("barnabas.clients."), done.stderr


def test_the_page_has_code() -> None:
    assert (len(PYTEST), len(SCRIPTS)) == (3, 3)
