"""Write the files of many batches to an object store, which has neither locks nor renames.

As in a folder (``file_commits``), each batch and its positions are committed together or not at all. Here one object,
``_barnabas/<connector>/state.json``, has all that decides: the positions, the batches that are committed and whose
files are still to be copied, the schema, and for each task the incarnation that may commit. It is only replaced by a
conditional write, which the store refuses if another writer has replaced it since it was read. **That write is the
commit.**

The files of a batch are written below ``staging/``, where no reader looks, in a folder that no other attempt has. After
the commit they are copied to their names and deleted; the next task does what a crash has left. Copying twice does
nothing, because a file's name depends only on the records of its batch.

A task that starts takes over from its predecessor in the same object. So a predecessor that was cut off, and comes
back, can't commit any more, and what it has staged can be deleted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import quote
from uuid import uuid4

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import OffsetRange, TerminalError
from barnabas.connect_spark.connectors.files.file_commits import staged_moves
from barnabas.connect_spark.positions.group_positions import from_kafka_json, kafka_json
from barnabas.connect_spark.positions.sink_positions import is_written, refuse_unless_next

__all__ = ["ObjectCommits", "ObjectStore"]

_ATTEMPTS = 50
"""How often the state is read again because another task was faster. Tasks of a connector are few."""


class ObjectStore(Protocol):
    """Objects below a folder of a bucket, by their paths in it. Each call is atomic."""

    url: str
    """The folder, without a slash at its end."""

    def read(self, path: str) -> tuple[str, str] | None:
        """Return text and version of an object; None if it does not exist."""

    def replace(self, path: str, text: str, version: str | None) -> bool:
        """Write an object that has this version still; None: that does not exist. Return False if it has not."""

    def files(self, folder: str) -> list[str]:
        """Return the paths of all objects below a folder."""

    def copy(self, source: str, target: str) -> bool:
        """Copy an object. Return False if the source does not exist."""

    def delete_folder(self, folder: str) -> None:
        """Delete all objects below a folder, one after another."""


@dataclass(frozen=True, slots=True)
class _State:
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)
    pending: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    """The moves of committed batches, from staging to the names of data files."""
    owners: Mapping[str, str] = field(default_factory=dict)
    """The incarnation of each task that may commit."""
    schema: str | None = None

    @classmethod
    def of(cls, text: str) -> _State:
        found: dict[str, Any] = json.loads(text)
        pending = {name: [(move[0], move[1]) for move in moves] for name, moves in found["pending"].items()}
        return cls(from_kafka_json(found["positions"]), pending, found["owners"], found["schema"])

    def to_json(self) -> str:
        return json.dumps(
            {
                "positions": kafka_json(dict(self.positions)),
                "pending": self.pending,
                "owners": self.owners,
                "schema": self.schema,
            }
        )


class ObjectCommits:
    """The commits of one task."""

    def __init__(self, store: ObjectStore, connector: str, task: int, incarnation: str | None = None) -> None:
        self._store = store
        self._connector = quote(connector, safe="")
        self._home = f"_barnabas/{self._connector}"
        self._task = task
        self._incarnation = incarnation or uuid4().hex
        self._staged: dict[str, str] = {}
        """The folder of the last attempt of each batch."""

    @property
    def schema_place(self) -> str:
        """Where the schema is, for messages."""
        return f"the schema in {self._store.url}/{self._state_path}"

    def prepare(self) -> None:
        """Take over from an earlier incarnation of the task. Complete or delete what it has left."""
        self._finish_pending()
        task = str(self._task)
        self._change(lambda state: replace(state, owners={**state.owners, task: self._incarnation}))
        self._finish_pending()
        self._store.delete_folder(f"{self._home}/staging/{task}")

    def begin(self, name: str, ranges: Mapping[TopicPartition, OffsetRange]) -> str | None:
        """Return the URL of an unused folder for the batch; None if the batch is committed already."""
        self._finish_pending()
        if is_written(self._read()[0].positions, ranges):
            return None
        self._staged[name] = f"{self._home}/staging/{self._task}/{name}-{uuid4().hex}"
        return f"{self._store.url}/{self._staged[name]}"

    def positions(self) -> dict[TopicPartition, int]:
        self._finish_pending()
        return dict(self._read()[0].positions)

    def commit(self, name: str, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        """Turn the staged files of a batch into data. Raise TerminalError if another task was faster."""
        staged = self._staged.pop(name)
        found = [path.removeprefix(f"{staged}/") for path in self._store.files(staged)]
        moves = [(f"{staged}/{source}", target) for source, target in staged_moves(found, f"{self._connector}-{name}")]
        ends = {partition: offsets.end for partition, offsets in ranges.items()}

        def committed(state: _State) -> _State:
            if state.owners.get(str(self._task)) != self._incarnation:
                raise TerminalError(
                    f"task {self._task} of this connector was started elsewhere, and writes {self._store.url} now."
                )
            refuse_unless_next(state.positions, ranges, self._store.url)
            return replace(
                state,
                positions={**state.positions, **ends},
                pending={**state.pending, **({name: moves} if moves else {})},
            )

        self._change(committed)
        self._finish_pending()

    def change_schema(self, change: Callable[[str | None], str | None]) -> None:
        """Change the stored schema. ``change`` receives it, or None, and returns the new one; it may be called again.

        Raise what ``change`` raises.
        """
        self._change(lambda state: replace(state, schema=change(state.schema)))

    def data_files(self, extension: str) -> list[str]:
        """Return the URLs of the data files that this connector has committed."""
        name = re.compile(rf"{re.escape(self._connector)}-\d+-\d{{16}}-[0-9a-f]{{10}}-\d{{5}}\.(.*\.)?{extension}")
        return [
            f"{self._store.url}/{path}"
            for path in self._store.files("")
            if not path.startswith("_barnabas/") and name.fullmatch(path.rpartition("/")[2])
        ]

    def set_positions(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set positions on request; None removes one. The data stay unchanged."""
        self._finish_pending()

        def changed(state: _State) -> _State:
            known = {partition: offset for partition, offset in state.positions.items() if partition not in offsets}
            given = {partition: offset for partition, offset in offsets.items() if offset is not None}
            return replace(state, positions=known | given)

        self._change(changed)

    # ---- the state

    @property
    def _state_path(self) -> str:
        return f"{self._home}/state.json"

    def _read(self) -> tuple[_State, str | None]:
        found = self._store.read(self._state_path)
        return (_State(), None) if found is None else (_State.of(found[0]), found[1])

    def _change(self, change: Callable[[_State], _State]) -> None:
        """Replace the state by a conditional write, again if another task was faster."""
        for _ in range(_ATTEMPTS):
            state, version = self._read()
            changed = change(state)
            if changed == state or self._store.replace(self._state_path, changed.to_json(), version):
                return
        raise RuntimeError(f"{self._store.url}/{self._state_path} was replaced by other tasks {_ATTEMPTS} times")

    def _finish_pending(self) -> None:
        """Copy the files of committed batches to their names. A file that is not staged any more was copied."""
        pending = self._read()[0].pending
        if not pending:
            return
        for moves in pending.values():
            for source, target in moves:
                self._store.copy(source, target)
        done = set(pending)
        self._change(lambda state: replace(state, pending=_without(state.pending, done)))
        for name in pending:
            self._store.delete_folder(_folder_of(pending[name]))


def _folder_of(moves: Sequence[tuple[str, str]]) -> str:
    """Return the folder of an attempt: the five first parts of its files' paths."""
    return "/".join(moves[0][0].split("/")[:5])


def _without(pending: Mapping[str, Sequence[tuple[str, str]]], done: set[str]) -> dict[str, Sequence[tuple[str, str]]]:
    return {name: moves for name, moves in pending.items() if name not in done}
