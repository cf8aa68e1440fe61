"""Draw the result: delays by carrier and hour, and delays over the year."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["draw_delays"]

_LOCAL_ZONE = "America/New_York"
_DEPARTURES_MIN = 30
"""A cell of the heat map with fewer departures stays empty."""


def draw_delays(delays: pd.DataFrame, airlines: dict[str, str], path: Path) -> None:
    """Write the PNG atomically: after a kill the file is either the former one or the new one."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, (by_hour, by_week) = plt.subplots(2, 1, figsize=(12, 11), height_ratios=[3, 2], layout="constrained")
    total, not_departed = int(delays["flights"].sum()), int(delays["not_departed"].sum())
    figure.suptitle(
        f"Departure delays from New York City, 2013: {total:,} flights, {not_departed:,} of them never departed",
        fontsize=14,
    )
    _draw_carriers_by_hour(by_hour, delays, airlines)
    _draw_weeks(by_week, delays)
    scratch = path.with_name(f".{path.name}.new")
    figure.savefig(scratch, format="png", dpi=120)
    plt.close(figure)
    os.replace(scratch, path)


def _draw_carriers_by_hour(axes: Axes, delays: pd.DataFrame, airlines: dict[str, str]) -> None:
    departed = delays[delays["departed"] > 0]
    hour = departed["time_hour"].dt.tz_localize("UTC").dt.tz_convert(_LOCAL_ZONE).dt.hour.rename("hour")
    weighted = departed.assign(weight=departed["dep_delay_p95"] * departed["departed"])
    sums = weighted.groupby([weighted["carrier"].astype(str), hour])[["weight", "departed"]].sum()
    sums = sums[sums["departed"] >= _DEPARTURES_MIN]
    cells = (sums["weight"] / sums["departed"]).unstack("hour")
    if cells.empty:
        axes.text(0.5, 0.5, "too few departures for a heat map", ha="center", transform=axes.transAxes)
        return
    cells = cells.reindex(columns=range(int(cells.columns.min()), int(cells.columns.max()) + 1))
    flights = delays.groupby(delays["carrier"].astype(str))["flights"].sum()
    cells = cells.loc[flights.loc[cells.index].sort_values(ascending=False).index]
    image = axes.imshow(cells.to_numpy(), aspect="auto", cmap="magma_r", interpolation="nearest")
    axes.set_xticks(range(cells.shape[1]), [f"{hour:02d}" for hour in cells.columns])
    axes.set_yticks(
        range(cells.shape[0]), [f"{airlines.get(name, '')} ({name}) {flights[name]:,}" for name in cells.index]
    )
    axes.set_xlabel(f"scheduled hour of departure (New York); blank: fewer than {_DEPARTURES_MIN} departures")
    axes.set_ylabel("carrier, flights")
    axes.set_title("95th percentile of the departure delay of an hour, mean over the year weighted by departures")
    axes.figure.colorbar(image, ax=axes, label="minutes")


def _draw_weeks(axes: Axes, delays: pd.DataFrame) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    departed = delays[delays["departed"] > 0]
    minutes = departed.assign(
        mean=departed["dep_delay_mean"] * departed["departed"], p95=departed["dep_delay_p95"] * departed["departed"]
    )
    weeks = minutes.set_index("time_hour")[["mean", "p95", "departed"]].resample("7D", origin="start_day").sum()
    weeks = weeks.where(weeks["departed"] > 0)  # A week without departures is a gap in the lines.
    every = delays.set_index("time_hour")[["flights", "not_departed"]].resample("7D", origin="start_day").sum()
    every = every.where(every["flights"] > 0)
    axes.plot(
        weeks.index, weeks["p95"] / weeks["departed"], marker=".", color="tab:red", label="95th percentile of an hour"
    )
    axes.plot(weeks.index, weeks["mean"] / weeks["departed"], marker=".", color="tab:blue", label="mean")
    axes.set_ylabel("departure delay, minutes")
    axes.set_xlabel("week beginning")
    axes.xaxis.set_major_locator(locator := AutoDateLocator())  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.grid(alpha=0.3)
    share = axes.twinx()
    share.bar(
        every.index,
        100 * every["not_departed"] / every["flights"],
        width=6,
        align="edge",
        alpha=0.25,
        color="tab:gray",
        label="never departed (right)",
    )
    share.set_ylabel("flights that never departed, %")
    share.set_ylim(bottom=0)
    lines, labels = axes.get_legend_handles_labels()
    bars, bar_labels = share.get_legend_handles_labels()
    axes.legend(lines + bars, labels + bar_labels, loc="upper right")
    axes.set_title("All carriers by week, weighted by departures")
