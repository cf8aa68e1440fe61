"""The reference pages match the code."""

from __future__ import annotations

import pytest

from tests.docs.reference import NOTICE, PAGES, REFERENCE


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_equals_what_make_docs_writes(name: str) -> None:
    assert (REFERENCE / name).read_text() == NOTICE + PAGES[name]()
