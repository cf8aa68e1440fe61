"""The reference of all settings, for ``docs/reference/configs.md`` and ``barnabas configs show``.

It is generated from the tables that a node itself uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.common.broker_config import (
    BROKER_CONFIG_DEF,
    DYNAMIC_QUOTA_CONFIG_DEF,
    broker_config_doc,
    broker_config_key,
    update_mode,
)
from barnabas.common.config_def import READ_ONLY, ConfigDef, Setting
from barnabas.common.group_config import CLIENT_METRICS_CONFIG_DEF, GROUP_CONFIG_DEF, group_synonym
from barnabas.common.settings.setting import SupportState
from barnabas.common.topic_config import TOPIC_CONFIG_DEF, TOPIC_SYNONYMS
from barnabas.server.settings.support import (
    REMOVED_SETTINGS,
    dynamic_support_of,
    support_of,
)

__all__ = ["describe_setting", "reference_page"]

_INTRODUCTION = """\
# Settings

Names, types, defaults, allowed values and file format are Kafka 4.3.1's; settings that begin with `barnabas.` are our
own. A node reads `server.properties` and `--override key=value`. It refuses wrong, unknown and unsupported settings by
name before it writes anything.

`barnabas configs show <name>` prints one of them, `barnabas configs check server.properties` checks a file.

The sections of node settings say how this release treats them:

- **[Used](#used)**: the node applies the value.
- **[Accepted, without effect](#accepted-without-effect)**: any allowed value is accepted, and a value other than the
  default is logged at the start. The mechanism that the setting tunes in Kafka does not exist here.
- **[Refused unless default](#refused-unless-default)**: another value would silently have no effect, so it is refused.

"Dynamic" names the scope in which a change applies while the node runs: for one broker, or also for all of them
(cluster-wide). "for a listener" means only as `listener.name.<listener>.<setting>`. Some settings that are dynamic in
Kafka need a restart here; the column says so.
"""


def reference_page() -> str:
    """Return the whole page in Markdown."""
    lines = [_INTRODUCTION]
    lines += _node_section("Used", SupportState.WORKS, with_reason=False)
    lines += _node_section("Accepted, without effect", SupportState.NO_EFFECT, with_reason=True)
    lines += _node_section("Refused unless default", SupportState.REFUSED, with_reason=True)
    lines += [
        "Kafka lets many of them be set for one listener, as `listener.name.<listener>.<setting>`: these forms are",
        "refused too, except where the setting itself has no effect.",
        "",
        "## Removed in Kafka 4.0",
        "",
        "| Setting | What to do |",
        "|---|---|",
    ]
    for names, advice in REMOVED_SETTINGS:
        lines.append(f"| {', '.join(f'`{name}`' for name in names.split())} | {_cell(advice)} |")
    lines += ["", *_section("Topics", TOPIC_CONFIG_DEF, TOPIC_CONFIG_DEF.doc, _topic_fallback)]
    lines += ["Some of these are stored and described, but have no effect in this release:", ""]
    topic_rows = [TOPIC_CONFIG_DEF[name] for name in TOPIC_CONFIG_DEF]
    lines += [f"- `{row.name}`: {row.support.reason}" for row in topic_rows if row.support.reason]
    lines += [""]
    lines += _section("Groups", GROUP_CONFIG_DEF, GROUP_CONFIG_DEF.doc, lambda name: f"`{group_synonym(name) or ''}`")
    lines += _section("Client metrics", CLIENT_METRICS_CONFIG_DEF, CLIENT_METRICS_CONFIG_DEF.doc, lambda name: "")
    lines += _section("Dynamic quotas of a broker", DYNAMIC_QUOTA_CONFIG_DEF, broker_config_doc, lambda name: "")
    return "\n".join(lines)


def describe_setting(name: str) -> list[tuple[str, str]] | None:
    """Return the information about one setting as labels and texts; None for an unknown name."""
    found: list[tuple[str, str]] = []
    broker = broker_config_key(name)
    if broker is not None:
        found += _described("node", broker, broker_config_doc(broker.name))
        if broker.name in BROKER_CONFIG_DEF:
            support = support_of(name)
            found.append(("support", support.state.value + (f": {support.reason}" if support.reason else "")))
        found.append(("dynamic", _dynamic(name) or broker.update_mode))
    others: tuple[tuple[str, ConfigDef, Callable[[str], str | None]], ...] = (
        ("topic", TOPIC_CONFIG_DEF, TOPIC_CONFIG_DEF.doc),
        ("group", GROUP_CONFIG_DEF, GROUP_CONFIG_DEF.doc),
        ("client metrics", CLIENT_METRICS_CONFIG_DEF, CLIENT_METRICS_CONFIG_DEF.doc),
    )
    for kind, definitions, doc_of in others:
        if name in definitions:
            found += _described(kind, definitions[name], doc_of(name))
    return found or None


def all_names() -> list[str]:
    """Return every name that ``describe_setting`` knows."""
    definitions = (BROKER_CONFIG_DEF, TOPIC_CONFIG_DEF, GROUP_CONFIG_DEF, CLIENT_METRICS_CONFIG_DEF)
    return sorted({name for definition in definitions for name in definition})


def _described(kind: str, key: Setting, doc: str | None) -> list[tuple[str, str]]:
    allowed = str(key.validator) if key.validator is not None else ""
    return [
        ("setting of a", kind),
        ("meaning", doc or ""),
        ("type", key.type.name.lower()),
        ("default", _default(key)),
        ("allowed", allowed or "any"),
    ]


def _node_section(title: str, state: SupportState, *, with_reason: bool) -> list[str]:
    names = [name for name in BROKER_CONFIG_DEF if support_of(name).state is state]
    # Our own settings come first: readers don't know them from Kafka.
    names.sort(key=lambda name: (not name.startswith("barnabas."), name))
    last = "Why" if with_reason else "Dynamic"
    lines = [
        f"## {title}",
        "",
        f"| Setting | Type | Default | Allowed | Meaning | {last} |",
        "|---|---|---|---|---|---|",
    ]
    for name in names:
        key = BROKER_CONFIG_DEF[name]
        support = support_of(name)
        also = "".join(f" Also accepted: `{text or ' '}`." for text in support.also_allowed)
        end = _cell(support.reason + also) if with_reason else _dynamic(name)
        lines.append(f"{_row(key, broker_config_doc(name))} {end} |")
    return [*lines, ""]


def _dynamic(name: str) -> str:
    """Return the scope in which a change applies while the node runs; empty if it needs a restart also in Kafka."""
    mode = update_mode(name) or READ_ONLY
    support = dynamic_support_of(name)
    if support is not None:
        return f"{mode}, for a listener" if support.is_for_listeners_only else mode
    return "" if mode == READ_ONLY else "needs a restart here"


def _section(
    title: str, definitions: ConfigDef, doc_of: Callable[[str], str | None], fallback: Callable[[str], str]
) -> list[str]:
    lines = [f"## {title}", "", "| Setting | Type | Default | Allowed | Meaning | Node setting behind it |"]
    lines.append("|---|---|---|---|---|---|")
    lines += [
        f"{_row(definitions[name], doc_of(name))} {fallback(name).replace('``', '')} |"
        for name in definitions.visible_names
    ]
    return [*lines, ""]


def _row(key: Setting, doc: str | None) -> str:
    allowed = str(key.validator) if key.validator is not None else ""
    cells = (f"`{key.name}`", key.type.name.lower(), _default(key), allowed, doc or "")
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _default(key: Setting) -> str:
    if key.required:
        return "(required)"
    text = key.default_text
    return "(none)" if text is None else text or "(empty)"


def _topic_fallback(name: str) -> str:
    return _joined(broker_name for broker_name, _ in TOPIC_SYNONYMS.get(name, ()))


def _joined(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("\n", " ")
