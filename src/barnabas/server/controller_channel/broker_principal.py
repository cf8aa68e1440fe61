"""The principal of this node's broker, as controllers would see it if the broker connected to their listener.

The broker of a combined node calls its controller inside the process (decision 10), without authentication. Checks,
audit and quotas still need a principal. It must be the one that the same broker would have in another process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.config_value import Password
from barnabas.security.principal import ANONYMOUS, Principal
from barnabas.security.principal_builder import AuthenticationContext, PrincipalRefused, session_principal
from barnabas.security.request_context import RequestContext
from barnabas.security.tls_settings import TlsSettings
from barnabas.server.settings.listener_values import listener_value
from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from barnabas.protocol.api_keys import ApiKey
    from barnabas.server.settings.endpoints import Endpoint
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["own_context", "own_principal"]

_LOOPBACK = "127.0.0.1"


def own_context(config: NodeConfig, principal: Principal, api_key: ApiKey, api_version: int) -> RequestContext:
    """Return the context of a request that this node's own broker sends to a controller."""
    endpoint = config.controller_listeners[0]
    return RequestContext(
        api_key=api_key,
        api_version=api_version,
        principal=principal,
        client_host=_LOOPBACK,
        listener_name=endpoint.listener,
        security_protocol=endpoint.security_protocol,
        from_privileged_listener=True,
    )


def own_principal(config: NodeConfig) -> Principal:
    """Return the principal that the first controller listener's builder derives from this node's credentials.

    PLAINTEXT: ANONYMOUS. SASL: the user of the listener's JAAS line for ``sasl.mechanism.controller.protocol``. SSL:
    the mapped name in the node's own certificate. If the credentials don't name a principal (a token that is fetched
    from another server), it is ANONYMOUS. Raise NodeStartError if the builder refuses.
    """
    endpoint = config.controller_listeners[0]
    if endpoint.security_protocol == "PLAINTEXT":
        return ANONYMOUS
    from barnabas.server.settings.tls import principal_builder_of

    uses_sasl = endpoint.security_protocol.startswith("SASL_")
    mechanism = str(config.value("sasl.mechanism.controller.protocol")) if uses_sasl else None
    user = None if mechanism is None else _jaas_user(config, endpoint, mechanism)
    if uses_sasl and user is None:
        return ANONYMOUS
    context = AuthenticationContext(
        listener_name=endpoint.listener,
        security_protocol=endpoint.security_protocol,
        client_host=_LOOPBACK,
        peer_certificate_der=None if uses_sasl else _own_certificate(config, endpoint.listener),
        authorization_id=user,
        sasl_mechanism=mechanism,
    )
    try:
        return session_principal(principal_builder_of(config, endpoint.listener), context)
    except PrincipalRefused as error:
        raise NodeStartError(
            f"cannot build a principal for this node's own broker on {endpoint.listener}: {error}"
        ) from error


def _jaas_user(config: NodeConfig, endpoint: Endpoint, mechanism: str) -> str | None:
    from barnabas.security.sasl.jaas import parse_jaas_entry

    line = listener_value(config, endpoint.listener, "sasl.jaas.config", mechanism)
    if line is None:
        return None
    options = parse_jaas_entry(line.value if isinstance(line, Password) else str(line)).options
    return options.get("username") or options.get("unsecuredLoginStringClaim_sub")


def _own_certificate(config: NodeConfig, listener: str) -> bytes | None:
    from cryptography.hazmat.primitives.serialization import Encoding

    from barnabas.security.key_store import load_key_material

    material = load_key_material(TlsSettings.read(lambda name: listener_value(config, listener, name)))
    return None if material is None else material.certificates[0].public_bytes(Encoding.DER)
