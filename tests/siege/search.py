"""``python -m tests.siege.search --evaluations 300``: searches for inputs that cost a node the most processor time a
byte.

Hill climbing with restarts: one number of a genome is changed at a time, and a change that costs more is kept. The cost
is the processor time that a node spends on the bytes before authorization: the limits, the decoder, the check of a
batch; and all processing of a stranger's HTTP request by a Connect worker. Early refusals cost little, so the search
moves to inputs that the limits allow. The seed is drawn and printed; each API, each compression and each route of the
REST API has the given number of evaluations. The worst are written to ``found.json``, which the catalogue reads.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.common.errors import ApiException
from barnabas.network.api_handler import HandlerTable
from barnabas.network.framing import InvalidFrameSize
from barnabas.network.request_limits import RequestLimits
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.compiler_runtime import skip_tagged_fields
from barnabas.protocol.errors import DecodeError, EncodeError, TooManyElements
from barnabas.protocol.produce_validation import ProduceRules, validate_produced
from tests.siege.genome import TARGETS, BatchGenome, RequestGenome, random_genome
from tests.siege.rest_genome import ROUTES, RestGenome, cost_s, random_rest_genome

__all__ = ["FOUND_FILE", "PARTS", "AnyGenome", "Found", "cost_ns_per_byte", "search"]

AnyGenome = BatchGenome | RequestGenome | RestGenome
Target = tuple[type[BatchGenome] | type[RequestGenome] | type[RestGenome], int]

FOUND_FILE = Path(__file__).resolve().parent / "found.json"
_NOW_MS = 1_700_000_000_000
_LIMITS = RequestLimits()
_HANDLERS = HandlerTable("barnabas.broker.apis", SERVED_BY_BROKER)
_SMALLEST = 200
"""Below this size in bytes, the fixed cost of a request dominates."""
_LARGEST = 512 * 1024
_UNPACKED_MAX = 512 * 1024
_LONG_S = 0.05
_PATIENCE = 25
_SMALLEST_HTTP = 2000
"""A request costs about a millisecond whatever it contains."""
PARTS: dict[str, tuple[tuple[Target, ...], int]] = {
    "node": (TARGETS, 12),
    "rest": (tuple((RestGenome, route) for route in range(len(ROUTES))), 6),
}
"""The searched part, and how many of its worst inputs are kept."""


def cost_ns_per_byte(genome: AnyGenome) -> float:
    """Return the processor time for each sent byte, or 0 for inputs that cannot be sent."""
    if genome.size() > _UNPACKED_MAX:
        return 0.0
    if isinstance(genome, RestGenome):
        data = genome.request()
        if len(data) > _LARGEST:
            return 0.0
        return min(cost_s(data), cost_s(data)) * 1e9 / max(len(data), _SMALLEST_HTTP)
    try:
        data = genome.batch(_NOW_MS) if isinstance(genome, BatchGenome) else genome.body()
    except (EncodeError, ValueError, TypeError, AttributeError):
        return 0.0
    if len(data) > _LARGEST:
        return 0.0
    best = float("inf")
    for _ in range(2):  # Run twice: the first request of a version compiles its reader.
        began = time.process_time()
        _work(genome, data)
        best = min(best, time.process_time() - began)
        if best > _LONG_S and isinstance(genome, BatchGenome):
            break
    return best * 1e9 / max(len(data), _SMALLEST)


def _work(genome: BatchGenome | RequestGenome, data: bytes) -> None:
    """Process the bytes as a node does."""
    try:
        if isinstance(genome, BatchGenome):
            validate_produced(data, ProduceRules(), now_ms=_NOW_MS, partition="t-0")
            return
        _LIMITS.frames.check(len(data), genome.api_key)
        frame = bytearray(data)
        handler = _HANDLERS.handler(ApiKey(genome.api_key))
        position = 10 + int.from_bytes(frame[8:10], "big")
        if genome.version >= handler.request_type.FLEXIBLE_SINCE:
            position = skip_tagged_fields(frame, position, _LIMITS.inline.tagged_fields)
        try:
            handler.read(frame, position, genome.version, _LIMITS.inline)
        except TooManyElements:
            handler.read(frame, position, genome.version, _LIMITS.in_parts)
    except (ApiException, DecodeError, InvalidFrameSize, IndexError):
        pass


class Found(NamedTuple):
    """The worst input of one target, and the evaluations needed to find it."""

    cost: float
    genome: AnyGenome
    evaluations: int


def search(
    seed: int,
    evaluations: int,
    targets: Sequence[Target] = TARGETS,
    report: Callable[[Found], None] = lambda found: None,
) -> list[Found]:
    """Return the worst input of each target, the most costly first. Each target has the given number of evaluations."""
    found = []
    for target in targets:
        worst = _worst_of(target, Random(f"{seed} {target[0].__name__} {target[1]}"), evaluations)
        report(worst)
        found.append(worst)
    return sorted(found, key=lambda worst: -worst.cost)


def _worst_of(target: Target, rng: Random, evaluations: int) -> Found:
    worst = Found(-1.0, _random(rng, target), evaluations)
    left = evaluations
    while left:
        genome: AnyGenome = _random(rng, target)
        cost = cost_ns_per_byte(genome)
        left -= 1
        failures = 0
        while failures < _PATIENCE and left:
            changed: AnyGenome = genome.mutated(rng)
            changed_cost = cost_ns_per_byte(changed)
            left -= 1
            if changed_cost > cost * 1.02:
                genome, cost, failures = changed, changed_cost, 0
            else:
                failures += 1
        if cost > worst.cost:
            worst = Found(cost, genome, evaluations)
    return worst


def _random(rng: Random, target: Target) -> AnyGenome:
    kind, number = target
    if kind is RestGenome:
        return random_rest_genome(rng, number)
    return random_genome(rng, (BatchGenome, number) if kind is BatchGenome else (RequestGenome, number))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.siege.search", description=__doc__)
    parser.add_argument("--evaluations", type=int, default=300, help="evaluations of each API, compression and route")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", choices=tuple(PARTS), default=None, help="search only this part, keep the other")
    parser.add_argument("--write", action="store_true", help="write the worst to found.json")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else SystemRandom().randrange(2**31)
    print(f"seed {seed}", flush=True)
    document = json.loads(FOUND_FILE.read_text()) if FOUND_FILE.exists() else {}
    for part in PARTS if given.only is None else (given.only,):
        targets, kept_count = PARTS[part]
        found = search(seed, given.evaluations, targets, lambda worst: print(_line(worst), flush=True))[:kept_count]
        print(f"\nthe most costly, {part}:\n" + "\n".join(map(_line, found)))
        entries = [{"kind": type(worst.genome).__name__, **asdict(worst.genome)} for worst in found]
        document[part] = {"seed": seed, "evaluations": given.evaluations, "entries": entries}
    if given.write:
        FOUND_FILE.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _line(worst: Found) -> str:
    return f"{worst.cost:12.0f} ns/byte  {worst.genome}"


if __name__ == "__main__":
    sys.exit(main())
