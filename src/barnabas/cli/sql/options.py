"""Options of ``barnabas sql``: the cluster, the worker, and the format of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from barnabas.cli.arguments.cluster_options import ClusterOptions
from barnabas.cli.arguments.parameter import Group, Parameter
from barnabas.cli.connect.options import WorkerOptions

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig

__all__ = ["SqlOptions"]


@Parameter(name="*", group=Group("Cluster, worker and answer", sort_key=90))
@dataclass(kw_only=True)
class SqlOptions(WorkerOptions):
    """The cluster and the worker to contact, and the output format."""

    bootstrap_server: str | None = None
    """The address of a broker, host:port; separate several with commas. Default: localhost:9092."""
    command_config: str | None = None
    """A file of Kafka client properties: TLS, SASL, bootstrap.servers, timeouts. Queries read topics with them, too."""
    output: Annotated[Literal["table", "json", "csv"], Parameter(name=["--output", "-o"])] = "table"  # type: ignore[assignment]
    """Output format: a table, an object of JSON in a line for each row, or CSV."""

    def cluster(self) -> ClientConfig:
        """Return the settings for clients. Raise UsageError."""
        return self._of_cluster()._config()

    def client_properties(self) -> dict[str, str]:
        """Return the settings for Spark's Kafka client. Raise UsageError."""
        properties, _ = self._of_cluster()._properties()
        given = self.bootstrap_server or properties.get("bootstrap.servers") or "localhost:9092"
        return {**properties, "bootstrap.servers": given}

    def _of_cluster(self) -> ClusterOptions:
        # Without the option, the timeouts in the file of properties count.
        timeout = None if self.timeout == WorkerOptions.timeout else self.timeout
        return ClusterOptions(
            bootstrap_server=self.bootstrap_server, command_config=self.command_config, timeout=timeout
        )
