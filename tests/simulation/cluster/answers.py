"""Checks of the controller's answers against the committed log: an acknowledged change exists exactly once.

``begun`` and ``end`` are the ends of the committed log when the request arrived and when it was answered. The answer
must have been true at some offset between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.common.errors import ErrorCode
from tests.simulation.cluster.model import Model

__all__ = ["check_answer"]

Found = tuple[str | None, bool]
TOPIC = 2


def check_answer(
    model: Model, served: Counter[Any], begun: int, end: int, request: Any, response: Any
) -> tuple[str | None, bool]:
    """Return a problem or None, and whether a change was acknowledged."""
    check = _CHECKS.get(type(request).__name__)
    return (None, False) if check is None else check(_Span(model, begun, end), served, request, response)


class _Span:
    def __init__(self, model: Model, begun: int, end: int) -> None:
        self.model = model
        self.begun = begun
        self.end = end

    def overlaps(self, spans: Iterable[list[Any]]) -> bool:
        """Return whether one of the spans includes an offset of the request."""
        return any(span[0] < self.end and (span[1] is None or span[1] >= self.begun) for span in spans)

    def contains(self, offset: int | None) -> bool:
        return offset is not None and self.begun <= offset < self.end

    def was_missing(self, spans: Iterable[list[Any]]) -> bool:
        """Return whether the object did not exist at some offset of the request."""
        return not any(span[0] < self.begun and (span[1] is None or span[1] >= self.end) for span in spans)

    def values(self, part: str, key: Any) -> list[Any]:
        """Return all values of the entry during the request."""
        offsets, values = self.model.history[part]
        found = [self.model.at(part, self.begun - 1).get(key)]
        return found + [
            value.get(key) for offset, value in zip(offsets, values, strict=True) if self.begun <= offset < self.end
        ]


def _create_topics(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    acknowledged = False
    for result in response.topics:
        spans = span.model.topic_spans.get(result.name, [])
        if result.error_code == ErrorCode.NONE and not request.validate_only:
            created = [topic_span for topic_span in spans if topic_span[2] == result.topic_id]
            if not created or not span.contains(created[0][0]):
                return f"topic {result.name} is acknowledged but not in the log: {spans}", False
            served["topic", result.topic_id] += 1
            if served["topic", result.topic_id] > 1:
                return f"the creation of topic {result.name} is acknowledged twice", False
            acknowledged = True
        elif result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and not span.overlaps(spans):
            return f"topic {result.name} is reported to exist, but did not: {spans}", False
    return None, acknowledged


def _delete_topics(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    acknowledged = False
    for result in response.responses:
        spans = span.model.topic_spans.get(result.name, [])
        if result.error_code == ErrorCode.NONE:
            if not any(span.contains(topic_span[1]) for topic_span in spans):
                return f"the deletion of topic {result.name} is acknowledged but not in the log: {spans}", False
            acknowledged = True
        elif result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not span.was_missing(spans):
            return f"topic {result.name} is reported as unknown, but existed all the time: {spans}", False
    return None, acknowledged


def _create_acls(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    acknowledged = False
    for creation, result in zip(request.creations, response.results, strict=True):
        if result.error_code != ErrorCode.NONE:
            continue
        binding = (
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        if not span.overlaps(span.model.acl_spans.get(binding, [])):
            return f"the ACL {binding} is acknowledged but not in the log", False
        acknowledged = True
    return None, acknowledged


def _delete_acls(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    acknowledged = False
    for acl_filter, result in zip(request.filters, response.filter_results, strict=True):
        if result.error_code != ErrorCode.NONE:
            continue
        acknowledged = True
        for found in result.matching_acls:
            binding = (
                found.resource_type,
                found.resource_name,
                found.pattern_type,
                found.principal,
                found.host,
                found.operation,
                found.permission_type,
            )
            if not any(span.contains(acl_span[1]) for acl_span in span.model.acl_spans.get(binding, [])):
                return f"the ACL {binding} is reported as removed, but was not", False
        for binding, spans in span.model.acl_spans.items():
            if _matches(acl_filter, binding) and not span.was_missing(spans):
                return f"the ACL {binding} should be removed, but exists all the time", False
    return None, acknowledged


def _matches(acl_filter: Any, binding: tuple[Any, ...]) -> bool:
    """Return whether the filter matches the ACL.

    This covers the filters that the simulated clients use: one principal, literal or any pattern, any name or one.
    """
    return (
        acl_filter.resource_type_filter in (1, binding[0])
        and acl_filter.resource_name_filter in (None, binding[1])
        and acl_filter.pattern_type_filter in (1, binding[2])
        and acl_filter.principal_filter in (None, binding[3])
        and acl_filter.host_filter in (None, binding[4])
        and acl_filter.operation in (1, binding[5])
        and acl_filter.permission_type in (1, binding[6])
    )


def _alter_configs(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    acknowledged = False
    for resource, result in zip(request.resources, response.responses, strict=True):
        key = (resource.resource_type, resource.resource_name)
        for config in resource.configs:
            served["config", key, config.name, config.value] += 1
            if result.error_code != ErrorCode.NONE:
                continue
            found = [(values or {}).get(config.name) for values in span.values("configs", key)]
            if config.value not in found:
                return f"{config.name}={config.value} of {key} is acknowledged but not in the log: {found}", False
            acknowledged = True
    return None, acknowledged


def _alter_quotas(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    acknowledged = False
    for entry, result in zip(request.entries, response.entries, strict=True):
        if result.error_code != ErrorCode.NONE:
            continue
        key = tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity))
        for change in entry.ops:
            found = [(values or {}).get(change.key) for values in span.values("quotas", key)]
            wanted = None if change.remove else change.value
            if wanted not in found:
                return f"the quota {change.key}={wanted} of {key} is acknowledged but not in the log: {found}", False
            acknowledged = True
    return None, acknowledged


def _create_token(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    if response.error_code != ErrorCode.NONE:
        return None, False
    if not any(value is not None for value in span.values("tokens", response.token_id)):
        return f"token {response.token_id} is acknowledged but not in the log", False
    return None, True


def _allocate_producer_ids(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    if response.error_code != ErrorCode.NONE:
        return None, False
    problem = _stale(span, request.broker_id, request.broker_epoch)
    if problem is not None:
        return problem, False
    following = response.producer_id_start + response.producer_id_len
    if following not in span.values("producer_ids", "next"):
        return f"producer ids up to {following} are allocated but not in the log", False
    served["producer ids", response.producer_id_start] += 1
    if served["producer ids", response.producer_id_start] > 1:
        return f"the producer ids from {response.producer_id_start} are allocated twice", False
    return None, True


def _heartbeat(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    if response.error_code != ErrorCode.NONE:
        return None, False
    before = span.values("brokers", request.broker_id)[0]
    # An old heartbeat that arrives late changes nothing for a broker that serves already, as with Kafka.
    was_serving = before is not None and before[0] == request.broker_epoch and not before[2]
    if not response.is_fenced and not was_serving and request.current_metadata_offset < request.broker_epoch:
        return (
            f"broker {request.broker_id} is unfenced, but has read the log only up to "
            f"{request.current_metadata_offset}",
            False,
        )
    return _stale(span, request.broker_id, request.broker_epoch), False


def _registration(span: _Span, served: Counter[Any], request: Any, response: Any) -> Found:
    if response.error_code != ErrorCode.NONE:
        return None, False
    found = span.values("brokers", request.broker_id)
    expected = (response.broker_epoch, request.incarnation_id)
    if not any(broker is not None and broker[:2] == expected for broker in found):
        return f"broker {request.broker_id} is registered in epoch {response.broker_epoch}, the log has {found}", False
    served["broker epoch", request.broker_id, response.broker_epoch, request.incarnation_id] += 1
    return None, True


def _stale(span: _Span, broker_id: int, broker_epoch: int) -> str | None:
    """Return a problem if the epoch was not the broker's own at any moment of the request."""
    epochs = [None if broker is None else broker[0] for broker in span.values("brokers", broker_id)]
    if broker_epoch not in epochs:
        return f"a request of broker {broker_id} in epoch {broker_epoch} is accepted, its epochs are {epochs}"
    return None


_CHECKS: dict[str, Callable[[_Span, Counter[Any], Any, Any], Found]] = {
    "CreateTopicsRequest": _create_topics,
    "DeleteTopicsRequest": _delete_topics,
    "CreateAclsRequest": _create_acls,
    "DeleteAclsRequest": _delete_acls,
    "IncrementalAlterConfigsRequest": _alter_configs,
    "AlterClientQuotasRequest": _alter_quotas,
    "CreateDelegationTokenRequest": _create_token,
    "AllocateProducerIdsRequest": _allocate_producer_ids,
    "BrokerHeartbeatRequest": _heartbeat,
    "BrokerRegistrationRequest": _registration,
}
