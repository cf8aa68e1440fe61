"""A line when a level is raised whose APIs this broker does not serve, and none for what a cluster began with."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.unsupported_feature_levels import FeatureNotices
from barnabas.metadata.image.features import FeaturesImage
from barnabas.metadata.metadata_version import LATEST_PRODUCTION


def told(caplog: pytest.LogCaptureFixture, *images: dict[str, int]) -> list[str]:
    notices = FeatureNotices(is_served=lambda name: name != "share.version")
    manifest: Any = None
    for levels in images:
        image: Any = SimpleNamespace(features=FeaturesImage(levels, LATEST_PRODUCTION))
        delta: Any = SimpleNamespace(features=object())
        notices.publish(delta, image, manifest)
    return [record.getMessage() for record in caplog.records]


def test_a_raised_level_of_a_feature_that_is_not_served_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = told(caplog, {}, {"share.version": 1, "group.version": 1}, {"share.version": 1})
    assert line == "share.version is now at level 1, but this broker does not serve its APIs to clients"


def test_the_levels_of_the_start_and_lowered_ones_are_not_told(caplog: pytest.LogCaptureFixture) -> None:
    assert told(caplog, {"share.version": 1}, {"share.version": 1}, {}) == []
