"""Create what the stream needs, or say what is wrong with what exists: log level, publication, slot, position."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect_spark.connectors.postgresql.catalogue import Catalogue, SlotState
from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import lsn_text
from barnabas.connect_spark.connectors.postgresql.pgoutput.transactions import Place
from barnabas.connect_spark.connectors.postgresql.settings import ChangesSettings

__all__ = ["check_slot", "lost_slot", "set_up_publication", "set_up_slot"]

log = logging.getLogger(__name__)


def set_up_publication(catalogue: Catalogue, settings: ChangesSettings) -> bool:
    """Create the publication, or add tables to it. Return whether it was changed. Raise TerminalError."""
    name, mode = settings.publication, settings.publication_mode
    publication = catalogue.publication(name)
    if publication is None:
        _create_publication(catalogue, settings)
        return True
    if publication.has_all_tables or mode != "filtered" or not settings.patterns:
        return False
    published = {*catalogue.published(name)}
    missing = [table for table in _wanted(catalogue, settings) if table not in published]
    if missing:
        catalogue.publish(name, missing, adds=True)
        log.info("the publication %s has new tables: %s", name, ", ".join(missing))
    return bool(missing)


def _create_publication(catalogue: Catalogue, settings: ChangesSettings) -> None:
    name, mode = settings.publication, settings.publication_mode
    if mode == "disabled":
        raise TerminalError(
            f"the publication {name} does not exist, and publication.autocreate.mode=disabled. Create it (CREATE "
            f"PUBLICATION {name} FOR TABLE ...), or set publication.autocreate.mode=filtered"
        )
    tables: Sequence[str] | None = None
    if mode == "filtered":
        tables = _wanted(catalogue, settings)
        if not tables:
            raise TerminalError(
                f"no table of {settings.login.name} matches table.include.list. Create the tables, or correct the "
                "setting: its regular expressions match schema.table, such as public\\.orders"
            )
    catalogue.publish(name, tables)
    log.info("made the publication %s for %s", name, "all tables" if tables is None else ", ".join(tables))


def _wanted(catalogue: Catalogue, settings: ChangesSettings) -> list[str]:
    return [table for table in catalogue.ordinary_tables() if settings.includes(table)]


def set_up_slot(catalogue: Catalogue, settings: ChangesSettings, place: Place | None) -> tuple[SlotState, bool]:
    """Return the slot, and whether it was created. Raise TerminalError if it can't continue at the place."""
    level = catalogue.setting("wal_level")
    if level != "logical":
        raise TerminalError(
            f"{settings.login.name} has wal_level={level}, and changes need wal_level=logical. Set it and restart the "
            "server"
        )
    state = catalogue.slot(settings.slot)
    if state is not None:
        check_slot(state, settings, place)
        return state, False
    if place is not None:
        raise lost_slot(settings, "does not exist", place)
    if not settings.creates_slot:
        raise TerminalError(
            f"the replication slot {settings.slot} does not exist, and slot.create=false. Create it (SELECT "
            f"pg_create_logical_replication_slot('{settings.slot}', 'pgoutput')), or set slot.create=true"
        )
    log.info("making the replication slot %s, which waits for running transactions to end", settings.slot)
    catalogue.create_slot(settings.slot)
    created = catalogue.slot(settings.slot)
    if created is None:
        raise ConnectionError(f"the replication slot {settings.slot} was dropped when it had just been created")
    return created, True


def check_slot(state: SlotState, settings: ChangesSettings, place: Place | None) -> None:
    """Raise TerminalError for a slot that can't be used, or that no longer has the changes after the place."""
    if state.plugin != "pgoutput" or state.database != settings.login.database:
        raise TerminalError(
            f"the replication slot {settings.slot} is of the plugin {state.plugin} and the database {state.database}, "
            f"not of pgoutput and {settings.login.database}. Set another slot.name"
        )
    if state.wal_status == "lost" or state.restart_lsn is None:
        raise lost_slot(settings, "was invalidated: the server has removed its log (max_slot_wal_keep_size)", place)
    if place is not None and state.confirmed_lsn > place.lsn:
        raise lost_slot(
            settings,
            f"begins at {lsn_text(state.confirmed_lsn)}: it was created anew, or another client has read it",
            place,
        )


def lost_slot(settings: ChangesSettings, what: str, place: Place | None) -> TerminalError:
    since = "" if place is None else f" since {lsn_text(place.lsn)}"
    return TerminalError(
        f"the replication slot {settings.slot} of {settings.login.name} {what}. Changes{since} can't be read from it. "
        "To read the tables again and continue: stop the connector, drop the slot if it exists (SELECT "
        f"pg_drop_replication_slot('{settings.slot}')), delete the connector's offsets (DELETE "
        "/connectors/NAME/offsets), and resume it. Deletions that were missed stay missed: consumers that keep state "
        "should begin anew too"
    )
