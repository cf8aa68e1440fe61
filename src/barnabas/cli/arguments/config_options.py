"""Parse settings as Kafka's tools do: ``--config key=value``, ``--add-config k1=v1,k2=[a,b]``."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.cli.arguments.cluster_options import UsageError

__all__ = ["parse_delete_config", "parse_settings", "read_settings_file", "split_list"]


def parse_settings(config: Iterable[str] | None, add_config: Iterable[str] | None = ()) -> dict[str, str]:
    """Parse settings. An item of ``config`` is one setting, whose value may contain commas; of ``add_config``, a list.

    Raise UsageError.
    """
    pairs = [("--config", text) for text in config or ()]
    pairs += [("--add-config", part) for text in add_config or () for part in split_list(text)]
    found: dict[str, str] = {}
    for option, pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or not name:
            hint = "; write a list in brackets: cleanup.policy=[compact,delete]" if option == "--add-config" else ""
            raise UsageError(f"{option} {pair}: write a setting as key=value{hint}")
        if name in found:
            raise UsageError(f"{option} {pair}: {name} is given twice")
        value = value.strip()
        if option == "--add-config" and value.startswith("[") and value.endswith("]"):
            value = value[1:-1]
        found[name] = value
    return found


def parse_delete_config(texts: Iterable[str] | None) -> list[str]:
    """Parse names: each text contains one or several, separated by commas."""
    return [name for text in texts or () for name in map(str.strip, text.split(",")) if name]


def read_settings_file(path: str) -> dict[str, str]:
    """Read the settings of a properties file. Raise UsageError."""
    from barnabas.common.properties_file import MalformedProperties, read_properties_file

    try:
        return dict(read_properties_file(path).values)
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from error
    except MalformedProperties as error:
        raise UsageError(f"{path}: {error}") from error


def split_list(text: str) -> list[str]:
    """Split at commas, except those inside brackets."""
    parts: list[str] = [""]
    depth = 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]
