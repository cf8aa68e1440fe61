from __future__ import annotations

from typing import Any, cast

from barnabas.server.metadata_log.publisher_order import broker_followers, install_followers


class Loader:
    def __init__(self) -> None:
        self.installed: list[str] = []

    def install(self, publisher: Any) -> None:
        self.installed.append(publisher)


class Authorization:
    def install(self, loader: Loader) -> None:
        loader.install("rules")


def test_acls_are_published_first_and_the_applied_offset_last() -> None:
    loader: Any = Loader()
    broker = broker_followers(
        lifecycle=cast("Any", "lifecycle"), groups=cast("Any", "groups"), replicas=cast("Any", "replicas")
    )
    install_followers(
        loader,
        cast("Any", Authorization()),
        applied=cast("Any", "applied"),
        last=cast("Any", ("settings",)),
        snapshots=cast("Any", "snapshots"),
        first=broker,
        metadata=cast("Any", "metadata"),
        checks=cast("Any", ("checks",)),
    )
    assert loader.installed == [
        "rules",
        "checks",
        "metadata",
        "lifecycle",
        "replicas",
        "groups",
        "snapshots",
        "settings",
        "applied",
    ]
