"""A controller with a log in memory: the test decides when appended records are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from barnabas.common.uuid import Uuid
from barnabas.controller.apis import broker_heartbeat, broker_registration, create_topics
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.prepared_decision import PreparedDecision
from barnabas.controller.quorum_controller import QuorumController
from barnabas.coordinator.deferred import Deferred
from barnabas.metadata.bootstrap import bootstrap_records
from barnabas.metadata.features import SUPPORTED_FEATURES
from barnabas.metadata.loader import CommittedBatch
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from barnabas.security.authorizer.authorizer import AllowAllAuthorizer
from barnabas.security.request_context import RequestContext

T = TypeVar("T")

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
CONTROL_RECORDS = 3
"""The number of records that the quorum itself wrote before the controller's first record."""


class FakeClock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def context(api_version: int = 7) -> RequestContext:
    return RequestContext(api_key=ApiKey.CREATE_TOPICS, api_version=api_version)


def directory_of(broker_id: int, index: int = 0) -> Uuid:
    return Uuid.from_int(1000 + broker_id * 10 + index)


class ControllerHarness:
    """``log`` contains every batch as it was appended; nothing is committed before ``commit``."""

    def __init__(self, *, log: Sequence[CommittedBatch] = (), **settings: Any) -> None:
        self.clock = FakeClock()
        self.authorizer = AllowAllAuthorizer()
        self.log: list[CommittedBatch] = list(log)
        self.faults: list[BaseException] = []
        self.epoch = 1
        self._uuids = 0x1_0000_0000 + len(self.log)
        self._draws = 0
        self.on_commit: Callable[[CommittedBatch], None] = lambda batch: None
        """Receives committed records before the controller does."""
        self._uncommitted: list[CommittedBatch] = []
        settings.setdefault("node_id", 1)
        bootstrap = settings.pop("bootstrap", None) or bootstrap_records()
        self.controller = QuorumController(
            ControllerConfig(cluster_id=CLUSTER_ID, **settings),
            clock=self.clock,
            new_uuid=self._new_uuid,
            random_int=self._random_int,
            bootstrap=bootstrap,
            on_fault=self.faults.append,
        )

    @property
    def end_offset(self) -> int:
        batches = self._uncommitted or self.log
        return batches[-1].last_offset + 1 if batches else CONTROL_RECORDS

    def activate(self) -> ControllerHarness:
        self.controller.handle_commit(self.log)
        self.controller.activate(self.epoch, self.end_offset)
        self.settle()
        return self

    def append(self) -> None:
        """Append every decision to the log, as an idle driver does."""
        for append in self.controller.take_appends():
            batch = CommittedBatch(
                base_offset=self.end_offset,
                last_offset=self.end_offset + len(append.records) - 1,
                epoch=self.epoch,
                append_time_ms=self.clock.ms,
                records=[message for message, _ in append.records],
            )
            self.controller.handle_appended([append], batch.base_offset)
            self._uncommitted.append(batch)

    def commit(self, count: int | None = None) -> None:
        count = len(self._uncommitted) if count is None else count
        for _ in range(count):
            batch = self._uncommitted.pop(0)
            self.log.append(batch)
            self.on_commit(batch)
            self.controller.handle_commit([batch])

    def settle(self) -> None:
        self.append()
        self.commit()

    def answer(self, deferred: Deferred[T] | PreparedDecision[T]) -> T:
        """Return the response once everything is committed."""
        deferred = submitted(deferred)
        self.settle()
        while not deferred.is_complete and (self.controller.has_steps or self.controller.replication.turns):
            if self.controller.has_steps:
                self.controller.take_step()
            else:
                self.controller.take_turns()
            self.settle()
        return deferred.value

    def call(self, handle: Callable[..., Deferred[T] | PreparedDecision[T]], request: Any, api_version: int = 7) -> T:
        return self.answer(handle(self.controller, context(api_version), request, self.authorizer))

    # Brokers

    def registration(self, broker_id: int, **changes: Any) -> BrokerRegistrationRequest:
        fields: dict[str, Any] = {
            "broker_id": broker_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": Uuid.from_int(5000 + broker_id),
            "listeners": [Listener(name="PLAINTEXT", host="localhost", port=9000 + broker_id, security_protocol=0)],
            "features": [
                Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
                for name, levels in SUPPORTED_FEATURES.items()
            ],
            "log_dirs": [directory_of(broker_id)],
        }
        return BrokerRegistrationRequest(**{**fields, **changes})

    def register(self, broker_id: int, **changes: Any) -> int:
        response = self.call(broker_registration.handle, self.registration(broker_id, **changes))
        assert response.error_code == 0, response
        return response.broker_epoch

    def heartbeat(self, broker_id: int, **changes: Any) -> BrokerHeartbeatResponse:
        fields: dict[str, Any] = {
            "broker_id": broker_id,
            "broker_epoch": self.controller.state.image.cluster.brokers[broker_id].epoch,
            "current_metadata_offset": self.controller.committed_image.offset,
        }
        return self.call(broker_heartbeat.handle, BrokerHeartbeatRequest(**{**fields, **changes}))

    def start_broker(self, broker_id: int, **changes: Any) -> int:
        epoch = self.register(broker_id, **changes)
        assert not self.heartbeat(broker_id).is_fenced
        return epoch

    # Topics

    def create(self, *topics: CreatableTopic, **fields: Any) -> CreateTopicsResponse:
        return self.call(create_topics.handle, CreateTopicsRequest(topics=list(topics), **fields))

    def _new_uuid(self) -> Uuid:
        self._uuids += 1
        return Uuid.from_int(self._uuids)

    def _random_int(self, bound: int) -> int:
        self._draws += 1
        return self._draws % bound


def topic(name: str, num_partitions: int = 1, replication_factor: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=num_partitions, replication_factor=replication_factor, **fields)


def submitted(decision: Deferred[T] | PreparedDecision[T]) -> Deferred[T]:
    """Return the decision, after its preparation has finished."""
    if isinstance(decision, PreparedDecision):
        while decision.work.advance():
            pass
        return decision.decide()
    return decision
