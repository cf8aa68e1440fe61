"""The answers of ``barnabas access`` as people read them.

On a terminal a long table goes through a pager. Anywhere else lines are as long as they need to be: a name is never
broken, because somebody will search for it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from barnabas.access.explain import Explanation, rule_text
from barnabas.access.listing import Access, Grant, Holders, Holdings
from barnabas.access.policy import Rule
from barnabas.access.words import operation_word, pattern_text
from barnabas.common.printable import printable
from barnabas.security.authorizer.authorized_operations import supported_operations

__all__ = ["print_explanation", "print_holders", "print_holdings"]

_SHOWN_RULES_MAX = 10
_PIPED_WIDTH = 1_000_000


def print_explanation(e: Explanation) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    color, word = ("green", "ALLOWED") if e.allowed else ("red", "DENIED")
    host = "" if e.host == "*" else f" from {e.host}"
    asked = f"{operation_word(e.operation)} on {e.resource} for {e.principal}{host}"
    table.add_row(f"[bold {color}]{word}[/]", _text(asked))
    table.add_row("because", _text(e.text))
    if e.rule is not None and e.rule.id is not None:
        table.add_row("rule", str(e.rule.id))
    _add_rules(table, "overridden", e.overridden)
    _add_rules(table, "agreeing", e.agreeing)
    _add_rules(table, "other host", e.other_host)
    _add_rules(table, "other operation", e.other_operation)
    _show(table)


def print_holders(holders: Holders) -> None:
    title = (
        f"Who may {'do what' if holders.operation is None else operation_word(holders.operation)} on {holders.resource}"
    )
    table = _table(title, "principal", "host", "operations", "denied", "rules")
    for grant in holders.grants:
        table.add_row(*map(_text, _grant_cells(grant, holders)))
    if not holders.has_rules:
        rest = "everybody else may" if holders.default_allows else "nobody else may"
        caption = f"there is no rule for {holders.resource}: {rest} (allow.everyone.if.no.acl.found)"
    elif holders.grants:
        caption = "* is every principal or host that is not named above it"
    else:
        caption = f"nobody: there are rules for {holders.resource}, and none allows anything asked for"
    table.caption = _text(caption)
    _show(table)


def print_holdings(holdings: Holdings) -> None:
    table = _table(f"What {holdings.principal} may do", "resource", "host", "operations", "denied", "except", "rules")
    for access in holdings.accesses:
        table.add_row(*map(_text, _access_cells(access)))
    if holdings.is_super_user:
        caption = f"{holdings.principal} is a super user, who may do everything"
    elif holdings.default_allows:
        caption = "besides: everything on resources that no rule is about (allow.everyone.if.no.acl.found)"
    else:
        caption = "nothing else" if holdings.accesses else "nothing: no rule names it, and none is for every user"
    table.caption = _text(caption)
    _show(table)


def _grant_cells(grant: Grant, holders: Holders) -> list[str]:
    if grant.is_super_user:
        return [grant.principal, "*", "everything (super user)", "", ""]
    operations = _operations(grant.operations, holders.resource.type, is_all_asked=holders.operation is None)
    denied = _operations(grant.denied, holders.resource.type, is_all_asked=holders.operation is None)
    return [grant.principal, grant.host, operations, denied, _patterns(grant.rules)]


def _access_cells(access: Access) -> list[str]:
    kind = access.resource_type
    exceptions = ", ".join(pattern_text(kind, *pattern).partition(":")[2] for pattern in access.exceptions)
    return [
        pattern_text(kind, access.name, access.pattern_type),
        access.host,
        _operations(access.operations, kind, is_all_asked=True),
        _operations(access.denied, kind, is_all_asked=True),
        exceptions,
        _ids(access.rules),
    ]


def _operations(codes: Sequence[int], resource_type: int, *, is_all_asked: bool) -> str:
    supported = set(map(int, supported_operations(resource_type)))
    if is_all_asked and len(supported) > 1 and supported <= set(codes):
        return "All"
    return _words(codes)


def _words(codes: Iterable[int]) -> str:
    return ", ".join(map(operation_word, codes))


def _patterns(rules: Sequence[Rule]) -> str:
    """The rules of one resource differ by their pattern; an id is better where there is one."""
    return _ids(rules) or ", ".join(
        dict.fromkeys(pattern_text(r.binding.resource_type, r.binding.name, r.binding.pattern_type) for r in rules)
    )


def _ids(rules: Sequence[Rule]) -> str:
    ids = [str(rule.id) for rule in rules if rule.id is not None]
    more = f" and {len(ids) - _SHOWN_RULES_MAX} more" if len(ids) > _SHOWN_RULES_MAX else ""
    return ", ".join(ids[:_SHOWN_RULES_MAX]) + more


def _add_rules(table: Table, label: str, rules: Sequence[Rule]) -> None:
    for index, rule in enumerate(rules[:_SHOWN_RULES_MAX]):
        rule_id = "" if rule.id is None else f"  [dim]{rule.id}[/]"
        table.add_row("" if index else label, _text(rule_text(rule)) + rule_id)
    if len(rules) > _SHOWN_RULES_MAX:
        table.add_row("", f"and {len(rules) - _SHOWN_RULES_MAX} more (--output json has them all)")


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=_text(title), title_justify="left", title_style="bold", caption_justify="left", box=None, pad_edge=False
    )
    is_terminal = sys.stdout.isatty()
    for column in columns:
        table.add_column(column, no_wrap=not is_terminal, overflow="fold")
    return table


def _text(text: str) -> str:
    """Names come from outside: neither control characters nor rich's markup in them may act."""
    return escape(printable(text))


def _show(table: Table) -> None:
    if not sys.stdout.isatty():
        console = Console(width=_PIPED_WIDTH, highlight=False)
        with console.capture() as captured:
            console.print(table)
        sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
        return
    console = Console(highlight=False)
    if table.row_count > shutil.get_terminal_size().lines - 6:
        with console.pager(styles=True):
            console.print(table)
    else:
        console.print(table)
