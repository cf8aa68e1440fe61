"""A barnabas node as a child process, with its data in the run's folder."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.child_process import HOST, ChildProcess, ProcessRecord, free_ports, is_free
from barnabas.pipelines.flights.run_directory import RunDirectory

__all__ = ["LocalNode"]

_READY = re.compile(r"\bis ready in\b")
_READY_TIMEOUT_SECONDS = 60.0


class LocalNode:
    def __init__(self, directory: RunDirectory, *, port: int | None, keep: bool, worker_port: int) -> None:
        """``worker_port`` is reserved for the worker, which starts later."""
        self._data = directory.node
        self._port = port
        self._worker_port = worker_port
        self.process = ChildProcess(
            "node",
            argument=f"log.dirs={directory.node}",
            record=directory.node_record,
            log=directory.node_log,
            keep=keep,
        )

    @property
    def bootstrap_server(self) -> str:
        return f"{HOST}:{self.process.record.port}"

    def start(self) -> str:
        """Start the node, or take over the one that an earlier run left. Say which. Don't wait until it is ready."""
        former = self.process.former()
        if former is not None and self.process.is_running(former):
            if self._port not in (None, former.port):
                raise PipelineError(
                    f"a node of an earlier run still runs on port {former.port} (process {former.process_id}), "
                    f"so --port {self._port} is not possible. Stop it first: kill {former.process_id}"
                )
            return self.process.take_over(former)
        record = self._choose_ports(former)
        arguments = ["node", *_overrides(self._data, record.port, record.controller_port)]
        self.process.start(arguments, record, end_by=signal.SIGTERM)
        return f"starting a node with its data in {self._data}"

    def await_ready(self) -> None:
        if self.process.is_ours:
            self.process.await_ready(
                lambda: _READY.search(self.process.log_tail()) is not None, seconds=_READY_TIMEOUT_SECONDS
            )

    def _choose_ports(self, former: ProcessRecord | None) -> ProcessRecord:
        """Choose the ports of the last run if they are free, so that clients configured for the node still work."""
        if self._port is not None and not is_free(self._port):
            raise PipelineError(
                f"port {self._port} of {HOST} is in use. Choose another with --port, or omit it for a free one."
            )
        port, controller_port = free_ports(2, without=self._worker_port)
        if former is not None:
            port = former.port if self._is_usable(former.port) else port
            controller_port = former.controller_port if self._is_usable(former.controller_port) else controller_port
        return ProcessRecord(0, self._port or port, controller_port)

    def _is_usable(self, port: int) -> bool:
        return port != self._worker_port and is_free(port)


def _overrides(data: Path, port: int, controller_port: int) -> list[str]:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
        "log.dirs": str(data),
    }
    return [argument for name, value in settings.items() for argument in ("--override", f"{name}={value}")]
