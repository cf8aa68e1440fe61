"""How many rows a batch had and how many of them were bad, counted by the action that writes it.

Only the first action on a frame is counted, and only if it looked at all rows is the count right.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["RowCount"]

_TIMEOUT_S = 2


class RowCount:
    def __init__(self) -> None:
        from pyspark.sql import Observation

        self._observation = Observation()

    def on(self, frame: DataFrame) -> DataFrame:
        """The same rows. ``failure`` is looked at where there is one."""
        from pyspark.sql import functions as F

        failures = F.count("failure") if "failure" in frame.columns else F.count(F.lit(None).cast("int"))
        return frame.observe(self._observation, F.count(F.lit(1)).alias("rows"), failures.alias("failures"))

    def told(self) -> tuple[int, int] | None:
        """Rows and failures; None if there was no action, or nobody says. It is told after the action, on another
        thread."""
        if not hasattr(self._observation, "_jo"):  # Of a Spark Connect client's, which waits for nothing.
            found = self._observation.get
            return (int(found["rows"]), int(found["failures"])) if found else None
        if self._observation._jo is None:
            return None
        deadline = time.monotonic() + _TIMEOUT_S
        while not self._observation._jo.future().isCompleted():
            if time.monotonic() > deadline:
                return None
            time.sleep(0.005)
        found = self._observation.get
        return int(found["rows"]), int(found["failures"])
