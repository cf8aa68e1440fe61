"""Workers join, leave, die, hang and lose connections: no unit ever has two owners, and finally each has one."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.connect.decide.group.connect_protocol import ProtocolVersion
from barnabas.connect.decide.group.membership import Phase
from tests.unit.connect.decide.group.memory_group import MemoryGroup, Worker

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "add",
                "leave",
                "kill",
                "cut",
                "reconnect",
                "hang",
                "wake",
                "configure",
                "toggle coordinator",
                "lose configs",
            ]
        ),
        st.integers(0, 3),
        st.sampled_from([0, 30, 700, 4_000, 12_000]),
    ),
    max_size=12,
)


def play(group: MemoryGroup, event: str, which: int, options: dict[str, object]) -> None:
    there = [worker for worker in group.workers if worker.is_alive and worker.membership.phase is not Phase.OUT]
    worker: Worker | None = there[which % len(there)] if there else None
    if event == "add" and len(there) < 4:
        group.add(f"w{len(group.workers)}", **options)  # type: ignore[arg-type]
    elif event == "configure":
        group.configure(**{f"c{number}": number + which for number in range(which + 1)})
    elif event == "toggle coordinator":
        group.is_reachable = not group.is_reachable
    elif worker is not None:
        if event == "leave":
            group.leave(worker)
        elif event == "kill":
            group.kill(worker)
        elif event in ("cut", "reconnect"):
            worker.is_cut_off = event == "cut"
        elif event in ("hang", "wake"):
            worker.polls = event == "wake"
        elif event == "lose configs":
            worker.reads_configs = False


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    events=EVENTS,
    protocol=st.sampled_from(ProtocolVersion),
    stop_ms=st.sampled_from([0, 50, 4_500]),
    immediately=st.booleans(),
)
def test_no_work_ever_has_two_owners_and_finally_all_work_has_one(
    events: list[tuple[str, int, int]], protocol: ProtocolVersion, stop_ms: int, immediately: bool
) -> None:
    group = MemoryGroup()
    options: dict[str, object] = {
        "protocol": protocol,
        "stop_ms": stop_ms,
        "reassign_immediately": immediately,
        "scheduled_rebalance_max_delay_ms": 20_000,
        "worker_unsync_backoff_ms": 20_000,
    }
    group.configure(c=3, d=2)
    group.add("w0", **options)  # type: ignore[arg-type]
    for event, which, wait_ms in events:
        play(group, event, which, options)
        group.run(wait_ms)
    group.is_reachable = True
    for worker in group.workers:
        worker.is_cut_off = False
        worker.polls = True
        if worker.is_alive:
            group.catch_up(worker)
    group.run(10_000)  # Workers that were leaving have left.
    if not any(worker.is_alive and worker.membership.phase is not Phase.OUT for worker in group.workers):
        group.add("last", **options)  # type: ignore[arg-type]
    group.run(60_000)
    group.settle(180_000)
    assert not group.owner_problems
