"""Nodes of ours that serve the APIs of share state, also while these are not advertised."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.peers.command_node import CommandNode
from tests.peers.mixed import OurBroker

__all__ = ["ShareStateBroker", "ShareStateNode"]

_COMMAND = [sys.executable, "-P", str(Path(__file__).with_name("serve_share_state.py"))]


class ShareStateNode(CommandNode):
    """A broker and controller."""

    def command(self) -> list[str]:
        return [*_COMMAND, *super().command()[1:]]


class ShareStateBroker(OurBroker):
    """A broker without a controller."""

    def command(self) -> list[str]:
        return [*_COMMAND, *super().command()[1:]]
