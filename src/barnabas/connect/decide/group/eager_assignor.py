"""Version 0 of the protocol: everybody has stopped everything, and all work is dealt out anew.

Members by their ids, connectors by their names: the connectors are dealt one by one, and then, with the member whose
turn it is, the tasks.
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
