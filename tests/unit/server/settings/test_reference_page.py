"""The reference page, and the description of a single setting."""

from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.topic_config import TOPIC_CONFIG_DEF
from barnabas.server.settings.reference_page import all_names, describe_setting, reference_page


def test_every_setting_is_on_the_page_once_per_section() -> None:
    page = reference_page()
    for name in BROKER_CONFIG_DEF:
        assert (name, f"\n| `{name}` |" in page) == (name, True)
    topics = page.partition("## Topics")[2].partition("## Groups")[0]
    for name in TOPIC_CONFIG_DEF.visible_names:
        assert (name, topics.count(f"\n| `{name}` |")) == (name, 1)


def test_every_row_has_the_cells_of_its_table() -> None:
    for line in reference_page().splitlines():
        if line.startswith("| `") and "Gone" not in line:
            cells = line.replace("\\|", "").count("|") - 1
            assert (line, cells) == (line, 6 if cells > 2 else 2)


def test_a_setting_is_described_with_its_support() -> None:
    described = dict(describe_setting("ssl.client.auth") or [])
    assert described["allowed"] == "[required, requested, none]"
    assert described["support"] == "works"
    assert described["dynamic"] == "per-broker"
    stored = dict(describe_setting("ssl.keystore.location") or [])
    assert stored["dynamic"] == "per-broker, for a listener"
    assert dict(describe_setting("listeners") or [])["dynamic"] == "needs a restart here"
    assert dict(describe_setting("log.retention.ms") or [])["dynamic"] == "cluster-wide"
    assert dict(describe_setting("node.id") or [])["dynamic"] == "read-only"
    refused = dict(describe_setting("remote.log.storage.system.enable") or [])
    assert refused["support"].startswith("refused unless default: Tiered")
    assert ("setting of a", "topic") in (describe_setting("retention.ms") or [])


def test_a_name_of_node_and_topic_is_described_as_both() -> None:
    kinds = [text for label, text in describe_setting("compression.type") or [] if label == "setting of a"]
    assert kinds == ["node", "topic"]


def test_unknown_names_are_not_described() -> None:
    assert describe_setting("no.such") is None
    assert "no.such" not in all_names()
