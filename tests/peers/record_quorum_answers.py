"""Run the quorum's stories on a real Kafka's controllers, and record their answers.

::

    python -m tests.peers.record_quorum_answers FOLDER > quorum-answers-4.3.1.jsonl

It starts the controllers itself, in folders below the given one.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.interop.raw_client import RawClient
from tests.peers.quorum_story import (
    Place,
    Story,
    denied_story,
    following_story,
    leading_story,
    snapshot_story,
    static_story,
)
from tests.peers.quorums import ControllerNode, RealController, new_quorum, wait_until

__all__ = ["SITUATIONS", "answers_in"]

_FOREVER = "600000"
_QUIET = {"metadata.max.idle.interval.ms": "0"}
_WITHOUT_TIMERS = {
    **_QUIET,
    "controller.quorum.election.timeout.ms": _FOREVER,
    "controller.quorum.fetch.timeout.ms": _FOREVER,
}
_JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SECURE = {
    **_QUIET,
    "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": (
        f'{_JAAS} username="admin" password="admin-secret" user_admin="admin-secret" user_alice="alice-secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
SITUATIONS: Mapping[str, tuple[Callable[[Place], Story], int, bool, Mapping[str, str]]] = {
    "leading": (leading_story, 1, False, _QUIET),
    "static": (static_story, 1, True, _QUIET),
    "snapshot": (snapshot_story, 1, False, {**_QUIET, "metadata.log.max.record.bytes.between.snapshots": "1"}),
    "denied": (denied_story, 1, False, _SECURE),
    "following": (following_story, 3, False, _WITHOUT_TIMERS),
}
"""The story, the number of voters, whether they are static, and the settings."""


def answers_in(situation: str, folder: Path, kind: type[ControllerNode]) -> dict[str, Any]:
    """Return by step the answers of a controller of this kind; only the first voter runs."""
    story, voters, is_static, settings = SITUATIONS[situation]
    quorum = new_quorum(folder, [kind] * voters, is_static=is_static, settings=settings)
    controller = quorum.controllers[0]
    controller.launch()
    try:
        wait_until(lambda: _serves(controller, leads=voters == 1), what="the start of a controller", timeout_s=60)
        directory_id = controller.directory_id
        if is_static:
            lines = (controller.folder / "data" / "meta.properties").read_text().splitlines()
            given = next(line.partition("=")[2] for line in lines if line.startswith("directory.id"))
            directory_id = type(directory_id).from_string(given)
        ports = tuple(node.controller_port for node in quorum.controllers)
        place = Place(
            quorum.cluster_id, controller.node_id, directory_id, ports, "alice" if situation == "denied" else None
        )
        return _answers(story(place), place)
    finally:
        controller.kill()


def _serves(controller: ControllerNode, *, leads: bool) -> bool:
    if leads:
        return controller.is_ready(controller.printed())
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", controller.controller_port)) == 0


def _answers(story: Story, place: Place) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    step = next(story)
    while True:
        answer = None
        with suppress(ConnectionError):
            client = RawClient(place.port)
            if place.user is not None:
                client.log_in(place.user, f"{place.user}-secret")
            answer = client.call(step.request, step.version)
            client.close()
        answers[step.name] = "closed" if answer is None else _comparable(answer.to_json(step.version), place)
        try:
            step = story.send(answer)
        except StopIteration:
            return answers


def _comparable(answer: Any, place: Place, name: str = "") -> Any:
    """Return the answers without values that differ from run to run, and without texts for people."""
    if isinstance(answer, dict):
        return {key: _comparable(value, place, key) for key, value in answer.items()}
    if isinstance(answer, list):
        return [_comparable(entry, place, name) for entry in answer]
    if name == "errorMessage":
        return answer is not None
    if name == "port" and answer in place.ports:
        return f"of voter {place.ports.index(answer)}"
    if answer == str(place.directory_id):
        return "its own"
    if name in ("lastFetchTimestamp", "lastCaughtUpTimestamp"):
        return answer if answer < 0 else "given"
    if name in ("records", "unalignedRecords") and answer:
        return "some"
    return answer


def main(folder: Path) -> None:
    for situation in SITUATIONS:
        for name, answer in answers_in(situation, folder / situation, RealController).items():
            print(json.dumps({"situation": situation, "step": name, "answer": answer}, sort_keys=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
