"""Count the rows of a batch and the bad ones among them, in the action that writes it.

Only the first action on a frame is counted. The count is right only if that action reads all rows.
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
        """Return the same rows. A column ``failure`` is evaluated if it exists."""
        from pyspark.sql import functions as F

        failures = F.count("failure") if "failure" in frame.columns else F.count(F.lit(None).cast("int"))
        return frame.observe(self._observation, F.count(F.lit(1)).alias("rows"), failures.alias("failures"))

    def result(self) -> tuple[int, int] | None:
        """Return rows and failures; None without an action, or if the count is unknown. Spark reports it after the
        action, on another thread."""
        if not hasattr(self._observation, "_jo"):  # An observation of a Spark Connect client does not wait.
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
