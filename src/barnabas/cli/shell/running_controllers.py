"""Running controllers as a source for ``barnabas shell``, which reads committed metadata again for each command."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from barnabas.clients.client_config import client_config
from barnabas.clients.errors import InvalidClientConfig
from barnabas.clients.metadata_log_client import MetadataLogClient
from barnabas.clients.network_client import NetworkClient
from barnabas.common.properties_file import MalformedProperties, read_properties_file

if TYPE_CHECKING:
    from barnabas.clients.client_config import Address, ClientConfig
    from barnabas.metadata.image.metadata_image import MetadataImage
    from barnabas.protocol.schema import Message, Request

__all__ = ["CommittedMetadata"]

R = TypeVar("R", bound="Message")


class CommittedMetadata:
    """A context manager that reads committed metadata. ``read`` may be called repeatedly."""

    def __init__(self, controllers: str, command_config: str | None = None) -> None:
        """Create the source. Raise InvalidClientConfig."""
        config = _config(controllers, command_config)
        self.source = controllers
        self.warnings = config.warnings
        self._runner = asyncio.Runner()
        self._network = NetworkClient(config)
        self._log = MetadataLogClient(self._ask, timeout_s=float(config.values["default.api.timeout.ms"]) / 1000)

    @property
    def offset(self) -> int:
        return self._log.image.offset

    def read(self) -> MetadataImage:
        """Read the committed metadata. Raise ClientError."""
        return self._runner.run(self._log.catch_up())

    def __enter__(self) -> CommittedMetadata:
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.run(self._network.close())
        self._runner.close()

    async def _ask(self, address: Address | None, request: Request[R]) -> R:
        network = self._network
        connection = await (network.connect() if address is None else network.connection_to(address))
        return await connection.request(request)


def _config(controllers: str, command_config: str | None) -> ClientConfig:
    properties: dict[str, str] = {}
    if command_config is not None:
        try:
            properties = dict(read_properties_file(command_config).values)
        except OSError as error:
            raise InvalidClientConfig([f"--command-config: can't read {command_config}: {error.strerror}"]) from error
        except MalformedProperties as error:
            raise InvalidClientConfig([f"--command-config: {command_config}: {error}"]) from error
    properties.pop("bootstrap.servers", None)
    properties["bootstrap.controllers"] = controllers
    return client_config(properties, source=command_config or "--bootstrap-controller")
