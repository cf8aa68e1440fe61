"""Families of settings."""

import pytest

from barnabas.common.config_def import ConfigDef, ConfigException, ConfigType, Importance
from barnabas.common.settings.setting import BOOLEAN, HIGH, INT, LIST, LOW, NO_DEFAULT, PASSWORD, STRING, Setting

ROWS = (
    Setting("fruit", LIST, "apple", "list:apple|pear", HIGH),
    Setting("count", INT, "3", "1..", LOW),
    Setting("owner", STRING, NO_DEFAULT),
    Setting("secret", PASSWORD, None),
    Setting("hidden", BOOLEAN, "false", internal=True),
)


@pytest.fixture
def definitions() -> ConfigDef:
    return ConfigDef(ROWS)


def test_a_key_knows_its_type_default_and_importance(definitions: ConfigDef) -> None:
    key = definitions["count"]
    assert (key.type, key.default, key.importance, key.required) == (ConfigType.INT, 3, Importance.LOW, False)
    assert str(key.validator) == "[1,...]"
    assert definitions["owner"].required
    assert definitions["secret"].sensitive


def test_internal_settings_are_known_but_not_listed(definitions: ConfigDef) -> None:
    assert "hidden" in definitions
    assert definitions.visible_names == ["count", "fruit", "owner", "secret"]


def test_parsing_fills_in_defaults_and_omits_unknown_names(definitions: ConfigDef) -> None:
    values = definitions.parse({"owner": " me ", "count": "7", "other": "x"})
    assert values == {"fruit": ["apple"], "count": 7, "owner": "me", "secret": None, "hidden": False}


def test_a_missing_required_setting_is_named(definitions: ConfigDef) -> None:
    with pytest.raises(ConfigException, match='Missing required configuration "owner"'):
        definitions.parse({})


def test_repeated_items_of_a_checked_list_are_dropped(definitions: ConfigDef) -> None:
    assert definitions["fruit"].parse("pear,apple,pear") == ["pear", "apple"]


def test_an_unknown_name_has_no_key_but_a_nearest_match(definitions: ConfigDef) -> None:
    assert definitions.get("cuont") is None
    assert definitions.nearest_name("cuont") == "count"
    assert definitions.nearest_name("zookeeper") is None
    with pytest.raises(KeyError):
        definitions["cuont"]
