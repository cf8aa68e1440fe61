"""The page of the bundled connectors lists every setting, and its examples are valid settings."""

from __future__ import annotations

import importlib
import json
import re

import pytest

from barnabas.connect.plugins.api import Connector
from barnabas.connect.plugins.discovery import OWN_CONNECTORS
from barnabas.connect.plugins.testing import ConnectorKit
from tests.docs.tracked import PROJECT

PAGE = (PROJECT / "docs/connect/connectors.md").read_text()
SECTIONS = PAGE.split("\n## ")[1:]
CONNECTORS: dict[str, type[Connector]] = {
    name.partition(":")[2]: getattr(importlib.import_module(name.partition(":")[0]), name.partition(":")[2])
    for name in OWN_CONNECTORS
    if "mock_connectors" not in name
}
EXAMPLES = [
    json.loads(block)
    for page in (PAGE, (PROJECT / "docs/connect/sql.md").read_text())
    for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)
]


def section_of(name: str) -> str:
    return next(section for section in SECTIONS if f"`{name}`" in section.splitlines()[0])


@pytest.mark.parametrize("name", CONNECTORS)
def test_every_setting_of_a_connector_is_in_its_section(name: str) -> None:
    section = section_of(name)
    if name == "JdbcSource":
        section = section.replace("`connection.*`", "`connection.url`, `connection.user`, `connection.password`")
    missing = [key.name for key in CONNECTORS[name].config_def if f"`{key.name}" not in section]
    assert missing == []


@pytest.mark.parametrize("example", EXAMPLES, ids=[example["connector.class"] for example in EXAMPLES])
def test_the_settings_of_an_example_are_valid(example: dict[str, str]) -> None:
    kit = ConnectorKit(CONNECTORS[example["connector.class"]], example)
    assert kit.errors == {}
