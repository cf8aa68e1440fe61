"""A group's settings."""

import pytest

from barnabas.common.config_def import ConfigException
from barnabas.common.group_config import UnknownGroupConfig, group_synonym, validate_group_config

BROKER = {"group.consumer.min.session.timeout.ms": 45000, "group.consumer.max.session.timeout.ms": 60000}


def test_a_group_setting_falls_back_to_a_broker_setting() -> None:
    assert group_synonym("consumer.session.timeout.ms") == "group.consumer.session.timeout.ms"
    assert group_synonym("share.isolation.level") is None
    assert group_synonym("no.such") is None


def test_values_stay_within_the_brokers_bounds() -> None:
    validate_group_config({"consumer.session.timeout.ms": "50000"}, BROKER)
    for text, complaint in (("44999", "greater than or equal"), ("60001", "less than or equal")):
        with pytest.raises(ConfigException, match=complaint):
            validate_group_config({"consumer.session.timeout.ms": text}, BROKER)


def test_a_session_is_longer_than_the_time_between_heartbeats() -> None:
    with pytest.raises(ConfigException, match=r"must be greater than consumer\.heartbeat\.interval\.ms"):
        validate_group_config({"consumer.session.timeout.ms": "5000"}, {})


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownGroupConfig, match="Unknown group config name: x"):
        validate_group_config({"x": "1"}, BROKER)
