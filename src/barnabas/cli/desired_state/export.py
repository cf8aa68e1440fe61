"""``barnabas export``: write a cluster as a file of desired state, for which ``plan`` finds no changes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Annotated, Literal

from barnabas.access.cluster_state import ClusterState
from barnabas.cli.arguments.cluster_app import cluster_app, main_of
from barnabas.cli.arguments.cluster_options import Flag
from barnabas.cli.arguments.parameter import Parameter
from barnabas.cli.desired_state.sources import FileOptions, Found
from barnabas.cli.output.answer import Answer, as_json, as_yaml

__all__ = ["app", "main"]

app = cluster_app(
    "export",
    "Write a cluster as a file of desired state: its topics, dynamic settings, ACLs, users and quotas. "
    "A cluster never returns passwords, so the file does not contain them.",
)
main = main_of(app)


class _File(Answer):
    """The exported file. It is input for ``plan``, so it must not contain anything else."""

    def give(self, command: str, output: str) -> int:
        if self.problems or not self.document:
            return Answer({}, problems=self.problems).give(command, "table")
        sys.stdout.write(as_json(self.document) if output == "json" else as_yaml(self.document))
        return Answer({}, notes=self.notes).give(command, "table")


_Section = Literal["topics", "configs", "acls", "users", "quotas"]


@app.default
def export(
    *,
    only: list[_Section] | None = None,
    include_internal: Flag = False,
    options: Annotated[FileOptions | None, Parameter(name="*")] = None,
) -> int:
    """Write the state of a cluster, or of a node's files, as a file of desired state in YAML, or with --output json.

    For example:

        barnabas export --bootstrap-server localhost:9092 > state.yaml
        barnabas export --only acls --only users --directory /var/lib/kafka

    Parameters
    ----------
    only
        Export only this part: topics, configs, acls, users or quotas. May be repeated.
    include_internal
        Also export internal topics, such as __consumer_offsets.
    """
    from barnabas.cli.desired_state.cluster import whole_cluster_scope

    chosen = options or FileOptions()
    if chosen.output == "table":
        chosen = replace(chosen, output="yaml")
    scope = whole_cluster_scope(has_internal_topics=include_internal)
    if only:
        scope = scope._replace(**{name: () for name in scope._fields if name not in only})

    async def work(found: Found) -> Answer:
        from barnabas.access.export import export_cluster
        from barnabas.access.plan import owned_part

        state: ClusterState = owned_part(found.state, scope)
        document, notes = export_cluster(state)
        return _File(document, notes=[*found.notes, *notes])

    return chosen.find(scope, work, needs_all=False)
