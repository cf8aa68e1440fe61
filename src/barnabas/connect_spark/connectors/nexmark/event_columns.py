"""The fields of NEXMark's events, as Spark SQL over the column ``number``: the event's number.

The same number and seed always produce the same event, in any task and in any order. Each random choice is a hash of
the number and of a salt, which differs by seed and by choice. The proportions, ids, hot items and prices are those of
the published generator (P. Tucker et al., "NEXMark: A Benchmark for Queries over Data Streams", and its implementation
in Apache Beam); names, places and texts are our own.

- Half of the bids are for the hot auction, the newest whose number is a multiple of 100. Others are for one of the
  last 100 auctions, or of the next 10, which do not exist yet.
- Three of four bids are of the hot bidder, and three of four auctions of the hot seller, which change with each
  hundredth person. Others are of one of the last 1,000 persons, or of the next 10.
- An auction is open for as long as 100 others take to begin, on average.
- Prices are spread evenly over their magnitudes, from 1 to 1,000,000, with two more digits for cents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from barnabas.connect_spark.connectors.nexmark.event_numbers import AUCTIONS_OF_BLOCK, BLOCK, Kind

__all__ = ["FIRST_ID", "EventColumns", "auction_ms_max", "is_of"]

FIRST_ID = 1000
"""The id of the first person and of the first auction."""
FIRST_CATEGORY = 10
CATEGORIES = 5

_HOT_EVERY = 100
_AUCTIONS_OPEN = 100
_PERSONS_ACTIVE = 1000
_NOT_YET_THERE = 10
_HOT_AUCTION_RATIO, _HOT_BIDDER_RATIO, _HOT_SELLER_RATIO = 2, 4, 4
_MAGNITUDES = 6
_BYTES = {Kind.PERSON: 200, Kind.AUCTION: 500, Kind.BID: 100}
"""The average size of an event, which ``extra`` fills up."""
_BYTES_OF_FIELDS = {Kind.PERSON: 100, Kind.AUCTION: 120, Kind.BID: 32}

_FIRST_NAMES = ("Ada", "Alan", "Barbara", "Dennis", "Donald", "Edsger", "Grace", "Jim", "Ken", "Leslie")
_LAST_NAMES = ("Baker", "Carter", "Cooper", "Fisher", "Mason", "Miller", "Potter", "Smith", "Taylor", "Turner")
_PLACES = (
    ("Phoenix", "AZ"), ("Tucson", "AZ"), ("Los Angeles", "CA"), ("Oakland", "CA"), ("Boise", "ID"), ("Nampa", "ID"),
    ("Portland", "OR"), ("Salem", "OR"), ("Seattle", "WA"), ("Tacoma", "WA"), ("Casper", "WY"), ("Laramie", "WY"),
)  # fmt: skip
_ADJECTIVES = ("blue", "broken", "early", "large", "painted", "rare", "signed", "small", "used", "wooden")
_THINGS = ("atlas", "bicycle", "camera", "chair", "clock", "coat", "guitar", "lamp", "map", "piano")

_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def auction_ms_max(per_second: int) -> int:
    """Return how long an auction is open at most, in milliseconds of event time. On average it is half of that."""
    return max(2 * (_AUCTIONS_OPEN * BLOCK // AUCTIONS_OF_BLOCK) * 1000 // per_second, 1)


@dataclass(frozen=True, slots=True)
class EventColumns:
    """The events of a seed."""

    seed: int
    start: datetime
    """The event time of event 0, with its zone."""
    per_second: int
    """The number of events in a second of event time."""
    times_as_text: bool = False
    """Whether times are ISO 8601 text. Otherwise they are timestamps."""

    def value(self, kind: Kind) -> str:
        """Return the event of a kind as a struct."""
        return _struct(self._fields(kind))

    def any_value(self) -> str:
        """Return the event of any kind as a struct: its kind, and the event itself in the field of its kind."""
        events = {kind.title: f"CASE WHEN {is_of(kind)} THEN {self.value(kind)} END" for kind in Kind}
        return _struct({"event_type": _by_kind({kind: str(number) for number, kind in enumerate(Kind)}), **events})

    def key(self, kind: Kind) -> str:
        """Return what an event is about, as text: the id of a person or auction, or the auction of a bid."""
        return f"CAST({self._key(kind)} AS STRING)"

    def any_key(self) -> str:
        return f"CAST({_by_kind({kind: self._key(kind) for kind in Kind})} AS STRING)"

    def _key(self, kind: Kind) -> str:
        return self._bid_auction() if kind is Kind.BID else _id(_PERSON if kind is Kind.PERSON else _AUCTION)

    def _fields(self, kind: Kind) -> Mapping[str, str]:
        fields = {Kind.PERSON: self._person, Kind.AUCTION: self._auction, Kind.BID: self._bid}[kind]()
        return {**fields, "dateTime": self._shown(self._ms()), "extra": self._extra(kind)}

    # ---- Kinds

    def _person(self) -> Mapping[str, str]:
        first = self._one_of("first name", _FIRST_NAMES)
        last = self._one_of("last name", _LAST_NAMES)
        card = ", ".join(f"lpad({self._draw(f'card {part}', '10000')}, 4, '0')" for part in range(4))
        cities, states = zip(*_PLACES, strict=True)
        return {
            "id": _id(_PERSON),
            "name": f"concat_ws(' ', {first}, {last})",
            "emailAddress": f"concat(lower({first}), '.', lower({last}), '@', {_id(_PERSON)}, '.example.com')",
            "creditCard": f"concat_ws(' ', {card})",
            "city": self._one_of("place", cities),
            "state": self._one_of("place", states),
        }

    def _auction(self) -> Mapping[str, str]:
        first, longest = self._price("initial bid"), auction_ms_max(self.per_second)
        item = f"concat_ws(' ', {self._one_of('adjective', _ADJECTIVES)}, {self._one_of('thing', _THINGS)})"
        hot = f"{_PERSON} div {_HOT_EVERY} * {_HOT_EVERY}"
        return {
            "id": _id(_AUCTION),
            "itemName": item,
            "description": f"concat('A ', {item}, ', as in the picture')",
            "initialBid": first,
            "reserve": f"{first} + {self._price('reserve')}",
            "seller": _id(self._hot("seller", _HOT_SELLER_RATIO, hot, self._any_person("seller"))),
            "category": f"{FIRST_CATEGORY} + {self._draw('category', str(CATEGORIES))}",
            "expires": self._shown(f"{self._ms()} + 1 + {self._draw('length', str(longest))}"),
        }

    def _bid(self) -> Mapping[str, str]:
        hot = f"{_PERSON} div {_HOT_EVERY} * {_HOT_EVERY} + 1"
        return {
            "auction": self._bid_auction(),
            "bidder": _id(self._hot("bidder", _HOT_BIDDER_RATIO, hot, self._any_person("bidder"))),
            "price": self._price("price"),
        }

    def _bid_auction(self) -> str:
        oldest = f"greatest({_LAST_AUCTION} - {_AUCTIONS_OPEN}, 0)"
        spread = f"{_LAST_AUCTION} - {oldest} + 1 + {_NOT_YET_THERE}"
        hot = f"{_LAST_AUCTION} div {_HOT_EVERY} * {_HOT_EVERY}"
        return _id(self._hot("auction", _HOT_AUCTION_RATIO, hot, f"{oldest} + {self._draw('auction', spread)}"))

    # ---- Choices

    def _any_person(self, choice: str) -> str:
        active = f"least({_PERSON} + 1, {_PERSONS_ACTIVE})"
        return f"{_PERSON} + 1 - {active} + {self._draw(choice, f'{active} + {_NOT_YET_THERE}')}"

    def _hot(self, choice: str, ratio: int, hot: str, other: str) -> str:
        return f"CASE WHEN {self._draw(f'hot {choice}', str(ratio))} > 0 THEN {hot} ELSE {other} END"

    def _price(self, choice: str) -> str:
        part = f"{self._draw(choice, '1000000')} / 1000000D"
        # Rounded by floor: Spark's round makes a decimal of each number, which costs more than all other fields do.
        return f"floor(pow(10D, {part} * {_MAGNITUDES}) * 100 + 0.5D)"

    def _one_of(self, choice: str, words: tuple[str, ...]) -> str:
        return f"elt(CAST({self._draw(choice, str(len(words)))} AS INT) + 1, {', '.join(map(repr, words))})"

    def _extra(self, kind: Kind) -> str:
        """Return text of different lengths, from four to six fifths of what the event lacks."""
        wanted = _BYTES[kind] - _BYTES_OF_FIELDS[kind]
        size = f"CAST({wanted * 4 // 5} + {self._draw('size', str(wanted * 2 // 5 + 1))} AS INT)"
        return f"left(repeat(hex({self._hash('extra')}), {wanted * 6 // 5 // 13 + 1}), {size})"

    def _draw(self, choice: str, end: str) -> str:
        """Return a number from 0 to ``end``, which is excluded."""
        return f"pmod({self._hash(choice)}, {end})"

    def _hash(self, choice: str) -> str:
        salt = int.from_bytes(hashlib.blake2b(f"{self.seed} {choice}".encode(), digest_size=7).digest())
        return f"xxhash64(number, {salt}L)"

    # ---- Time

    def _ms(self) -> str:
        start_ms = (self.start - _EPOCH).total_seconds() * 1000
        return f"({round(start_ms)}L + number * 1000 div {self.per_second})"

    def _shown(self, milliseconds: str) -> str:
        time = f"timestamp_millis({milliseconds})"
        if not self.times_as_text:
            return time
        return f"date_format({time}, \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\")"


_BLOCK = f"number div {BLOCK}"
_PLACE = f"pmod(number, {BLOCK})"
_PERSON = f"({_BLOCK})"
"""The person of the event's block, from 0: the last one."""
_AUCTION = f"({_BLOCK} * {AUCTIONS_OF_BLOCK} + {_PLACE} - {Kind.AUCTION.value.start})"
"""The auction that the event is, from 0."""
_LAST_AUCTION = f"({_BLOCK} * {AUCTIONS_OF_BLOCK} + {AUCTIONS_OF_BLOCK - 1})"
"""The last auction before a bid, from 0."""


def is_of(kind: Kind) -> str:
    """Return the condition that an event is of a kind."""
    return f"{_PLACE} BETWEEN {kind.value.start} AND {kind.value.stop - 1}"


def _by_kind(values: Mapping[Kind, str]) -> str:
    return f"CASE {' '.join(f'WHEN {is_of(kind)} THEN {value}' for kind, value in values.items())} END"


def _id(index: str) -> str:
    return f"({FIRST_ID} + {index})"


def _struct(fields: Mapping[str, str]) -> str:
    return f"named_struct({', '.join(f'{name!r}, {value}' for name, value in fields.items())})"
