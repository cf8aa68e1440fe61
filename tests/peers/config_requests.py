"""Requests about configs for a combined node with id 1 that has just been formatted, and the comparable part of the
answers.

They are sent one after the other to a broker: later ones show the changes of earlier ones. ``python -m
tests.peers.config_requests`` sends them to a real Kafka and prints its answers.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from barnabas.protocol.messages.alter_configs import AlterConfigsRequest
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.peers.admin_requests import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    Case,
    alter,
    create,
    new_topic,
    replace,
)

__all__ = ["SETTINGS", "comparable_answer", "config_requests"]

SETTINGS = {"log.retention.bytes": "123456789", "num.io.threads": "8"}
"""The settings of the node's file in addition to the required ones."""


def describe(*resources: tuple[int, str, list[str] | None], synonyms: bool = True) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
    )


def _changes_of_brokers() -> list[Case]:
    own, default = (BROKER, "1"), (BROKER, "")
    retention, roll = ("log.retention.ms", SET, "5000000"), ("log.roll.ms", SET, "1000000")

    def own_case(name: str, *changes: Any) -> Case:
        return (name, alter((*own, *changes)), 1)

    return [
        own_case("a setting of this broker", ("log.cleaner.backoff.ms", SET, "20000")),
        ("a setting of all brokers", alter((*default, ("log.cleaner.backoff.ms", SET, "30000"))), 1),
        ("of another broker", alter((BROKER, "2", ("log.cleaner.backoff.ms", SET, "1"))), 1),
        ("of no number", alter((BROKER, "x", ("log.cleaner.backoff.ms", SET, "1"))), 1),
        own_case("a setting that is fixed", ("num.partitions", SET, "2")),
        ("a fixed one for all", alter((*default, ("node.id", SET, "2"))), 1),
        own_case("a bad type", ("log.cleaner.backoff.ms", SET, "soon")),
        own_case("a bad range", ("log.cleaner.min.cleanable.ratio", SET, "2")),
        own_case("an unknown setting", ("my.own.setting", SET, "2")),
        own_case("a key store without listener", ("ssl.keystore.location", SET, "x")),
        ("a key store for all", alter((*default, ("listener.name.plaintext.ssl.keystore.location", SET, "x"))), 1),
        own_case("threads, doubled", ("num.io.threads", SET, "16")),
        own_case("threads, more than doubled", ("num.io.threads", SET, "40")),
        own_case("threads, none", ("num.io.threads", SET, "0")),
        own_case("append to a number", ("log.cleaner.backoff.ms", APPEND, "5")),
        own_case("append to a list", ("log.cleanup.policy", APPEND, "compact")),
        own_case("subtract from a list", ("log.cleanup.policy", SUBTRACT, "delete")),
        own_case("append to an unknown setting", ("my.own.setting", APPEND, "5")),
        own_case("a null", ("log.cleaner.backoff.ms", SET, None)),
        own_case("a key twice", ("log.cleaner.backoff.ms", SET, "1"), ("log.cleaner.backoff.ms", SET, "2")),
        own_case("delete what is not set", ("log.cleaner.threads", DELETE, None)),
        ("two brokers at once", alter((*own, retention), (*default, ("log.roll.ms", SET, "7000000"))), 1),
        ("a resource twice", alter((*own, retention), (TOPIC, "t", ("retention.ms", SET, "1")), (*own, roll)), 1),
        ("only validated", alter((*own, ("log.cleaner.backoff.ms", SET, "1")), validate_only=True), 1),
        ("validated and bad", alter((*own, ("num.partitions", SET, "1")), validate_only=True), 1),
        ("one good, one bad", alter((*own, ("num.partitions", SET, "1")), (TOPIC, "t", ("flush.ms", SET, "1000"))), 1),
    ]


def _changes_of_loggers() -> list[Case]:
    def root(name: str, *changes: Any, node: str = "1") -> Case:
        return (f"log level: {name}", alter((BROKER_LOGGER, node, *changes)), 1)

    return [
        root("set", ("root", SET, "WARN")),
        root("lower case", ("root", SET, "warn")),
        root("no level", ("root", SET, "LOUD")),
        root("delete the root", ("root", DELETE, None)),
        root("append", ("root", APPEND, "INFO")),
        root("no logger", ("no.such.logger", SET, "INFO")),
        root("delete no logger", ("no.such.logger", DELETE, None)),
        root("another node", ("root", SET, "INFO"), node="2"),
        root("no node", ("root", SET, "INFO"), node=""),
        root("null", ("root", SET, None)),
        ("log level: in the legacy form", replace((BROKER_LOGGER, "1", ("root", "INFO"))), 2),
        ("log level: described", describe((BROKER_LOGGER, "1", ["root", "no.such.logger"])), 4),
        ("log level: of another node", describe((BROKER_LOGGER, "2", None), (BROKER_LOGGER, "", None)), 4),
        root("back", ("root", SET, "INFO")),
    ]


def _described() -> list[Case]:
    some = ["log.cleaner.backoff.ms", "log.retention.ms", "log.retention.bytes", "log.roll.ms", "log.roll.hours"]
    some += ["num.io.threads", "my.own.setting", "no.such.setting", "log.cleanup.policy", "num.partitions"]
    topic = ["retention.ms", "retention.bytes", "segment.ms", "cleanup.policy", "flush.ms", "max.message.bytes"]
    group = ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "share.isolation.level"]
    return [
        ("describe this broker", describe((BROKER, "1", some)), 4),
        ("describe all brokers", describe((BROKER, "", None)), 4),
        ("describe without synonyms", describe((BROKER, "1", some), synonyms=False), 4),
        ("describe a topic", describe((TOPIC, "t", topic)), 4),
        ("describe a topic, no keys", describe((TOPIC, "t", [])), 4),
        ("describe a group", describe((GROUP, "g", group)), 4),
        ("describe a subscription", describe((CLIENT_METRICS, "m", None)), 4),
        ("describe unknown names", describe((GROUP, "x", group), (CLIENT_METRICS, "x", None)), 4),
        (
            "describe missing resources",
            describe((TOPIC, "missing", None), (TOPIC, "bad name", None), (BROKER, "2", None), (BROKER, "x", None)),
            4,
        ),
        ("describe without names", describe((GROUP, "", None), (CLIENT_METRICS, "", None)), 4),
    ]


def config_requests() -> list[Case]:
    legacy: AlterConfigsRequest = replace((BROKER, "1", ("log.cleaner.backoff.ms", "40000")))
    return [
        ("a topic", create(new_topic("t", configs=[("cleanup.policy", "compact")])), 7),
        *_changes_of_brokers(),
        ("a group", alter((GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))), 1),
        ("a subscription", alter((CLIENT_METRICS, "m", ("interval.ms", SET, "5000"))), 1),
        *_described(),
        *_changes_of_loggers(),
        ("list everything", ListConfigResourcesRequest(), 1),
        ("list some", ListConfigResourcesRequest(resource_types=[TOPIC, GROUP]), 1),
        ("list, as it was", ListConfigResourcesRequest(), 0),
        ("list an unknown type", ListConfigResourcesRequest(resource_types=[7]), 1),
        ("replace a broker's", legacy, 2),
        ("describe what is left", describe((BROKER, "1", ["log.cleaner.backoff.ms", "log.retention.ms"])), 4),
        ("replace with nothing", replace((BROKER, "1")), 2),
        ("replace on another broker", replace((BROKER, "2", ("a.b", "1"))), 2),
        ("replace a fixed one", replace((BROKER, "1", ("node.id", "1"))), 2),
    ]


def comparable_answer(answer: Any) -> Any:
    """Return codes and values in a fixed order; texts differ between the two sides."""
    if "responses" in answer:
        return [
            (response["resourceType"], response["resourceName"], response["errorCode"])
            for response in answer["responses"]
        ]
    if "configResources" in answer:
        listed = sorted(
            (resource.get("resourceType", 16), resource["resourceName"]) for resource in answer["configResources"]
        )
        return [answer["errorCode"], *listed]
    if "topics" in answer:
        return [(topic["name"], topic["errorCode"]) for topic in answer["topics"]]
    return [
        [
            result["resourceType"],
            result["resourceName"],
            result["errorCode"],
            *sorted((_config(config) for config in result["configs"] or ()), key=lambda config: str(config[0])),
        ]
        for result in answer["results"]
    ]


def _config(config: Any) -> list[Any]:
    synonyms = [[synonym["name"], synonym["value"], synonym["source"]] for synonym in config["synonyms"] or ()]
    names = ("name", "value", "readOnly", "configSource", "isSensitive", "configType")
    return [*(config[name] for name in names), synonyms]


def main() -> None:
    from tests.peers import running_kafka
    from tests.peers.record_admin_answers import Connection

    with tempfile.TemporaryDirectory() as folder, running_kafka(Path(folder), settings=SETTINGS) as node:
        connection = Connection(node.port)
        for name, request, version in config_requests():
            answer = connection.ask(request, version).to_json(version)
            time.sleep(0.3)  # A change is visible when the broker has replayed it.
            print(json.dumps({"case": name, "answer": comparable_answer(answer)}), file=sys.stdout)


if __name__ == "__main__":
    main()
