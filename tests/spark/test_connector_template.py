"""The connectors and tests in docs/connect/plugins.md work as printed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "connect" / "plugins.md"

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "ticks.connectors"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(code, namespace)
    return namespace


def test_the_template_names_missing_settings(template: dict[str, Any]) -> None:
    template["test_a_topic_is_needed"]()


def test_the_source_of_the_template_returns_records(template: dict[str, Any], spark: Any) -> None:
    test: Callable[[Any], None] = template["test_ticks_come"]
    test(spark)


def test_the_sink_of_the_template_writes_a_batch_once(template: dict[str, Any], spark: Any, tmp_path: Path) -> None:
    test: Callable[[Any, Path], None] = template["test_a_batch_becomes_files"]
    test(spark, tmp_path)
