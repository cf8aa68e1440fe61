"""The herder's part of a rebalance: stopping work before it, starting work after it, and requesting another.

``group.membership`` speaks the protocol of the coordinator and sends notices; this module carries them out.

* Only a new or deleted connector, or a commit of task configs, leads to a rebalance. If the assignment is based on an
  older state of the config topic, another rebalance follows.
* The tasks of newly committed configs stop before the worker requests a rebalance.
* Until this worker has started its assignment, no leader is known: requests wait.
* When the worker is out of the group all work stops immediately, because another worker may get it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

from barnabas.connect.decide.group.membership_events import Assigned, ReadConfigs, StopWork
from barnabas.connect.decide.herder.assigned_work import AssignedWork
from barnabas.connect.decide.herder.herder_context import HerderContext
from barnabas.connect.decide.herder.local_work import LocalWork, Unit
from barnabas.connect.errors import ConnectError

__all__ = ["RebalanceListener"]

log = logging.getLogger(__name__)


class RebalanceListener:
    """``on_assigned`` is called after this worker has applied a new assignment."""

    def __init__(
        self, context: HerderContext, work: LocalWork, assigned_work: AssignedWork, on_assigned: Callable[[], None]
    ) -> None:
        self._context = context
        self._work = work
        self._assigned_work = assigned_work
        self._on_assigned = on_assigned
        self._is_joining = True
        self._needed_at = -1
        """The offset up to which the group must read the config topic, because it has work to distribute."""
        self._has_asked = False
        self._stops_under_way = 0

    def needed(self, config_offset: int, reason: str) -> None:
        """Note that the config topic has work to distribute before this offset."""
        self._needed_at = max(self._needed_at, config_offset)
        self._update()
        if not self._is_joining:
            self._ask(reason)

    def joining(self) -> None:
        self._is_joining = True
        self._update()

    def assigned(
        self,
        notice: Assigned,
        owners: Mapping[Unit, str],
        member_urls: Iterable[str],
        *,
        are_all_members_ours: bool = False,
    ) -> None:
        """Apply an assignment. Only the leader has ``owners``, by URL, and the data about members."""
        group, assignment = self._context.group, notice.assignment
        group.member_id = notice.member_id
        group.leader_id, group.leader_url = assignment.leader, assignment.leader_url
        group.generation = notice.generation
        group.protocol_version = notice.protocol
        group.config_offset = assignment.config_offset
        group.owners = dict(owners)
        group.member_urls = frozenset(member_urls)
        group.member_worker_ids = frozenset(urlsplit(url).netloc for url in group.member_urls)
        group.are_all_members_ours = are_all_members_ours
        self._is_joining = False
        self._has_asked = False
        units: list[Unit] = [*assignment.connectors, *assignment.tasks]
        self._assigned_work.assign(units, notice.generation, is_outdated=self._is_outdated)
        self._update()
        if self._is_outdated:
            self._ask("the config topic has changed since the last rebalance")
        self._on_assigned()

    def stop_work(self, notice: StopWork) -> None:
        self._stops_under_way += 1
        self._update()
        self._assigned_work.revoke((*notice.connectors, *notice.tasks))
        self._context.outside.start(self._report_stopped(notice))

    def lost(self) -> None:
        """Clear the assignment. The StopWork that follows names all work."""
        group = self._context.group
        group.member_id, group.leader_id, group.leader_url, group.generation = "", None, None, -1
        group.owners, group.member_worker_ids, group.are_all_members_ours = {}, frozenset(), False
        group.member_urls = frozenset()
        self._is_joining = True
        self._update()
        self._assigned_work.revoke(self._assigned_work.assigned)

    def read_configs(self, notice: ReadConfigs) -> None:
        self._context.outside.start(self._read_configs(notice))

    @property
    def _is_outdated(self) -> bool:
        return self._needed_at > self._context.group.config_offset

    def _update(self) -> None:
        group = self._context.group
        group.is_settled = bool(group.member_id and not self._is_joining and not self._stops_under_way)
        group.is_up_to_date = group.is_settled and not self._is_outdated

    def _ask(self, reason: str) -> None:
        if not self._has_asked:
            self._has_asked = True
            self._context.outside.start(self._rejoin(reason))

    async def _rejoin(self, reason: str) -> None:
        with self._context.stages.during("stopping the tasks that were reconfigured"):
            await self._context.outside.until(self._work.is_quiet)
        if not self._is_joining:  # Otherwise another rebalance has begun, and its assignment is examined.
            await self._context.outside.rejoin_group(reason)

    async def _report_stopped(self, notice: StopWork) -> None:
        units: list[Unit] = [*notice.connectors, *notice.tasks]
        with self._context.stages.during(f"stopping {len(units)} connectors and tasks that it gives up"):
            await self._context.outside.until(lambda: not any(self._work.is_running(unit) for unit in units))
        self._stops_under_way -= 1
        await self._context.outside.report_work_stopped(notice.stop_id)
        self._update()

    async def _read_configs(self, notice: ReadConfigs) -> None:
        try:
            await self._context.read_configs_to_end(notice.timeout_ms)
        except (ConnectError, OSError) as error:
            log.warning("the config topic could not be read to its end: %s", error)
            await self._context.outside.report_configs_read(is_read=False)
        else:
            await self._context.outside.report_configs_read(is_read=True)
