"""A setting is one row: type, default, validator, importance, where it may change, how far it is supported, its text.

A table is a class; a row is an attribute of it, whose name has underscores for the dots of the setting's name::

    class ReplicaSettings(SettingTable):
        num_replica_fetchers: int = setting(INT, "1", "1..", HIGH, CLUSTER_WIDE,
            "How many fetchers copy from each leader's broker.")
        num_io_threads = no_effect("One event loop does this work.", INT, "8", "1..", HIGH, CLUSTER_WIDE,
            "How many threads handle requests.")

The first word of a row determines the use of the value:

- ``setting``: it is the attribute of that name, with the annotated type.
- ``derived``: such an attribute follows from several settings.
- ``by_name``: it has an effect, and is read by its name only.
- ``no_effect``: any allowed value is accepted, because the thing that it would tune does not exist here.
- ``refused``: only the default is accepted, because any other value would silently have no effect.

Typed settings objects are instances of tables. Validation, describe calls, the reference pages and the nearest names
read the rows through a ``ConfigDef``. A node has hundreds of rows and reads some dozens, so a row parses its
default and creates its validator on first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from barnabas.common.config_validators import Validator, ValidList, validator_of
from barnabas.common.config_value import ConfigType, ConfigValue, Importance, parse_value, value_to_string

__all__ = [
    "BOOLEAN",
    "CLASS",
    "CLUSTER_WIDE",
    "DOUBLE",
    "HIGH",
    "INT",
    "LIST",
    "LONG",
    "LOW",
    "MEDIUM",
    "NO_DEFAULT",
    "PASSWORD",
    "PER_BROKER",
    "READ_ONLY",
    "SHORT",
    "STRING",
    "WORKS",
    "Setting",
    "SettingRow",
    "SettingTable",
    "Support",
    "SupportState",
    "attributes_of",
    "by_name",
    "derived",
    "no_effect",
    "no_effect_because",
    "refused",
    "rows_of",
    "setting",
]

BOOLEAN = ConfigType.BOOLEAN
STRING = ConfigType.STRING
INT = ConfigType.INT
SHORT = ConfigType.SHORT
LONG = ConfigType.LONG
DOUBLE = ConfigType.DOUBLE
LIST = ConfigType.LIST
CLASS = ConfigType.CLASS
PASSWORD = ConfigType.PASSWORD

HIGH = Importance.HIGH
MEDIUM = Importance.MEDIUM
LOW = Importance.LOW

# Where a broker setting can be changed while it runs: nowhere, for one broker, or also for all of them.
READ_ONLY = "read-only"
PER_BROKER = "per-broker"
CLUSTER_WIDE = "cluster-wide"

# The default text of a required setting.
NO_DEFAULT = "<required>"


class SupportState(Enum):
    WORKS = "works"
    NO_EFFECT = "accepted, no effect"
    REFUSED = "refused unless default"


class Support(NamedTuple):
    """To what extent a setting is supported, and why not fully."""

    state: SupportState
    reason: str = ""
    also_allowed: tuple[str, ...] = ()
    """Texts that a refused setting accepts besides its default."""


WORKS = Support(SupportState.WORKS)


class SettingRow:
    """The path from a text to a checked value: shared by rows of tables and settings of plugins (``ConfigKey``)."""

    __slots__ = ()

    if TYPE_CHECKING:
        name: str
        type: ConfigType

        @property
        def required(self) -> bool: ...

        @property
        def default(self) -> ConfigValue: ...

        @property
        def validator(self) -> Validator | None: ...

    @property
    def sensitive(self) -> bool:
        return self.type is PASSWORD

    def parse(self, value: object) -> ConfigValue:
        """Return the checked value of a text. Raises ConfigException."""
        parsed = self.parse_type(value)
        self.check(parsed)
        return parsed

    def parse_type(self, value: object) -> ConfigValue:
        """Return the typed value without checking it. Raises ConfigException.

        Repeated items of a checked list are dropped instead of refused, as Kafka does until 5.0.
        """
        parsed = parse_value(self.type, value, self.name)
        if isinstance(self.validator, ValidList) and isinstance(parsed, list):
            return list(dict.fromkeys(parsed))
        return parsed

    def check(self, value: ConfigValue) -> None:
        """Raise ConfigException for a value that is not allowed."""
        if self.validator is not None:
            self.validator.ensure_valid(self.name, value)

    def text_of(self, value: ConfigValue) -> str | None:
        """Return the text to show; that of a password is ``[hidden]``."""
        return value_to_string(self.type, value)


class Setting(SettingRow):
    """One row. ``default`` is the typed value; a setting without default has ``required``."""

    __slots__ = (
        "_default",
        "_validator",
        "default_text",
        "doc",
        "expression",
        "fallbacks",
        "for_listeners_only",
        "importance",
        "internal",
        "is_attribute",
        "name",
        "needs_restart",
        "support",
        "type",
        "update_mode",
    )

    def __init__(
        self,
        name: str,
        type_: ConfigType,
        default: str | None,
        expression: str = "",
        importance: Importance = MEDIUM,
        update_mode: str = READ_ONLY,
        doc: str = "",
        *,
        support: Support = WORKS,
        is_attribute: bool = False,
        internal: bool = False,
        needs_restart: bool = False,
        for_listeners_only: bool = False,
        fallbacks: tuple[tuple[str, int], ...] = (),
    ) -> None:
        self.name = name
        """Empty in a table until the class is created: it follows from the attribute's name."""
        self.type = type_
        self.default_text = default
        self.expression = expression
        """The validator, as an expression of ``config_validators``."""
        self.importance = importance
        self.update_mode = update_mode
        self.doc = doc
        """Empty if another setting's text explains it: that of a topic or group whose default it is."""
        self.support = support
        self.is_attribute = is_attribute
        self.internal = internal
        """Kafka has such a setting and omits it from describe responses; barnabas's own are internal too."""
        self.needs_restart = needs_restart
        """Kafka applies a change of this setting while it runs; this node applies it after a restart."""
        self.for_listeners_only = for_listeners_only
        """A running node applies a change only if it is set for a listener."""
        self.fallbacks = fallbacks
        """For a topic setting: the node settings it falls back to, the strongest first, each with the unit factor."""

    @property
    def required(self) -> bool:
        return self.default_text == NO_DEFAULT

    @property
    def default(self) -> ConfigValue:
        try:
            return self._default
        except AttributeError:
            text = self.default_text
            self._default: ConfigValue = None if text == NO_DEFAULT else parse_value(self.type, text, self.name)
            return self._default

    @property
    def validator(self) -> Validator | None:
        try:
            return self._validator
        except AttributeError:
            self._validator: Validator | None = validator_of(self.expression)
            return self._validator

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.name = attribute.replace("_", ".")
        if attribute.startswith("barnabas_"):
            self.internal = True

    @overload
    def __get__(self, instance: None, owner: type) -> Setting: ...

    @overload
    def __get__(self, instance: SettingTable, owner: type) -> object: ...

    def __get__(self, instance: SettingTable | None, owner: type) -> object:
        """Return the row for a class, the value for an instance: resolved on first access and kept in the instance."""
        if instance is None:
            return self
        attribute = self.name.replace(".", "_")
        if not self.is_attribute:
            raise AttributeError(f"{self.name} is read by its name: {owner.__name__} has no attribute {attribute}")
        value = instance.__dict__[attribute] = instance.value(self.name)
        return value

    def __repr__(self) -> str:
        return f"Setting({self.name}: {self.type.name})"


class SettingTable:
    """The base of tables, and of the typed settings objects created from them."""

    __slots__ = ()

    def value(self, name: str) -> ConfigValue:
        """Return the typed value of any setting of the table: the configured one, else its default."""
        raise NotImplementedError


def rows_of(table: type[SettingTable]) -> Iterator[Setting]:
    """Yield the rows of a table and of its base tables, in the order of their definition."""
    for part in reversed(table.__mro__):
        for row in vars(part).values():
            if type(row) is Setting:
                yield row


def attributes_of(table: type[SettingTable]) -> dict[str, str]:
    """Return the annotated type of each attribute that is a setting's value, by the setting's name."""
    annotations: dict[str, str] = {}
    for part in reversed(table.__mro__):
        annotations.update(getattr(part, "__annotations__", {}))
    return {row.name: annotations[row.name.replace(".", "_")] for row in rows_of(table) if row.is_attribute}


def setting(
    type_: ConfigType,
    default: str | None,
    validator: str,
    importance: Importance,
    update_mode: str,
    doc: str = "",
    *,
    support: Support = WORKS,
    internal: bool = False,
    needs_restart: bool = False,
    fallbacks: tuple[tuple[str, int], ...] = (),
) -> Any:
    """A row that becomes the attribute of its name, with the annotated type."""
    return Setting(
        "", type_, default, validator, importance, update_mode, doc,
        support=support, is_attribute=True, internal=internal, needs_restart=needs_restart, fallbacks=fallbacks,
    )  # fmt: skip


def derived(
    type_: ConfigType, default: str | None, validator: str, importance: Importance, update_mode: str, doc: str = ""
) -> Any:
    """A row with an effect whose attribute follows from several settings: the object's creator sets it."""
    return Setting("", type_, default, validator, importance, update_mode, doc)


def by_name(
    type_: ConfigType,
    default: str | None,
    validator: str,
    importance: Importance,
    update_mode: str,
    doc: str = "",
    *,
    internal: bool = False,
    needs_restart: bool = False,
    for_listeners_only: bool = False,
) -> Setting:
    """A row with an effect that is read by its name: for a listener, for a topic, or together with others."""
    return Setting(
        "", type_, default, validator, importance, update_mode, doc,
        internal=internal, needs_restart=needs_restart, for_listeners_only=for_listeners_only,
    )  # fmt: skip


def no_effect_because(reason: str) -> Support:
    """The support of a row without effect that still becomes an attribute."""
    return Support(SupportState.NO_EFFECT, reason)


def no_effect(
    reason: str,
    type_: ConfigType,
    default: str | None,
    validator: str,
    importance: Importance,
    update_mode: str,
    doc: str = "",
    *,
    internal: bool = False,
) -> Setting:
    """A row that accepts every allowed value and has no effect."""
    return Setting(
        "", type_, default, validator, importance, update_mode, doc,
        support=no_effect_because(reason), internal=internal,
    )  # fmt: skip


def refused(
    reason: str,
    type_: ConfigType,
    default: str | None,
    validator: str,
    importance: Importance,
    update_mode: str,
    doc: str = "",
    *,
    also_allowed: tuple[str, ...] = (),
    internal: bool = False,
) -> Setting:
    """A row that accepts only its default and the other allowed texts."""
    support = Support(SupportState.REFUSED, reason, also_allowed)
    return Setting("", type_, default, validator, importance, update_mode, doc, support=support, internal=internal)
