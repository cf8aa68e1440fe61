"""A node's settings: which configurations start, and which are refused by name before anything is written."""

from pathlib import Path

import pytest

from barnabas.common.broker_config import BROKER_CONFIG_DEF
from barnabas.common.config_def import ConfigType
from barnabas.common.config_value import Password
from barnabas.common.settings.node_settings import NodeSettings
from barnabas.common.settings.problem import InvalidSettings
from barnabas.common.settings.setting import attributes_of
from barnabas.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from barnabas.protocol.compression import Compression
from barnabas.server.component_configs import share_config
from barnabas.server.settings.endpoints import Endpoint, QuorumVoter
from barnabas.server.settings.node_config import NodeConfig, load_node_config, node_config_of
from barnabas.server.settings.problem import Given

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "data",
    "offsets.topic.replication.factor": "1",
}
# The file of a freshly unpacked Kafka 4.3, without comments.
STOCK = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
PYTHON_TYPES = {
    ConfigType.PASSWORD: "Password",
    ConfigType.BOOLEAN: "bool",
    ConfigType.STRING: "str",
    ConfigType.LIST: "list[str]",
    ConfigType.INT: "int",
    ConfigType.SHORT: "int",
    ConfigType.CLASS: "str",
    ConfigType.LONG: "int",
    ConfigType.DOUBLE: "float",
    ConfigType.LIST: "list[str]",
}


def _config(**changes: str | None) -> NodeConfig:
    """Return a combined node; a keyword is a setting with underscores, None removes it."""
    texts = {**COMBINED, **{name.replace("_", "."): text for name, text in changes.items()}}
    given = {name: Given(text, "a file") for name, text in texts.items() if text is not None}
    return node_config_of(given, source="a file")


def _problems(**changes: str | None) -> dict[str, str]:
    with pytest.raises(InvalidSettings) as raised:
        _config(**changes)
    return {problem.name: str(problem) for problem in raised.value.problems}


def test_a_combined_node_has_its_listeners_sorted_by_role() -> None:
    config = _config()
    assert config.broker_listeners == [Endpoint("PLAINTEXT", "127.0.0.1", 9092)]
    assert config.controller_listeners == [Endpoint("CONTROLLER", "127.0.0.1", 9093)]
    assert config.advertised_broker_listeners == config.broker_listeners
    assert config.quorum_bootstrap_servers == [QuorumVoter(-1, "127.0.0.1", 9093)]
    assert (config.node_id, config.is_broker, config.is_controller) == (1, True, True)
    assert (config.log_dirs, config.metadata_log_dir, config.source) == (["data"], "data", "a file")
    assert config.warnings == []


def test_the_file_shipped_with_kafka_is_accepted_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(STOCK)
    config = load_node_config(str(path))
    assert [str(endpoint) for endpoint in config.advertised_broker_listeners] == ["PLAINTEXT://localhost:9092"]
    assert [str(endpoint) for endpoint in config.broker_listeners] == ["PLAINTEXT://:9092"]


def test_without_a_file_the_node_listens_on_localhost() -> None:
    config = load_node_config(None)
    assert [str(endpoint) for endpoint in config.broker_listeners] == ["PLAINTEXT://localhost:9092"]
    assert [str(endpoint) for endpoint in config.controller_listeners] == ["CONTROLLER://localhost:9093"]
    assert (config.log_dirs, config.barnabas_auto_format, config.warnings) == (["barnabas-data"], True, [])
    assert config.offsets_topic_replication_factor == 1


def test_without_a_file_the_quorum_follows_an_overridden_listener() -> None:
    config = load_node_config(None, ["listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:7000"])
    assert config.quorum_bootstrap_servers == [QuorumVoter(-1, "localhost", 7000)]


def test_overrides_replace_the_file_and_later_ones_the_earlier(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in COMBINED.items()) + "num.partitions=2\n")
    config = load_node_config(str(path), ["num.partitions=3", "num.partitions = 4"])
    assert config.num_partitions == 4
    assert config.static["num.partitions"] == "4"


def test_values_may_come_from_config_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BARNABAS_TEST_PARTITIONS", "7")
    (tmp_path / "words").write_text("rack=r1\nretention=abc\n")
    path = tmp_path / "server.properties"
    more = {
        "config.providers": "env,file",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "num.partitions": "${env:BARNABAS_TEST_PARTITIONS}",
        "super.users": "${vault:who}",
    }
    path.write_text("".join(f"{name}={text}\n" for name, text in {**COMBINED, **more}.items()))
    config = load_node_config(str(path), [f"broker.rack=${{file:{tmp_path}/words:rack}}"])
    assert (config.num_partitions, config.broker_rack, config.super_users) == (7, "r1", "${vault:who}")
    assert config.static["num.partitions"] == "7"
    assert any("super.users refers to a provider 'vault'" in note for note in config.warnings)

    with pytest.raises(InvalidSettings) as raised:
        load_node_config(
            str(path),
            [
                "num.partitions=${env:BARNABAS_NOT_SET}",
                f"log.retention.ms=${{file:{tmp_path}/words:retention}}",
                "config.providers.file.class=x.Y",
                "config.providers.other.class=x.Y",
            ],
        )
    problems = {problem.name: str(problem) for problem in raised.value.problems}
    assert "the environment has no variable BARNABAS_NOT_SET" in problems["num.partitions"]
    assert "is not an available class" in problems["config.providers.file.class"]
    assert "does not name this provider" in problems["config.providers.other.class"]
    assert len(raised.value.problems) == len(problems), "no problem is reported twice"
    without = "".join(f"{name}={text}\n" for name, text in COMBINED.items())
    path.write_text(without + "config.providers.file.class=x.Y\n")
    with pytest.raises(InvalidSettings, match="no such setting exists"):
        load_node_config(str(path))


def test_all_problems_are_reported_together_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("process.roles=broker,controller\nnum.partitons=3\nnum.partitions=0\nssl.key.passwords=geheim\n")
    with pytest.raises(InvalidSettings) as raised:
        load_node_config(str(path), ["oops", "num.io.threads=x"])
    text = str(raised.value)
    assert f"num.partitons=3 ({path} line 2): no such setting exists -> did you mean num.partitions?" in text
    assert f"num.partitions=0 ({path} line 3): Value must be at least 1 -> its type is INT, allowed: [1,...]" in text
    assert "oops: is not of the form key=value" in text
    assert "num.io.threads=x (--override): Not a number of type INT" in text
    assert "node.id: is required" in text
    assert "ssl.key.passwords=[hidden]" in text
    assert "geheim" not in text


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("process.roles", "broker", "CONTROLLER is a controller listener, but this node is not a controller"),
        ("process.roles", "broker,owner", "String must be one of: broker, controller"),
        ("process.roles", None, "is required"),
        ("node.id", None, "is required"),
        ("node.id", "-1", "Value must be at least 0"),
        ("listeners", "PLAINTEXT//:9092", "NAME://host:port"),
        ("listeners", "PLAINTEXT://:1,plaintext://:2,CONTROLLER://:3", "different name"),
        ("listeners", "PLAINTEXT://x:9092,CONTROLLER://x:9092", "different port"),
        ("listeners", "CONTROLLER://x:9092", "all of them are controller listeners"),
        ("listeners", "PLAINTEXT://x:1,OTHER://x:2,CONTROLLER://x:3", "no security protocol is defined for listener O"),
        ("listeners", "SSL://x:1,CONTROLLER://x:3", "no security protocol is defined for listener CONTROLLER"),
        ("listeners", "PLAINTEXT://0.0.0.0:1,CONTROLLER://x:3", "others can't connect to 0.0.0.0"),
        ("advertised.listeners", "PLAINTEXT://0.0.0.0:1", "others can't connect to 0.0.0.0"),
        ("advertised.listeners", "OTHER://x:1", "OTHER is not one of the listeners"),
        ("advertised.listeners", "CONTROLLER://x:1", "no broker listener is advertised"),
        ("controller.listener.names", None, "is required"),
        ("controller.listener.names", "CTL", "CTL is not one of the listeners"),
        ("listener.security.protocol.map", "CONTROLLER:TLS", "names no security protocol"),
        ("inter.broker.listener.name", "OTHER", "OTHER is not an advertised broker listener"),
        ("controller.quorum.bootstrap.servers", "a:1,0.0.0.0:2", "no client can connect to 0.0.0.0"),
        ("controller.quorum.voters", "1@a:1,1@b:2", "each voter must have a different id"),
        ("process.roles", "controller", "not a controller listener, and this node is not a broker"),
        ("controller.quorum.bootstrap.servers", None, "controller.quorum.voters is required"),
        ("controller.quorum.voters", "2@x:9093", "does not name this node"),
        ("log.dirs", " , ", "must not be empty"),
        ("log.retention.hours", "0", "keep records forever"),
        ("log.roll.ms", "0", "at least 1"),
        ("log.cleaner.dedupe.buffer.size", "1048576", "above 1 MiB"),
        ("group.min.session.timeout.ms", "1800001", "group.max.session.timeout.ms, which is 1800000"),
        ("group.share.record.lock.duration.ms", "60001", "must be between group.share.min.record.lock.duration.ms and"),
        ("group.share.min.partition.max.record.locks", "2001", "no more than 2000"),
        ("group.share.delivery.count.limit", "11", "Value must be no more than 10"),
        ("group.share.min.record.lock.duration.ms", "30001", "Value must be no more than 30000"),
        ("group.share.max.share.sessions", "199", "must be at least group.share.max.size, which is 200"),
        ("broker.heartbeat.interval.ms", "9001", "broker.session.timeout.ms, which is 9000"),
        ("broker.session.timeout.ms", "1999", "must not be below broker.heartbeat.interval.ms, which is 2000"),
        ("connections.max.idle.ms", "100", "must be above connection.failed.authentication.delay.ms, which is 100"),
        ("early.start.listeners", "OTHER", "OTHER is not one of the listeners"),
        ("inter.broker.listener.name", "", "must not be empty"),
        ("barnabas.metrics.listener", "9404", "host:port"),
        ("delegation.token.expiry.time.ms", "0", "Value must be at least 1"),
        ("delegation.token.max.lifetime.ms", "0", "Value must be at least 1"),
        ("delegation.token.expiry.check.interval.ms", "0", "Value must be at least 1"),
        ("delegation.token.master.key", "x", "Kafka 4.0 removed it"),
        ("early.start.listeners", "CONTROLLER,OTHER", "allowed are PLAINTEXT, CONTROLLER"),
        ("authorizer.class.name", "org.apache.kafka.StandardAuthorizer", "is a Java class, which can't be loaded"),
        ("authorizer.class.name", "no_such_module:Class", "can't be loaded: ModuleNotFoundError"),
        ("authorizer.class.name", "barnabas.security.authorizer.authorizer:Nothing", "has no attribute 'Nothing'"),
        ("authorizer.class.name", "collections:OrderedDict", "is not a subclass of barnabas.security.authorizer"),
        ("authorizer.class.name", "barnabas.security.authorizer.authorizer:Authorizer", "lacks authorize"),
        ("super.users", "User:admin;alice", "'alice' is not of the form Type:name"),
        ("super.users", ":admin", "write Type:name, as in User:admin;User:CN=broker-1"),
        ("allow.everyone.if.no.acl.found", "perhaps", "its type is BOOLEAN"),
        ("remote.log.storage.system.enable", "true", "Tiered storage is not supported yet"),
        ("transaction.two.phase.commit.enable", "true", "Two-phase commit (KIP-939) is not supported"),
        ("transaction.max.timeout.ms", "0", "Value must be at least 1"),
        ("share.coordinator.state.topic.compression.codec", "5", "set it to one of 0 (none), 1 (gzip), 2 (snappy)"),
        ("share.coordinator.snapshot.update.records.per.snapshot", "501", "Value must be no more than 500"),
        ("zookeeper.connect", "localhost:2181", "Kafka 4.0 removed ZooKeeper"),
        ("group.coordinator.rebalance.protocols", "classic,share", "share groups are not supported"),
        ("group.coordinator.rebalance.protocols", "consumer,streams", "lacks classic"),
        ("group.streams.max.session.timeout.ms", "40000", "must not be below group.streams.session.timeout.ms"),
        ("group.streams.heartbeat.interval.ms", "4000", "must not be below group.streams.min.heartbeat.interval.ms"),
        ("group.streams.assignment.interval.ms", "16000", "must not be above group.streams.max.assignment.interval"),
        ("group.streams.num.standby.replicas", "3", "must not be above group.streams.max.standby.replicas"),
        ("metric.reporters", "org.example.Reporter", "Prometheus endpoint"),
    ],
)  # fmt: skip
def test_an_invalid_setting_is_refused_by_name(name: str, text: str | None, complaint: str) -> None:
    problems = _problems(**{name.replace(".", "_"): text})
    assert any(complaint in problem for problem in problems.values())


def test_a_controller_has_only_controller_listeners_and_knows_every_voter() -> None:
    config = _config(
        process_roles="controller",
        listeners="CONTROLLER://x:9093",
        controller_quorum_bootstrap_servers=None,
        controller_quorum_voters="1@x:9093,2@y:9093",
    )
    assert (config.is_broker, config.broker_listeners, config.first_controller_listener) == (False, [], "CONTROLLER")
    assert [voter.id for voter in config.quorum_voters] == [1, 2]
    assert config.quorum_bootstrap_servers == [QuorumVoter(-1, "x", 9093), QuorumVoter(-1, "y", 9093)]


def test_a_broker_has_no_controller_listener_but_knows_its_protocol() -> None:
    config = _config(
        process_roles="broker",
        listeners="PLAINTEXT://x:9092",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,CTL:SASL_SSL",
        controller_listener_names="CTL",
    )
    assert (config.is_controller, config.controller_listeners) == (False, [])
    assert (config.first_controller_listener, config.controller_security_protocol) == ("CTL", "SASL_SSL")
    assert "only a controller can join" in _problems(
        process_roles="broker", listeners="PLAINTEXT://x:9092", controller_quorum_auto_join_enable="true"
    )["controller.quorum.auto.join.enable"]  # fmt: skip
    assert "names this node" in _problems(
        process_roles="broker", listeners="PLAINTEXT://x:9092", controller_quorum_voters="1@x:9093"
    )["controller.quorum.voters"]  # fmt: skip


def test_a_controller_of_a_quorum_needs_an_advertised_address() -> None:
    problems = _problems(process_roles="controller", listeners="CONTROLLER://0.0.0.0:9093")
    assert "others can't connect to 0.0.0.0" in problems["listeners"]


def test_a_tls_listener_needs_a_key() -> None:
    problems = _problems(
        listeners="SSL://x:1,CONTROLLER://x:3", listener_security_protocol_map="SSL:SSL,CONTROLLER:PLAINTEXT"
    )
    assert "is required for a TLS listener" in problems["ssl.keystore.location"]


def test_the_key_of_delegation_tokens_is_a_secret() -> None:
    config = _config(delegation_token_secret_key="open sesame")
    assert config.delegation_token_secret_key == Password("open sesame")
    assert "open sesame" not in f"{config.delegation_token_secret_key} {config.values}"
    assert _config().delegation_token_secret_key is None


def test_broker_id_may_stand_for_node_id_but_not_differ_from_it() -> None:
    assert _config(node_id=None, broker_id="7").node_id == 7
    assert "differs from node.id" in _problems(broker_id="7")["broker.id"]


def test_controller_listeners_start_early_unless_others_are_named() -> None:
    assert _config().early_start_listeners == {"CONTROLLER"}
    assert _config(early_start_listeners="plaintext").early_start_listeners == {"PLAINTEXT"}
    assert _config(early_start_listeners="").early_start_listeners == set()


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "barnabas.security.authorizer.standard_authorizer:StandardAuthorizer",
        "barnabas.security.authorizer.authorizer:AllowAllAuthorizer",
    ],
)
def test_an_authorizer_is_named_by_kafkas_class_or_as_module_and_class(name: str) -> None:
    config = _config(authorizer_class_name=name, super_users="User:CN=a,O=b; User:c ;")
    assert (config.authorizer_class_name, config.super_users) == (name, "User:CN=a,O=b; User:c ;")
    assert not any("super.users" in warning for warning in config.warnings)


def test_super_users_without_an_authorizer_are_pointed_out() -> None:
    assert any("super.users has no effect" in warning for warning in _config(super_users="User:admin").warnings)


def test_super_users_with_a_comma_between_are_pointed_out() -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    warnings = _config(authorizer_class_name=name, super_users="User:a,User:b").warnings
    assert [warning for warning in warnings if "as in User:a;User:b" in warning]


def test_the_default_of_a_refused_setting_is_taken() -> None:
    config = _config(authorizer_class_name="", remote_log_storage_system_enable="false", metric_reporters="")
    assert config.value("authorizer.class.name") == ""


def test_the_share_coordinator_has_the_settings_of_its_node() -> None:
    config = share_config(
        _config(
            share_coordinator_state_topic_compression_codec="3",
            share_coordinator_snapshot_update_records_per_snapshot="7",
            share_coordinator_cold_partition_snapshot_interval_ms="8",
            share_coordinator_state_topic_prune_interval_ms="9",
            share_coordinator_write_timeout_ms="10",
            share_coordinator_state_topic_num_partitions="11",
        )
    )
    assert config == ShareCoordinatorConfig(11, Compression.LZ4, 7, 8, 9, 10)


def test_only_classic_groups_may_be_configured() -> None:
    _config(group_coordinator_rebalance_protocols="classic")


def test_protocols_of_groups_may_be_disabled() -> None:
    assert _config(group_coordinator_rebalance_protocols="classic").group_coordinator_rebalance_protocols == ["classic"]


def test_a_heartbeat_interval_is_below_the_session_timeout() -> None:
    name = "group.streams.heartbeat.interval.ms"
    problems = _problems(group_streams_heartbeat_interval_ms="15000", group_streams_min_session_timeout_ms="15000",
                         group_streams_session_timeout_ms="15000")  # fmt: skip
    assert "must be below group.streams.session.timeout.ms, which is 15000" in problems[name]


def test_a_setting_without_effect_is_accepted_and_reported() -> None:
    config = _config(num_io_threads="3", num_network_threads="3")
    assert len(config.warnings) == 1  # The default of num.network.threads is 3.
    assert config.warnings[0].startswith("num.io.threads has no effect here")


def test_a_wildcard_listener_with_an_advertised_name_is_accepted() -> None:
    config = _config(
        listeners="PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093", advertised_listeners="PLAINTEXT://kafka.example:9092"
    )
    assert config.broker_listeners[0].host == "0.0.0.0"
    assert config.advertised_broker_listeners[0].host == "kafka.example"
    assert config.advertised_controller_listeners[0].port == 9093


def test_a_node_wide_setting_is_refused_for_a_single_listener() -> None:
    given = {name: Given(text, "a file") for name, text in COMBINED.items()}
    given["listener.name.plaintext.connections.max.idle.ms"] = Given("600000", "a file")
    with pytest.raises(InvalidSettings, match=r"set connections.max.idle.ms for all of them"):
        node_config_of(given, source="a file")


def test_the_value_of_an_unknown_secret_is_not_printed() -> None:
    assert "geheim" not in _problems(my_client_secret="geheim")["my.client.secret"]


def test_topics_have_the_defaults_of_the_node() -> None:
    config = _config(log_retention_minutes="1", log_cleanup_policy="compact")
    assert (config.topic_defaults.retention_ms, config.topic_defaults.compact) == (60_000, True)


def test_every_attribute_has_the_type_of_its_setting() -> None:
    for name, annotation in attributes_of(NodeSettings).items():
        key = BROKER_CONFIG_DEF[name]
        expected = PYTHON_TYPES[key.type] + (" | None" if key.default is None else "")
        assert (name, annotation) == (name, expected)


def test_a_missing_setting_is_reported_once() -> None:
    problems = _problems(listeners="nonsense")
    assert list(problems) == ["listeners"]
