"""The code of two pages of docs/connect is that of the package which the tests install and run."""

from __future__ import annotations

import re

import pytest

from tests.docs.tracked import PROJECT

PAGE = (PROJECT / "docs/connect/plugins.md").read_text()
PIPELINES = (PROJECT / "docs/connect/python-pipelines.md").read_text()
PACKAGE = PROJECT / "docs/connect/own-plugins"


@pytest.mark.parametrize("name", ["records", "lines"])
def test_a_module_of_the_example_is_on_the_page(name: str) -> None:
    assert (PACKAGE / f"src/shop_plugins/{name}.py").read_text() in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_entry_points_of_the_example_are_on_the_page() -> None:
    _, _, entry_points = (PACKAGE / "pyproject.toml").read_text().partition("\n[project.entry-points")
    assert f"[project.entry-points{entry_points}" in "".join(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))


@pytest.mark.parametrize("file", ["src/shop_plugins/orders.py", "tests/test_orders.py"])
def test_the_pipeline_and_its_test_are_on_their_page(file: str) -> None:
    assert (PACKAGE / file).read_text() in re.findall(r"```python\n(.*?)```", PIPELINES, re.DOTALL)
