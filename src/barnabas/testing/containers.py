"""A stand-in for ``testcontainers.kafka.KafkaContainer`` that needs no container engine: change the import, and nothing
else.

It runs a ``barnabas.testing.Node``. The image is ignored, because no image runs. Variables that configure Kafka's
images (``KAFKA_AUTO_CREATE_TOPICS_ENABLE``) become settings. What only a container has is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn, Self

from barnabas.testing.errors import NotPossible
from barnabas.testing.node import Node
from barnabas.testing.ports import HOST

__all__ = ["KafkaContainer"]

_PREFIX = "KAFKA_"
_OF_THE_LAYOUT = frozenset(
    {
        "KAFKA_ADVERTISED_LISTENERS",
        "KAFKA_BROKER_ID",
        "KAFKA_CONTROLLER_LISTENER_NAMES",
        "KAFKA_CONTROLLER_QUORUM_VOTERS",
        "KAFKA_INTER_BROKER_LISTENER_NAME",
        "KAFKA_LISTENERS",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
        "KAFKA_LOG_DIRS",
        "KAFKA_NODE_ID",
        "KAFKA_PROCESS_ROLES",
        "KAFKA_ZOOKEEPER_CONNECT",
    }
)


_ONLY_CONTAINERS = frozenset(
    {
        "copy_from_container",
        "copy_into_container",
        "create_file",
        "exec",
        "get_container_id",
        "get_container_info",
        "get_docker_client",
        "get_wrapped_container",
        "reload",
        "status",
        "tc_start",
        "wait",
        "with_command",
        "with_copy_into_container",
        "with_env_file",
        "with_kwargs",
        "with_network",
        "with_network_aliases",
        "with_tmpfs_mount",
        "with_volume_mapping",
    }
)
"""Methods of a container that have no meaning for a process."""


class KafkaContainer:
    """``with KafkaContainer() as kafka: kafka.get_bootstrap_server()``."""

    def __init__(
        self,
        image: str = "",
        port: int = 9093,
        wait_strategy_check_string: str = "",
        listener_name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
        *,
        env: Mapping[str, str] | None = None,
        name: str | None = None,
        **options: object,
    ) -> None:
        """Only ``env`` and ``security_protocol`` have a meaning here. Raise NotPossible for options of containers."""
        if security_protocol != "PLAINTEXT":
            raise NotPossible(
                f"security_protocol={security_protocol!r} is not possible: "
                "use barnabas.testing.Node(users=..., tls=True)"
            )
        for option in options:
            _refuse(f"KafkaContainer({option}=...)")
        self.image = image
        self.port = port
        self.cluster_id: str | None = None
        self._settings: dict[str, str] = {}
        self._node: Node | None = None
        self.with_envs(**(env or {}))

    # --- what the container would be

    def with_kraft(self) -> Self:
        """Every node here is a KRaft node."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        self.cluster_id = cluster_id
        return self

    def with_env(self, key: str, value: str) -> Self:
        """Set a variable of Kafka's images: ``KAFKA_MESSAGE_MAX_BYTES`` is the setting ``message.max.bytes``."""
        if key == "CLUSTER_ID":
            return self.with_cluster_id(value)
        if not key.startswith(_PREFIX):
            _refuse(f"with_env({key!r}, ...)")
        if key in _OF_THE_LAYOUT:
            raise NotPossible(f"with_env({key!r}, ...) is not possible: the node chooses its listeners and its folder")
        self._settings[_setting_name(key)] = str(value)
        return self

    def with_envs(self, **variables: str) -> Self:
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_exposed_ports(self, *ports: int) -> Self:
        """The node has one port, whatever its number in a container would be."""
        return self

    def with_bind_ports(self, container: int, host: int | None = None) -> Self:
        if host is not None:
            _refuse(f"with_bind_ports(..., {host})")
        return self

    def with_name(self, name: str) -> Self:
        return self

    def waiting_for(self, strategy: object) -> Self:
        """``start`` always waits until the node serves clients."""
        return self

    def maybe_emulate_amd64(self) -> Self:
        return self

    # --- life

    def start(self, timeout: float = 30) -> Self:
        """Start, and return when clients are served. Raise NodeFailed."""
        if self._node is None:
            node = Node(settings=self._settings, cluster_id=self.cluster_id, timeout_s=timeout)
            node.start()
            self._node = node
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        node, self._node = self._node, None
        if node is not None:
            node.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    # --- the running container

    def get_bootstrap_server(self) -> str:
        """Return ``host:port``. Raise NotPossible before the start."""
        return self.node.bootstrap_servers

    def get_container_host_ip(self) -> str:
        return HOST

    def get_exposed_port(self, port: int) -> int:
        """Return the port on this machine, whatever the port in a container would be."""
        return int(self.node.bootstrap_servers.rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """Return the node's log as the standard output, and an empty standard error."""
        return self.node.log.encode(), b""

    @property
    def node(self) -> Node:
        """The node behind it, with its faults: ``kafka.node.pause()``. Raise NotPossible before the start."""
        if self._node is None:
            raise NotPossible("the container is not started: use it in a with block, or call start()")
        return self._node

    def __getattr__(self, name: str) -> NoReturn:
        if name in _ONLY_CONTAINERS:
            _refuse(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _setting_name(variable: str) -> str:
    """Return the setting's name by the rule of Kafka's images: ``_`` is a dot, ``__`` a dash, ``___`` an underscore."""
    name = variable.removeprefix(_PREFIX).lower()
    return name.replace("___", "\0").replace("__", "-").replace("_", ".").replace("\0", "_")


def _refuse(what: str) -> NoReturn:
    raise NotPossible(f"{what} is not possible: this KafkaContainer is a process on this machine, not a container")
