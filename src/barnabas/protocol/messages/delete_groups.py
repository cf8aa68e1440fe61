"""DeleteGroups (API key 42): deletes empty groups."""

from barnabas.protocol.schema import Message, Request, Struct, array, int16, int32, string

__all__ = ["DeletableGroupResult", "DeleteGroupsRequest", "DeleteGroupsResponse"]


class DeleteGroupsRequest(Request["DeleteGroupsResponse"], api_key=42, versions="0-2", flexible="2+"):
    groups_names: list[str] = array("string")


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
