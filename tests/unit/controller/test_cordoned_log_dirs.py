from __future__ import annotations

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.controller.cordoned_log_dirs import validate_cordoned_log_dirs
from barnabas.metadata.image.configs import ConfigResource
from barnabas.metadata.metadata_version import MetadataVersion

NOW, BEFORE = MetadataVersion(30), MetadataVersion(29)


def check(
    value: str | None, before: str = "/a,/b", *, version: MetadataVersion = NOW, is_forwarded: bool = False
) -> None:
    validate_cordoned_log_dirs(
        ConfigResource.broker(1),
        {"cordoned.log.dirs": value},
        {"cordoned.log.dirs": before},
        version=version,
        is_forwarded=is_forwarded,
    )


@pytest.mark.parametrize("value", [None, "", "/a", " /b , /a "])
def test_directories_may_be_uncordoned_through_the_controller(value: str | None) -> None:
    check(value)


@pytest.mark.parametrize("value", ["/c", "/a,/c", "*"])
def test_directories_may_not_be_cordoned_through_the_controller(value: str) -> None:
    with pytest.raises(ApiException, match="must be a subset") as caught:
        check(value)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    check(value, is_forwarded=True)


@pytest.mark.parametrize("value", [None, "/a"])
def test_older_metadata_versions_do_not_support_cordoning(value: str | None) -> None:
    with pytest.raises(ApiException, match=r"metadata.version >= 4.3-IV0") as caught:
        check(value, version=BEFORE, is_forwarded=True)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_other_settings_and_other_resources_are_not_checked() -> None:
    for resource, changed in (
        (ConfigResource.topic("orders"), {"cordoned.log.dirs": "/c"}),
        (ConfigResource.broker(1), {"log.cleaner.threads": "2"}),
    ):
        validate_cordoned_log_dirs(resource, changed, {}, version=BEFORE, is_forwarded=False)
