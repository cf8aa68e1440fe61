"""What is told at the end: whether the tables add up to the source, the top rows, the plot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.dataset import SourceTotals

if TYPE_CHECKING:
    import pandas as pd

    from barnabas.pipelines.flights.job import FlightTables

__all__ = ["DEPARTURES_MIN", "check_totals", "delays_table", "read_delays", "report", "worst_hours"]

DEPARTURES_MIN = 10
"""Hours with fewer departures are left out of the top rows: the 95th percentile of two flights says nothing."""


_ROWS_SHOWN = 15
_WIDTH_WITH_NAMES = 105
"""On a narrower terminal carriers are shown by their code alone, so that no figure is cut off."""


def report(
    tables: FlightTables, source: SourceTotals, airlines: dict[str, str], *, plot: Path, console: Console
) -> None:
    """Prove the tables, show the top rows, draw the plot. Raises PipelineError if the tables do not add up."""
    from barnabas.pipelines.flights.delay_plot import draw_delays

    delays = read_delays(tables.delays.path)
    check_totals(delays, source, flights_in_table=tables.flights.row_count())
    rows = worst_hours(delays, _ROWS_SHOWN)
    table = delays_table(rows, of=len(delays), airlines=airlines if console.width >= _WIDTH_WITH_NAMES else {})
    console.print(table)
    draw_delays(delays, airlines, plot)
    console.print(
        f"totals from the Parquet agree with the source: {source.flights:,} flights, {source.not_departed:,} of them "
        f"without a departure, in {len(delays):,} carrier hours",
        highlight=False,
        soft_wrap=True,
    )


def read_delays(table: Path) -> pd.DataFrame:
    import pandas as pd

    if not table.exists():
        raise PipelineError(f"there is no table in {table}: the query wrote nothing. Start again with --fresh.")
    return pd.read_parquet(table)


def check_totals(delays: pd.DataFrame, source: SourceTotals, *, flights_in_table: int) -> None:
    """Compare what the Parquet tables add up to with what was counted while the source was read."""
    departed = delays[delays["departed"] > 0]
    found = {
        "flights": int(delays["flights"].sum()),
        "flights without a departure": int(delays["not_departed"].sum()),
        "flights with a departure": int(delays["departed"].sum()),
        "minutes of departure delay": round(float((departed["dep_delay_mean"] * departed["departed"]).sum())),
        "rows of the table of flights": flights_in_table,
    }
    expected = {
        "flights": source.flights,
        "flights without a departure": source.not_departed,
        "flights with a departure": source.flights - source.not_departed,
        "minutes of departure delay": source.dep_delay_sum,
        "rows of the table of flights": source.flights,
    }
    by_carrier = delays.groupby("carrier", observed=True)["flights"].sum().to_dict()
    for carrier in sorted(source.flights_by_carrier.keys() | by_carrier.keys()):
        found[f"flights of {carrier}"] = int(by_carrier.get(carrier, 0))
        expected[f"flights of {carrier}"] = source.flights_by_carrier.get(carrier, 0)
    wrong = [
        f"{name}: {found[name]:,} instead of {expected[name]:,}" for name in expected if found[name] != expected[name]
    ]
    if wrong:
        raise PipelineError(
            "the tables do not add up to the source. " + "; ".join(wrong) + ". The next run starts over by itself."
        )


def worst_hours(delays: pd.DataFrame, count: int) -> pd.DataFrame:
    """The carrier hours with the highest 95th percentile, among those with enough departures."""
    enough = delays[delays["departed"] >= DEPARTURES_MIN]
    keys = ["dep_delay_p95", "dep_delay_mean", "carrier", "time_hour"]
    return enough.sort_values(keys, ascending=[False, False, True, True]).head(count)


def delays_table(rows: pd.DataFrame, *, of: int, airlines: dict[str, str]) -> Table:
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        title=f"Departure delay in minutes: mean and exact 95th percentile (p95)\n"
        f"of the {len(rows)} worst of {of:,} carrier hours, by p95, with at least {DEPARTURES_MIN} departures",
    )
    for name in ("carrier", "hour (UTC)"):
        table.add_column(name, no_wrap=True)
    for name in ("flights", "departed", "not departed", "mean", "p95"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows.itertuples():
        carrier = str(row.carrier)
        table.add_row(
            f"{carrier} {airlines.get(carrier, '')}".strip(),
            f"{row.time_hour:%Y-%m-%d %H:%M}",
            str(row.flights),
            str(row.departed),
            str(row.not_departed),
            f"{row.dep_delay_mean:.1f}",
            f"{row.dep_delay_p95:.1f}",
        )
    return table
