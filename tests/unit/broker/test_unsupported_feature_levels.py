"""Raising a level whose APIs this broker does not serve is logged; initial levels are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.unsupported_feature_levels import FeatureNotices
from barnabas.metadata.image.features import FeaturesImage
from barnabas.metadata.metadata_version import LATEST_PRODUCTION


def logged_lines(caplog: pytest.LogCaptureFixture, *images: dict[str, int]) -> list[str]:
    notices = FeatureNotices(is_served=lambda name: name != "share.version")
    manifest: Any = None
    for levels in images:
        image: Any = SimpleNamespace(features=FeaturesImage(levels, LATEST_PRODUCTION))
        delta: Any = SimpleNamespace(features=object())
        notices.publish(delta, image, manifest)
    return [record.getMessage() for record in caplog.records]


def test_a_raised_level_of_an_unserved_feature_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = logged_lines(caplog, {}, {"share.version": 1, "group.version": 1}, {"share.version": 1})
    assert line == "share.version is now at level 1, but this broker does not serve its APIs to clients"


def test_initial_and_lowered_levels_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert logged_lines(caplog, {"share.version": 1}, {"share.version": 1}, {}) == []
