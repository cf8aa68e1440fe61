"""The validation of connectors that goes with a worker's settings."""

from __future__ import annotations

from barnabas.common.settings.problem import SettingProblem
from barnabas.connect.decide.registry.plugin import PluginType
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.task_runtime import StartChecks
from barnabas.connect.decide.validation.client_overrides import ClientOverrides
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.errors import BadRequest
from barnabas.connect.settings.worker_config import InvalidWorkerConfig, WorkerConfig

__all__ = ["validation_of"]


def validation_of(
    config: WorkerConfig, registry: PluginRegistry, start_checks: StartChecks | None = None
) -> ConnectorValidation:
    """Raises InvalidWorkerConfig for converters that are not installed, or not in the requested version."""
    problems: list[SettingProblem] = []
    for name, type_ in (
        ("key.converter", PluginType.CONVERTER),
        ("value.converter", PluginType.CONVERTER),
        ("header.converter", PluginType.HEADER_CONVERTER),
    ):
        given, version = str(config.value(name)), config.value(f"{name}.plugin.version")
        try:
            registry.find(given, type_, version=None if version is None else str(version))
        except BadRequest as error:
            problems.append(SettingProblem(name, f"Invalid value {given} for configuration {name}: {error}"))
    if problems:
        raise InvalidWorkerConfig(problems)
    defaults = ValidationDefaults(
        group_id=config.group_id,
        converters={
            "key": config.key_converter,
            "value": config.value_converter,
            "header": config.header_converter,
        },
        overrides=ClientOverrides(
            config.connector_client_config_override_policy, tuple(config.connector_client_config_override_allowlist)
        ),
        is_topic_creation_enabled=config.topic_creation_enable,
        is_exactly_once_enabled=config.exactly_once_source_support == "enabled",
    )
    return ConnectorValidation(registry, defaults, config.providers, start_checks)
