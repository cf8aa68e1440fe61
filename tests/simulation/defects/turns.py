"""Mistakes in decisions that are made in turns."""

from __future__ import annotations

from typing import Any

from tests.simulation.cluster.defects import defect, replace_in


@defect("arrival-forgets-the-rest", "a broker that comes back leads the partitions of the first turn, and no others")
def _() -> None:
    def make(original: Any) -> Any:
        def begin(self: Any, broker: Any) -> Any:
            records = original(self, broker)
            self._turns.give_up(("arrival", broker.id))
            return records

        return begin

    replace_in("controller.broker_arrivals", "BrokerArrivals.begin", make)


@defect("failover-forgets-arrivals", "a new controller does not finish the arrivals of the one before it")
def _() -> None:
    replace_in("controller.broker_arrivals", "BrokerArrivals.activate", lambda original: lambda self: None)


@defect("departure-forgets-newcomers", "a broker is fenced while it leads what it was given since it began to leave")
def _() -> None:
    replace_in("controller.broker_departures", "BrokerDepartures.replayed", lambda original: lambda self, records: None)
