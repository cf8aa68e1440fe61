"""Produce: what remains of a refused request."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any, cast

from barnabas.broker.apis.produce import handle_produce
from barnabas.common.errors import ErrorCode
from barnabas.network.api_handler import Access
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.request_context import RequestContext


class _Nothing(Authorizer):
    def authorize(
        self,
        context: Any,
        operation: Any,
        resource_type: Any,
        resource_name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        return False


def test_a_denied_request_keeps_none_of_its_records() -> None:
    """Otherwise its memory would wait for the next full garbage collection."""
    records = bytearray(1000)
    broker = SimpleNamespace(replicas=SimpleNamespace(leader_replicas=None))

    def ask() -> int:
        data = [PartitionProduceData(index=0, records=memoryview(records))]
        request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="orders", partition_data=data)])
        context = RequestContext(api_key=ApiKey.PRODUCE, api_version=9, correlation_id=1)
        rules = handle_produce.api_handler.acl  # type: ignore[attr-defined]
        answer = handle_produce(cast("Any", broker), request, Access(_Nothing(), context, rules))
        assert isinstance(answer, ProduceResponse)
        return answer.responses[0].partition_responses[0].error_code

    gc.disable()
    try:
        assert ask() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        records.append(0)  # Raises BufferError while anything refers to the bytes.
    finally:
        gc.enable()
