"""Generate the reference page of a registry's settings from the table that the registry itself uses."""

from __future__ import annotations

from barnabas.connect.settings.reference_table import setting_row, table_header
from barnabas.registry.settings.registry_settings import REGISTRY_CONFIG_DEF

__all__ = ["registry_reference_page"]

_HEAD = """\
# Settings of a registry

`barnabas registry schema-registry.properties` reads the settings of Confluent's Schema Registry that it has; those that
begin with `barnabas.` are our own. It reports every invalid or unknown setting by name before it starts. Settings of
Confluent's that have no meaning here cause a warning. [About the registry](../registry.md).

Settings of its clients begin with `kafkastore.`, such as `kafkastore.security.protocol`, `kafkastore.sasl.mechanism`,
`kafkastore.sasl.jaas.config` and `kafkastore.ssl.truststore.location`. `config.providers` works as in a node.
"""


def registry_reference_page() -> str:
    names = sorted(REGISTRY_CONFIG_DEF, key=lambda name: (name.startswith("barnabas."), name))
    rows = [setting_row(REGISTRY_CONFIG_DEF[name], REGISTRY_CONFIG_DEF.doc(name)) for name in names]
    return "\n".join([_HEAD, *table_header(), *rows, ""])
