"""``barnabas queue agents``: the processes that hold records for commands."""

from __future__ import annotations

import asyncio
from typing import Any

from barnabas.cli.arguments.cluster_options import AnswerOptions, Flag
from barnabas.cli.output.answer import Answer
from barnabas.cli.output.table import Sheet

__all__ = ["agents"]


def agents(*, stop: Flag = False, options: AnswerOptions | None = None) -> int:
    """List the agents of this user on this machine: the processes that hold records for commands.

    For example:

        barnabas queue agents
        barnabas queue agents --stop

    Parameters
    ----------
    stop
        End all of them. The records that they hold are released.
    """
    return (options or AnswerOptions()).give(asyncio.run(_answer(stop=stop)))


async def _answer(*, stop: bool) -> Answer:
    from barnabas.cli.queue.agent_client import AgentGone, ask_agent
    from barnabas.cli.queue.agent_files import agent_names, agents_folder

    folder = agents_folder()
    found: list[tuple[str, dict[str, Any]]] = []
    for name in agent_names(folder):
        try:
            found.append((name, await ask_agent(name, {"do": "describe"})))
            if stop:
                await ask_agent(name, {"do": "end"})
        except AgentGone:
            continue
    sheet = Sheet(columns=("agent", "group", "topic", "cluster", "process", "records locked for"))
    for name, agent in found:
        held_s = agent["held_for_s"]
        place = (agent["group"], agent["topic"], agent["bootstrap"], str(agent["process_id"]))
        sheet.add(name, *place, f"{held_s:g} s" if held_s else "-")
    notes = [f"sockets and logs are in {folder}"] if found else ["no agent runs"]
    if stop and found:
        notes.append("they end, and their records are released")
    document = {"folder": str(folder), "agents": [{"agent": name, **agent} for name, agent in found]}
    return Answer(document, [sheet] if found else [], notes)
