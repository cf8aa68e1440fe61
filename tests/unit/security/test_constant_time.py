"""Secrets are compared with hmac.compare_digest: the code of logins and tokens has no comparison that stops early."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import barnabas.security

SECURITY = Path(barnabas.security.__file__).parent
SECRETS = frozenset(
    (
        *("password", "passwords", "salted_password", "secret", "hmac", "proof", "signature", "nonce", "digest"),
        *("stored_key", "server_key", "client_key", "expected", "shown", "wanted"),
    )
)


def names_in(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def is_length_or_nothing(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None or node.value == "" or isinstance(node.value, int)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("len", "type")


def early_comparisons(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            compares = any(isinstance(operation, ast.Eq | ast.NotEq) for operation in node.ops)
            named = {name.lstrip("_") for side in sides for name in names_in(side)}
            if compares and named & SECRETS and not any(map(is_length_or_nothing, sides)):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("path", sorted(SECURITY.rglob("*.py")), ids=lambda path: path.relative_to(SECURITY).as_posix())
def test_no_secret_is_compared_with_an_operator_that_stops_early(path: Path) -> None:
    assert early_comparisons(path.read_text()) == []


def test_the_check_finds_early_comparisons() -> None:
    assert early_comparisons("if user.password == given: pass")
    assert early_comparisons("ok = stored_key != computed")
    assert not early_comparisons("ok = len(proof) == len(signature)")
    assert not early_comparisons("ok = hmac.compare_digest(stored_key, computed)")


@pytest.mark.parametrize("name", ["sasl/plain.py", "sasl/scram.py", "delegation_tokens.py"])
def test_code_that_checks_secrets_uses_the_constant_time_comparison(name: str) -> None:
    assert "compare_digest(" in (SECURITY / name).read_text()
