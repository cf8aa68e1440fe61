"""Version 0 of the protocol: all members have stopped their work, and all of it is assigned again.

Members are sorted by id and connectors by name. The connectors are assigned round-robin, and then the tasks, starting
with the next member.
"""

from __future__ import annotations

from itertools import cycle

from barnabas.connect.decide.group.assignor import AssignmentRound
from barnabas.connect.decide.group.connect_protocol import NO_ERROR, Assignment
from barnabas.connect.identifiers import ConnectorTaskId

__all__ = ["EagerAssignor"]


class EagerAssignor:
    def assign(self, round_: AssignmentRound) -> dict[str, Assignment]:
        connectors: dict[str, list[str]] = {member: [] for member in round_.members}
        tasks: dict[str, list[ConnectorTaskId]] = {member: [] for member in round_.members}
        turns = cycle(sorted(round_.members))
        names = sorted(round_.config.connectors())
        for connector in names:
            connectors[next(turns)].append(connector)
        for connector in names:
            for task in sorted(round_.config.tasks(connector)):
                tasks[next(turns)].append(task)
        return {
            member: Assignment(
                round_.version,
                NO_ERROR,
                round_.leader_id,
                round_.leader_url,
                round_.config.offset,
                tuple(connectors[member]),
                tuple(tasks[member]),
            )
            for member in round_.members
        }
