from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.apis import SERVED_BY_BROKER, SHARE_GROUP_APIS
from barnabas.broker.apis.api_versions import handle_api_versions
from barnabas.broker.metadata_cache import MetadataCache
from barnabas.common.errors import ErrorCode
from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage, MetadataProvenance
from barnabas.network.api_handler import Access
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.request_context import RequestContext


class FakeBroker:
    served = SERVED_BY_BROKER
    supported_features = SUPPORTED_FEATURES

    def __init__(self) -> None:
        delta = MetadataDelta(MetadataImage.EMPTY)
        for name, level in (
            ("metadata.version", 30),
            ("transaction.version", 2),
            ("group.version", 1),
            ("share.version", 1),
            ("streams.version", 1),
            ("eligible.leader.replicas.version", 1),
        ):
            delta.replay(FeatureLevelRecord(name=name, feature_level=level))
        self.metadata = MetadataCache()
        self.metadata.image = delta.apply(MetadataProvenance(41, 1, 0))

        self.controller = SimpleNamespace(versions=lambda: None)

    def kraft_version(self) -> int:
        return 1


def ask(version: int, *, software: str = "test", broker: Any = None) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name=software, client_software_version="1.0")
    context = RequestContext(api_key=ApiKey.API_VERSIONS, api_version=version)
    served: Any = broker or FakeBroker()
    answer = handle_api_versions(served, request, Access(AllowAllAuthorizer(), context, frozenset()))
    assert ApiVersionsResponse.decode(answer.encode(version), version).error_code == answer.error_code
    return answer


def test_every_served_api_is_listed_with_its_range() -> None:
    listed = {key.api_key: (key.min_version, key.max_version) for key in ask(4).api_keys}
    assert listed == {int(key): versions for key, versions in SERVED_BY_BROKER.items()}


def test_finalized_and_supported_features_are_those_whose_apis_are_served() -> None:
    answer = ask(4)
    assert {feature.name: feature.max_version_level for feature in answer.finalized_features} == {
        "metadata.version": 30,
        "kraft.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 1,
        "eligible.leader.replicas.version": 1,
        "streams.version": 1,
    }
    assert {feature.name for feature in answer.supported_features} == {
        "metadata.version",
        "kraft.version",
        "transaction.version",
        "group.version",
        "share.version",
        "eligible.leader.replicas.version",
        "streams.version",
    }


def test_a_feature_whose_api_is_not_served_is_not_offered() -> None:
    broker = FakeBroker()
    broker.served = {key: versions for key, versions in SERVED_BY_BROKER.items() if key not in SHARE_GROUP_APIS}
    assert "share.version" not in {feature.name for feature in ask(4, broker=broker).finalized_features}


def test_the_epoch_of_the_features_is_the_offset_of_the_image() -> None:
    assert ask(3).finalized_features_epoch == 41


def test_features_that_may_be_absent_are_left_out_before_version_4() -> None:
    assert {feature.name for feature in ask(3).supported_features} == {"metadata.version"}


@pytest.mark.parametrize("software", ["", "-test", "te st", "test\n"])
def test_an_invalid_software_name_is_refused(software: str) -> None:
    assert ask(3, software=software).error_code == ErrorCode.INVALID_REQUEST
    assert ask(2, software=software).error_code == ErrorCode.NONE


def ranges(controller: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    broker = FakeBroker()
    broker.controller = SimpleNamespace(versions=lambda: controller)
    return {api.api_key: (api.min_version, api.max_version) for api in ask(4, broker=broker).api_keys}


def test_forwarded_apis_are_offered_in_versions_that_the_controller_serves_too() -> None:
    found = ranges({ApiKey.CREATE_TOPICS: (0, 5), ApiKey.DELETE_TOPICS: (3, 99), ApiKey.CREATE_ACLS: (2, 3)})
    assert found[ApiKey.CREATE_TOPICS] == (2, 5)
    assert found[ApiKey.DELETE_TOPICS] == (3, 6)
    assert found[ApiKey.CREATE_ACLS] == (2, 3)


def test_forwarded_apis_that_the_controller_does_not_serve_are_not_offered() -> None:
    found = ranges({ApiKey.CREATE_TOPICS: (8, 9)})
    assert ApiKey.CREATE_TOPICS not in found
    assert ApiKey.ELECT_LEADERS not in found


def test_apis_that_the_broker_answers_itself_do_not_depend_on_the_controller() -> None:
    alone = {api.api_key: (api.min_version, api.max_version) for api in ask(4).api_keys}
    found = ranges({ApiKey.METADATA: (0, 1), ApiKey.PRODUCE: (5, 6)})
    assert found[ApiKey.METADATA] == alone[ApiKey.METADATA]
    assert found[ApiKey.PRODUCE] == alone[ApiKey.PRODUCE] == (0, 13)
