from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from barnabas.connect.decide.registry.plugin import CONNECTORS, PluginType
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry, UnknownPlugin, VersionNotFound
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.errors import BadRequest, NotFound
from barnabas.connect.plugins.api import (
    ConfigDef,
    ConfigKey,
    Connector,
    Converter,
    Predicate,
    RecordColumns,
    SourceConnector,
    SourceTask,
    Transform,
)
from barnabas.connect.plugins.discovery import built_in_plugins, connector_plugin, discover
from tests.unit.connect.plugins.example_connectors import FileStreamSinkConnector, PickyConnector, registry


class Shout(Transform):
    """A transform, and not a connector."""

    version = "2.0"
    config_def = ConfigDef([ConfigKey("mark")])

    def apply(self, record: RecordColumns) -> RecordColumns:
        return record


class Silent(Transform):
    pass


class Loud(Predicate):
    def test(self, record: RecordColumns) -> Any:
        raise NotImplementedError


class Echo(Converter):
    def data_type(self) -> str:
        return "binary"

    def decode(self, data: Any) -> Any:
        return data

    def encode(self, data: Any, data_type: Any) -> Any:
        return data


class NoTask(SourceConnector):
    pass


class Neither(Connector):
    task_class = SourceTask


class OlderPicky(PickyConnector):
    version = "1.9"


def entry(value: str, group: str = "barnabas.connectors") -> EntryPoint:
    return EntryPoint("x", value, group)


def _errors(found: PluginRegistry, config: dict[str, str]) -> dict[str, list[str]]:
    defaults = ValidationDefaults("g", dict.fromkeys(("key", "value"), "JsonConverter") | {"header": "JsonConverter"})
    infos = ConnectorValidation(found, defaults).validate(config).configs
    return {info.value.name: info.value.errors for info in infos if info.value.errors}


class TestDiscovery:
    def test_built_in_plugins_are_found(self) -> None:
        found = discover([])
        assert found.problems == ()
        assert {plugin.type for plugin in found} == set(PluginType)
        names = ("MockSource", "MockSink", "FileStreamSource", "FileStreamSink")
        assert [found.connector(name).type in CONNECTORS for name in names] == [True] * 4

    def test_connectors_that_move_no_data_are_the_last_of_their_type(self) -> None:
        listed = [plugin.class_name.rpartition(".")[2] for plugin in discover([]).listing()]
        assert {"MockSinkConnector", "MockSourceConnector", "Generator"} <= set(listed)
        assert listed[-1] == "MockSourceConnector"
        sinks = [plugin.class_name for plugin in discover([]).listing() if plugin.type == "sink"]
        assert sinks[-1].endswith("MockSinkConnector")
        assert sinks[:-1] == sorted(sinks[:-1])

    @pytest.mark.parametrize("separator", [".", ":"])
    @pytest.mark.parametrize(
        ("module", "class_name"),
        [
            ("file_stream", "FileStreamSink"),
            ("file_stream", "FileStreamSource"),
            ("files_to_topic", "FilesToTopic"),
            ("generator", "Generator"),
            ("jdbc_sink", "JdbcSink"),
            ("jdbc_source", "JdbcSource"),
            ("topic_to_delta", "TopicToDelta"),
            ("topic_to_files", "TopicToFiles"),
            ("topic_to_topic", "TopicToTopic"),
        ],
    )
    def test_a_stored_connector_class_resolves_by_its_former_full_name(
        self, module: str, class_name: str, separator: str
    ) -> None:
        found = discover([])
        former = f"barnabas.connect.spark.connectors.{module}{separator}{class_name}"
        connector_class = found.connector_class({"connector.class": former})
        assert connector_class.__name__ == class_name
        assert found.for_listing(former, None).target is connector_class
        assert found.connector(class_name).target is connector_class
        assert found.connector(class_name).name == f"{connector_class.__module__}.{class_name}"

    def test_discovery_does_not_import_spark(self) -> None:
        import subprocess

        code = (
            "import sys; from barnabas.connect.plugins.discovery import discover; "
            "import barnabas.connect.plugins.testing; discover([]); sys.exit('pyspark' in sys.modules)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

    def test_plugins_of_entry_points_are_found(self) -> None:
        assert discover([entry(f"{__name__}:OlderPicky")]).connector("OlderPicky").target is OlderPicky

    def test_transforms_predicates_and_converters_of_other_packages_are_found(self) -> None:
        found = discover(
            [
                entry(f"{__name__}:Shout", "barnabas.transforms"),
                entry(f"{__name__}:Loud", "barnabas.predicates"),
                entry(f"{__name__}:Echo", "barnabas.converters"),
            ]
        )
        assert found.problems == ()
        listed = {info.class_name: (info.type, info.version) for info in found.listing(connectors_only=False)}
        assert listed[f"{__name__}.Shout"] == ("transformation", "2.0")
        assert listed[f"{__name__}.Loud"] == ("predicate", None)
        assert listed[f"{__name__}.Echo"] == ("converter", None)
        assert found.record_plugins()[f"{__name__}.Echo"] is Echo
        full = found.with_full_names({"transforms.a.type": "Shout", "value.converter": "Echo"})
        assert full == {"transforms.a.type": f"{__name__}.Shout", "value.converter": f"{__name__}.Echo"}

    def test_a_transform_may_be_listed_without_an_entry_point(self) -> None:
        found = discover([], allowed=[f"{__name__}:Shout"])
        assert found.find("Shout", PluginType.TRANSFORMATION).target is Shout

    def test_the_settings_of_a_transform_of_another_package_are_validated(self) -> None:
        found = discover([entry(f"{__name__}:Shout", "barnabas.transforms")])
        config = {"connector.class": "MockSource", "name": "m", "transforms": "a", "transforms.a.type": "Shout"}
        assert "transforms.a.mark" in _errors(found, config)
        assert _errors(found, config | {"transforms.a.mark": "!"}) == {}

    def test_the_configuration_of_a_plugin_that_can_not_be_imported_reports_the_reason(self) -> None:
        found = discover([entry("loud.no_such_module:Shout", "barnabas.transforms")])
        assert "loud.no_such_module:Shout" in found.problems[0]
        config = {"connector.class": "MockSource", "name": "m", "transforms": "a", "transforms.a.type": "Shout"}
        [error] = _errors(found, config)["transforms.a.type"]
        assert "No module named 'loud'" in error

    @pytest.mark.parametrize(
        ("value", "group", "reason"),
        [
            ("no.such.module:X", "barnabas.connectors", "ModuleNotFoundError"),
            (f"{__name__}:Absent", "barnabas.connectors", "AttributeError"),
            (f"{__name__}:Shout", "barnabas.connectors", "Shout is not derived from SourceConnector or SinkConnector"),
            (f"{__name__}:NoTask", "barnabas.connectors", "has no task_class"),
            (f"{__name__}:Neither", "barnabas.connectors", "derived from neither"),
            (
                f"{__name__}:NoTask",
                "barnabas.transforms",
                "is not derived from Transform, as barnabas.transforms needs",
            ),
            (f"{__name__}:Silent", "barnabas.transforms", "Silent does not define apply"),
            (f"{__name__}:Silent", "barnabas.converters", "is not derived from Converter"),
        ],
    )
    def test_unusable_plugins_are_reported_and_omitted(self, value: str, group: str, reason: str) -> None:
        found = discover([entry(value, group), entry(f"{__name__}:OlderPicky")])
        [problem] = found.problems
        assert value in problem
        assert reason in problem
        assert found.connector("OlderPicky")
        for name in ("x", value):  # A configuration with this name reports the reason.
            with pytest.raises(UnknownPlugin, match=reason):
                found.connector(name)

    def test_a_listed_class_is_named_by_module_and_class_and_needs_no_entry_point(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "just_written.py").write_text(
            "from barnabas.connect.plugins.api import SourceConnector, SourceTask\n"
            "class Mine(SourceConnector):\n    task_class = SourceTask\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        found = discover([], allowed=["just_written:Mine"])
        plugin = found.connector("just_written:Mine")
        assert plugin.name == "just_written.Mine"
        assert plugin.version is None
        assert plugin in found.of_type(PluginType.SOURCE)
        assert found.connector("Mine") is plugin is found.for_listing("just_written:Mine", None)

    def test_a_class_with_an_entry_point_is_also_named_by_module_and_class(self) -> None:
        found = discover([entry(f"{__name__}:OlderPicky")], allowed=[f"{__name__}:OlderPicky"])
        assert found.connector(f"{__name__}:OlderPicky").target is OlderPicky
        assert len(found.of_type(PluginType.SOURCE)) == len(discover([]).of_type(PluginType.SOURCE)) + 1

    @pytest.mark.parametrize("name", ["os:environ", "os.environ", "never_imported:Thing", "never_imported.Thing"])
    def test_a_class_that_is_not_listed_is_never_imported_for_a_request(
        self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "never_imported.py").write_text("raise SystemExit('a request has run code')")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("SECRET_OF_THE_WORKER", "hunter2-hunter2")
        found = discover([])
        errors = []
        for look_up in (found.connector, lambda name: found.for_listing(name, None), found.find):
            with pytest.raises((UnknownPlugin, NotFound)) as raised:
                look_up(name)
            errors.append(str(raised.value))
        assert "never_imported" not in sys.modules
        assert "hunter2" not in "".join(errors)
        assert ("barnabas.connect.plugins of the worker's settings" in errors[0]) == (":" in name)

    def test_a_long_name_is_shortened_in_the_error(self) -> None:
        with pytest.raises(UnknownPlugin) as raised:
            discover([]).connector("x" * 100_000)
        assert len(str(raised.value)) < 10_000

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("os:path", "an object of the class module"),
            ("os:environ", "an object of the class _Environ"),
            ("os:PathLike", "PathLike is not derived from"),
            ("no.such:Thing", "No module named"),
            ("os", "write barnabas.connect.plugins as module:Class"),
            ("../x:Y", "write barnabas.connect.plugins as module:Class"),
        ],
    )
    def test_a_listed_class_that_is_unusable_reports_the_reason_without_object_contents(
        self, name: str, reason: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SECRET_OF_THE_WORKER", "hunter2-hunter2")
        found = discover([], allowed=[name])
        [problem] = found.problems
        assert reason in problem
        assert name in problem
        assert "hunter2" not in problem
        with pytest.raises(UnknownPlugin, match=reason):
            found.connector(name)
        with pytest.raises(NotFound, match=reason):
            found.for_listing(name, None)


class TestNames:
    def test_an_ambiguous_name_resolves_to_no_plugin(self) -> None:
        class OtherPicky(PickyConnector):
            pass

        OtherPicky.__name__ = OtherPicky.__qualname__ = "PickyConnector"
        OtherPicky.__module__ = "elsewhere"
        both = PluginRegistry([connector_plugin(connector, "") for connector in (PickyConnector, OtherPicky)])
        with pytest.raises(UnknownPlugin, match="More than one Connector matches Picky"):
            both.connector("Picky")
        assert both.connector("elsewhere.PickyConnector").target is OtherPicky

    def test_a_nested_class_is_listed_by_its_full_name_only(self) -> None:
        with pytest.raises(NotFound, match=r"Unknown plugin MaskField\$Key\."):
            registry().for_listing("MaskField$Key", None)
        assert registry().for_listing("org.apache.kafka.connect.transforms.MaskField$Key", None)

    def test_task_configurations_contain_full_class_names(self) -> None:
        config = {
            "key.converter": "Json",
            "header.converter": "SimpleHeaderConverter",
            "transforms.a.type": "Filter",
            "transforms.a.b.type": "Filter",
            "predicates.p.type": "NoSuch",
            "file": "Json",
        }
        assert registry().with_full_names(config) == {
            **config,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
            "transforms.a.type": "org.apache.kafka.connect.transforms.Filter",
        }

    def test_the_listing_is_sorted_by_kind_and_name(self) -> None:
        kinds = [plugin.type for plugin in registry().listing(connectors_only=False)]
        order = [kind.text for kind in PluginType]
        assert kinds == sorted(kinds, key=order.index)
        assert {plugin.type for plugin in registry().listing()} == {"sink", "source"}


class TestVersions:
    def plugins(self) -> PluginRegistry:
        class Picky(PickyConnector):
            pass

        older, newer = (connector_plugin(connector, "") for connector in (PickyConnector, Picky))
        from dataclasses import replace

        return PluginRegistry([replace(newer, name=older.name, version="10.0"), older, *built_in_plugins()])

    def test_the_newest_matching_version_is_used(self) -> None:
        assert self.plugins().connector("Picky").version == "10.0"
        assert self.plugins().connector("Picky", "[1.0,10.0)").version == "2.1"
        assert self.plugins().versions("Picky", *CONNECTORS) == ["2.1", "10.0"]

    def test_a_missing_version_is_reported_with_the_available_ones(self) -> None:
        with pytest.raises(VersionNotFound, match=r"version range \[3\.0,3\.0\], available versions: \[2\.1, 10\.0\]"):
            self.plugins().connector("Picky", "3.0")
        with pytest.raises(BadRequest, match="not a range of versions"):
            self.plugins().for_listing("Picky", "[1")

    def test_the_type_of_a_connector_follows_its_class(self) -> None:
        assert connector_plugin(FileStreamSinkConnector, "").type is PluginType.SINK
