"""The authorizer in the tutorial behaves as the tutorial says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.principal import Principal
from barnabas.security.request_context import RequestContext

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "own-authorizer.md"


@pytest.fixture(scope="module")
def team_authorizer() -> Any:
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    namespace: dict[str, Any] = {}
    exec(code.group(1), namespace)
    return namespace["TeamAuthorizer"]


def test_the_authorizer_of_the_tutorial_decides_as_documented(team_authorizer: Any) -> None:
    authorizer = team_authorizer()
    authorizer.configure({})
    principal = Principal("User", "billing-api")
    context = RequestContext(api_key=ApiKey.METADATA, api_version=12, principal=principal)
    names = ["billing.invoices", "orders.new"]
    assert authorizer.filter_authorized(context, AclOperation.READ, ResourceType.TOPIC, names) == names[:1]
    assert authorizer.filter_authorized(context, AclOperation.DESCRIBE, ResourceType.TOPIC, names) is names
    assert authorizer.authorized_operations_many(context, ResourceType.TOPIC, names) == [3576, 256]
