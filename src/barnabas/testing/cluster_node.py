"""One node of a test cluster: start and stop it, and inject faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from barnabas.testing.errors import NodeFailed, NotPossible
from barnabas.testing.launch import Launch
from barnabas.testing.link_proxy import LinkProxy
from barnabas.testing.node_log import NodeLog
from barnabas.testing.ports import HeldPort
from barnabas.testing.process_runner import ProcessRunner
from barnabas.testing.runner import Runner
from barnabas.testing.shown_logs import node_ended, node_started

__all__ = ["ClusterNode"]

_STOP_TIMEOUT_S = 30.0


class ClusterNode:
    """A node of a ``Cluster``. Methods block until their effect is complete."""

    def __init__(
        self,
        node_id: int,
        launch: Launch,
        *,
        client_port: HeldPort | None,
        controller_port: HeldPort | None,
        ports: Sequence[HeldPort],
        in_process: bool,
        timeout_s: float,
        proxy: LinkProxy | None,
        on_resumed: Callable[[], None],
    ) -> None:
        """``ports`` are those that the node binds. A node that is only a controller has no ``client_port``, and one
        that is only a broker no ``controller_port``."""
        self._on_resumed = on_resumed
        self.node_id = node_id
        self._launch_document = launch
        self._client_port = client_port
        self._controller_port = controller_port
        self._ports = ports
        self._in_process = in_process
        self._timeout_s = timeout_s
        self._proxy = proxy
        title = launch.name if client_port is None else f"{launch.name} at {client_port.address}"
        self._log = NodeLog(Path(launch.folder) / "node.log", title)
        self._log_began = 0
        self._runner: Runner | None = None
        self.is_paused = False
        self._began_s = 0.0
        self.start_duration_s = 0.0
        """How long the last start took, until the node served clients."""

    # --- what it is

    @property
    def name(self) -> str:
        return self._launch_document.name

    @property
    def address(self) -> str:
        """``host:port`` for clients. It stays the same over restarts."""
        return self._port_for_clients.address

    @property
    def port(self) -> int:
        """The port of ``address``."""
        return self._port_for_clients.number

    @property
    def _port_for_clients(self) -> HeldPort:
        if self._client_port is None:
            raise NotPossible(f"{self.name} is a controller without a broker: clients use cluster.bootstrap_servers")
        return self._client_port

    @property
    def controller_port(self) -> int:
        """The port of the controller: see ``Cluster.bootstrap_controllers``."""
        if self._controller_port is None:
            raise NotPossible(f"{self.name} is not a controller: the addresses are cluster.bootstrap_controllers")
        return self._controller_port.number

    @property
    def folder(self) -> Path:
        """The folder of the node's data and its log."""
        return Path(self._launch_document.folder)

    @property
    def pid(self) -> int:
        """The id of the process that runs the node. Raise NotPossible if the node does not run."""
        if self._runner is None or not self._runner.is_running:
            raise NotPossible(f"{self.name} does not run: start it with start()")
        return self._runner.pid

    @property
    def is_running(self) -> bool:
        return self._runner is not None and self._runner.is_running

    @property
    def log(self) -> str:
        """The log since the last start."""
        return self._log.text(self._log_began)

    @property
    def log_path(self) -> Path:
        """The file with the log of all starts."""
        return self._log.path

    # --- life

    def start(self) -> None:
        """Start the node, and return when it serves clients. A running node is left as it is. Raise NodeFailed."""
        if not self.is_running:
            self.launch()
            self.await_ready()

    def launch(self) -> None:
        """Begin to start, without waiting: the controllers of a new cluster need each other."""
        self.discard()  # A node that has ended by itself left its runner behind.
        self.folder.mkdir(parents=True, exist_ok=True)
        for port in self._ports:
            port.give_to_server()
        node_started(self._log)
        self._log_began = self._log.size()
        self._began_s = time.monotonic()
        self._runner = self._new_runner()
        self.is_paused = False
        self._runner.launch(self._launch_document)
        if self._proxy is not None:
            self._proxy.node_is_up(self.name, self._runner.pid)

    def await_ready(self) -> None:
        """Wait until a launched node serves. Raise NodeFailed."""
        assert self._runner is not None, "call launch() first"
        self._runner.await_ready(self._timeout_s)
        self.start_duration_s = time.monotonic() - self._began_s

    def stop(self) -> None:
        """Stop the node in order: it hands over its partitions and leaves the cluster.

        Raise NodeFailed if it does not end in 30 s, or ends with an error. A node that does not run is left as it is.
        """
        self._end(lambda runner: runner.stop(_STOP_TIMEOUT_S))

    def restart(self) -> None:
        """Stop the node in order and start it again, with its data and at its address. Raise NodeFailed."""
        self.stop()
        self.start()

    # --- faults

    def kill(self) -> None:
        """End the node like ``kill -9``: it flushes nothing and closes no session. ``start`` starts it again."""
        self._require_process("kill()")
        self._end(lambda runner: runner.kill())

    def pause(self) -> None:
        """Stop the node like a long pause of the machine: connections stay open, and nothing is answered."""
        if self._runner is not None and self.is_running and not self.is_paused:
            self._runner.pause()
            self.is_paused = True

    def resume(self) -> None:
        """End a pause. Returns when all running brokers know the present leaders, or after 10 s."""
        was_paused, self.is_paused = self.is_paused, False
        if self._runner is not None and was_paused:
            self._runner.resume()
            self._on_resumed()

    def disk_full(self) -> None:
        """Refuse all writes to the node's disk with ENOSPC. As in Kafka, a node whose only log directory fails ends."""
        self._set_disk_full(is_full=True)

    def disk_free(self) -> None:
        """Let the node write again. If it has ended, start it with ``start``."""
        self._set_disk_full(is_full=False)

    def discard(self) -> None:
        """End the node without regard to its data, as ``kill`` does if it can."""
        if self._in_process:
            self.stop()
        else:
            self._end(lambda runner: runner.kill())

    def close(self, *, in_order: bool) -> None:
        """End the node for good: in order, or without regard to its data."""
        node_ended(self._log)
        # Only ``stop`` reports an end that is not in order: here it would hide the failure of the test itself.
        with suppress(NodeFailed):
            if in_order:
                self.stop()
            else:
                self.discard()

    def _set_disk_full(self, *, is_full: bool) -> None:
        if self.is_paused:
            raise NotPossible(f"{self.name} is paused and can't obey: call resume() before disk_full() or disk_free()")
        self._launch_document = replace(self._launch_document, is_disk_full=is_full)
        if self._runner is not None:
            self._runner.set_disk_full(is_full=is_full)

    def _end(self, end: Callable[[Runner], None]) -> None:
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self.is_paused = False
        try:
            end(runner)
        finally:
            if self._proxy is not None:
                self._proxy.node_is_down(self.name)

    def _require_process(self, what: str) -> None:
        if self._in_process:
            raise NotPossible(f"{what} needs a node in its own process: omit in_process=True")

    def _new_runner(self) -> Runner:
        if not self._in_process:
            return ProcessRunner(self._log)
        # The server is imported only here: a test with nodes in processes of their own does not need it.
        runner: Runner = import_module("barnabas.testing.thread_runner").ThreadRunner(self._log)
        return runner

    def __repr__(self) -> str:
        state = "paused" if self.is_paused else "running" if self.is_running else "stopped"
        return f"<{self.name} {self._client_port.address if self._client_port else 'controller'} {state}>"
