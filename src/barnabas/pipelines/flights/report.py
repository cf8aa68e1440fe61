"""The report at the end: whether files, tables and database add up to the source, then the top rows and the plot."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.dataset import SourceTotals
from barnabas.pipelines.flights.delay_plot import draw_delays

if TYPE_CHECKING:
    import pandas as pd

    from barnabas.pipelines.flights.run_directory import RunDirectory

__all__ = [
    "DEPARTURES_MIN",
    "LandedTotals",
    "check_database",
    "check_landed",
    "check_totals",
    "delays_table",
    "read_delays",
    "read_landed",
    "report",
    "worst_hours",
]

DEPARTURES_MIN = 10
"""The top rows omit hours with fewer departures: the 95th percentile of two flights says nothing."""


_ROWS_SHOWN = 15
_AGAIN = "The next run starts over automatically."
_WIDTH_WITH_NAMES = 105
"""A narrower terminal shows only the codes of carriers, so that no figure is cut off."""


@dataclass(frozen=True, slots=True)
class LandedTotals:
    """The contents of the files that the connector wrote."""

    records: int
    """Rows of the files: one for each record of the topics, if each was delivered exactly once."""
    positions: int
    """Distinct positions in the topics that the rows came from."""
    flights: int
    """Distinct flights among the rows."""
    not_departed: int
    dep_delay_sum: int


def report(
    directory: RunDirectory, source: SourceTotals, airlines: dict[str, str], *, records: int, console: Console
) -> None:
    """Check what was written, print the top rows, and draw the plot. ``records`` is how many are in the topics.

    Raise PipelineError if the totals differ.
    """
    landed = read_landed(directory.landed)
    check_landed(landed, source, records=records)
    delays = read_delays(directory.delays)
    check_totals(delays, source, flights_in_table=_row_count(directory.flights))
    if directory.database.exists():
        check_database(directory.database, source)
    rows = worst_hours(delays, _ROWS_SHOWN)
    table = delays_table(rows, of=len(delays), airlines=airlines if console.width >= _WIDTH_WITH_NAMES else {})
    console.print(table)
    draw_delays(delays, airlines, directory.plot)
    _say(console, f"{landed.records:,} of the {records:,} records of the topics are in the files, each exactly once")
    if records > landed.flights:
        _say(console, f"{records - landed.flights:,} of them were not flights, or repeat a flight")
    if directory.database.exists():
        _say(console, f"the database holds the same {source.flights:,} flights")
    _say(
        console,
        f"totals from the Parquet agree with the source: {source.flights:,} flights, {source.not_departed:,} of them "
        f"without a departure, in {len(delays):,} carrier hours",
    )


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def read_landed(folder: Path) -> LandedTotals:
    import pandas as pd

    if not any(folder.glob("*.parquet")):
        raise PipelineError(f"{folder} has no files: the connector wrote nothing. Start again with --fresh.")
    columns = ["row", "dep_delay", "_topic", "_partition", "_offset"]
    landed = pd.read_parquet(folder, columns=columns)
    places = landed[["_topic", "_partition", "_offset"]].drop_duplicates()
    flights = landed[landed["row"].notna()].drop_duplicates("row")
    return LandedTotals(
        records=len(landed),
        positions=len(places),
        flights=len(flights),
        not_departed=int(flights["dep_delay"].isna().sum()),
        dep_delay_sum=int(flights["dep_delay"].sum()),
    )


def read_delays(table: Path) -> pd.DataFrame:
    import pandas as pd

    if not table.exists():
        raise PipelineError(f"{table} does not exist: the connector wrote nothing. Start again with --fresh.")
    return pd.read_parquet(table)


def check_landed(landed: LandedTotals, source: SourceTotals, *, records: int) -> None:
    """Check that the files hold each record once, and so each flight.

    The connector skips records that its converter can't read.
    """
    _compare(
        "the files do not add up to the source",
        {
            "rows written twice": (landed.records - landed.positions, 0),
            "flights": (landed.flights, source.flights),
            "flights without a departure": (landed.not_departed, source.not_departed),
            "minutes of departure delay": (landed.dep_delay_sum, source.dep_delay_sum),
        },
    )
    if landed.records > records:
        raise PipelineError(
            f"the files hold {landed.records:,} rows, but the topics only {records:,} records. {_AGAIN}"
        )


def check_database(path: Path, source: SourceTotals) -> None:
    query = "SELECT count(*), count(DISTINCT row), count(*) - count(dep_delay), sum(dep_delay) FROM flights"
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            rows, flights, not_departed, delays = database.execute(query).fetchone()
    except sqlite3.Error as error:
        raise PipelineError(f"the database {path} can't be read: {error}. Start again with --fresh.") from error
    _compare(
        "the database does not add up to the source",
        {
            "rows": (rows, source.flights),
            "flights": (flights, source.flights),
            "flights without a departure": (not_departed, source.not_departed),
            "minutes of departure delay": (delays or 0, source.dep_delay_sum),
        },
    )


def check_totals(delays: pd.DataFrame, source: SourceTotals, *, flights_in_table: int) -> None:
    """Compare the totals of the Parquet tables with those that were counted while the source was read."""
    departed = delays[delays["departed"] > 0]
    minutes = round(float((departed["dep_delay_mean"] * departed["departed"]).sum()))
    figures = {
        "flights": (int(delays["flights"].sum()), source.flights),
        "flights without a departure": (int(delays["not_departed"].sum()), source.not_departed),
        "flights with a departure": (int(delays["departed"].sum()), source.flights - source.not_departed),
        "minutes of departure delay": (minutes, source.dep_delay_sum),
        "rows of the table of flights": (flights_in_table, source.flights),
    }
    by_carrier = delays.groupby("carrier", observed=True)["flights"].sum().to_dict()
    for carrier in sorted(source.flights_by_carrier.keys() | by_carrier.keys()):
        found, expected = int(by_carrier.get(carrier, 0)), source.flights_by_carrier.get(carrier, 0)
        figures[f"flights of {carrier}"] = (found, expected)
    _compare("the tables do not add up to the source", figures)


def _compare(what: str, figures: Mapping[str, tuple[int, int]]) -> None:
    """Raise PipelineError if figures differ. ``figures`` has what was found and what is expected, by name."""
    wrong = [
        f"{name}: {found:,} instead of {expected:,}" for name, (found, expected) in figures.items() if found != expected
    ]
    if wrong:
        raise PipelineError(f"{what}. {'; '.join(wrong)}. {_AGAIN}")


def _row_count(table: Path) -> int:
    """Return the number of rows, read from the files' footers alone."""
    import pyarrow.parquet as parquet

    return sum(parquet.read_metadata(file).num_rows for file in table.glob("month=*/*.parquet"))


def worst_hours(delays: pd.DataFrame, count: int) -> pd.DataFrame:
    """Return the carrier hours with the highest 95th percentile, among those with enough departures."""
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
