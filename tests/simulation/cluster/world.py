"""One run: executes a plan on simulated nodes under the checks; at the end the cluster must recover completely."""

from __future__ import annotations

import hashlib
import random
import shutil
import tempfile
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.simulation.cluster.checks import Checks, Violation
from tests.simulation.cluster.clients import carry_out_call
from tests.simulation.cluster.committed_readers import start_committed_readers, unread
from tests.simulation.cluster.consumer_members import start_consumer_members, unsettled_members
from tests.simulation.cluster.consumers import start_consumers, unsettled_consumers
from tests.simulation.cluster.data_disk import DataDisk
from tests.simulation.cluster.disk import Disk
from tests.simulation.cluster.disk_errors import install_disk_errors
from tests.simulation.cluster.faults import carry_out_fault, renew_disks, start
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.node import SimulatedNode, install_simulated_world
from tests.simulation.cluster.plan import Plan, Step
from tests.simulation.cluster.producers import Producer, Reader, start_producers, unsettled_producers
from tests.simulation.cluster.quorum_changes import unsettled_quorum
from tests.simulation.cluster.share_members import start_share_members, unsettled_share_members
from tests.simulation.cluster.standstill import stand_still
from tests.simulation.cluster.streams_members import start_streams_members, unsettled_streams_members
from tests.simulation.cluster.transactional_producers import start_transactional, unsettled_transactions
from tests.simulation.cluster.turn_sizes import (
    install_jitter,
    install_last_epoch,
    install_regex_pause,
    install_turn_sizes,
)
from tests.simulation.cluster.virtual_loop import OWNER, Owner, VirtualLoop

__all__ = ["Outcome", "World", "run_plan"]

HEAL_MS = 25_000
"""The time in which all nodes must form one cluster again after the last fault."""
HEAL_STEP_MS = 250
LOOK_AT_ALL_EVERY = 16
STEPS_MAX = 60_000
"""The maximum of events, several times that of a normal run. More indicate an endless loop."""


@dataclass
class Outcome:
    seed: int
    violation: str | None
    history: list[str]
    digest: str
    """A digest of all history lines: equal for equal runs."""
    virtual_ms: int
    events: int
    counts: dict[str, int] = field(default_factory=dict)


class World:
    def __init__(self, plan: Plan, folder: str, *, keeps_history: bool) -> None:
        self.plan = plan
        self.seed = plan.seed
        self.shape = plan.shape
        self.folder = folder
        self.loop = VirtualLoop()
        self.no_process = copy_context()
        """The context of events outside all processes."""
        self.network = Network(self.loop, random.Random(f"network {plan.seed}"))
        self.checks = Checks(self)
        self.quorum_calls: set[int] = set()
        """Changes of the voters that an operator waits for."""
        self.at_next_leader: list[Callable[[SimulatedNode], None]] = []
        """Actions to run immediately after the next election of a quorum leader."""
        self._client_problems: list[Callable[[], str | None]] = []
        """Each returns what a kind of clients still waits for."""
        self.is_healed = False
        self.faults_over_s = 0.0
        """When the last effect of a fault ends: a deposed leader is killed long after the fault begins."""
        self.steps_max = STEPS_MAX
        self.history: list[str] = []
        self.violation: Violation | None = None
        self._keeps_history = keeps_history
        self._digest = hashlib.blake2b(digest_size=8)
        ids = sorted({*self.shape.controller_ids, *self.shape.broker_ids})
        self.nodes = {
            id_: SimulatedNode(
                self, id_, is_controller=id_ in self.shape.controller_ids, is_broker=id_ in self.shape.broker_ids
            )
            for id_ in ids
        }
        self.controllers = [node for node in self.nodes.values() if node.is_controller]
        self._living = list(self.nodes.values())

    # --- history

    def say(self, line: str) -> None:
        text = f"{self.loop.now_s * 1000:9.1f} ms  {self._without_folder(line)}"
        self._digest.update(text.encode())
        if self._keeps_history:
            self.history.append(text)

    def violated(self, violation: Violation, cause: BaseException | None = None) -> Violation:
        """Keep the first violation. The run ends at the loop's next check for it."""
        if self.violation is None:
            self.violation = violation
            violation.__cause__ = cause
            self.say(f"VIOLATION: {violation}")
        return violation

    def _without_folder(self, text: str) -> str:
        """Remove the folder's name, which differs in each run."""
        return text.replace(f"{self.folder}/", "")

    # --- running

    def run(self) -> Outcome:
        undo = install_simulated_world(self._disk_of, self._data_disk_of)
        undo_errors = self._install_disk_errors()
        restore_turn_sizes = install_turn_sizes(self.seed)
        restore_epoch = install_last_epoch(self.shape.transactions)
        restore_regex_pause = install_regex_pause(self.shape.consumer_groups)
        restore_jitter = install_jitter(self.seed)
        try:
            self._run()
        except Violation as violation:
            self.violated(violation)
        except Exception as error:  # Any error that escapes the code of a node.
            self.violated(Violation(f"an error escapes: {type(error).__name__}: {error}"), error)
        finally:
            for node in self.nodes.values():
                node.crash(is_power_loss=False)
            restore_turn_sizes()
            restore_epoch()
            restore_regex_pause()
            restore_jitter()
            undo_errors()
            undo()
        return Outcome(
            self.seed,
            None if self.violation is None else self._without_folder(str(self.violation)),
            self.history,
            self._digest.hexdigest(),
            int(self.loop.now_s * 1000),
            self.loop.steps,
            dict(self.checks.counts),
        )

    def _run(self) -> None:
        self.say(f"seed {self.seed}: {self.shape_text()}")
        for node in self.nodes.values():
            self.restart(node)
        producers = self._start_clients()
        for step in self.plan.steps:
            self._until(step.at_ms)
            self._now(partial(self._carry_out, step))
        self._until(self.plan.faults_end_ms)
        self._heal(producers)
        if self.plan.standstill is not None:
            stand_still(self, self.plan.standstill)
            self._settle()

    def _start_clients(self) -> list[Producer | Reader]:
        consumers, producers = start_consumers(self), start_producers(self)
        transactional, committed_readers = start_transactional(self), start_committed_readers(self)
        members, share_members = start_consumer_members(self), start_share_members(self)
        streams_members = start_streams_members(self)
        self._client_problems = [
            lambda: unsettled_consumers(self, consumers),
            lambda: unsettled_producers(producers),
            lambda: unsettled_transactions(transactional),
            lambda: unread(committed_readers),
            lambda: unsettled_members(self, members),
            lambda: unsettled_share_members(self, share_members),
            lambda: unsettled_streams_members(self, streams_members),
        ]
        return producers

    def _carry_out(self, step: Step) -> None:
        self.say(f"-- {step.kind} {' '.join(map(str, step.args))}")
        if step.is_fault:
            carry_out_fault(self, step)
        else:
            carry_out_call(self, step)

    def shape_text(self) -> str:
        shape = self.shape
        voters = "static" if shape.is_static else "dynamic"
        return (
            f"controllers {shape.controller_ids}, brokers {shape.broker_ids}, {voters} voters, "
            f"metadata.version {shape.metadata_version}, segments of {shape.segment_bytes} bytes, "
            f"a snapshot every {shape.bytes_between_snapshots}, retention {shape.retention_bytes}"
            f"{f', spare controllers {shape.spare_ids}' if shape.spare_ids else ''}"
            f"{', automatic joining' if shape.joins_by_itself else ''}"
            f"{f', software {shape.software}' if shape.software else ''}"
        )

    def restart(self, node: SimulatedNode) -> None:
        if node.is_up:
            return
        self._now(partial(start, self, node))

    def _now(self, action: Callable[[], None]) -> None:
        self.loop.call_soon(action)
        self._until(int(self.loop.now_s * 1000), exactly=True)

    def _until(self, end_ms: int, *, exactly: bool = False) -> None:
        end_s = self.loop.now_s if exactly else max(end_ms / 1000, self.loop.now_s)
        self.loop.run_until(end_s, self._look)
        self._raise_violation()

    def _look(self, owner: Owner | None) -> None:
        """Check a process after each of its steps, and all nodes regularly for changes that only time causes."""
        checks = self.checks
        if owner is not None and owner.is_alive:
            owner.on_step()
        if not self.loop.steps % LOOK_AT_ALL_EVERY:
            for node in self._living:
                if node.owner is not None and node.lives:
                    checks.stepped(node)
        if self.violation is not None:
            raise self.violation
        if self.loop.steps > self.steps_max:
            problem = (self._unsettled() or self._client_problem()) if self.is_healed else None
            checks.fail(f"more than {self.steps_max} events have occurred{f': {problem}' if problem else ''}")

    def _raise_violation(self) -> None:
        if self.violation is not None:
            raise self.violation

    # --- the end

    def _heal(self, producers: list[Producer | Reader]) -> None:
        """End all faults. Within ``HEAL_MS`` all nodes must form one cluster, with equal images, and serve."""
        self.say("-- all faults end")
        self.is_healed = True
        self.network.heal()
        for node in self.nodes.values():
            node.flush_ms = self.shape.flush_ms
            node.disk.dies_at_next_write = node.data_disk.dies_at_next_append = None
            node.data_disk.dies_in_transaction = None
            if node.owner is not None:
                if node.disk.is_full or node.disk.fails_to_flush:
                    node.disk.is_full = node.disk.fails_to_flush = False
        self.checks.data_rot.restore()
        if self.shape.rots_data:
            self._look_for_rot(producers)
        for node in self.nodes.values():
            node.errors.heal()
            renew_disks(self, node)
        self._settle()

    def _look_for_rot(self, clients: list[Producer | Reader]) -> None:
        """Read all partitions again. A process that verified a batch before it became corrupt must verify it again.

        A leader does so while it runs, so that it gives up what it has lost. Others are restarted.
        """
        for node in self.nodes.values():
            if self.checks.data_rot.remains_unnoticed(node) and not self.checks.data_rot.forget_verified(node):
                node.crash(is_power_loss=False)
        for client in clients:
            if isinstance(client, Reader):
                client.read_again()

    def _settle(self) -> None:
        end_ms = int(self.loop.now_s * 1000) + HEAL_MS
        while True:
            self.checks.data_rot.restore()  # The last sound replica may be lost by its election after the faults.
            for node in self.nodes.values():
                self.restart(node)
            self._until(int(self.loop.now_s * 1000) + HEAL_STEP_MS)
            problem = self._unsettled() or self._client_problem()
            if problem is None:
                break
            if self.loop.now_s * 1000 > end_ms:
                self.checks.fail(f"{HEAL_MS // 1000} s after the last fault: {problem}")
        for node in self.nodes.values():
            self.checks.compare_all(node)
        self.checks.check_applied_once()
        self.checks.records.check_all()
        self.checks.transactions.check_all()
        self.say(f"all nodes agree up to offset {self.checks.end_offset}")

    def _client_problem(self) -> str | None:
        return next((problem for of in self._client_problems if (problem := of()) is not None), None)

    def _unsettled(self) -> str | None:
        leaders = [
            node for node in self.controllers if node.is_leader and node.controller and node.controller.is_active
        ]
        if len(leaders) != 1:
            return f"{len(leaders)} active controllers"
        leader = leaders[0]
        high_watermark = leader.driver.high_watermark
        for node in self.nodes.values():
            if not node.is_up:
                return f"{node.name} does not stay up"
            if node.image_offset + 1 < (high_watermark or 0) - 4:
                return f"{node.name} is at {node.image_offset}, the high watermark at {high_watermark}"
            if not node.authorization.ready.is_set():
                return f"the authorizer of {node.name} is not ready"
            if node.is_broker:
                broker = leader.loader.image.cluster.brokers.get(node.id)
                if not node.is_serving or broker is None or broker.fenced:
                    return f"broker {node.name} does not serve"
        problem = unsettled_quorum(self) or self.checks.rot.unsettled()
        if problem is not None:
            return problem
        problem = self.checks.data.unsettled(self.checks.model) if self.shape.groups else None
        if problem is not None:
            return problem
        if self.checks.unanswered():
            return f"unanswered calls: {self.checks.unanswered()}"
        return None

    def _install_disk_errors(self) -> Callable[[], None]:
        if not self.shape.disk_errors:
            return lambda: None
        return install_disk_errors([node.errors for node in self.nodes.values()])

    def _disk_of(self, directory: str) -> Disk:
        return next(node.disk for node in self.nodes.values() if node.disk.folder == directory)

    def _data_disk_of(self, path: str) -> DataDisk:
        return next(node.data_disk for node in self.nodes.values() if path.startswith(f"{node.data_disk.folder}/"))


def run_plan(plan: Plan, *, keeps_history: bool = False) -> Outcome:
    """Execute the plan in its own folder, in memory if /dev/shm exists."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="simulation-", dir=memory if memory.is_dir() else None)
    token = OWNER.set(None)
    try:
        return World(plan, folder, keeps_history=keeps_history).run()
    finally:
        OWNER.reset(token)
        shutil.rmtree(folder, ignore_errors=True)
