"""The available converters, by Connect's full and simple names."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.config_value import ConfigException
from barnabas.connect.decide.validation.converters_config import CONVERTER_TYPE
from barnabas.connect.plugins.record_plugins import Converter as PluginConverterClass
from barnabas.connect.plugins.record_plugins import RecordPlugin
from barnabas.connect_spark.converters.avro_converter import AvroConverter
from barnabas.connect_spark.converters.converter import Converter
from barnabas.connect_spark.converters.json_converter import JsonConverter
from barnabas.connect_spark.converters.plugin_converter import PluginConverter
from barnabas.connect_spark.converters.primitive_converters import (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
from barnabas.connect_spark.converters.protobuf_converter import ProtobufConverter
from barnabas.connect_spark.converters.registry.avro_converter import ConfluentAvroConverter
from barnabas.connect_spark.converters.registry.json_schema_converter import JsonSchemaConverter
from barnabas.connect_spark.converters.registry.protobuf_converter import ConfluentProtobufConverter
from barnabas.connect_spark.converters.simple_header_converter import SimpleHeaderConverter
from barnabas.connect_spark.converters.string_converter import StringConverter

__all__ = ["CONVERTERS", "converter_of"]

_DATA: tuple[type[Converter], ...] = (
    AvroConverter,
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    JsonConverter,
    LongConverter,
    ProtobufConverter,
    ShortConverter,
    StringConverter,
)
_WITH_REGISTRY: tuple[type[Converter], ...] = (ConfluentAvroConverter, ConfluentProtobufConverter, JsonSchemaConverter)
"""Converters of keys and values that take schemas from a registry."""
_HEADERS: tuple[type[Converter], ...] = (*_DATA, SimpleHeaderConverter)
CONVERTERS: Mapping[str, type[Converter]] = {
    name: converter for converter in (*_HEADERS, *_WITH_REGISTRY) for name in (converter.java_class, converter.__name__)
}


def converter_of(
    setting: str, name: str, settings: Mapping[str, str], plugins: Mapping[str, type[RecordPlugin]] | None = None
) -> Converter:
    """Create the converter that ``setting`` names, with the settings below its prefix. ``plugins`` are those of other
    packages. Raise ConfigException."""
    plugin = (plugins or {}).get(name)
    if plugin is not None and issubclass(plugin, PluginConverterClass):
        return _of_plugin(setting, plugin, settings)
    found = CONVERTERS.get(name)
    is_header = setting == "header.converter"
    known = _HEADERS if is_header else (*_DATA, *_WITH_REGISTRY)
    if found is None or found not in known:
        names = ", ".join(sorted(converter.__name__ for converter in known))
        raise ConfigException(setting, name, f"no such converter; available: {names}")
    try:
        return found.of({**settings, CONVERTER_TYPE: setting.removesuffix(".converter")})
    except ConfigException as error:
        raise ConfigException(f"{setting}.{error.name}", error.value, error.reason) from None


def _of_plugin(setting: str, plugin: type[PluginConverterClass], settings: Mapping[str, str]) -> Converter:
    if setting == "header.converter":
        raise ConfigException(setting, plugin.__name__, "a converter of another package converts keys and values only")
    try:
        return PluginConverter(plugin(plugin.config_def.parse(settings)))
    except ConfigException as error:
        raise ConfigException(f"{setting}.{error.name}", error.value, error.reason) from None
