"""Tables on narrow terminals: names stay whole, texts wrap, and columns drop out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.output.table import Sheet, terminal_lines
from barnabas.cli.output.table_layout import cell_width, fill, lay_out

ID = "cgQoyvnf4pLAC7bbLGf1ZA"


def topics() -> Sheet:
    sheet = Sheet(columns=("topic", "partitions", "replicas", "id", "own settings"), drop_first=("id",))
    sheet.add("orders.of.customers", "12", "3", ID, "retention.ms=86400000 cleanup.policy=compact")
    return sheet


def test_a_wide_terminal_shows_everything_in_one_line() -> None:
    header, row = terminal_lines(topics(), 200)
    assert header.split()[:2] == ["topic", "partitions"]
    assert row.endswith("retention.ms=86400000 cleanup.policy=compact")


def test_texts_wrap_between_words() -> None:
    lines = terminal_lines(topics(), 90)
    assert max(map(len, lines)) <= 90
    assert [line.strip() for line in lines[-1:]] == ["cleanup.policy=compact"]
    assert ID in lines[1]


def test_columns_drop_out_and_are_named() -> None:
    lines = terminal_lines(topics(), 70)
    assert ID not in "".join(lines)
    assert "orders.of.customers" in lines[1]
    assert lines[-1] == "not shown: id; a wider terminal or --output json shows all"
    narrow = terminal_lines(topics(), 40)
    assert " ".join(narrow[2:]) == (
        "not shown: replicas, id, own settings; a wider terminal or --output json shows all"
    )


def test_a_name_is_never_broken_even_if_the_terminal_is_narrower() -> None:
    lines = terminal_lines(topics(), 10)
    assert lines[1] == "orders.of.customers  12"


def test_a_table_without_a_header_loses_no_column() -> None:
    sheet = Sheet()
    sheet.add("cluster id", ID, "a text of many words")
    lines = terminal_lines(sheet, 30)
    assert ID in lines[0]
    assert "words" in "".join(lines)


def test_colors_apply_to_the_first_cell_and_the_header() -> None:
    sheet = Sheet("a title", ("name", "state"))
    sheet.add("broken", "down", style="bold red")
    assert terminal_lines(sheet, 80, has_colors=True) == [
        "\x1b[1ma title\x1b[0m", "\x1b[1mname    state\x1b[0m", "\x1b[1;31mbroken\x1b[0m  down",
    ]  # fmt: skip


def test_wide_characters_take_two_columns() -> None:
    assert cell_width("注文") == 4
    assert fill(["注文", "x"], [6, 1]) == [["注文  ", "x"]]


@given(
    st.integers(1, 4).flatmap(
        lambda count: st.lists(
            st.lists(st.text("ab 1.注", max_size=30), min_size=count, max_size=count), min_size=1, max_size=4
        )
    ),
    st.integers(1, 100),
)
def test_no_word_of_a_shown_column_is_broken(rows: list[list[str]], width: int) -> None:
    layout = lay_out(rows, width, keep=1)
    for row in rows:
        shown = [row[column] for column in layout.columns]
        lines = fill(shown, layout.widths)
        for place, cell in enumerate(shown):
            assert " ".join(line[place] for line in lines).split() == cell.split()
            assert all(cell_width(line[place]) >= layout.widths[place] for line in lines)
