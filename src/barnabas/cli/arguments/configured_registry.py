"""The schema registry that a node or a worker runs in its process (``barnabas.registry.config.file``)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from barnabas.common.settings.problem import InvalidSettings

__all__ = ["UnusableRegistryFile", "configured_registry"]


class UnusableRegistryFile(Exception):
    """The file can't be read, or has invalid settings."""


def configured_registry(path: str | None) -> AbstractContextManager[None]:
    """Return the registry of the file, which runs while its context does. Raise UnusableRegistryFile."""
    if not path:
        return nullcontext()
    from barnabas.registry.beside import registry_beside

    try:
        return registry_beside(path)
    except InvalidSettings as error:
        raise UnusableRegistryFile(f"barnabas.registry.config.file={path}: {error}") from error
    except OSError as error:
        raise UnusableRegistryFile(f"can't read barnabas.registry.config.file={path}: {error.strerror}") from error
