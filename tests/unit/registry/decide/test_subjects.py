"""Names of subjects and contexts."""

from __future__ import annotations

import pytest

from barnabas.registry.decide.errors import RegistryError
from barnabas.registry.decide.subjects import QualifiedSubject, checked_subject, in_context


@pytest.mark.parametrize(
    ("text", "context", "name"),
    [
        ("orders-value", ".", "orders-value"),
        (":.team:orders-value", ".team", "orders-value"),
        (":.team:", ".team", ""),
        (":.:orders-value", ".", "orders-value"),
        (":odd:name", ".", ":odd:name"),
        (":.unfinished", ".", ":.unfinished"),
        (":.team:a:b", ".team", "a:b"),
    ],
)
def test_a_subject_may_name_its_context(text: str, context: str, name: str) -> None:
    assert QualifiedSubject.parse(text) == QualifiedSubject(context, name)
    assert QualifiedSubject.parse(str(QualifiedSubject.parse(text))) == QualifiedSubject(context, name)


def test_a_path_below_a_context_gives_it_to_its_subject() -> None:
    assert in_context(".team", "s") == ":.team:s"
    assert in_context(".team", ":.other:s") == ":.other:s"
    assert in_context(".", "s") == "s"


@pytest.mark.parametrize("text", ["", ":.team:", "__GLOBAL", "a\nb"])
def test_some_names_are_refused(text: str) -> None:
    with pytest.raises(RegistryError) as refused:
        checked_subject(text)
    assert refused.value.code == 42208
