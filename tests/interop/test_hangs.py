"""Nodes that hang while clients write: no other broker is fenced, no acknowledged record is lost, partitions continue.

``python -m tests.history.hangs --seconds 5 20 60`` runs the same manually, for any kind of cluster.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.history.cluster import KINDS, running_cluster
from tests.history.hangs import SETTINGS, Hang, HangStory, Target, Way

pytestmark = [
    pytest.mark.interop,
    # Warnings of the client libraries are not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def broken(folder: Path, kind: str, hangs: list[Hang]) -> list[str]:
    with running_cluster(folder, KINDS[kind], settings=SETTINGS) as cluster:
        story = HangStory(cluster)
        story.run(hangs)
        return story.broken()


@pytest.mark.timeout(180)
def test_clients_do_not_notice_a_frozen_active_controller(tmp_path: Path) -> None:
    """Long enough for every session to end, if heartbeats waited for it."""
    assert broken(tmp_path, "ours", [Hang(Target.CONTROLLER, Way.STOP, 13)]) == []


@pytest.mark.long
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("target", list(Target))
@pytest.mark.parametrize("seconds", [5, 20, 60])
def test_every_hang_is_as_harmless_as_a_crash(target: Target, seconds: float, tmp_path: Path) -> None:
    assert broken(tmp_path, "ours", [Hang(target, way, seconds) for way in Way]) == []


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["mixed", "our-brokers"])
def test_our_brokers_outlive_a_hung_controller_of_either_kind(kind: str, tmp_path: Path, kafka_peer: Path) -> None:
    hangs = [Hang(Target.CONTROLLER, way, 20) for way in (Way.STOP, Way.DROP)]
    with running_cluster(tmp_path, KINDS[kind], settings=SETTINGS) as cluster:
        story = HangStory(cluster)
        story.run(hangs)
        fenced = {f"broker-{fencing.broker_id}" for outcome in story.outcomes for fencing in outcome.fencings}
        assert fenced & {broker.name for broker in cluster.brokers if broker.kind == "ours"} == set()
