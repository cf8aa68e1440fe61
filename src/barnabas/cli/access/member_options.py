"""Options that name a kind of client and what it uses, for ``barnabas access needs`` and ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from barnabas.access.needs import (
    Need,
    consumer_needs,
    share_consumer_needs,
    streams_needs,
    transactional_producer_needs,
)
from barnabas.cli.arguments.cluster_options import Flag, UsageError
from barnabas.cli.arguments.parameter import Group, Parameter

__all__ = ["ClientNeeds", "MemberOptions"]

_KINDS = "--consumer, --share-consumer, --streams or --transactional-producer"


class ClientNeeds(NamedTuple):
    client: str
    needs: Sequence[Need]


@Parameter(name="*", group=Group("The client", sort_key=50))
@dataclass(kw_only=True)
class MemberOptions:
    """A client, by one of its ids, and the topics that it uses."""

    consumer: str | None = None
    """The group of a consumer. It reads --topics, or those that begin with --topic-prefixes."""
    share_consumer: str | None = None
    """The group of a share consumer, as of 'barnabas queue'. It reads --topics."""
    streams: str | None = None
    """The application id of a Kafka Streams application. It reads --read-topics and writes to --topics."""
    transactional_producer: str | None = None
    """The transactional id of a producer. It writes to --topics."""
    topics: str | None = None
    """The topics that the client reads, or writes to if it is a producer or streams; separate several with commas."""
    topic_prefixes: str | None = None
    """How the topics begin that a consumer subscribes to with a regular expression; separate several with commas."""
    read_topics: str | None = None
    """The topics that a producer's --group, or streams, reads; separate several with commas."""
    group: str | None = None
    """The group whose offsets a transactional producer commits in its transactions."""
    exactly_once: Flag = False
    """The streams application processes exactly once, with transactions."""

    def client_needs(self) -> ClientNeeds | None:
        """Return what the client needs; None if no client is named. Raise UsageError."""
        kinds = {
            "--consumer": self.consumer,
            "--share-consumer": self.share_consumer,
            "--streams": self.streams,
            "--transactional-producer": self.transactional_producer,
        }
        chosen = [option for option, value in kinds.items() if value is not None]
        if len(chosen) > 1:
            raise UsageError(f"{' and '.join(chosen)} can't be used together: choose one client")
        if not chosen:
            self._refuse("a client", {"topics", "topic_prefixes", "read_topics", "group", "exactly_once"})
            return None
        if self.consumer is not None:
            return self._consumer(self.consumer)
        if self.share_consumer is not None:
            self._refuse("--share-consumer", {"topic_prefixes", "read_topics", "group", "exactly_once"})
            needs = share_consumer_needs(self.share_consumer, topics=self._required("--topics", self.topics))
            return ClientNeeds(f"a share consumer of group {self.share_consumer}", needs)
        if self.streams is not None:
            return self._streams(self.streams)
        return self._producer(self.transactional_producer or "")

    def _consumer(self, group: str) -> ClientNeeds:
        self._refuse("--consumer", {"read_topics", "group", "exactly_once"})
        topics = _names("--topics", self.topics)
        prefixes = _names("--topic-prefixes", self.topic_prefixes)
        if not topics and not prefixes:
            raise UsageError("no topics given: use --topics or --topic-prefixes")
        return ClientNeeds(
            f"a consumer of group {group}", consumer_needs(group, topics=topics, topic_prefixes=prefixes)
        )

    def _streams(self, application: str) -> ClientNeeds:
        self._refuse("--streams", {"topic_prefixes", "group"})
        needs = streams_needs(
            application, read_topics=self._required("--read-topics", self.read_topics),
            topics=_names("--topics", self.topics), is_exactly_once=self.exactly_once,
        )  # fmt: skip
        return ClientNeeds(f"streams application {application}", needs)

    def _producer(self, transactional_id: str) -> ClientNeeds:
        self._refuse("--transactional-producer", {"topic_prefixes", "exactly_once"})
        if self.read_topics is not None and self.group is None:
            raise UsageError("--read-topics needs --group: offsets are committed for a group")
        needs = transactional_producer_needs(
            transactional_id, topics=self._required("--topics", self.topics), group=self.group,
            read_topics=_names("--read-topics", self.read_topics),
        )  # fmt: skip
        return ClientNeeds(f"transactional producer {transactional_id}", needs)

    def _required(self, option: str, text: str | None) -> list[str]:
        if text is None:
            raise UsageError(f"no topics given: use {option}")
        return _names(option, text)

    def _refuse(self, client: str, fields: set[str]) -> None:
        """Raise UsageError for an option that the client does not have."""
        for field in sorted(fields):
            if getattr(self, field):
                option = f"--{field.replace('_', '-')}"
                if client == "a client":
                    raise UsageError(f"{option} needs a client: {_KINDS}")
                raise UsageError(f"{option} can't be used with {client}")


def _names(option: str, text: str | None) -> list[str]:
    names = [] if text is None else [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"{option} {text!r} has an empty name; separate names with one comma")
    return names
