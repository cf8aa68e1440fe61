"""``python -m barnabas.pipelines.flights``: exit status 0 when the tables add up to the source."""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.interruption import Interrupted, Interruption
from barnabas.pipelines.flights.options import parse_options
from barnabas.spark.errors import SparkUnavailable

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["main"]

_WIDTH_OFF_TERMINAL = 120


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_options(sys.argv[1:] if arguments is None else arguments, os.environ)
    interruption = Interruption()
    interruption.install()
    logging.getLogger().addHandler(logging.NullHandler())  # Otherwise Py4J also prints the errors that it raises.
    try:
        from barnabas.pipelines.flights.run import FlightsRun

        FlightsRun(options, os.environ, _console(Console())).run(interruption)
    except (PipelineError, SparkUnavailable) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"error: no space left on the disk of {options.run_directory.absolute()}", file=sys.stderr)
        return 1
    except Interrupted as interrupted:
        print(f"interrupted by {interrupted}: start again to resume the run", file=sys.stderr)
        return interrupted.exit_status
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("barnabas"):
            raise
        print(
            f"error: {error.name} is not installed: `make env`, or pip install 'barnabas[spark,flights]'",
            file=sys.stderr,
        )
        return 1
    return 0


def _console(console: Console) -> Console:
    """Set a wide console when the output is not a terminal: rich would break its lines at 80 columns."""
    if not console.is_terminal:
        console.width = _WIDTH_OFF_TERMINAL
    return console


if __name__ == "__main__":
    sys.exit(main())
