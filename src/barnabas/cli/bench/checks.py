"""Checks of numbers on the command line."""

from __future__ import annotations

from barnabas.cli.arguments.cluster_options import UsageError

__all__ = ["at_least", "check_record_size", "check_throughput"]


def check_throughput(throughput: float, otherwise: str) -> None:
    """Raise UsageError for an invalid rate."""
    if throughput == 0 or throughput < -1 or not throughput < float("inf"):
        raise UsageError(f"--throughput {throughput:g}: write records per second, or -1 for {otherwise}")


def check_record_size(size: int, limit: int) -> None:
    """Raise UsageError for a record larger than a request."""
    from barnabas.clients.producer.batch import record_size_max
    from barnabas.protocol.record_batch import BATCH_HEADER_SIZE

    if record_size_max(size) + BATCH_HEADER_SIZE > limit:
        raise UsageError(
            f"a record of {size} bytes does not fit into a request of at most {limit}: use a smaller one, or "
            "--command-property max.request.size=... (and the topic needs max.message.bytes)"
        )


def at_least(least: int, **values: int) -> None:
    """Raise UsageError for options smaller than ``least``."""
    for name, value in values.items():
        if value < least:
            raise UsageError(f"--{name.replace('_', '-')} {value}: it must be at least {least}")
