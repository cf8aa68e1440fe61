"""``barnabas log-dirs describe|move``: show sizes of log directories, and move replicas between them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import ClusterOptions, Flag, UsageError
from barnabas.cli.log_dirs.move import move
from barnabas.cli.output.advice import problems_of
from barnabas.cli.output.answer import Answer, Problem
from barnabas.cli.output.table import Sheet, size_of

if TYPE_CHECKING:
    from barnabas.clients.admin import AdminClient, LogDirDescription

__all__ = ["app", "main"]

app = cluster_app("log-dirs", "Show the log directories of brokers and their sizes, and move replicas between them.")
main = main_of(app)
app.command(move)


@app.command
def describe(
    *,
    broker_list: str | None = None,
    topic_list: str | None = None,
    partitions: Flag = False,
    bytes: Flag = False,
    options: ClusterOptions | None = None,
) -> int:
    """Show the log directories, or with --partitions each replica in them.

    For example:

        barnabas log-dirs describe
        barnabas log-dirs describe --broker-list 1,2 --topic-list orders,payments --partitions --bytes

    Parameters
    ----------
    broker_list
        Broker ids, separated by commas. Default: all live brokers.
    topic_list
        Topics, separated by commas. Default: all.
    partitions
        Show each replica with its size, instead of the sums.
    bytes
        Show sizes in bytes.
    """
    brokers = None
    if broker_list is not None:
        try:
            brokers = [int(part) for part in broker_list.split(",")]
        except ValueError:
            raise UsageError(f"--broker-list {broker_list}: write ids separated by commas, for example 1,2") from None
    topics = None if topic_list is None else {part.strip() for part in topic_list.split(",") if part.strip()}

    async def work(admin: AdminClient) -> Answer:
        results = await admin.describe_log_dirs(brokers)
        chosen = {broker: _of_topics(found, topics) for broker, found in sorted(results.values.items())}
        problems = problems_of(results.errors, right="DESCRIBE on Cluster")
        problems += [
            Problem(
                str(directory.error.message or directory.error.code.name),
                f"broker {broker} {path}",
                directory.error.code.name,
            )
            for broker, found in chosen.items()
            for path, directory in found.items()
            if directory.error is not None
        ]
        sheet = _replicas(chosen, in_bytes=bytes) if partitions else _directories(chosen, in_bytes=bytes)
        document = {
            "log_dirs": [
                _document(b, path, directory) for b, found in chosen.items() for path, directory in found.items()
            ]
        }
        notes = [] if any(chosen.values()) or problems else ["can't see any directory: this needs DESCRIBE on Cluster"]
        return Answer(document, [sheet] if sheet.rows else [], notes, problems)

    return (options or ClusterOptions()).run(work, right="DESCRIBE on Cluster")


def _of_topics(found: dict[str, LogDirDescription], topics: set[str] | None) -> dict[str, Any]:
    if topics is None:
        return found
    return {
        path: replace(directory, replicas={tp: info for tp, info in directory.replicas.items() if tp.topic in topics})
        for path, directory in found.items()
    }


def _directories(chosen: dict[int, dict[str, Any]], *, in_bytes: bool) -> Any:
    sheet = Sheet(columns=("broker", "directory", "replicas", "size", "usable", "total", "state"))
    for broker, found in chosen.items():
        for path, directory in found.items():
            state = "offline" if directory.error is not None else "cordoned" if directory.is_cordoned else ""
            size = sum(info.size for info in directory.replicas.values())
            sheet.add(
                str(broker), path, str(len(directory.replicas)), _size(size, in_bytes),
                _size(directory.usable_bytes, in_bytes), _size(directory.total_bytes, in_bytes),
                state, style="bold red" if state else "",
            )  # fmt: skip
    sheet.drop_last_column_if_empty()
    return sheet


def _replicas(chosen: dict[int, dict[str, Any]], *, in_bytes: bool) -> Any:
    sheet = Sheet(columns=("broker", "directory", "topic", "partition", "size", "lag", "state"), keep=5)
    for broker, found in chosen.items():
        for path, directory in found.items():
            for tp, info in sorted(directory.replicas.items()):
                state = "moving here" if info.is_future else ""
                sheet.add(
                    str(broker), path, tp.topic, str(tp.partition), _size(info.size, in_bytes), str(info.offset_lag),
                    state,
                )  # fmt: skip
    sheet.drop_last_column_if_empty()
    return sheet


def _size(count: int | None, in_bytes: bool) -> str:
    if count is None:
        return ""
    return str(count) if in_bytes else size_of(count)


def _document(broker: int, path: str, directory: LogDirDescription) -> dict[str, Any]:
    return {
        "broker": broker,
        "directory": path,
        "error": None if directory.error is None else directory.error.code.name,
        "cordoned": directory.is_cordoned,
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
        "replicas": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "size": info.size,
                "offset_lag": info.offset_lag,
                "future": info.is_future,
            }
            for tp, info in sorted(directory.replicas.items())
        ],
    }
