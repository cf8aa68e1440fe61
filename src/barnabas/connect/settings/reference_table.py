"""Markdown tables of settings, for the reference pages of workers and connectors."""

from __future__ import annotations

from barnabas.common.settings.setting import Setting
from barnabas.connect.settings import plugin_config_def as plugin_keys

__all__ = ["cell", "setting_row", "table_header"]

_COLUMNS = ("Setting", "Type", "Default", "Allowed", "Meaning")


def table_header(last: str | None = None) -> list[str]:
    """Return the two lines above the rows. ``last`` is the title of an additional column."""
    columns = (*_COLUMNS, last) if last else _COLUMNS
    return [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]


def setting_row(key: Setting | plugin_keys.ConfigKey, doc: str | None) -> str:
    default = "**required**" if key.required else f"`{key.default_text}`" if key.default_text else ""
    allowed = cell(str(key.validator)) if key.validator is not None and str(key.validator) else ""
    return f"| `{key.name}` | {key.type.name.lower()} | {cell(default)} | {allowed} | {cell(doc or '')} |"


def cell(text: str) -> str:
    """Return ``text`` on one line, with its pipes escaped."""
    return text.replace("|", "\\|").replace("\n", " ")
