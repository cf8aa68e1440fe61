"""The reference explains every API that a node advertises."""

from __future__ import annotations

import re

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.server.controller.quorum_handlers import SERVED_BY_CONTROLLER
from tests.docs.tracked import PROJECT

BROKER, CONTROLLER = (PROJECT / "docs/reference/apis.md").read_text().split("## On controller listeners")


def rows(section: str) -> dict[str, list[str]]:
    """Return the cells behind the name of each API."""
    found = re.findall(r"^\| \d+ \| (\w+) \|(.*)\|$", section, re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in found}


@pytest.mark.parametrize("key", sorted(SERVED_BY_BROKER), ids=lambda key: API_TABLE[key].name)
def test_an_api_of_the_broker_has_versions_and_an_explanation(key: ApiKey) -> None:
    versions, _, explanation = rows(BROKER)[API_TABLE[key].name]
    assert versions == "–".join(map(str, SERVED_BY_BROKER[key]))
    assert len(explanation.split()) > 2


def test_the_page_lists_exactly_the_served_apis() -> None:
    assert rows(BROKER).keys() == {API_TABLE[key].name for key in SERVED_BY_BROKER}
    assert rows(CONTROLLER).keys() == {API_TABLE[key].name for key in SERVED_BY_CONTROLLER}
