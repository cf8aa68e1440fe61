"""Show the answers of ``barnabas access``, about today (``explain``, ``who``, ``of``) or an earlier moment (``at``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.access.explain import explain
from barnabas.access.explanation_json import explanation_json, holders_json, holdings_json
from barnabas.access.listing import access_of_principal, principals_with_access
from barnabas.cli.access.app import Options, print_document, print_notes
from barnabas.cli.access.sources import LoadedPolicy
from barnabas.cli.output.exit_status import DENIED
from barnabas.common.acl import WILDCARD_PRINCIPAL, AclBindingFilter
from barnabas.common.resource import PatternType

if TYPE_CHECKING:
    from barnabas.access.acl_text import Resource
    from barnabas.common.acl import AclOperation
    from barnabas.security.principal import Principal

__all__ = ["filters_of", "filters_on", "show_explanation", "show_holders", "show_holdings"]


def filters_on(resource: Resource) -> list[AclBindingFilter]:
    """Return filters for all rules that decide access to a resource."""
    return [AclBindingFilter(resource.type, resource.name, PatternType.MATCH)]


def filters_of(principal: Principal) -> list[AclBindingFilter]:
    """Return filters for all rules that decide access of a principal."""
    return [AclBindingFilter(principal=name) for name in (str(principal), WILDCARD_PRINCIPAL)]


def show_explanation(
    loaded: LoadedPolicy,
    principal: Principal,
    host: str,
    operation: AclOperation,
    resource: Resource,
    options: Options,
) -> int:
    """Print whether an operation is allowed, and why. Return 0 if it is, else DENIED."""
    explanation = explain(loaded.policy, principal, host, operation, resource)
    if options.output != "table":
        print_document(explanation_json(explanation), loaded, options.output)
    else:
        from barnabas.cli.access.tables import print_explanation

        print_explanation(explanation)
        print_notes(loaded)
    return 0 if explanation.allowed else DENIED


def show_holders(
    loaded: LoadedPolicy,
    resource: Resource,
    operation: AclOperation | None,
    options: Options,
    *,
    with_denied: bool = False,
) -> int:
    """Print the principals with access to a resource."""
    holders = principals_with_access(loaded.policy, resource, operation)
    if options.output != "table":
        print_document(holders_json(holders), loaded, options.output)
    else:
        from barnabas.cli.access.tables import print_holders

        print_holders(holders, with_denied=with_denied)
        print_notes(loaded)
    return 0


def show_holdings(loaded: LoadedPolicy, principal: Principal, options: Options) -> int:
    """Print all access of a principal."""
    holdings = access_of_principal(loaded.policy, principal)
    if options.output != "table":
        print_document(holdings_json(holdings), loaded, options.output)
    else:
        from barnabas.cli.access.tables import print_holdings

        print_holdings(holdings)
        print_notes(loaded)
    return 0
