"""Checks ``authorizer.class.name`` and ``super.users``, and loads the authorizer class."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from barnabas.common.config_value import ConfigException
from barnabas.security.authorizer.authorizer import Authorizer
from barnabas.security.authorizer.standard_authorizer import StandardAuthorizer, parse_super_users

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KAFKA_STANDARD_AUTHORIZER", "authorizer_class", "authorizer_problems"]

KAFKA_STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SETTING = "authorizer.class.name"
_ADVICE = f"set it to {KAFKA_STANDARD_AUTHORIZER}, or to module:Class of an authorizer of your own"


def authorizer_class(name: str) -> type[Authorizer]:
    """Return the class; Kafka's name means ours. Raise ConfigException for an unknown authorizer."""
    if name == KAFKA_STANDARD_AUTHORIZER:
        return StandardAuthorizer
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise ConfigException(_SETTING, name, "is a Java class, which can't be loaded here")
    try:
        found = getattr(import_module(module_name), attribute)
    except Exception as error:  # Importing a user's module may raise anything.
        raise ConfigException(_SETTING, name, f"can't be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Authorizer)):
        raise ConfigException(_SETTING, name, f"is not a subclass of {Authorizer.__module__}.{Authorizer.__name__}")
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        raise ConfigException(_SETTING, name, f"lacks {', '.join(missing)}")
    return found


def authorizer_problems(class_name: str, super_users: str) -> Iterator[tuple[str, str, str]]:
    """Yield the setting, the error and advice for each invalid value."""
    if class_name:
        try:
            authorizer_class(class_name)
        except ConfigException as error:
            yield _SETTING, error.reason or "can't be used", _ADVICE
    try:
        parse_super_users(super_users)
    except ConfigException as error:
        yield "super.users", error.reason or "can't be read", "write Type:name, as in User:admin;User:CN=broker-1"
