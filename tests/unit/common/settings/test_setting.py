"""A setting is one row of a table: how it is read, checked and documented."""

from __future__ import annotations

import pytest

from barnabas.common.config_def import ConfigDef
from barnabas.common.config_value import ConfigException, ConfigValue
from barnabas.common.settings.setting import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LOW,
    MEDIUM,
    NO_DEFAULT,
    READ_ONLY,
    SettingTable,
    SupportState,
    attributes_of,
    by_name,
    derived,
    no_effect,
    refused,
    rows_of,
    setting,
)


class Fruit(SettingTable):
    fruit_kinds: list[str] = setting(LIST, "apple", "list:apple|pear", HIGH, CLUSTER_WIDE, "Which kinds there are.")
    fruit_max_count: int = setting(INT, "3", "1..", MEDIUM, READ_ONLY, "How many of them.")
    basket_id: str = derived(INT, NO_DEFAULT, "0..", HIGH, READ_ONLY, "The number of the basket.")
    basket_files = by_name(LIST, "", "list", LOW, READ_ONLY, "Where it is described.")


class Kitchen(Fruit):
    oven_enable = no_effect("There is no oven.", BOOLEAN, "false", "", LOW, READ_ONLY, "Whether it is used.")
    stove_count = refused("There is no stove.", INT, "0", "", LOW, READ_ONLY, "How many.", also_allowed=("1",))


class Given(Kitchen):
    """Reads a kitchen's settings."""

    def __init__(self, **values: ConfigValue) -> None:
        self.values = {name.replace("_", "."): value for name, value in values.items()}
        self.reads: list[str] = []

    def value(self, name: str) -> ConfigValue:
        self.reads.append(name)
        return self.values[name] if name in self.values else DEFINITIONS[name].default


DEFINITIONS = ConfigDef(Kitchen)


def test_a_table_has_the_rows_of_its_bases_first() -> None:
    assert [row.name for row in rows_of(Kitchen)] == [
        "fruit.kinds", "fruit.max.count", "basket.id", "basket.files", "oven.enable", "stove.count",
    ]  # fmt: skip


def test_an_attribute_is_the_row_on_the_table_and_the_value_on_an_object() -> None:
    given = Given(fruit_max_count=7)
    assert Kitchen.fruit_max_count is DEFINITIONS["fruit.max.count"]
    assert (given.fruit_max_count, given.fruit_kinds) == (7, ["apple"])


def test_a_value_is_looked_up_once_on_first_access() -> None:
    given = Given()
    assert given.reads == []
    assert given.fruit_max_count + given.fruit_max_count == 6
    assert given.reads == ["fruit.max.count"]


def test_a_derived_attribute_is_missing_until_it_is_filled_in() -> None:
    given = Given()
    with pytest.raises(AttributeError, match=r"basket\.id"):
        _ = given.basket_id
    given.basket_id = "basket 1"
    assert given.basket_id == "basket 1"


@pytest.mark.parametrize("attribute", ["basket_files", "oven_enable", "stove_count"])
def test_settings_read_by_name_or_not_at_all_are_not_attributes(attribute: str) -> None:
    with pytest.raises(AttributeError, match="is read by its name"):
        getattr(Given(), attribute)


def test_only_settings_used_as_given_are_attributes() -> None:
    assert attributes_of(Kitchen) == {"fruit.kinds": "list[str]", "fruit.max.count": "int"}


def test_the_first_word_of_a_row_states_its_support() -> None:
    states = {row.name: (row.support.state, row.support.reason, row.support.also_allowed) for row in rows_of(Kitchen)}
    assert states["basket.files"] == (SupportState.WORKS, "", ())
    assert states["oven.enable"] == (SupportState.NO_EFFECT, "There is no oven.", ())
    assert states["stove.count"] == (SupportState.REFUSED, "There is no stove.", ("1",))


def test_a_row_checks_its_texts() -> None:
    row = DEFINITIONS["fruit.max.count"]
    assert row.parse(" 12 ") == 12
    with pytest.raises(ConfigException, match="fruit.max.count: Value must be at least 1"):
        row.parse("0")


def test_a_row_without_a_default_is_required() -> None:
    assert [row.name for row in rows_of(Kitchen) if row.required] == ["basket.id"]


def test_two_rows_with_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"defined twice: fruit\.kinds"):
        ConfigDef([DEFINITIONS["fruit.kinds"], DEFINITIONS["fruit.kinds"]])
