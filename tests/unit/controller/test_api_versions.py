"""ApiVersions on a controller validates the client's software name and version, as on a broker."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.controller.apis import api_versions
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from tests.unit.controller.controller_harness import ControllerHarness


@pytest.mark.parametrize(
    ("software", "version", "error"),
    [
        ("librdkafka", 4, ErrorCode.NONE),
        ("", 4, ErrorCode.INVALID_REQUEST),
        ("a b", 3, ErrorCode.INVALID_REQUEST),
        ("", 2, ErrorCode.NONE),
    ],
)
def test_the_software_name_is_validated_in_versions_that_contain_it(
    software: str, version: int, error: ErrorCode
) -> None:
    request = ApiVersionsRequest(client_software_name=software, client_software_version="1.0")
    answer = ControllerHarness().activate().call(api_versions.handle, request, version)
    assert answer.error_code == error
    assert bool(answer.supported_features) == (error is ErrorCode.NONE)
