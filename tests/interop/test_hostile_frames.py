"""Clients are served while an attacker sends hostile frames or batches; latencies are printed, the answers are
checked."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.testing import Node
from tests.interop.raw_client import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

PROJECT = Path(__file__).resolve().parent.parent.parent
SEED = 77
SECONDS = 6.0


class Story:
    """Produces one record and fetches it again, repeatedly, and checks each step."""

    def __init__(self, node: Node, topic: str) -> None:
        self._client = RawClient(node.port)
        self._client.call(
            CreateTopicsRequest(
                topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)], timeout_ms=10_000
            )
        )
        answer = self._client.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        self._topic_id = answer.topics[0].topic_id
        self._offset = 0

    def turn(self) -> float:
        """Return the seconds for producing and fetching one record."""
        began = time.perf_counter()
        batch = build_batch([Record(0, int(time.time() * 1000), None, b"value %d" % self._offset, ())])
        produced = self._client.call(
            ProduceRequest(
                acks=-1,
                timeout_ms=5000,
                topic_data=[
                    TopicProduceData(
                        topic_id=self._topic_id, partition_data=[PartitionProduceData(index=0, records=batch)]
                    )
                ],
            )
        )
        answer = produced.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (0, self._offset)
        fetched = self._client.call(
            FetchRequest(
                max_wait_ms=1000,
                min_bytes=1,
                topics=[
                    FetchTopic(
                        topic_id=self._topic_id,
                        partitions=[
                            FetchPartition(partition=0, fetch_offset=self._offset, partition_max_bytes=100_000)
                        ],
                    )
                ],
            ),
            17,
        )
        partition = fetched.responses[0].partitions[0]
        assert partition.error_code == 0
        assert b"value %d" % self._offset in bytes(partition.records)
        self._offset += 1
        return time.perf_counter() - began

    def close(self) -> None:
        self._client.close()

    def times_over(self, seconds: float) -> list[float]:
        times = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            times.append(self.turn())
        return sorted(times)

    def median_over(self, seconds: float) -> tuple[float, int]:
        times = self.times_over(seconds)
        return statistics.median(times), len(times)


def test_hostile_frames_block_no_client_and_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with Node() as node:
        story = Story(node, "calm")
        story.median_over(0.5)
        alone, _ = story.median_over(SECONDS / 3)
        fuzzer = subprocess.Popen(
            [sys.executable, "-m", "tests.interop.hostile_frames", str(node.port), str(SEED), str(SECONDS)],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            text=True,
        )
        time.sleep(0.5)
        under_attack, turns = story.median_over(SECONDS - 1)
        sent = int(fuzzer.communicate(timeout=30)[0])
        after, _ = story.median_over(SECONDS / 3)
        story.close()
        with capsys.disabled():
            print(
                f"\nseed {SEED}: {sent} hostile connections; a round trip of a record takes {alone * 1e6:.0f} us alone"
                f", {under_attack * 1e6:.0f} us meanwhile (ratio {under_attack / alone:.2f}), "
                f"{after * 1e6:.0f} us after"
            )
        assert sent > 100
        assert turns > 100
        node.stop()
        printed = node.log
        assert "closing the connection of 127.0.0.1:" in printed
        assert "Traceback" not in printed


def test_batches_that_are_slow_to_validate_do_not_delay_other_clients(capsys: pytest.CaptureFixture[str]) -> None:
    with Node() as node:
        story = Story(node, "calm")
        story.median_over(0.5)
        alone = story.times_over(SECONDS / 3)
        sender = subprocess.Popen(
            [sys.executable, "-m", "tests.interop.hostile_batches", str(node.port), str(SECONDS)],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            text=True,
        )
        time.sleep(2)  # The attacker creates its batches first.
        meanwhile = story.times_over(SECONDS - 2)
        answers = json.loads(sender.communicate(timeout=60)[0])
        story.close()
        with capsys.disabled():
            sent = ", ".join(f"{len(codes)} {kind}" for kind, codes in answers.items())
            print(f"\n{sent}; a round trip of a record: {described(alone)} alone, {described(meanwhile)} meanwhile")
        assert {kind: set(codes) for kind, codes in answers.items()} == {
            "many": {0},
            "packed": {0},
            "bomb": {0},
            "dated": {32},
        }
        assert statistics.median(meanwhile) < 0.05, "checking one of these batches takes longer than that"
        node.stop()
        assert "Traceback" not in node.log


def described(times: list[float]) -> str:
    return (
        f"median {statistics.median(times) * 1e3:.1f} ms, 99 of 100 within {times[len(times) * 99 // 100] * 1e3:.1f} ms"
    )
