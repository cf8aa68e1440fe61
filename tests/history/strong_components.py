"""Cycles of a directed graph: Tarjan's strongly connected components, and a shortest cycle within one."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

__all__ = ["cyclic_components", "shortest_cycle"]

Node = TypeVar("Node", bound=Hashable)


def cyclic_components(graph: Mapping[Node, Collection[Node]]) -> list[list[Node]]:
    """Return the components of at least two nodes. A node without an entry has no edges; an edge from a node to itself
    is ignored."""
    return [component for component in _components(graph) if len(component) > 1]


def _components(graph: Mapping[Node, Collection[Node]]) -> Iterator[list[Node]]:
    """Tarjan's algorithm, with a stack of its own instead of recursion."""
    order: dict[Node, int] = {}
    lowest: dict[Node, int] = {}
    open_nodes: dict[Node, None] = {}
    for root in graph:
        if root in order:
            continue
        path = [(root, iter(graph.get(root, ())))]
        order[root] = lowest[root] = len(order)
        open_nodes[root] = None
        while path:
            node, successors = path[-1]
            for successor in successors:
                if successor not in order:
                    order[successor] = lowest[successor] = len(order)
                    open_nodes[successor] = None
                    path.append((successor, iter(graph.get(successor, ()))))
                    break
                if successor in open_nodes:
                    lowest[node] = min(lowest[node], order[successor])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == order[node]:
                    yield _popped(open_nodes, node)


def _popped(open_nodes: dict[Node, None], root: Node) -> list[Node]:
    component: list[Node] = []
    while not component or component[-1] != root:
        component.append(open_nodes.popitem()[0])
    return component


def shortest_cycle(graph: Mapping[Node, Collection[Node]], component: Sequence[Node]) -> list[Node]:
    """Return a shortest cycle through the component's first node, without that node at its end."""
    start, inside = component[0], set(component)
    came_from: dict[Node, Node] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for successor in graph.get(node, ()):
            if successor == start and node != start:
                return _path(came_from, start, node)
            if successor in inside and successor not in came_from and successor != start:
                came_from[successor] = node
                waiting.append(successor)
    raise ValueError("the component has no cycle through its first node")


def _path(came_from: Mapping[Node, Node], start: Node, end: Node) -> list[Node]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]
