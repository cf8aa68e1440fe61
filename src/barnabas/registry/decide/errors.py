"""Errors that a client of the registry receives, with Confluent's codes and texts.

Clients compare codes, and some compare texts, so both are Confluent's wherever it has them.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "IncompatibleSchema",
    "RegistryError",
    "config_not_set",
    "forwarding_failed",
    "forbidden",
    "invalid_level",
    "invalid_mode",
    "invalid_schema",
    "invalid_subject",
    "invalid_version",
    "mode_not_set",
    "no_leader",
    "not_permitted",
    "references_exist",
    "schema_not_found",
    "store_failed",
    "store_timed_out",
    "subject_is_deleted",
    "subject_not_found",
    "subject_not_soft_deleted",
    "version_is_deleted",
    "version_not_found",
    "version_not_soft_deleted",
]


class RegistryError(Exception):
    """``status`` is that of HTTP, ``code`` the ``error_code`` of the answer. The text is for the caller."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class IncompatibleSchema(RegistryError):
    """``problems`` says what readers could not do."""

    def __init__(self, subject: str, problems: Sequence[str]) -> None:
        details = ", ".join(problems)
        super().__init__(
            409,
            409,
            "Schema being registered is incompatible with an earlier schema for subject "
            f'"{subject}", details: [{details}]',
        )
        self.problems = tuple(problems)


def subject_not_found(subject: str) -> RegistryError:
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int | str) -> RegistryError:
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | None = None) -> RegistryError:
    return RegistryError(404, 40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_is_deleted(subject: str) -> RegistryError:
    return RegistryError(404, 40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_is_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        404, 40406, f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        404, 40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def config_not_set(subject: str) -> RegistryError:
    return RegistryError(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_set(subject: str) -> RegistryError:
    return RegistryError(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def invalid_schema(why: str) -> RegistryError:
    return RegistryError(422, 42201, f"Invalid schema: {why}")


def invalid_version(text: str) -> RegistryError:
    return RegistryError(
        422,
        42202,
        f"The specified version '{text}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_level(text: object) -> RegistryError:
    return RegistryError(
        422,
        42203,
        f"Invalid compatibility level {text}. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def invalid_mode(text: object) -> RegistryError:
    return RegistryError(
        422, 42204, f"Invalid mode {text}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE, and IMPORT"
    )


def not_permitted(why: str) -> RegistryError:
    return RegistryError(422, 42205, why)


def references_exist(subject: str, version: int) -> RegistryError:
    return RegistryError(
        422,
        42206,
        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version}}}.",
    )


def invalid_subject(subject: str, why: str) -> RegistryError:
    return RegistryError(422, 42208, f"The specified subject '{subject}' is not a valid subject: {why}")


def forbidden(why: str) -> RegistryError:
    return RegistryError(403, 40301, why)


def store_failed(why: str) -> RegistryError:
    return RegistryError(500, 50001, f"Error while reading or writing the schemas topic: {why}")


def store_timed_out(why: str) -> RegistryError:
    return RegistryError(500, 50002, f"The operation timed out: {why}")


def forwarding_failed(why: str) -> RegistryError:
    return RegistryError(500, 50003, f"Error while forwarding the request to the primary: {why}")


def no_leader(why: str) -> RegistryError:
    return RegistryError(500, 50004, f"Primary is unknown: {why}")
