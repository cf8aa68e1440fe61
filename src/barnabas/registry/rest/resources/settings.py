"""Compatibility levels and modes: of a subject, of a context, and of the registry."""

from __future__ import annotations

from typing import Any

from barnabas.registry.decide.errors import config_not_set, mode_not_set
from barnabas.registry.decide.levels import level_in_scope, mode_in_scope
from barnabas.registry.rest.api_request import ApiRequest, Route, Services

__all__ = ["ROUTES"]


async def _config(services: Services, request: ApiRequest) -> dict[str, Any]:
    subject = request.optional_subject
    if subject is not None and "subject" in request.parameters:
        request.access.check_read(subject)
    own = services.state.configs.get(subject)
    if own is None and "subject" in request.parameters and not request.truth("defaultToGlobal"):
        raise config_not_set(subject or "")
    level = level_in_scope(services.state, subject, services.changes.rules.default_level)
    return {**(own or {}), "compatibilityLevel": level.value}


async def _set_config(services: Services, request: ApiRequest) -> Any:
    subject, body = request.optional_subject, request.json()
    request.access.check_settings(subject)
    return await services.change(lambda: services.changes.set_config(subject, body))


async def _delete_config(services: Services, request: ApiRequest) -> Any:
    subject = request.optional_subject
    request.access.check_settings(subject)
    return await services.change(lambda: services.changes.delete_config(subject))


async def _mode(services: Services, request: ApiRequest) -> dict[str, Any]:
    subject = request.optional_subject
    if subject is not None and "subject" in request.parameters:
        request.access.check_read(subject)
    if "subject" in request.parameters and not request.truth("defaultToGlobal"):
        if subject not in services.state.modes:
            raise mode_not_set(subject or "")
        return {"mode": services.state.modes[subject]}
    return {"mode": mode_in_scope(services.state, subject).value}


async def _set_mode(services: Services, request: ApiRequest) -> Any:
    subject, mode, force = request.optional_subject, request.json().get("mode"), request.truth("force")
    request.access.check_settings(subject)
    return await services.change(lambda: services.changes.set_mode(subject, mode, force=force))


async def _delete_mode(services: Services, request: ApiRequest) -> Any:
    subject = request.optional_subject
    request.access.check_settings(subject)
    return await services.change(lambda: services.changes.delete_mode(subject))


ROUTES = (
    Route("GET", "/config", _config, "Read the level of the registry, or of a context."),
    Route("PUT", "/config", _set_config, "Set it.", is_write=True),
    Route("DELETE", "/config", _delete_config, "Return to the default.", is_write=True),
    Route("GET", "/config/{subject}", _config, "Read the level of a subject: defaultToGlobal."),
    Route("PUT", "/config/{subject}", _set_config, "Set it.", is_write=True),
    Route("DELETE", "/config/{subject}", _delete_config, "Return to the level of the registry.", is_write=True),
    Route("GET", "/mode", _mode, "Read the mode of the registry, or of a context."),
    Route("PUT", "/mode", _set_mode, "Set it: force.", is_write=True),
    Route("DELETE", "/mode", _delete_mode, "Return to READWRITE.", is_write=True),
    Route("GET", "/mode/{subject}", _mode, "Read the mode of a subject: defaultToGlobal."),
    Route("PUT", "/mode/{subject}", _set_mode, "Set it: force.", is_write=True),
    Route("DELETE", "/mode/{subject}", _delete_mode, "Return to the mode of the registry.", is_write=True),
)
