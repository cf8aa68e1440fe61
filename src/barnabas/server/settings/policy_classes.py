"""The classes that ``create.topic.policy.class.name`` and ``alter.config.policy.class.name`` name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from barnabas.controller.policies import AlterConfigPolicy, CreateTopicPolicy
from barnabas.server.start_errors import NodeStartError

__all__ = ["ALTER_POLICY", "CREATE_POLICY", "PolicyProblem", "load_policy"]

ALTER_POLICY, CREATE_POLICY = "alter.config.policy.class.name", "create.topic.policy.class.name"
_BASES = {ALTER_POLICY: AlterConfigPolicy, CREATE_POLICY: CreateTopicPolicy}


class PolicyProblem(NodeStartError):
    """A policy can't be loaded or configured: the setting, the error, and advice."""

    def __init__(self, name: str, what: str, advice: str) -> None:
        super().__init__(f"{name}: {what} -> {advice}")
        self.name = name
        self.what = what
        self.advice = advice


def load_policy(name: str, class_name: str) -> Any:
    """Return a new instance of the class, not configured yet. Raise PolicyProblem if it can't be loaded."""
    base = _BASES[name]
    advice = f"write module:Class of a subclass of {base.__module__}.{base.__name__}"
    module_name, colon, attribute = class_name.partition(":")
    if not colon:
        raise PolicyProblem(name, f"{class_name} is a Java class, which can't be loaded here", advice)
    try:
        found = getattr(import_module(module_name), attribute)
        if not (isinstance(found, type) and issubclass(found, base)):
            raise PolicyProblem(name, f"{class_name} is not a {base.__name__}", advice)
        return found()
    except PolicyProblem:
        raise
    except Exception as error:  # Importing a user's module may raise anything.
        what = f"{class_name} can't be loaded: {type(error).__name__}: {error}"
        raise PolicyProblem(name, what, "is it on PYTHONPATH?") from error
