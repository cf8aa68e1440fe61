"""Secrets of object stores and table catalogs that a configuration contains as plain text: they are refused.

A reader of a configuration sees what it contains, and so do the config topic and its backups. A reference to a config
provider reveals nothing, and the credentials of a machine or container need no setting at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from barnabas.common.config_providers import has_reference

__all__ = ["HOW_TO_KEEP_SECRETS", "HOW_TO_WRITE_REFERENCES", "plain_secrets"]

_OF_A_STORE = re.compile(r"(^|\.)(fs\.s3a|s3|aws|catalog)\.")
_SECRET = re.compile(
    r"(^|[.-])(access[.-]?key([.-]id)?|secret([.-](access[.-])?key)?|session[.-]token|token|credential|password)$",
    re.IGNORECASE,
)

HOW_TO_WRITE_REFERENCES = (
    "write it as a reference to a config provider, such as ${file:/etc/barnabas/secrets.properties:NAME}, with "
    "config.providers=file in the worker's settings"
)
HOW_TO_KEEP_SECRETS = (
    f"{HOW_TO_WRITE_REFERENCES}; or omit it, and use credentials of the machine: see "
    "barnabas.connect.spark.s3.credentials"
)


def plain_secrets(texts: Mapping[str, str | None]) -> list[str]:
    """Return the settings that are such a secret in plain text. ``texts`` are as they were written."""
    return [
        name
        for name, text in texts.items()
        if text and _OF_A_STORE.search(name) and _SECRET.search(name) and not has_reference(text)
    ]
