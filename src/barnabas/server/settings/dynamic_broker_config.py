"""Settings of this broker that change while it runs. They are checked before they are stored, and then applied.

Secrets may refer to the config providers that the node's file names (``${file:/run/secrets:password}``). The reference
is stored, and each node resolves it when it applies the setting. Only secrets may do so, because their values are never
shown: a user who may alter settings must not read the node's files through errors.

The effective settings are computed as at the start of a node: the settings of all brokers override the file, and those
of this broker override both. So a setting that would prevent a node from starting is refused when it is set. An invalid
setting may be stored nevertheless, because another controller accepted it. It is omitted with a line in the log, and
the value before it stays in force.

Opening key stores takes long, so it runs on a thread. Only the last step of a change runs on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from barnabas.common.broker_config import DYNAMIC_QUOTA_CONFIG_DEF, broker_config_key
from barnabas.common.config_def import PER_BROKER, ConfigException
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.settings.problem import InvalidSettings, SettingProblem
from barnabas.common.settings.setting import SupportState
from barnabas.metadata.image.configs import DEFAULT_BROKER, ConfigResource
from barnabas.security.config_cipher import UndecryptableConfig
from barnabas.server.settings.node_config import NodeConfig, node_config_of
from barnabas.server.settings.problem import Given
from barnabas.server.settings.support import DynamicSupport, dynamic_support_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from barnabas.metadata.image.configs import ConfigsImage
    from barnabas.metadata.image.metadata_image import MetadataDelta, MetadataImage
    from barnabas.metadata.publisher import LoaderManifest
    from barnabas.security.config_cipher import ConfigCipher

__all__ = ["DynamicSettings", "Effect", "SettingsChange"]

log = logging.getLogger(__name__)

_POOLS = frozenset(
    (
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "num.recovery.threads.per.data.dir",
        "background.threads",
        "remote.log.reader.threads",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
    )
)
_RETENTION = frozenset(
    (
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.retention.bytes",
        "log.retention.hours",
        "log.retention.minutes",
        "log.retention.ms",
    )
)
_FOREVER, _AS_RETENTION = -1, -2
_OF_FILE, _OF_ALL, _KEPT = "the node's file", "set for all brokers", "in force before"


class SettingsChange:
    """A change of the node's settings. ``rereads``: files are read again even if their paths did not change."""

    __slots__ = ("new", "old", "rereads")

    def __init__(self, old: NodeConfig, new: NodeConfig, *, rereads: bool) -> None:
        self.old = old
        self.new = new
        self.rereads = rereads

    def touches(self, is_relevant: Callable[[str], bool]) -> bool:
        """Return whether the text of a relevant setting changes."""
        old, new = self.old.static, self.new.static
        return any(old.get(name) != new.get(name) for name in old.keys() | new.keys() if is_relevant(name))


class Effect(Protocol):
    """A part of the node that follows settings while the node runs."""

    def prepare(self, change: SettingsChange) -> Callable[[], None] | None:
        """Return a function that applies the change on the event loop; None for an irrelevant change.

        Called on a thread, both to check and to apply a change. It must not change anything itself. Raise ValueError
        with the reason if the change can't work.
        """
        ...


class DynamicSettings:
    """Implements the broker's port of the same name, and ``MetadataPublisher``."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        configs: Callable[[], ConfigsImage],
        cipher: ConfigCipher | None,
        effects: Iterable[Effect] = (),
    ) -> None:
        self._static = config
        self._configs = configs
        self._cipher = cipher
        self._effects = list(effects)
        self._own = ConfigResource.broker(config.node_id)
        self._waiting: tuple[ConfigsImage, bool] | None = None
        self._applying: asyncio.Task[None] | None = None
        self.in_force = config
        """The settings that are in force now."""

    def add_effect(self, effect: Effect) -> None:
        self._effects.append(effect)

    # --- checks before a change is stored

    def current(self, resource: ConfigResource) -> Mapping[str, str]:
        """Return the resource's settings in clear text. Raise ApiException if one can't be decrypted."""
        stored = self._configs().of(resource)
        if self._cipher is None:
            return stored
        try:
            return self._cipher.reveal(resource, stored)
        except UndecryptableConfig as problem:
            raise ApiException(ErrorCode.INVALID_CONFIG, str(problem)) from problem

    async def check(
        self, resource: ConfigResource, changed: Mapping[str, str | None], after: Mapping[str, str]
    ) -> None:
        """Raise ApiException with all errors of a change that results in ``after``."""
        new = {name: value for name, value in changed.items() if value is not None}
        problems = list(_name_problems(new, for_all=resource == DEFAULT_BROKER)) or list(self._pool_problems(new))
        problems += self._reference_problems(new)
        if not problems:
            problems = await self._combined_problems(resource, after, are_retained=not _RETENTION.isdisjoint(changed))
        if problems:
            raise ApiException(ErrorCode.INVALID_REQUEST, "; ".join(problems))

    def _reference_problems(self, new: Mapping[str, str]) -> Iterable[str]:
        for name, text in new.items():
            try:
                self._resolved(name, text)
            except ValueError as error:
                yield f"{name}: {error}"

    def _resolved(self, name: str, text: str) -> str:
        """Resolve references in a secret setting. Raise ValueError if one can't be resolved."""
        providers = self._static.config_providers
        if providers is None or "${" not in text:
            return text
        key = broker_config_key(name)
        return providers.resolve(text) if key is not None and key.sensitive else text

    def _pool_problems(self, new: Mapping[str, str]) -> Iterable[str]:
        """Check Kafka's step limits. They have no effect here, but a Kafka that joins would refuse the values."""
        for name in _POOLS & new.keys():
            try:
                wanted, now = int(new[name]), self.in_force.value(name)
            except ValueError:
                continue
            if isinstance(now, int) and now // 2 > wanted:
                yield f"{name}={wanted} is less than half of the current value {now}"
            elif isinstance(now, int) and wanted > now * 2:
                yield f"{name}={wanted} is more than double the current value {now}"

    async def _combined_problems(
        self, resource: ConfigResource, after: Mapping[str, str], *, are_retained: bool
    ) -> list[str]:
        configs = self._configs()
        cluster, own = configs.of(DEFAULT_BROKER), configs.of(self._own)
        given = self._usable(
            after if resource == DEFAULT_BROKER else cluster, own if resource == DEFAULT_BROKER else after
        )
        return await asyncio.get_running_loop().run_in_executor(None, self._problems_of, given, are_retained)

    def _problems_of(self, given: Mapping[str, Given], are_retained: bool) -> list[str]:
        try:
            change = SettingsChange(self.in_force, node_config_of(given, source=self._static.source), rereads=False)
            for effect in self._effects:
                effect.prepare(change)
            if are_retained:
                return list(_retention_problems(change.new))
        except InvalidSettings as error:
            return [str(problem) for problem in error.problems]
        except ValueError as error:
            return [str(error)]
        return []

    # --- applying stored changes

    def publish(self, delta: MetadataDelta, new_image: MetadataImage, manifest: LoaderManifest) -> None:
        if delta.configs is None:
            return
        changed = delta.configs.changes.keys() & {self._own, DEFAULT_BROKER}
        if not changed:
            return
        rereads = self._own in changed or (self._waiting is not None and self._waiting[1])
        self._waiting = (new_image.configs, rereads)
        if self._applying is None or self._applying.done():
            self._applying = asyncio.get_running_loop().create_task(self._apply_waiting())

    async def _apply_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting is not None:
            (configs, rereads), self._waiting = self._waiting, None
            try:
                given = self._usable(configs.of(DEFAULT_BROKER), configs.of(self._own), logs_problems=True)
                new, steps = await loop.run_in_executor(None, self._prepared, given, rereads)
                for note in sorted(set(new.warnings) - set(self.in_force.warnings)):
                    log.warning("%s", note)
                self.in_force = new
                for step in steps:
                    step()
            except Exception:
                log.exception("cannot apply changed settings; the previous ones stay in force")

    async def applied(self) -> None:
        """Wait until the settings published so far are in force."""
        if self._applying is not None:
            await self._applying

    def _prepared(self, given: dict[str, Given], rereads: bool) -> tuple[NodeConfig, Sequence[Callable[[], None]]]:
        new = self._config_of(given)
        change = SettingsChange(self.in_force, new, rereads=rereads)
        steps = []
        for effect in self._effects:
            try:
                step = effect.prepare(change)
            except ValueError as error:
                log.error("cannot apply a changed setting; the previous value stays in force: %s", error)
                continue
            if step is not None:
                steps.append(step)
        return new, steps

    def _config_of(self, given: dict[str, Given]) -> NodeConfig:
        """Return the node's settings. Log and omit those that are inconsistent with others."""
        while True:
            try:
                return node_config_of(given, source=self._static.source)
            except InvalidSettings as error:
                bad = [problem for problem in error.problems if self._is_dynamic(problem, given)]
                if not bad:
                    raise
                for problem in bad:
                    log.error("a stored setting is ignored: %s", problem)
                    self._keep(problem.name, given)

    def _keep(self, name: str, given: dict[str, Given]) -> None:
        """Keep the current value instead of an unusable one."""
        given.pop(name, None)
        if name in self.in_force.static:
            given[name] = Given(self.in_force.static[name], _KEPT)

    def _is_dynamic(self, problem: SettingProblem, given: Mapping[str, Given]) -> bool:
        value = given.get(problem.name)
        return value is not None and value.where not in (_OF_FILE, _KEPT)

    def _usable(
        self, cluster: Mapping[str, str], own: Mapping[str, str], *, logs_problems: bool = False
    ) -> dict[str, Given]:
        """Return the file's settings with the valid dynamic ones on top. ``logs_problems``: log the invalid ones."""
        given = {name: Given(text, _OF_FILE) for name, text in self._static.static.items()}
        for resource, configs in ((DEFAULT_BROKER, cluster), (self._own, own)):
            where = f"set for broker {resource.name}" if resource.name else _OF_ALL
            for name, stored in configs.items():
                if broker_config_key(name) is None or name in DYNAMIC_QUOTA_CONFIG_DEF:
                    continue  # This module does not use it.
                try:
                    text = stored if self._cipher is None else self._cipher.decrypt(resource, name, stored)
                except UndecryptableConfig:
                    continue  # Already logged when it was loaded.
                problem = next(iter(_name_problems({name: text}, for_all=not resource.name)), None)
                if problem is None:
                    try:
                        text = self._resolved(name, text)
                    except ValueError as error:
                        problem = f"{name}: {error}"
                if problem is None:
                    given[name] = Given(text, where)
                    continue
                self._keep(name, given)
                if logs_problems:
                    log.error("a stored setting is ignored: %s", problem)
        return given


def _retention_problems(config: NodeConfig) -> Iterable[str]:
    """Check Kafka's limits. They have no effect here, but a Kafka that joins would refuse the values."""
    defaults = config.topic_defaults
    for name, whole, local in (
        ("ms", defaults.retention_ms, defaults.local_retention_ms),
        ("bytes", defaults.retention_bytes, defaults.local_retention_bytes),
    ):
        if whole == _FOREVER or local == _AS_RETENTION:
            continue
        if local == _FOREVER:
            yield f"log.local.retention.{name} must not be -1: log.retention.{name} is {whole}"
        elif local > whole:
            yield f"log.local.retention.{name}={local} must not be more than log.retention.{name}, which is {whole}"


def _name_problems(new: Mapping[str, str], *, for_all: bool) -> Iterable[str]:
    """Return the errors of the settings taken singly, with one text for all settings with the same problem."""
    fixed, per_listener, per_broker, refused = [], [], [], []
    for name, text in new.items():
        key = broker_config_key(name)
        if key is None:
            continue
        support = dynamic_support_of(name)
        if support is None:
            fixed.append(name)
        elif support.is_for_listeners_only:
            per_listener.append(name)
        elif for_all and key.update_mode == PER_BROKER:
            per_broker.append(name)
        else:
            refused += _value_problems(name, text, support)
    if fixed:
        yield f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]; they need a restart of the node"
    if per_listener:
        yield (
            "These security configs can be dynamically updated only per-listener using the listener prefix "
            f"(listener.name.<listener>.): [{', '.join(sorted(per_listener))}]"
        )
    if per_broker:
        yield (
            "Cannot update these configs at default cluster level, broker id must be specified: "
            f"[{', '.join(sorted(per_broker))}]"
        )
    yield from refused


def _value_problems(name: str, text: str, support: DynamicSupport) -> list[str]:
    key = broker_config_key(name)
    if key is None:
        return []
    try:
        value = key.parse(text)
    except ConfigException as error:
        allowed = f", allowed: {key.validator}" if key.validator is not None else ""
        return [f"{error} (its type is {key.type.name}{allowed})"]
    if support.state is SupportState.REFUSED and value not in (key.default, *map(key.parse, support.also_allowed)):
        return [f"{name} can't be set here: {support.reason}"]
    return []
