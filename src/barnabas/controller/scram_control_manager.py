"""SCRAM credentials on the active controller.

One request may name a user once, whatever the mechanism, as in Kafka: a user that is named twice gets an error and no
change. Users don't stand in each other's way. What is written has the keys that a server needs; the salted password
that they are derived from is not kept.
"""

from __future__ import annotations

from barnabas.common.errors import ApiError, ErrorCode
from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, ScramMechanism
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.protocol.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.scram_credentials import credential_of_salted_password

__all__ = ["ScramControlManager"]

_TWICE = ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_TOO_OLD = ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
_NO_NAME = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_NO_MECHANISM = ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_TOO_FEW = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_TOO_MANY = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_NO_PASSWORD = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
_NOT_THERE = ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")


class ScramControlManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter_credentials(self, request: AlterUserScramCredentialsRequest) -> ControllerResult[dict[str, ApiError]]:
        """The outcome for each user that is named."""
        records: dict[str, ApiMessageAndVersion] = {}
        errors: dict[str, ApiError] = {}
        changes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
        for change in changes:
            name = change.name
            if name in errors:
                continue
            error = _TWICE if records.pop(name, None) is not None else self._problem_of(change)
            if error is None:
                records[name] = ApiMessageAndVersion(_record_of(change), 0)
            else:
                errors[name] = error
        outcome = {**dict.fromkeys(records, ApiError.NONE), **errors}
        return ControllerResult(list(records.values()), outcome)

    def _problem_of(self, change: ScramCredentialDeletion | ScramCredentialUpsertion) -> ApiError | None:
        image = self._state.image
        if not image.features.metadata_version_or_throw().is_scram_supported:
            return _TOO_OLD
        if not change.name:
            return _NO_NAME
        if ScramMechanism.from_code(change.mechanism) is ScramMechanism.UNKNOWN:
            return _NO_MECHANISM
        if isinstance(change, ScramCredentialDeletion):
            return None if (change.mechanism, change.name) in image.scram.by_key else _NOT_THERE
        if change.iterations < SCRAM_ITERATIONS_MIN:
            return _TOO_FEW
        if change.iterations > SCRAM_ITERATIONS_MAX:
            return _TOO_MANY
        return None if change.salted_password else _NO_PASSWORD


def _record_of(
    change: ScramCredentialDeletion | ScramCredentialUpsertion,
) -> RemoveUserScramCredentialRecord | UserScramCredentialRecord:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    credential = credential_of_salted_password(
        ScramMechanism(change.mechanism), change.salted_password, change.salt, change.iterations
    )
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
