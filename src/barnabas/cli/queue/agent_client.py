"""Reach the agent of a topic in a group, started if none runs; and the agent that a handle names."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from barnabas.cli.queue.agent_files import agent_name, agents_folder, log_path, socket_path
from barnabas.cli.queue.agent_task import AgentTask
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from barnabas.common.error_code import ErrorCode

__all__ = ["AgentGone", "ask_agent", "ensure_agent"]

_MODULE = "barnabas.cli.queue.agent"
_IDLE_S = 60.0
_START_WITHIN_S = 60.0
_PAUSE_S = 0.1
_LINE_BYTES_MAX = 256 * 1024 * 1024


class AgentGone(Exception):
    """No agent of this name runs: it has ended, and the nodes have released its records."""


async def ensure_agent(bootstrap: str, properties: Mapping[str, str], group: str, topic: str) -> str:
    """Return the name of the running agent, started if necessary. Raise AdminError, ClientError if it can't start."""
    folder = agents_folder()
    name = agent_name(bootstrap, properties, group, topic)
    task = AgentTask(name, str(folder), bootstrap, dict(properties), group, topic, _IDLE_S)
    try:
        async with asyncio.timeout(_START_WITHIN_S):
            while not await _is_running(folder, name):
                if not await _start(task, log_path(folder, name)):
                    await asyncio.sleep(_PAUSE_S)
    except TimeoutError as error:
        log = log_path(folder, name)
        raise ClientError(f"the agent did not start in {_START_WITHIN_S:g} s: see {log}") from error
    return name


async def ask_agent(name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Send a request, and return the response. Raise AgentGone, or the AdminError or ClientError of the agent."""
    path = socket_path(agents_folder(), name)
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=_LINE_BYTES_MAX)
    except OSError as error:
        raise AgentGone(name) from error
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        line = await reader.readline()
    except OSError as error:
        raise AgentGone(name) from error
    finally:
        writer.close()
    response: dict[str, Any] = json.loads(line) if line else {"gone": True}
    if "gone" in response:
        raise AgentGone(name)
    if "error" in response:
        raise error_of(response["error"])
    return response


def error_of(document: Mapping[str, Any]) -> AdminError | ClientError:
    """Return the error that an agent has described."""
    if "code" in document:
        return AdminError(ErrorCode[document["code"]], document["message"], document["item"])
    return ClientError(document["message"])


async def _is_running(folder: Path, name: str) -> bool:
    try:
        _, writer = await asyncio.open_unix_connection(socket_path(folder, name))
    except OSError:
        return False
    writer.close()
    return True


async def _start(task: AgentTask, log: Path) -> bool:
    """Start an agent, and wait until it is ready. Return False if another one begins or ends at this moment."""
    line = await asyncio.to_thread(_first_line, json.dumps(asdict(task)), log)
    if not line:
        raise ClientError(f"the agent has ended at once: see {log}")
    answer = json.loads(line)
    if "error" in answer:
        raise error_of(answer["error"])
    return bool(answer["ready"])


def _first_line(task: str, log: Path) -> str:
    """Start the program, which leaves the agent behind, and return the first line that the agent writes."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            text=True,
        )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(task + "\n")
        process.stdin.close()
        return process.stdout.readline()
