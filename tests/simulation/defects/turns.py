"""Defects in decisions that take several turns."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in


@defect("arrival-forgets-the-rest", "a broker that returns leads only the partitions of the first turn")
def _() -> None:
    def make(original: Any) -> Any:
        def begin(self: Any, broker: Any) -> Any:
            records = original(self, broker)
            self._turns.give_up(("arrival", broker.id))
            return records

        return begin

    replace_in("controller.broker_arrivals", "BrokerArrivals.begin", make)
