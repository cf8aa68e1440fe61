"""The rows of the table about share state, which only brokers request.

The stage has state of the group ``shared`` for the first partition of ``orders``; no request changes it.
"""

from __future__ import annotations

from typing import Any

from barnabas.protocol.api_keys import ApiKey
from tests.peers.acl_matrix import Fields, Row, Rows, variants

__all__ = ["SHARED", "rows"]

SHARED = "shared"
_RIGHTS = (*variants("CLUSTER_ACTION", "CLUSTER"), "READ GROUP *; WRITE TOPIC *")


def rows() -> Rows:
    return [
        Row("InitializeShareGroupState", ApiKey.INITIALIZE_SHARE_GROUP_STATE, _named("{me}", state_epoch=1), _RIGHTS),
        Row("ReadShareGroupState", ApiKey.READ_SHARE_GROUP_STATE, _named(SHARED, leader_epoch=-1), _RIGHTS),
        Row("WriteShareGroupState", ApiKey.WRITE_SHARE_GROUP_STATE, _named(SHARED, **_UNCHANGED), _RIGHTS),
        Row("DeleteShareGroupState", ApiKey.DELETE_SHARE_GROUP_STATE, _named("{me}"), _RIGHTS),
        Row(
            "ReadShareGroupStateSummary",
            ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
            _named(SHARED, leader_epoch=-1),
            _RIGHTS,
        ),
        Row(
            "FindCoordinator of share-partitions",
            ApiKey.FIND_COORDINATOR,
            {"key_type": 2, "coordinator_keys": ["g1:AAAAAAAAAAAAAAAAAAAAAQ:0", "g2:AAAAAAAAAAAAAAAAAAAAAQ:1"]},
            _RIGHTS,
            (6,),
        ),
    ]


_UNCHANGED: dict[str, Any] = {"state_epoch": -1, "leader_epoch": -1, "start_offset": -1, "delivery_complete_count": 0}


def _named(group: str, **fields: Any) -> Fields:
    partitions = [{"partition": 0, **fields}]
    return {"group_id": group, "topics": [{"topic_id": "id:orders", "partitions": partitions}]}
