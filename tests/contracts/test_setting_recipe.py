"""Follow CONTRIBUTING's recipe "Add a setting": everything about a setting is derived from one row. Each test adds a
row to the settings of a node, a topic or a worker, and removes it again.
"""

from __future__ import annotations

import pytest

from barnabas.cli.configs.command import main as configs_main
from barnabas.common.broker_config import BROKER_CONFIG_DEF, broker_config_doc
from barnabas.common.config_def import ConfigDef
from barnabas.common.settings.problem import InvalidSettings
from barnabas.common.settings.setting import (
    CLUSTER_WIDE,
    INT,
    LOW,
    MEDIUM,
    READ_ONLY,
    Setting,
    SettingTable,
    attributes_of,
    no_effect,
    refused,
    rows_of,
    setting,
)
from barnabas.common.topic_config import TOPIC_CONFIG_DEF, validate_topic_config
from barnabas.connect.settings.worker_config import InvalidWorkerConfig, WorkerConfig, worker_config_of
from barnabas.connect.settings.worker_config_reference import worker_reference_page
from barnabas.connect.settings.worker_settings import WORKER_CONFIG_DEF
from barnabas.server.settings.node_config import FILELESS_SETTINGS, NodeConfig, node_config_of
from barnabas.server.settings.problem import Given
from barnabas.server.settings.reference_page import describe_setting, reference_page

NAME = "barnabas.harvest.max.baskets"
TEXT = "How many baskets a harvest may fill."


class Harvest(SettingTable):
    """The rows that the recipe requires."""

    barnabas_harvest_max_baskets: int = setting(INT, "12", "1..", LOW, READ_ONLY, TEXT)
    barnabas_harvest_moon = no_effect("The moon is ignored.", INT, "0", "", LOW, READ_ONLY, "Its phase.")
    barnabas_harvest_frost = refused("Frost is not supported.", INT, "0", "", LOW, READ_ONLY, "How much of it.")


def add_to(monkeypatch: pytest.MonkeyPatch, settings: type[SettingTable], definitions: ConfigDef) -> None:
    """Add a row as the import of the table does."""
    for row in rows_of(Harvest):
        monkeypatch.setattr(settings, row.name.replace(".", "_"), row, raising=False)
        monkeypatch.setitem(definitions._rows, row.name, row)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    add_to(monkeypatch, NodeConfig, BROKER_CONFIG_DEF)


def node_config(**changes: str) -> NodeConfig:
    texts = FILELESS_SETTINGS | {name.replace("_", "."): text for name, text in changes.items()}
    return node_config_of({name: Given(text, "server.properties line 1") for name, text in texts.items()})


def refusal(**changes: str) -> str:
    with pytest.raises(InvalidSettings) as refused_with:
        node_config(**changes)
    [problem] = refused_with.value.problems
    return str(problem)


@pytest.mark.usefixtures("node")
class TestNodeSetting:
    def test_is_an_attribute_of_the_annotated_type(self) -> None:
        name = "barnabas_harvest_max_baskets"
        assert attributes_of(Harvest) == {NAME: "int"}
        assert getattr(node_config(), name) == 12
        assert getattr(node_config(barnabas_harvest_max_baskets="7"), name) == 7

    @pytest.mark.parametrize(
        ("text", "what"),
        [
            ("many", "Not a number of type INT -> its type is INT, allowed: [1,...]"),
            ("0", "Value must be at least 1 -> its type is INT, allowed: [1,...]"),
        ],
    )
    def test_is_refused_when_it_is_malformed(self, text: str, what: str) -> None:
        assert refusal(barnabas_harvest_max_baskets=text) == f"{NAME}={text} (server.properties line 1): {what}"

    def test_is_suggested_for_a_misspelt_name(self) -> None:
        assert f"did you mean {NAME}?" in refusal(barnabas_harvest_max_basket="7")

    def test_is_documented(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert broker_config_doc(NAME) == TEXT
        assert f"| `{NAME}` | int | 12 | [1,...] | {TEXT} |  |" in reference_page()
        assert ("meaning", TEXT) in (describe_setting(NAME) or [])
        assert configs_main(["show", NAME]) == 0
        assert TEXT in capsys.readouterr().out

    def test_without_effect_is_accepted_with_a_warning(self) -> None:
        assert any("The moon is ignored." in warning for warning in node_config(barnabas_harvest_moon="1").warnings)
        assert "The moon is ignored." in reference_page()

    def test_that_is_refused_accepts_only_its_default(self) -> None:
        node_config(barnabas_harvest_frost="0")
        assert "Frost is not supported. -> remove it; allowed is its default (0)" in refusal(barnabas_harvest_frost="1")


class TestTopicSetting:
    @pytest.fixture(autouse=True)
    def row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        row = Setting("harvest.ms", INT, "5", "0..", MEDIUM, CLUSTER_WIDE, TEXT)
        monkeypatch.setitem(TOPIC_CONFIG_DEF._rows, row.name, row)

    def test_is_validated_and_found_by_a_similar_name(self) -> None:
        validate_topic_config({"harvest.ms": "7"})
        with pytest.raises(ValueError, match="harvest.ms: Value must be at least 0"):
            validate_topic_config({"harvest.ms": "-1"})
        with pytest.raises(ValueError, match=r"did you mean harvest\.ms\?"):
            validate_topic_config({"harvst.ms": "7"})

    def test_is_documented(self) -> None:
        assert f"| `harvest.ms` | int | 5 | [0,...] | {TEXT} |  |" in reference_page()


class TestWorkerSetting:
    LEAST = {
        "bootstrap.servers": "127.0.0.1:9092",
        "group.id": "connect",
        "key.converter": "JsonConverter",
        "value.converter": "JsonConverter",
        "config.storage.topic": "configs",
        "offset.storage.topic": "offsets",
        "status.storage.topic": "status",
    }

    @pytest.fixture(autouse=True)
    def worker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        add_to(monkeypatch, WorkerConfig, WORKER_CONFIG_DEF)

    def test_is_typed_validated_documented_and_found_by_a_similar_name(self) -> None:
        config = worker_config_of(self.LEAST | {NAME: "7"})
        assert getattr(config, "barnabas_harvest_max_baskets") == 7  # noqa: B009
        assert f"| `{NAME}` | int | `12` | [1,...] | {TEXT} |" in worker_reference_page()
        for name, text, what in (
            (NAME, "0", "Value must be at least 1"),
            ("barnabas.harvest.max.basket", "7", f"did you mean {NAME}?"),
            ("barnabas.harvest.frost", "1", "Frost is not supported"),
        ):
            with pytest.raises(InvalidWorkerConfig, match=what.replace("?", r"\?")):
                worker_config_of(self.LEAST | {name: text})
