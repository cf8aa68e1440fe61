"""A cluster of nodes for a test: ``with Cluster(brokers=3) as cluster``.

Every node is a process of its own. Brokers 1, 2 and 3 are controllers too, unless ``controllers`` asks for separate
ones; of fewer than three brokers, only the first is. Connections between nodes lead through a proxy, so that ``cut``
can separate them; those of clients do not.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self, Unpack

from barnabas.testing.background_loop import run_in_background
from barnabas.testing.clients import Clients, cluster_calls
from barnabas.testing.cluster_node import ClusterNode
from barnabas.testing.errors import NotPossible
from barnabas.testing.link_proxy import LinkProxy
from barnabas.testing.options import NodeOptions, Options, check_names
from barnabas.testing.parts import Parts
from barnabas.testing.ports import HOST
from barnabas.testing.security import Security

__all__ = ["Cluster"]

_LEADER_TIMEOUT_S = 30.0
_IN_STEP_TIMEOUT_S = 10.0


class Cluster(Clients):
    """Use it in a ``with`` or ``async with`` block, or call ``start`` and ``close``.

    Methods return when their effect is complete. Code with asyncio may call them too, or ``await
    asyncio.to_thread(cluster.leader, "orders")`` if its loop must continue meanwhile.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int | None = None,
        replication: int | None = None,
        **options: Unpack[NodeOptions],
    ) -> None:
        """``replication`` is the default of topics: 3, or the number of brokers if that is less. The other options are
        those of ``NodeOptions``. Raise NotPossible or TypeError, which name the option."""
        check_names(options)
        self._options = Options(brokers, controllers, replication, **options)
        self._built: Parts | None = None

    # --- its nodes

    @property
    def brokers(self) -> list[ClusterNode]:
        """The brokers, with the ids 1, 2, ..."""
        return self._parts.brokers

    @property
    def controllers(self) -> list[ClusterNode]:
        """The voters of the quorum: brokers, or nodes with the ids 3001, 3002, ..."""
        return self._parts.controllers

    @property
    def nodes(self) -> list[ClusterNode]:
        return self._parts.nodes

    @property
    def folder(self) -> Path:
        """The folder of all nodes."""
        return self._parts.folder

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def bootstrap_controllers(self) -> str:
        """The property ``bootstrap.controllers`` of admin clients that contact the quorum itself.

        With ``users`` or ``tls``, controllers accept only the nodes of the cluster.
        """
        return ",".join(f"{HOST}:{node.controller_port}" for node in self.controllers)

    @property
    def users(self) -> dict[str, str]:
        """Passwords by user, with that of ``admin``; empty without SASL."""
        return dict(self._parts.users)

    def node(self, node_id: int) -> ClusterNode:
        """Raise LookupError for an unknown id."""
        for node in self.nodes:
            if node.node_id == node_id:
                return node
        raise LookupError(f"node {node_id} does not exist; the ids are {[node.node_id for node in self.nodes]}")

    def leader(self, topic: str, partition: int = 0) -> ClusterNode:
        """Return the broker that leads the partition; wait until there is one. Raise AdminError or TimeoutError."""
        deadline = time.monotonic() + _LEADER_TIMEOUT_S
        while True:
            found = run_in_background(cluster_calls().leader_of(self._own_properties(), topic, partition))
            if found is not None:
                return self.node(found)
            if time.monotonic() > deadline:
                raise TimeoutError(f"partition {partition} of topic {topic} had no leader for {_LEADER_TIMEOUT_S:g} s")
            time.sleep(0.05)

    def active_controller(self) -> ClusterNode:
        """Return the leader of the quorum. Raise AdminError."""
        return self.node(run_in_background(cluster_calls().active_controller(self._own_properties())))

    # --- life

    def start(self) -> None:
        """Start every node that does not run, resume every paused one, and return when all serve clients.

        Raise NodeFailed.
        """
        is_new = self._built is None
        self._built = self._built or Parts(self._options, on_resumed=self._await_same_leaders)
        for node in self._built.nodes:
            node.resume()
        stopped = [node for node in self._built.nodes if not node.is_running]
        try:
            for node in stopped:
                node.launch()
            for node in stopped:
                node.await_ready()
            if is_new:
                self._fill()
        except BaseException:
            if is_new:
                self.close()
            raise

    def _fill(self) -> None:
        options = self._options
        if options.acls is not None:
            self.create_acls(options.acls)
        self.create_topics(options.topics)
        for topic, records in (options.records or {}).items():
            self.produce(topic, records)

    def stop(self) -> None:
        """Stop all nodes in order, the last first; ``start`` starts them again with their data.

        Raise NodeFailed if a node does not end in 30 s, or ends with an error.
        """
        with ExitStack() as stops:
            for node in self.nodes:
                stops.callback(node.stop)

    def close(self) -> None:
        """End all nodes, and remove their temporary folder. A second call does nothing."""
        parts, self._built = self._built, None
        if parts is not None:
            parts.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.close)

    # --- faults

    def cut(self, source: ClusterNode, destination: ClusterNode, *, one_way: bool = False) -> None:
        """Let no bytes pass between two nodes, or with ``one_way`` from the first to the second.

        Connections stay open and are silent, as in a network that loses packets. Clients still reach both. Raise
        NotPossible if links can't be cut here.
        """
        proxy = self._proxy
        proxy.cut(source.name, destination.name)
        if not one_way:
            proxy.cut(destination.name, source.name)

    def isolate(self, node: ClusterNode) -> None:
        """Cut a node off from all others. Clients still reach it."""
        for other in self.nodes:
            if other is not node:
                self.cut(node, other)

    def heal(self) -> None:
        """End all cuts. Bytes that were held back arrive now.

        Returns when all running brokers know the present leaders, or after 10 s.
        """
        self._proxy.heal_all()
        self._await_same_leaders()

    # --- pieces

    @property
    def _parts(self) -> Parts:
        if self._built is None:
            raise NotPossible(f"the {self._noun} is not started: use it in a with block, or call start()")
        return self._built

    @property
    def _noun(self) -> str:
        return "cluster"

    @property
    def _proxy(self) -> LinkProxy:
        proxy = self._parts.proxy
        if proxy is None:
            raise NotPossible(
                "links can be cut between several nodes in processes of their own, on Linux: "
                "use Cluster(brokers=2) or more, without in_process=True"
            )
        return proxy

    def _await_same_leaders(self) -> None:
        """Wait for brokers that learned nothing for a while: until then they answer clients as if they still led."""
        properties = self._own_properties()
        brokers = [broker for broker in self._responsive_brokers if not self._cuts_of(broker)]
        if len(brokers) > 1:
            each = [{**properties, "bootstrap.servers": broker.address} for broker in brokers]
            run_in_background(cluster_calls().await_same_leaders(each, _IN_STEP_TIMEOUT_S))

    def _cuts_of(self, broker: ClusterNode) -> int:
        proxy = self._parts.proxy
        return 0 if proxy is None else proxy.cuts_of(broker.name)

    @property
    def _responsive_brokers(self) -> list[ClusterNode]:
        return [broker for broker in self.brokers if broker.is_running and not broker.is_paused]

    @property
    def _responsive_servers(self) -> str:
        responsive = sorted(self._responsive_brokers, key=self._cuts_of)
        return ",".join(broker.address for broker in responsive) or self.bootstrap_servers

    @property
    def _security(self) -> Security:
        return self._parts.security

    def _certificate_of(self, user: str | None) -> None:
        self._parts.ensure_certificate(user)
