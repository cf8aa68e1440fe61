"""DescribeConfigs (API key 32): configs of resources with their sources, synonyms and documentation."""

from barnabas.protocol.compiler import encode_struct
from barnabas.protocol.compiler_runtime import compact_length
from barnabas.protocol.schema import Message, Request, Struct, array, bool_, int8, int16, int32, string

__all__ = [
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeConfigsSynonym",
]


class DescribeConfigsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: list[str] | None = array("string", nullable="0+")


class DescribeConfigsRequest(Request["DescribeConfigsResponse"], api_key=32, versions="1-4", flexible="4+"):
    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = bool_("1+")
    include_documentation: bool = bool_("3+")


class DescribeConfigsSynonym(Struct):
    name: str = string("1+")
    value: str | None = string("1+", nullable="0+")
    source: int = int8("1+")


class DescribeConfigsResourceResult(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = bool_()
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = bool_()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Message, api_key=32, versions="1-4", flexible="4+"):
    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)

    def write(self, version: int, chunks: list[bytes]) -> None:
        """A setting that is the same object in several results, as what topics inherit, is encoded once."""
        results = self.results
        if self.unknown_tags or len(results) < 2 or any(result.unknown_tags for result in results):
            super().write(version, chunks)
            return
        flexible = self.is_flexible(version)
        encoded: dict[int, bytes] = {}

        def encode(config: DescribeConfigsResourceResult) -> bytes:
            data = encoded[id(config)] = encode_struct(config, version, flexible=flexible)
            return data

        empty = DescribeConfigsResponse(throttle_time_ms=self.throttle_time_ms).encode(version)
        tail = b"\0" if flexible else b""
        parts = [*_with_length(empty, len(results), flexible=flexible)]
        for result in results:
            configs = [encoded.get(id(config)) or encode(config) for config in result.configs]
            head = DescribeConfigsResult(
                error_code=result.error_code,
                error_message=result.error_message,
                resource_type=result.resource_type,
                resource_name=result.resource_name,
            )
            parts += _with_length(encode_struct(head, version, flexible=flexible), len(configs), flexible=flexible)
            parts += configs
            parts.append(tail)
        parts.append(tail)
        chunks.append(b"".join(parts))


def _with_length(encoded: bytes, length: int, *, flexible: bool) -> tuple[bytes, bytes]:
    """What ends with an empty list, up to that list and with the length that it shall have."""
    if flexible:
        return encoded[:-2], compact_length(length + 1)
    return encoded[:-4], length.to_bytes(4, "big")
