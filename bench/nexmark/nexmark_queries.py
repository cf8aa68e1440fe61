"""NEXMark's queries 0 to 8 as declarations: the text, the inputs, and how rows are written.

A text is the file of the query's name. Queries 4 and 6 are two statements: the winning bids of closed auctions, which
are added to a topic, and what is computed from that topic, which changes with each auction. Structured Streaming joins
two streams only where rows are added, and an average over all time changes.

``batch`` is the same query over data that are complete: the text itself, or, where the stream needs other words, the
published query. Such a text has the parameter ``closed``: the event time up to which auctions count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["INPUTS", "QUERIES", "Input", "NexmarkQuery", "pipeline_config"]

_FOLDER = Path(__file__).resolve().parent
_LATE = "2 seconds"
"""How late events may be. The source writes them in order."""


@dataclass(frozen=True, slots=True)
class Input:
    topic: str
    schema: str
    """In Spark's words."""
    event_time: str | None = None
    watermark: str = _LATE


_DATE_TIME = "dateTime TIMESTAMP, extra STRING"
_PERSON = f"id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, {_DATE_TIME}"
_AUCTION = (
    "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, seller BIGINT, "
    f"category BIGINT, expires TIMESTAMP, {_DATE_TIME}"
)
_BID = f"auction BIGINT, bidder BIGINT, price BIGINT, {_DATE_TIME}"
_WINNING = "auction BIGINT, category BIGINT, seller BIGINT, expires TIMESTAMP, final BIGINT"

INPUTS: Mapping[str, Input] = {
    "person": Input("nexmark-person", _PERSON),
    "auction": Input("nexmark-auction", _AUCTION),
    "bid": Input("nexmark-bid", _BID),
}
"""The events as ``NexmarkSource`` writes them."""


@dataclass(frozen=True, slots=True)
class NexmarkQuery:
    name: str
    inputs: Mapping[str, Input]
    key: str | None = None
    """The column that a row replaces another one by. Without it, rows are only added."""
    end: str | None = None
    """The column with the event time at which a row is complete. Without it, rows do not wait for a time."""

    @property
    def sql(self) -> str:
        return (_FOLDER / f"{self.name}.sql").read_text()

    @property
    def batch_sql(self) -> str:
        file = _FOLDER / "batch" / f"{self.name}.sql"
        return file.read_text() if file.exists() else self.sql


def _reading(*names: str, event_time: str | None = "dateTime") -> Mapping[str, Input]:
    return {name: Input(INPUTS[name].topic, INPUTS[name].schema, event_time) for name in names}


_CLOSING = {
    "auction": Input("nexmark-auction", _AUCTION, "expires"),
    "bid": Input("nexmark-bid", _BID, "dateTime"),
}
_WINNERS = {"winning": Input("nexmark-winning_bids", _WINNING)}

QUERIES: Sequence[NexmarkQuery] = (
    NexmarkQuery("q0", _reading("bid", event_time=None)),
    NexmarkQuery("q1", _reading("bid", event_time=None)),
    NexmarkQuery("q2", _reading("bid", event_time=None)),
    NexmarkQuery("q3", _reading("auction", "person", event_time=None)),
    NexmarkQuery("winning_bids", _CLOSING, end="expires"),
    NexmarkQuery("q4", _WINNERS, key="category"),
    NexmarkQuery("q5", _reading("bid"), end="endtime"),
    NexmarkQuery("q6", _WINNERS, key="seller"),
    NexmarkQuery("q7", _reading("bid"), end="endtime"),
    NexmarkQuery("q8", _reading("person", "auction"), end="endtime"),
)
"""In an order in which a topic is written before it is read."""


def pipeline_config(query: NexmarkQuery, topic: str) -> dict[str, str]:
    """Return the settings of a SqlPipeline that writes the query's rows to a topic."""
    config = {
        "connector.class": "SqlPipeline",
        "inputs": ",".join(query.inputs),
        "query": query.sql,
        "output.topic": topic,
        "output.format": "json",
    }
    for name, given in query.inputs.items():
        settings = {"topic": given.topic, "format": "json", "schema": given.schema}
        if given.event_time is not None:
            settings |= {"event.time": given.event_time, "watermark": given.watermark}
        config |= {f"inputs.{name}.{setting}": value for setting, value in settings.items()}
    if query.key is not None:
        config |= {"output.mode": "upsert", "output.key": query.key}
    return config
