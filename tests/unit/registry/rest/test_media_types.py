"""The media types of bodies and answers."""

from __future__ import annotations

import pytest

from barnabas.registry.rest.media_types import V1, answer_type, is_accepted_body


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        (None, V1),
        ("", V1),
        ("*/*", V1),
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json", V1),
        ("application/vnd.schemaregistry+json; q=0.5, application/json; q=0.9", "application/json"),
        ("text/html, application/json;q=0.1", "application/json"),
        ("application/json;q=0", None),
        ("application/json;q=x", None),
        ("text/html", None),
    ],
)
def test_the_answer_has_the_type_of_the_greatest_weight(accept: str | None, answered: str | None) -> None:
    assert answer_type(accept) == answered


def test_bodies_are_json_of_some_name() -> None:
    accepted = [None, V1, "application/json; charset=utf-8", "application/octet-stream", "Application/JSON"]
    assert all(map(is_accepted_body, accepted))
    assert not is_accepted_body("text/plain")
