"""What an installation takes: a wheel of this tree into a fresh environment, with the versions that the project pins.

Packages that an earlier installation downloaded come from the cache of uv or pip. Of Kafka only the size is known: the
jars that its node and tools need, without Java.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from bench.costs import Cost, cost_of
from tests.peers import peer_lib

__all__ = ["measure_install", "pins"]

_PROJECT = Path(__file__).resolve().parent.parent
_MB = 1_000_000


def measure_install(folder: Path, *, with_pip: bool) -> dict[str, dict[str, float]]:
    """Return figures by side. ``folder`` receives the wheel and the environments."""
    folder.mkdir(parents=True)
    uv = str(Path(sys.executable).parent / "uv")
    lock = str(_PROJECT / "requirements" / "build.lock.txt")
    cost_of([uv, "build", "--quiet", "--wheel", "--build-constraint", lock, "-o", str(folder), str(_PROJECT)])
    (wheel,) = folder.glob("*.whl")
    versions = folder / "pins.txt"
    versions.write_text(pins((_PROJECT / "requirements" / "node.lock.txt").read_text()))
    with_uv = folder / "with-uv"
    by_uv = _total(
        cost_of([uv, "venv", "--quiet", "--python", sys.executable, str(with_uv)]),
        cost_of(
            [
                uv,
                "pip",
                "install",
                "--quiet",
                "--python",
                str(with_uv / "bin" / "python"),
                "-c",
                str(versions),
                str(wheel),
            ],
            env=_environment(),
        ),
    )
    ours = {
        "wheel, MB": wheel.stat().st_size / _MB,
        "installed, MB": _size(with_uv.rglob("*")) / _MB,
        "uv venv, uv pip install: CPU, s": by_uv.cpu_s,
        "uv venv, uv pip install, s": by_uv.wall_s,
    }
    if with_pip:
        python = folder / "with-pip" / "bin" / "python"
        by_pip = _total(
            cost_of([sys.executable, "-m", "venv", str(folder / "with-pip")]),
            cost_of(
                [str(python), "-m", "pip", "install", "--quiet", "-c", str(versions), str(wheel)], env=_environment()
            ),
        )
        ours |= {"python -m venv, pip install: CPU, s": by_pip.cpu_s, "python -m venv, pip install, s": by_pip.wall_s}
    figures = {"kafka": {"installed, MB": _size(peer_lib().glob("*.jar")) / _MB}, "barnabas": ours}
    for name, value in ours.items():
        print(f"first steps: {name} {value:,.4g}", flush=True)
    return figures


def pins(lock: str) -> str:
    """Return the requirements of a lock file without their hashes, one a line."""
    return "".join(line.split(" \\")[0] + "\n" for line in lock.splitlines() if line[:1].isalnum())


def _environment() -> dict[str, str]:
    """Return the environment without what points to other packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _total(*costs: Cost) -> Cost:
    return Cost(sum(cost.cpu_s for cost in costs), sum(cost.wall_s for cost in costs))


def _size(paths: Iterable[Path]) -> int:
    return sum(path.lstat().st_size for path in paths if path.is_file() and not path.is_symlink())
