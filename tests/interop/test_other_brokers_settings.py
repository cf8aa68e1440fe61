"""A broker receives requests for the settings of another one, and brokers have different files."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from barnabas.metadata.image.configs import ConfigResourceType
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.interop.raw_client import RawClient
from tests.peers.quorums import OurBroker, OurController, running_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(120)]


def settings_of(port: int, broker_id: int) -> tuple[int, str, dict[str, str]]:
    resource = DescribeConfigsResource(
        resource_type=ConfigResourceType.BROKER,
        resource_name=str(broker_id),
        configuration_keys=["node.id", "log.retention.hours"],
    )
    with closing(RawClient(port)) as client:
        (result,) = client.call(DescribeConfigsRequest(resources=[resource]), 4).results
    return result.error_code, result.error_message or "", {config.name: config.value for config in result.configs}


def test_a_broker_describes_another_brokers_settings_and_warns_of_other_defaults(tmp_path: Path) -> None:
    with running_quorum(tmp_path, [OurController]) as quorum:
        first = OurBroker(
            tmp_path / "b11", quorum, node_id=11, settings={"barnabas.describe.configs.of.others": "true"}
        )
        second = OurBroker(tmp_path / "b12", quorum, node_id=12, settings={"log.retention.hours": "3"})
        try:
            first.start()
            second.start()
            assert settings_of(first.port, 12) == (0, "", {"node.id": "12", "log.retention.hours": "3"})
            assert settings_of(second.port, 11)[0] == 42
            wait_until(lambda: "do not set retention.ms have 10800000 here" in second.printed(), what="the warning")
            second.kill()
            code, message, _ = settings_of(first.port, 12)
            assert code == 8
            assert "Broker 12 is unreachable" in message
        finally:
            first.stop()
            second.stop()
