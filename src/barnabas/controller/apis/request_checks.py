"""The interface of the controller's API modules, and their shared checks.

A module has ``handle(controller, context, request, authorizer)`` and returns a ``Deferred`` answer: complete
if the answer is known immediately, else completed when the decision is committed. It never raises errors for
the caller: they are in the answer, in the API's own form.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.security.authorizer.denial import denial_error

if TYPE_CHECKING:
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = [
    "DUPLICATE_TOPIC_NAME",
    "allowed_on_cluster",
    "allowed_topics",
    "may_be_allowed_on_cluster",
    "require_cluster_action",
    "require_on_cluster",
    "split_duplicates",
]

DUPLICATE_TOPIC_NAME = "Duplicate topic name."


def allowed_on_cluster(
    authorizer: Authorizer, context: RequestContext, operation: AclOperation, *, log_if_denied: bool = True
) -> bool:
    return authorizer.authorize(context, operation, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=log_if_denied)


def may_be_allowed_on_cluster(authorizer: Authorizer, context: RequestContext, operation: AclOperation) -> bool:
    """Return whether a long preparation is worthwhile; the decision authorizes again, and is audited then."""
    return authorizer.authorize(
        context, operation, ResourceType.CLUSTER, CLUSTER_NAME, log_if_allowed=False, log_if_denied=False
    )


def allowed_topics(
    authorizer: Authorizer,
    context: RequestContext,
    operation: AclOperation,
    names: Iterable[str],
    *,
    log_if_denied: bool = True,
) -> Steps[set[str]]:
    allowed = set()
    pace = Pace()
    for name in names:
        if authorizer.authorize(context, operation, ResourceType.TOPIC, name, log_if_denied=log_if_denied):
            allowed.add(name)
        if pace.is_reached():
            yield
    return allowed


def split_duplicates(names: Iterable[str]) -> tuple[dict[str, None], dict[str, None]]:
    """Return the names that occur once and those that occur more often, each in the order of the request."""
    once: dict[str, None] = {}
    often: dict[str, None] = {}
    for name in names:
        if name in often:
            continue
        if name in once:
            del once[name]
            often[name] = None
        else:
            once[name] = None
    return once, often


def require_cluster_action(authorizer: Authorizer, context: RequestContext) -> None:
    """Require CLUSTER_ACTION for requests among brokers and controllers; raises the error."""
    require_on_cluster(authorizer, context, AclOperation.CLUSTER_ACTION)


def require_on_cluster(authorizer: Authorizer, context: RequestContext, operation: AclOperation) -> None:
    if not allowed_on_cluster(authorizer, context, operation):
        raise denial_error(context, operation, ResourceType.CLUSTER, CLUSTER_NAME)
