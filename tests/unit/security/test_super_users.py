"""Values of super.users that name a user that can never log in."""

from __future__ import annotations

import pytest

from barnabas.security.super_user_warnings import super_user_warnings


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("User:a,User:b", "separate users with semicolons, as in User:a;User:b"),
        ("User:a, User:b ,User:c", "not 3 users"),
        ("User:admin;User:a,User:b", "'User:a,User:b' is one user"),
        ("User:a User:b", "as in User:a;User:b"),
        ("User:CN=a,O=b,User:c", "as in User:CN=a,O=b;User:c"),
        ("user:admin", "write User:admin"),
        ('"User:admin"', "has the type"),
        ("User:*", "not all users"),
        ("User:", "lacks a name"),
    ],
)
def test_a_mistake_is_reported_once(text: str, hint: str) -> None:
    (warning,) = super_user_warnings(text)
    assert hint in warning


@pytest.mark.parametrize(
    "text",
    [
        "",
        "User:admin",
        " User:admin ; User:CN=alice, OU=x y,O=example;;",
        "User:spiffe://example.org/a",
        "User:a:b",
        "User:CN=a,1.2.3=x:y",
        "User:alice smith",
    ],
)
def test_a_name_that_a_login_can_have_is_accepted(text: str) -> None:
    assert list(super_user_warnings(text)) == []


def test_another_type_is_accepted_if_a_principal_builder_may_create_it() -> None:
    assert list(super_user_warnings("Group:ops", only_users_log_in=False)) == []
