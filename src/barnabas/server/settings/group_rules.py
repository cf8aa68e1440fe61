"""Rules about the settings of groups: limits are in order, values within them, and sessions outlast heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from barnabas.common.settings.problem import SettingProblem
from barnabas.server.settings.rule import Settings, rule

__all__ = ["register_group_rules"]

_KINDS = ("consumer", "share")
_LIMITED = ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")


def _is_within_its_limits(value: str, lowest: str, highest: str, settings: Settings) -> Iterator[SettingProblem]:
    number, least, most = (int(settings.number(name)) for name in (value, lowest, highest))
    if least > most:
        name = lowest if lowest in settings else highest
        yield settings.problem(name, f"{highest}, which is {most}, must be at least {lowest}, which is {least}")
    elif number < least:
        yield settings.problem(value, f"must be at least {lowest}, which is {least}")
    elif number > most:
        yield settings.problem(value, f"must be at most {highest}, which is {most}")


def _sessions_outlast_heartbeats(interval: str, timeout: str, settings: Settings) -> Iterator[SettingProblem]:
    if settings.number(interval) >= settings.number(timeout):
        yield settings.problem(interval, f"must be below {timeout}, which is {int(settings.number(timeout))}")


def _all_members_have_sessions(sessions: str, size: str, settings: Settings) -> Iterator[SettingProblem]:
    if settings.number(sessions) < settings.number(size):
        yield settings.problem(sessions, f"must be at least {size}, which is {int(settings.number(size))}")


def register_group_rules() -> None:
    for kind in _KINDS:
        for limited in _LIMITED:
            names = (f"group.{kind}.{limited}", f"group.{kind}.min.{limited}", f"group.{kind}.max.{limited}")
            rule(*names)(partial(_is_within_its_limits, *names))
        times = (f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms")
        rule(*times)(partial(_sessions_outlast_heartbeats, *times))
    sizes = ("group.share.max.share.sessions", "group.share.max.size")
    rule(*sizes)(partial(_all_members_have_sessions, *sizes))
