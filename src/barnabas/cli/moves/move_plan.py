"""A plan of moves, shown before it starts: what each broker receives, gives up and copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from barnabas.cli.arguments.partition_files import moves_document
from barnabas.cli.moves.cluster_survey import Survey
from barnabas.cli.moves.reassignment import ids
from barnabas.cli.output.answer import Problem
from barnabas.cli.output.table import Sheet, size_of
from barnabas.common.topic_partition import TopicPartition
from barnabas.placement.cluster_model import Move

__all__ = ["MovePlan", "without_room"]

_SHOWN_MOVES = 40


@dataclass(frozen=True)
class MovePlan:
    """``elections`` are partitions whose preferred leader will be elected, moved or not."""

    survey: Survey
    moves: Sequence[Move]
    elections: Sequence[TopicPartition] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.moves or self.elections or self.survey.under_way)

    @cached_property
    def after(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {**self.survey.replicas, **{each.partition: each.after for each in self.moves}}

    @cached_property
    def copied_bytes(self) -> int:
        return sum(each.copied_bytes for each in self.moves)

    @cached_property
    def received(self) -> Counter[int]:
        """Bytes copied to each broker."""
        return Counter({b: sum(each.size for each in self.moves if b in each.adds) for b in self._targets()})

    @cached_property
    def sent(self) -> Counter[int]:
        """Bytes copied from each broker, as the leader."""
        sent: Counter[int] = Counter()
        for each in self.moves:
            leader = self.survey.leaders.get(each.partition)
            if leader is not None and each.adds:
                sent[leader] += each.copied_bytes
        return sent

    def _targets(self) -> set[int]:
        return {broker for each in self.moves for broker in each.adds}

    def seconds_at(self, rate: int) -> float:
        """The duration if each broker copies ``rate`` bytes per second in each direction."""
        return max([*self.received.values(), *self.sent.values()], default=0) / rate

    def document(self) -> dict[str, Any]:
        """The document, which is also a file for 'barnabas reassign execute' and for Kafka's tool."""
        changes = {each.partition: each.after for each in self.moves}
        return moves_document(changes) | {
            "current": moves_document({each.partition: each.before for each in self.moves}),
            "bytes_to_copy": self.copied_bytes,
            "replicas_to_copy": sum(len(each.adds) for each in self.moves),
            "leaders_to_elect": len(self.elections),
            "under_way": len(self.survey.under_way),
            "brokers": [self._broker(broker) for broker in self._brokers()],
            "moves": [self._move(each) for each in self.moves],
        }

    def sheets(self) -> list[Sheet]:
        title = f"{_counted(len(self.moves), 'partition')} to move, {size_of(self.copied_bytes)} to copy"
        brokers = Sheet(title, ("broker", "replicas", "leaders", "size", "gets", "gives", "sends", "rack"))
        for broker in self._brokers():
            each = self._broker(broker)
            brokers.add(
                str(broker), _change(each["replicas"], each["replicas_then"]),
                _change(each["leaders"], each["leaders_then"]),
                _change(size_of(each["bytes"]), size_of(each["bytes_then"])),
                f"{each['gets']} ({size_of(each['bytes_received'])})" if each["gets"] else "",
                str(each["gives"] or ""), size_of(each["bytes_sent"]) if each["bytes_sent"] else "",
                each["rack"] or "",
            )  # fmt: skip
        brokers.drop_last_column_if_empty()
        if not self.moves:
            return [brokers]
        moves = Sheet(columns=("topic", "partition", "now", "then", "copied to", "size"))
        for move in sorted(self.moves, key=lambda each: (-each.copied_bytes, each.partition))[:_SHOWN_MOVES]:
            partition = move.partition
            moves.add(
                partition.topic, str(partition.partition), ids(move.before), ids(move.after), ids(move.adds),
                size_of(move.copied_bytes) if move.adds else "",
            )  # fmt: skip
        if len(self.moves) > _SHOWN_MOVES:
            moves.caption = f"and {len(self.moves) - _SHOWN_MOVES} smaller ones; --output json lists all"
        return [brokers, moves]

    def _brokers(self) -> list[int]:
        """All brokers of the plan, including those that are not alive."""
        return sorted({*self.survey.brokers, *(each for brokers in self.survey.replicas.values() for each in brokers)})

    @cached_property
    def _counts(self) -> Mapping[str, Counter[int]]:
        found: dict[str, Counter[int]] = {key: Counter() for key in ("replicas", "replicas_then", "gets", "gives")}
        found |= {key: Counter() for key in ("leaders", "leaders_then", "bytes", "bytes_then")}
        for then, where in (("", self.survey.replicas), ("_then", self.after)):
            for partition, brokers in where.items():
                found[f"replicas{then}"].update(brokers)
                for broker in brokers:
                    found[f"bytes{then}"][broker] += self.survey.sizes.get(partition, 0)
        elected = {*self.elections, *self.survey.under_way, *(each.partition for each in self.moves)}
        for partition, leader in self.survey.leaders.items():
            if leader is not None:
                found["leaders"][leader] += 1
            if partition in elected:
                leader = self.after[partition][0]
            if leader is not None:
                found["leaders_then"][leader] += 1
        for move in self.moves:
            found["gets"].update(move.adds)
            found["gives"].update(each for each in move.before if each not in move.after)
        return found

    def _broker(self, broker: int) -> dict[str, Any]:
        return {
            "id": broker,
            "rack": self.survey.brokers.get(broker),
            **{key: counter[broker] for key, counter in self._counts.items()},
            "bytes_received": self.received[broker],
            "bytes_sent": self.sent[broker],
        }

    def _move(self, each: Move) -> dict[str, Any]:
        return {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "replicas": list(each.after),
            "replicas_before": list(each.before),
            "bytes": each.copied_bytes,
        }


def without_room(plan: MovePlan) -> list[Problem]:
    """Problems of brokers whose disks are too small for their new replicas."""
    return [
        Problem(
            f"it would receive {size_of(received)}, but has only {size_of(plan.survey.room[broker])} free",
            f"broker {broker}",
            advice="free some space there, or choose other brokers with --broker-list",
        )
        for broker, received in sorted(plan.received.items())
        if received > plan.survey.room.get(broker, received)
    ]


def _change(now: object, then: object) -> str:
    return str(now) if now == then else f"{now} -> {then}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
