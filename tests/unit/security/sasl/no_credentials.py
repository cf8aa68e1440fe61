"""A credential store without users and tokens; tests override the methods that they need."""

from __future__ import annotations

from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MIN, ScramMechanism
from barnabas.security.sasl.credential_store import ScramCredential, TokenCredential


class NoCredentials:
    disguise_key = b""

    def usual_iterations(self, mechanism: ScramMechanism) -> int:
        return SCRAM_ITERATIONS_MIN

    def scram_credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return None

    def delegation_token(self, token_id: str) -> TokenCredential | None:
        return None
