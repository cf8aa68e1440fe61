from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.spark.errors import SparkUnavailable
from barnabas.spark.java_runtime import find_java, major_version


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "11.0.2"', 11),
        ("Segmentation fault", None),
    ],
)
def test_the_major_version_is_parsed_from_the_output_of_java(text: str, major: int | None) -> None:
    assert major_version(text) == major


def fake_java(folder: Path, script: str) -> dict[str, str]:
    executable = folder / "bin" / "java"
    executable.parent.mkdir()
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": "/usr/bin:/bin"}


def test_a_supported_java_is_taken_from_java_home(tmp_path: Path) -> None:
    java = find_java(fake_java(tmp_path, """echo 'openjdk version "17.0.1"' >&2"""))
    assert (java.home, java.major) == (tmp_path, 17)


def test_java_is_found_on_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path, """echo 'openjdk version "21.0.1"' >&2""")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == tmp_path


@pytest.mark.parametrize("major", [11, 23, 25])
def test_an_unsupported_java_is_refused_with_its_version(tmp_path: Path, major: int) -> None:
    with pytest.raises(SparkUnavailable, match=rf"17 to 22.* is Java {major}\. Install a JDK 17"):
        find_java(fake_java(tmp_path, f"""echo 'openjdk version "{major}.0.1"' >&2"""))


def test_without_java_the_message_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match=r"none was found.*apt-get install openjdk-17"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match=r"JAVA_HOME is .*no executable bin/java"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_the_output_of_a_failing_java_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match="failed with status 3: broken install"):
        find_java(fake_java(tmp_path, "echo broken install >&2; exit 3"))
