from __future__ import annotations

import logging
import subprocess
import sys

from barnabas.connect.rest.logger_levels import LoggerLevels


def test_a_level_applies_to_every_logger_whose_name_has_the_given_prefix() -> None:
    root = logging.RootLogger(logging.INFO)
    root.manager = logging.Manager(root)
    for name in ("a.b", "a.b.c", "a.b_c.d", "a.other"):
        root.manager.getLogger(name)
    levels = LoggerLevels(lambda: 7, root)
    assert levels.set_level("a.b", "DEBUG") == ["a.b", "a.b.c", "a.b_c.d"]
    assert levels.level("a.other").level == "INFO"
    assert levels.level("a.b_c.d").last_modified == 7


def test_the_level_of_connect_applies_to_spark_tasks_and_to_modules_imported_later() -> None:
    """Runs in a separate process, because it changes the real loggers."""
    code = """
import logging
from barnabas.connect.plugins.discovery import discover
from barnabas.connect.rest.logger_levels import LoggerLevels
discover([])
changed = LoggerLevels(lambda: 0).set_level("barnabas.connect", "DEBUG")
assert {"barnabas.connect", "barnabas.connect_spark"} <= set(changed), changed
for name in ("barnabas.connect.run.later", "barnabas.connect_spark.queries.later"):
    assert logging.getLogger(name).isEnabledFor(logging.DEBUG), name
assert not logging.getLogger("barnabas.clients").isEnabledFor(logging.DEBUG)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
