"""The reference pages say what the code does."""

from __future__ import annotations

import pytest

from tests.docs.reference import NOTICE, PAGES, REFERENCE


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_as_make_docs_would_write_it(name: str) -> None:
    assert (REFERENCE / name).read_text() == NOTICE + PAGES[name]()
