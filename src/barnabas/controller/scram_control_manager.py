"""SCRAM credentials on the active controller.

One request may name a user once, whatever the mechanism, as in Kafka: a user that is named twice receives an error and
no change. Changes of different users are independent. The records have the keys that a server needs; the salted
password that they are derived from is not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiError, ErrorCode
from barnabas.common.scram_mechanism import SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, ScramMechanism
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.controller_state import ControllerState
from barnabas.metadata.image.record_writer import ApiMessageAndVersion
from barnabas.protocol.records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from barnabas.protocol.records.user_scram_credential_record import UserScramCredentialRecord
from barnabas.security.scram_credentials import credential_of_salted_password

if TYPE_CHECKING:
    from barnabas.protocol.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )

__all__ = ["ScramControlManager"]

_TWICE = ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_TOO_OLD = ApiError(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")
_NO_NAME = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_NO_MECHANISM = ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_TOO_FEW = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_TOO_MANY = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_NO_PASSWORD = ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
_NOT_THERE = ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")

_Change = tuple[str, ApiError | None, Callable[[], RemoveUserScramCredentialRecord | UserScramCredentialRecord]]
"""The user, the error of the change, and its record."""


class ScramControlManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter_credentials(self, request: AlterUserScramCredentialsRequest) -> ControllerResult[dict[str, ApiError]]:
        """Return the result for each named user."""
        records: dict[str, ApiMessageAndVersion] = {}
        errors: dict[str, ApiError] = {}
        changes: list[_Change] = [
            *(
                (deletion.name, self._problem_of_deletion(deletion), partial(_removal, deletion))
                for deletion in request.deletions
            ),
            *(
                (upsertion.name, self._problem_of_upsertion(upsertion), partial(_credential, upsertion))
                for upsertion in request.upsertions
            ),
        ]
        for name, problem, make_record in changes:
            if name in errors:
                continue
            if records.pop(name, None) is not None:
                errors[name] = _TWICE
            elif problem is not None:
                errors[name] = problem
            else:
                records[name] = ApiMessageAndVersion(make_record(), 0)
        outcome = {**dict.fromkeys(records, ApiError.NONE), **errors}
        return ControllerResult(list(records.values()), outcome)

    def _problem_of_deletion(self, deletion: ScramCredentialDeletion) -> ApiError | None:
        problem = self._problem_of(deletion.name, deletion.mechanism)
        if problem is None and (deletion.mechanism, deletion.name) not in self._state.image.scram.by_key:
            return _NOT_THERE
        return problem

    def _problem_of_upsertion(self, upsertion: ScramCredentialUpsertion) -> ApiError | None:
        problem = self._problem_of(upsertion.name, upsertion.mechanism)
        if problem is not None:
            return problem
        if upsertion.iterations < SCRAM_ITERATIONS_MIN:
            return _TOO_FEW
        if upsertion.iterations > SCRAM_ITERATIONS_MAX:
            return _TOO_MANY
        return None if upsertion.salted_password else _NO_PASSWORD

    def _problem_of(self, name: str, mechanism: int) -> ApiError | None:
        if not self._state.image.features.metadata_version_or_throw().is_scram_supported:
            return _TOO_OLD
        if not name:
            return _NO_NAME
        return _NO_MECHANISM if ScramMechanism.from_code(mechanism) is ScramMechanism.UNKNOWN else None


def _removal(deletion: ScramCredentialDeletion) -> RemoveUserScramCredentialRecord:
    return RemoveUserScramCredentialRecord(name=deletion.name, mechanism=deletion.mechanism)


def _credential(upsertion: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    credential = credential_of_salted_password(
        ScramMechanism(upsertion.mechanism), upsertion.salted_password, upsertion.salt, upsertion.iterations
    )
    return UserScramCredentialRecord(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
