"""``barnabas configs show|check``: what a setting means, and whether a server.properties can be used."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from barnabas.server.node_config import load_node_config
from barnabas.server.setting_problem import InvalidSettings
from barnabas.server.setting_reference import all_names, describe_setting

__all__ = ["main"]

app = App(name="barnabas configs", help="Look settings up and check a server.properties.", version_flags=())


def main(arguments: Sequence[str]) -> int:
    """Give 0 when everything asked about is fine, 1 when something isn't."""
    try:
        status = app(list(arguments), exit_on_error=False, print_error=True)
    except SystemExit as stop:
        return int(stop.code or 0)
    except Exception:
        return 1
    return int(status or 0)


@app.command
def show(name: str, *more: str) -> int:
    """Say what settings mean, what they may be, and whether this release supports them.

    Parameters
    ----------
    name
        A setting of a node, a topic, a group or a client-metrics subscription.
    more
        Further settings.
    """
    status = 0
    console = Console(soft_wrap=True, highlight=False)
    for each in (name, *more):
        described = describe_setting(each)
        if described is None:
            sys.stderr.write(_unknown(each))
            status = 1
            continue
        table = Table(
            show_header=False, box=None, pad_edge=False, title=escape(each), title_justify="left", title_style="bold"
        )
        for label, text in described:
            table.add_row(label, escape(text))
        console.print(table)
    return status


@app.command
def check(path: str, *, override: list[str] | None = None) -> int:
    """Check a server.properties as a node would, without starting one.

    Parameters
    ----------
    path
        The file.
    override
        A setting that wins over the file, as key=value; may be repeated.
    """
    try:
        config = load_node_config(path, override or ())
    except InvalidSettings as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"can't read {path}: {error.strerror}\n")
        return 1
    for warning in config.warnings:
        sys.stdout.write(f"{warning}\n")
    sys.stdout.write(f"{path}: {len(config.static)} settings can be used\n")
    return 0


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, all_names(), n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "docs/reference/configs.md lists what there is."
    return f"{name}: there is no such setting: {hint}\n"
