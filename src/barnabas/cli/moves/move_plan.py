"""A plan of moves, shown before it starts: the replicas that each broker receives, loses and copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from barnabas.cli.arguments.partition_files import moves_document
from barnabas.cli.moves.cluster_survey import ClusterReplicas
from barnabas.cli.moves.reassignment import ids
from barnabas.cli.output.answer import Problem
from barnabas.cli.output.table import Sheet, size_of
from barnabas.common.topic_partition import TopicPartition
from barnabas.placement.cluster_model import ReplicaMove

__all__ = ["MovePlan", "without_room"]

_SHOWN_MOVES = 40


@dataclass(frozen=True)
class MovePlan:
    """A plan. ``elections`` are partitions whose preferred leader will be elected, moved or not."""

    survey: ClusterReplicas
    moves: Sequence[ReplicaMove]
    elections: Sequence[TopicPartition] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.moves or self.elections or self.survey.under_way)

    @cached_property
    def after(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {**self.survey.replicas, **{move.partition: move.after for move in self.moves}}

    @cached_property
    def copied_bytes(self) -> int:
        return sum(move.copied_bytes for move in self.moves)

    @cached_property
    def received(self) -> Counter[int]:
        """The bytes copied to each broker."""
        return Counter({b: sum(move.size for move in self.moves if b in move.adds) for b in self._targets()})

    @cached_property
    def sent(self) -> Counter[int]:
        """The bytes copied from each broker, as the leader."""
        sent: Counter[int] = Counter()
        for move in self.moves:
            leader = self.survey.leaders.get(move.partition)
            if leader is not None and move.adds:
                sent[leader] += move.copied_bytes
        return sent

    def _targets(self) -> set[int]:
        return {broker for move in self.moves for broker in move.adds}

    def seconds_at(self, rate: int) -> float:
        """Return the duration if each broker copies ``rate`` bytes per second in each direction."""
        return max([*self.received.values(), *self.sent.values()], default=0) / rate

    def document(self) -> dict[str, Any]:
        """Return the document, which is also a file for 'barnabas reassign execute' and Kafka's tool."""
        changes = {move.partition: move.after for move in self.moves}
        return moves_document(changes) | {
            "current": moves_document({move.partition: move.before for move in self.moves}),
            "bytes_to_copy": self.copied_bytes,
            "replicas_to_copy": sum(len(move.adds) for move in self.moves),
            "leaders_to_elect": len(self.elections),
            "under_way": len(self.survey.under_way),
            "brokers": [self._broker(broker) for broker in self._brokers()],
            "moves": [self._move(move) for move in self.moves],
        }

    def sheets(self) -> list[Sheet]:
        title = f"{_counted(len(self.moves), 'partition')} to move, {size_of(self.copied_bytes)} to copy"
        brokers = Sheet(title, ("broker", "replicas", "leaders", "size", "added", "removed", "sends", "rack"))
        for broker in self._brokers():
            row = self._broker(broker)
            brokers.add(
                str(broker), _change(row["replicas"], row["replicas_after"]),
                _change(row["leaders"], row["leaders_after"]),
                _change(size_of(row["bytes"]), size_of(row["bytes_after"])),
                f"{row['replicas_added']} ({size_of(row['bytes_received'])})" if row["replicas_added"] else "",
                str(row["replicas_removed"] or ""), size_of(row["bytes_sent"]) if row["bytes_sent"] else "",
                row["rack"] or "",
            )  # fmt: skip
        brokers.drop_last_column_if_empty()
        if not self.moves:
            return [brokers]
        moves = Sheet(columns=("topic", "partition", "now", "then", "copied to", "size"), keep=4)
        for move in sorted(self.moves, key=lambda shown: (-shown.copied_bytes, shown.partition))[:_SHOWN_MOVES]:
            partition = move.partition
            moves.add(
                partition.topic, str(partition.partition), ids(move.before), ids(move.after), ids(move.adds),
                size_of(move.copied_bytes) if move.adds else "",
            )  # fmt: skip
        if len(self.moves) > _SHOWN_MOVES:
            moves.caption = f"and {len(self.moves) - _SHOWN_MOVES} smaller ones; --output json lists all"
        return [brokers, moves]

    def _brokers(self) -> list[int]:
        """Return all brokers of the plan, including those that are not alive."""
        return sorted(
            {*self.survey.brokers, *(replica for brokers in self.survey.replicas.values() for replica in brokers)}
        )

    @cached_property
    def _counts(self) -> Mapping[str, Counter[int]]:
        found: dict[str, Counter[int]] = {
            key: Counter() for key in ("replicas", "replicas_after", "replicas_added", "replicas_removed")
        }
        found |= {key: Counter() for key in ("leaders", "leaders_after", "bytes", "bytes_after")}
        for suffix, where in (("", self.survey.replicas), ("_after", self.after)):
            for partition, brokers in where.items():
                found[f"replicas{suffix}"].update(brokers)
                for broker in brokers:
                    found[f"bytes{suffix}"][broker] += self.survey.sizes.get(partition, 0)
        elected = {*self.elections, *self.survey.under_way, *(move.partition for move in self.moves)}
        for partition, leader in self.survey.leaders.items():
            if leader is not None:
                found["leaders"][leader] += 1
            if partition in elected:
                leader = self.after[partition][0]
            if leader is not None:
                found["leaders_after"][leader] += 1
        for move in self.moves:
            found["replicas_added"].update(move.adds)
            found["replicas_removed"].update(broker for broker in move.before if broker not in move.after)
        return found

    def _broker(self, broker: int) -> dict[str, Any]:
        return {
            "id": broker,
            "rack": self.survey.brokers.get(broker),
            **{key: counter[broker] for key, counter in self._counts.items()},
            "bytes_received": self.received[broker],
            "bytes_sent": self.sent[broker],
        }

    def _move(self, move: ReplicaMove) -> dict[str, Any]:
        return {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "replicas": list(move.after),
            "replicas_before": list(move.before),
            "bytes": move.copied_bytes,
        }


def without_room(plan: MovePlan) -> list[Problem]:
    """Return problems of brokers whose disks are too small for their new replicas."""
    return [
        Problem(
            f"it would receive {size_of(received)}, but has only {size_of(plan.survey.room[broker])} free",
            f"broker {broker}",
            advice="free space on this broker, or choose other brokers with --broker-list",
        )
        for broker, received in sorted(plan.received.items())
        if received > plan.survey.room.get(broker, received)
    ]


def _change(now: object, then: object) -> str:
    return str(now) if now == then else f"{now} -> {then}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
