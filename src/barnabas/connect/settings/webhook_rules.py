"""Rules for the settings of the webhook. No message has the URL or the secret."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from barnabas.common.config_value import ConfigValue, Password

__all__ = ["WEBHOOK_SECRET", "UnusableSecret", "webhook_problems", "webhook_secret"]

WEBHOOK_SECRET = "barnabas.connect.webhook.secret"
_URL = "barnabas.connect.webhook.url"
_SECRET_BYTES_MIN = 16
"""A shorter secret could be found by trying."""
_ENCODED = "whsec_"


class UnusableSecret(ValueError):
    """The text can't be the secret of a webhook. The message does not have it."""


def webhook_secret(text: str) -> bytes:
    """Return the key: of ``whsec_...`` the decoded base64, as the specification has it, of another text its bytes.

    Raise UnusableSecret.
    """
    key = text.encode()
    if text.startswith(_ENCODED):
        try:
            key = base64.b64decode(text.removeprefix(_ENCODED), validate=True)
        except ValueError:
            raise UnusableSecret(f"the text after {_ENCODED} is not base64") from None
    if len(key) < _SECRET_BYTES_MIN:
        raise UnusableSecret(f"it has {len(key)} bytes, and a secret needs at least {_SECRET_BYTES_MIN}")
    return key


def webhook_problems(values: Mapping[str, ConfigValue]) -> Iterator[tuple[str, str, str]]:
    """Yield the problems of configured values: name, error and advice."""
    url, secret = values.get(_URL), values.get(WEBHOOK_SECRET)
    if url is not None:
        what = _url_problem(str(url))
        if what:
            yield _URL, f"Invalid value for configuration {_URL}: {what}", "write https://host/path"
    if isinstance(secret, Password):
        if url is None:
            yield WEBHOOK_SECRET, f"{WEBHOOK_SECRET} has no effect without {_URL}", f"set {_URL}, or remove the secret"
        try:
            webhook_secret(secret.value)
        except UnusableSecret as error:
            yield WEBHOOK_SECRET, f"Invalid value [hidden] for configuration {WEBHOOK_SECRET}: {error}", ""


def _url_problem(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # Its text quotes the URL.
        return "its host or port can't be parsed"
    if not url.isprintable():
        return "it has a character that can't be printed"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "it must begin with https:// or http:// and a host"
    if port == 0:
        return "port 0 can't be contacted"
    if "@" in parts.netloc:
        return "it must not have a user or a password: requests are signed with " + WEBHOOK_SECRET
    return "it must not have a fragment (#...)" if parts.fragment else ""
