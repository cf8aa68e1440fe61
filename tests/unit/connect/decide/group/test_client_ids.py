from __future__ import annotations

import pytest

from barnabas.connect.decide.group.client_ids import default_client_id, is_ours


def test_members_of_barnabas_are_recognized_by_their_member_id() -> None:
    assert is_ours(f"{default_client_id('host:8083')}-6f1c")


@pytest.mark.parametrize("member_id", ["", "connect-host:8083-6f1c", "mine-barnabas-connect-1", "barnabas-6f1c"])
def test_other_members_are_taken_for_kafka_workers(member_id: str) -> None:
    assert not is_ours(member_id)
