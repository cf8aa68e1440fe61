"""Decide changes of configs, for topics, brokers, groups and client-metrics subscriptions.

Per resource: apply the operations to the current configs, check rules of single settings, validate all
resulting configs, check that the resource exists, ask the policy. Any failure leaves this resource
unchanged and names the reason; other resources are still processed.

An unchanged value writes no record, except on brokers, where it triggers a reload of files (KAFKA-14136).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.controller import decision_steps
from barnabas.controller.config_validation import validate_configs
from barnabas.controller.controller_config import ControllerConfig
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.controller.cordoned_log_dirs import validate_cordoned_log_dirs
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.controller.policies import AlterConfigQuestion
from barnabas.controller.sensitive_configs import ConfigEncryption, config_record
from barnabas.controller.topic_config_resolver import ElectionSettings, TopicConfigResolver
from barnabas.metadata.config_operations import ConfigOperation, changes_of, check_operations
from barnabas.metadata.image.configs import DEFAULT_BROKER, ConfigResource, ConfigResourceType
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.messages.create_topics import CreatableTopicConfig, CreatableTopicConfigs
from barnabas.protocol.records.clear_elr_record import ClearElrRecord

if TYPE_CHECKING:
    from barnabas.security.request_context import RequestContext

__all__ = ["ConfigurationControlManager"]

_MIN_ISR = "min.insync.replicas"
_T = TypeVar("_T")


class ConfigurationControlManager:
    def __init__(self, state: ControllerState, config: ControllerConfig) -> None:
        self._state = state
        self._config = config
        self._resolver = TopicConfigResolver(state, config)
        self._encryption = ConfigEncryption(state, config)

    # Queries of elections and creations

    def election_settings(self, topic: str) -> ElectionSettings:
        """Return the topic's effective configs: its own overrides, else the inherited ones."""
        return self._resolver.election_settings(self._state.image.configs.of_topic(topic))

    def configs_of_new_topic(
        self, name: str, configs: Sequence[CreatableTopicConfig]
    ) -> tuple[dict[str, str | None], list[ApiMessageAndVersion]]:
        """Return the validated configs of a topic to be created, and their records. Raises the error for the
        caller."""
        if not configs:
            return {}, []
        nulls = [config.name for config in configs if config.value is None]
        if nulls:
            raise ApiException(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(nulls)}"
            )
        resource = ConfigResource.topic(name)
        wanted = {config.name: config.value for config in configs}
        records = [self._record(resource, key, value) for key, value in wanted.items()]
        self._validate(
            resource, {key: value for key, value in wanted.items() if value is not None}, wanted, is_new=True
        )
        return wanted, self._with_elr_cleared(resource, records)

    def described_topic_configs(self, creation_configs: Mapping[str, str | None]) -> list[CreatableTopicConfigs]:
        return self._resolver.described(creation_configs)

    # Altering

    def came_by_broker(self, context: RequestContext) -> bool:
        """Whether a broker has checked the request, in another process or in this one."""
        names = self._config.static_configs.get("controller.listener.names", "").split(",")
        return context.forwarding_principal is not None or context.listener_name not in map(str.strip, names)

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigOperation]],
        *,
        validate_only: bool = False,
        is_forwarded: bool = True,
    ) -> Steps[ControllerResult[dict[ConfigResource, ApiError]]]:
        """``is_forwarded``: a broker has made its own checks."""
        alter = partial(self._alter_incrementally, is_forwarded=is_forwarded)
        return _alter_in_steps(changes, alter, validate_only=validate_only)

    def legacy_alter_configs(
        self,
        replacements: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        is_forwarded: bool = True,
    ) -> Steps[ControllerResult[dict[ConfigResource, ApiError]]]:
        """Replace all configs of each resource: unnamed ones are removed, unless ``legacy_alter_merges``."""
        replace = partial(self._replace, is_forwarded=is_forwarded)
        return _alter_in_steps(replacements, replace, validate_only=validate_only)

    def _alter_incrementally(
        self, resource: ConfigResource, operations: Sequence[ConfigOperation], *, is_forwarded: bool
    ) -> list[ApiMessageAndVersion]:
        _check_type(resource)
        check_operations(operations)
        changed = changes_of(resource.type, operations, self._encryption.current(resource))
        return self._decide(resource, changed, is_forwarded=is_forwarded)

    def _replace(
        self, resource: ConfigResource, wanted: Mapping[str, str | None], *, is_forwarded: bool
    ) -> list[ApiMessageAndVersion]:
        nulls = [key for key, value in wanted.items() if value is None]
        if nulls:
            raise ApiException(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
        removed: list[str] = []
        if not self._config.legacy_alter_merges:
            removed = [key for key in self._state.image.configs.of(resource) if key not in wanted]
        return self._decide(resource, {**wanted, **dict.fromkeys(removed)}, is_forwarded=is_forwarded)

    def _decide(
        self, resource: ConfigResource, changed: Mapping[str, str | None], *, is_forwarded: bool
    ) -> list[ApiMessageAndVersion]:
        current = self._encryption.current(resource)
        always = resource.type == ConfigResourceType.BROKER
        merged = {**current, **changed}
        self._validate_min_isr(resource, changed)
        validate_cordoned_log_dirs(
            resource,
            changed,
            current,
            version=self._state.image.features.metadata_version_or_throw(),
            is_forwarded=is_forwarded,
        )
        self._validate(resource, {key: value for key, value in merged.items() if value is not None}, changed)
        records = [
            self._record(resource, key, value) for key, value in changed.items() if always or current.get(key) != value
        ]
        return self._with_elr_cleared(resource, records)

    def _with_elr_cleared(
        self, resource: ConfigResource, records: list[ApiMessageAndVersion]
    ) -> list[ApiMessageAndVersion]:
        if any(record.message.name == _MIN_ISR for record in records):
            records.extend(self._clear_elr_records(resource))
        return records

    def _validate(
        self,
        resource: ConfigResource,
        configs: Mapping[str, str],
        policy_view: Mapping[str, str | None],
        *,
        is_new: bool = False,
    ) -> None:
        current = self._encryption.current(resource)
        validate_configs(resource, configs, current, self._config, self._resolver)
        if not is_new:
            self._check_exists(resource)
        policy = self._config.alter_config_policy
        if policy is not None:
            policy.check(AlterConfigQuestion(resource.type, resource.name, policy_view, current))

    def _record(self, resource: ConfigResource, name: str, value: str | None) -> ApiMessageAndVersion:
        stored = None if value is None else self._encryption.stored(resource, name, value)
        return config_record(resource, name, stored)

    def _check_exists(self, resource: ConfigResource) -> None:
        image = self._state.image
        if resource.type == ConfigResourceType.TOPIC:
            if image.topics.get(resource.name) is None:
                raise ApiException(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic '" + resource.name + "' does not exist."
                )
        elif resource.type == ConfigResourceType.BROKER and resource.name:
            broker_id = int(resource.name)
            if broker_id not in image.cluster.brokers and broker_id not in image.cluster.controllers:
                raise ApiException(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {broker_id} found.")

    def _validate_min_isr(self, resource: ConfigResource, changed: Mapping[str, str | None]) -> None:
        """Check min.insync.replicas: with eligible leader replicas the whole cluster must agree on it."""
        if resource.type != ConfigResourceType.BROKER or _MIN_ISR not in changed:
            return
        if not self._state.image.features.is_elr_enabled:
            return
        if resource.name:
            raise ApiException(
                ErrorCode.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            )
        if changed[_MIN_ISR] is None:
            raise ApiException(
                ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
            )

    def _clear_elr_records(self, resource: ConfigResource) -> list[ApiMessageAndVersion]:
        """Clear ELR: replicas that were eligible under the old minimum may not be under the new one."""
        if not self._state.image.features.is_elr_enabled:
            return []
        if resource == DEFAULT_BROKER:
            return [ApiMessageAndVersion(ClearElrRecord(topic_name=""), 0)]
        if resource.type == ConfigResourceType.TOPIC:
            return [ApiMessageAndVersion(ClearElrRecord(topic_name=resource.name), 0)]
        return []


def _alter_in_steps(
    wanted: Mapping[ConfigResource, _T],
    alter: Callable[[ConfigResource, _T], list[ApiMessageAndVersion]],
    *,
    validate_only: bool,
) -> Steps[ControllerResult[dict[ConfigResource, ApiError]]]:
    """Alter each resource independently: an error of one does not prevent changes of the others."""
    records: list[ApiMessageAndVersion] = []
    results: dict[ConfigResource, ApiError] = {}
    pace = Pace(decision_steps.RESOURCES_A_STEP)
    for resource, change in wanted.items():
        if pace.is_reached():
            yield
        try:
            records.extend(alter(resource, change))
            results[resource] = ApiError.NONE
        except ApiException as error:
            results[resource] = ApiError.of(error)
    result = ControllerResult(records, results)
    return result.without_records() if validate_only else result


def _check_type(resource: ConfigResource) -> None:
    """Repeat a broker's checks, which a request sent directly to the controller has skipped."""
    if _known_type(resource.type) == ConfigResourceType.UNKNOWN or resource.type == ConfigResourceType.BROKER_LOGGER:
        raise ApiException(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {_type_name(resource.type)}.")


def _known_type(code: int) -> ConfigResourceType:
    return ConfigResourceType(code) if code in ConfigResourceType._value2member_map_ else ConfigResourceType.UNKNOWN


def _type_name(code: int) -> str:
    return _known_type(code).name
