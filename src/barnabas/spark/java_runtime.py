"""Find the Java for Spark, and reject an unsupported version before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from barnabas.spark.errors import JavaUnusable

__all__ = ["JavaRuntime", "find_java", "major_version"]

# Spark 4.0 is compiled for 17; from 23 on, Hadoop's login calls an API of the JDK that only throws.
_OLDEST = 17
_NEWEST = 22
_HOW_TO_GET = (
    "Install a JDK 17 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; "
    "Fedora: dnf install java-17-openjdk-headless), or set JAVA_HOME to one."
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    home: Path
    """The value of JAVA_HOME for Spark."""
    major: int


def find_java(environment: Mapping[str, str]) -> JavaRuntime:
    """Return the Java of JAVA_HOME, else the one on the PATH: Spark's own scripts choose the same one."""
    executable = _executable(environment)
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaUnusable(f"Spark needs Java, and {executable} can't be run: {error}. {_HOW_TO_GET}") from error
    major = major_version(answer.stderr + answer.stdout)
    if answer.returncode != 0 or major is None:
        raise JavaUnusable(
            f"Spark needs Java, and `{executable} -version` failed with status {answer.returncode}: "
            f"{(answer.stderr or answer.stdout).strip()[:300]}. {_HOW_TO_GET}"
        )
    if not _OLDEST <= major <= _NEWEST:
        raise JavaUnusable(
            f"Spark runs on Java {_OLDEST} to {_NEWEST}, and {executable} is Java {major}. {_HOW_TO_GET}"
        )
    return JavaRuntime(home=executable.resolve().parent.parent, major=major)


def major_version(text: str) -> int | None:
    """Return the 17 of `openjdk version "17.0.15"`, or the 8 of `java version "1.8.0_402"`."""
    found = _VERSION.search(text)
    return int(found.group(1)) if found else None


def _executable(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME")
    if home:
        executable = Path(home) / "bin" / "java"
        if not os.access(executable, os.X_OK):
            raise JavaUnusable(f"JAVA_HOME is {home}, which has no executable bin/java. {_HOW_TO_GET}")
        return executable
    found = shutil.which("java", path=environment.get("PATH"))
    if found is None:
        raise JavaUnusable(
            f"Spark needs Java, and none was found: JAVA_HOME is not set, PATH has no java. {_HOW_TO_GET}"
        )
    return Path(found)
