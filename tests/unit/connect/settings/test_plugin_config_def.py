from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.common.config_providers import ConfigProviders
from barnabas.common.config_validators import Range
from barnabas.connect.errors import ConnectError
from barnabas.connect.run.config_references import resolve_references, restore_references
from barnabas.connect.settings.plugin_config_def import (
    REQUIRED,
    ConfigDef,
    ConfigException,
    ConfigKey,
    ConfigType,
    Password,
)


class TestConfigDef:
    def test_parse_returns_typed_values(self) -> None:
        config_def = ConfigDef([ConfigKey("rows", ConfigType.INT, "5"), ConfigKey("secret", ConfigType.PASSWORD)])
        assert config_def.parse({"secret": "x", "other": "y"}) == {"rows": 5, "secret": Password("x")}

    def test_a_missing_required_setting_is_an_error(self) -> None:
        with pytest.raises(ConfigException, match='Missing required configuration "a"'):
            ConfigDef([ConfigKey("a")]).parse({})

    def test_an_invalid_default_is_detected_on_definition(self) -> None:
        with pytest.raises(ConfigException):
            ConfigKey("rows", ConfigType.INT, "0", validator=Range(1))
        with pytest.raises(ConfigException):
            ConfigKey("rows", ConfigType.INT, "many")

    def test_a_setting_can_be_defined_only_once(self) -> None:
        with pytest.raises(ValueError, match="rows is defined twice"):
            ConfigDef([ConfigKey("rows"), ConfigKey("rows")])

    def test_a_later_definition_replaces_an_earlier_one_in_its_place(self) -> None:
        joined = ConfigDef([ConfigKey("a"), ConfigKey("b")]) + ConfigDef([ConfigKey("a", default="x"), ConfigKey("c")])
        assert [(key.name, key.default) for key in joined] == [("a", "x"), ("b", REQUIRED), ("c", REQUIRED)]

    def test_required_settings_of_a_connector_are_listed_first(self) -> None:
        inner = ConfigDef([ConfigKey("a", default="x"), ConfigKey("b"), ConfigKey("c", group="More")])
        assert [(key.name, key.group, key.order_in_group) for key in inner.embedded("t.", "T", 2)] == [
            ("t.b", "T", 2),
            ("t.a", "T", 3),
            ("t.c", "T: More", 4),
        ]


class TestReferences:
    @pytest.fixture
    def providers(self, tmp_path: Path) -> ConfigProviders:
        (tmp_path / "password").write_text("pässword")
        (tmp_path / "short").write_text("1")
        provider = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
        return ConfigProviders({"config.providers": "dir", "config.providers.dir.class": provider})

    def test_secrets_are_not_written_to_task_configs(self, tmp_path: Path, providers: ConfigProviders) -> None:
        written = {"password": f"${{dir:{tmp_path}:password}}", "tasks.max": f"${{dir:{tmp_path}:short}}", "file": "a1"}
        resolved = resolve_references(written, providers)
        assert resolved == {"password": "pässword", "tasks.max": "1", "file": "a1"}
        made = [{**resolved, "url": "db://me:pässword@host1", "task": "1"}]
        assert restore_references(written, made, providers) == [
            {**written, "url": f"db://me:{written['password']}@host1", "task": "1"}
        ]

    def test_an_unresolvable_reference_names_the_setting(self, tmp_path: Path, providers: ConfigProviders) -> None:
        with pytest.raises(ConnectError, match="Could not resolve password"):
            resolve_references({"password": f"${{dir:{tmp_path}:other}}"}, providers)
