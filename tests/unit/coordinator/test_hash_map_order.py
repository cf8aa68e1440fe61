"""The order of Java's hash maps. The expected orders are those of a HashMap of Java 17."""

from __future__ import annotations

from barnabas.coordinator.hash_map_order import hash_map_order


def test_few_short_names_are_in_the_order_of_their_hashes() -> None:
    assert hash_map_order([str(number) for number in range(12)]) == [
        "0", "11", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10",
    ]  # fmt: skip


def test_a_map_that_has_grown_has_another_order() -> None:
    assert hash_map_order([str(number) for number in range(13)]) == [
        "11", "12", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10",
    ]  # fmt: skip


def test_names_in_one_bucket_keep_the_order_in_which_they_were_put() -> None:
    assert hash_map_order(["Aa", "BB"]) == ["Aa", "BB"]
    assert hash_map_order(["BB", "Aa"]) == ["BB", "Aa"]


def test_a_repeated_name_counts_once() -> None:
    assert hash_map_order(["b", "a", "b"]) == ["a", "b"]
