"""The stand-in for testcontainers' KafkaContainer accepts what it can, and refuses the rest by name."""

from __future__ import annotations

import pytest

from barnabas.testing import NotPossible
from barnabas.testing.containers import KafkaContainer


def test_the_usual_calls_return_the_container() -> None:
    kafka = KafkaContainer("confluentinc/cp-kafka:7.6.0", port=9093, env={"KAFKA_NUM_PARTITIONS": "3"})
    same = kafka.with_kraft().with_cluster_id("MkU3OEVBNTcwNTJENDM2Qk").with_exposed_ports(9093).with_name("kafka")
    assert same is kafka
    assert kafka.with_envs(KAFKA_MESSAGE_MAX_BYTES="5", CLUSTER_ID="other").waiting_for("x") is kafka
    assert kafka.cluster_id == "other"


@pytest.mark.parametrize("name", ["exec", "with_command", "with_volume_mapping", "get_wrapped_container"])
def test_what_only_a_container_has_is_refused_by_name(name: str) -> None:
    with pytest.raises(NotPossible, match=f"{name} is not possible: this KafkaContainer is a process"):
        getattr(KafkaContainer(), name)


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    assert not hasattr(KafkaContainer(), "frobnicate")


def test_options_and_variables_without_an_effect_are_refused() -> None:
    with pytest.raises(NotPossible, match="KafkaContainer\\(volumes=...\\) is not possible"):
        KafkaContainer(volumes=[])
    with pytest.raises(NotPossible, match="use barnabas.testing.Node\\(users=..., tls=True\\)"):
        KafkaContainer(security_protocol="SASL_SSL")
    with pytest.raises(NotPossible, match="with_env\\('KAFKA_LISTENERS', ...\\) is not possible"):
        KafkaContainer().with_env("KAFKA_LISTENERS", "PLAINTEXT://:9092")
    with pytest.raises(NotPossible, match="with_env\\('TZ', ...\\) is not possible"):
        KafkaContainer().with_env("TZ", "UTC")
    with pytest.raises(NotPossible, match="with_bind_ports\\(..., 9092\\) is not possible"):
        KafkaContainer().with_bind_ports(9093, 9092)


def test_before_the_start_nothing_can_be_asked() -> None:
    with pytest.raises(NotPossible, match="the container is not started"):
        KafkaContainer().get_bootstrap_server()
