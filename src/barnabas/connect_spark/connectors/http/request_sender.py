"""Sends the requests of a batch, those of one topic-partition one after another, and those of several at once.

A request is repeated with the same idempotency key until the server has answered. If it refuses the records of a
request, each half is sent alone, with a key of its own, and so on: the refused records are then known, and the others
have arrived. The halves depend only on the request, so a repeated batch has the same keys.
"""

from __future__ import annotations

import logging
import random
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import BatchControl, RefusedRecord, TerminalError
from barnabas.connect_spark.connectors.http.answer_rules import Meaning, meaning_of, retry_after_s
from barnabas.connect_spark.connectors.http.http_settings import HttpSettings, origin_of
from barnabas.connect_spark.connectors.http.record_spool import RecordSpool
from barnabas.connect_spark.connectors.http.request_batch import RequestBatch, grouped, url_for

if TYPE_CHECKING:
    import httpx

__all__ = ["RequestFailed", "RequestSender"]

log = logging.getLogger(__name__)
logging.getLogger("httpx").setLevel(logging.WARNING)  # It would log each URL, which is the secret of many webhooks.

_READ_MAX = 1 << 20
"""How much of an answer is read, so that its connection can be used again. A larger one costs a new connection."""
_SHOWN_CHARACTERS = 200


class RequestFailed(Exception):
    """The server could not be reached, or did not accept a request. A restart of the task tries again."""


class _Ended(Exception):
    """Another request of the batch has failed, so this one is not sent."""


@dataclass(frozen=True, slots=True)
class _Answer:
    meaning: Meaning
    text: str
    """The status and the start of the body, or the reason for a missing answer."""
    asked_s: float | None = None


class RequestSender:
    def __init__(
        self,
        client: httpx.Client,
        settings: HttpSettings,
        *,
        name: str,
        tolerates: bool,
        note_retry: Callable[[], None] = lambda: None,
    ) -> None:
        """``name`` is the task's, for the log. ``tolerates``: refused records are returned, and don't fail the task."""
        self._client = client
        self._settings = settings
        self._name = name
        self._tolerates = tolerates
        self._note_retry = note_retry

    def send_all(self, spool: RecordSpool, control: BatchControl) -> list[RefusedRecord]:
        """Send all records. Return those that the server refused. Raise RequestFailed or TerminalError."""
        ended = threading.Event()

        def send(partition: TopicPartition) -> list[RefusedRecord]:
            try:
                return self._send_partition(partition, spool, control, ended)
            except BaseException:
                ended.set()
                raise

        with ThreadPoolExecutor(self._settings.in_flight_max, "connect-http") as pool:
            sent = [pool.submit(send, partition) for partition in spool.partitions]
        failures = [future.exception() for future in sent]
        for failure in failures:
            if failure is not None and not isinstance(failure, _Ended):
                raise failure
        return [refused for future in sent for refused in future.result()]

    def _send_partition(
        self, partition: TopicPartition, spool: RecordSpool, control: BatchControl, ended: threading.Event
    ) -> list[RefusedRecord]:
        limits = self._settings
        refused: list[RefusedRecord] = []
        for batch in grouped(
            partition, spool.records(partition), records_max=limits.records_max, bytes_max=limits.bytes_max
        ):
            refused += self._send(batch, control, ended)
        return refused

    def _send(self, batch: RequestBatch, control: BatchControl, ended: threading.Event) -> list[RefusedRecord]:
        answer = self._answered(batch, control, ended)
        if answer.meaning is Meaning.ACCEPTED:
            return []
        is_divided = len(batch.records) > 1 and (self._tolerates or answer.meaning is Meaning.TOO_LARGE)
        if is_divided:
            return [refused for half in batch.halves() for refused in self._send(half, control, ended)]
        if not self._tolerates:
            raise TerminalError(f"{self._settings.server} refused the records at {batch}: {answer.text}")
        return [RefusedRecord(batch.partition, record.offset, answer.text) for record in batch.records]

    def _answered(self, batch: RequestBatch, control: BatchControl, ended: threading.Event) -> _Answer:
        """Send until the answer is final: accepted or refused. Raise RequestFailed."""
        attempt = 0
        while True:
            if ended.is_set():
                raise _Ended
            control.ensure_unfenced()
            answer = self._attempt(batch)
            if answer.meaning is Meaning.FAILED:
                raise RequestFailed(f"{self._settings.server} answered the request for {batch} with {answer.text}")
            if answer.meaning is not Meaning.RETRY:
                return answer
            if attempt >= self._settings.max_retries:
                tried = f"{attempt + 1} attempts" if attempt else "the only attempt (max.retries=0)"
                raise RequestFailed(
                    f"{self._settings.server} did not accept the records at {batch} after {tried}: {answer.text}"
                )
            pause_s = self._settings.backoff.pause_s(attempt, answer.asked_s, random.random())
            attempt += 1
            log.warning(
                "task %s: retry %d of %d for %s in %.1f s: %s",
                *(self._name, attempt, self._settings.max_retries, batch, pause_s, answer.text),
            )
            self._note_retry()
            _pause(pause_s, control, ended)

    def _attempt(self, batch: RequestBatch) -> _Answer:
        import httpx

        settings = self._settings
        headers = dict(settings.headers)
        if settings.key_header:
            headers[settings.key_header] = batch.key(settings.key_prefix)
        url = url_for(settings.url, batch.records[0].target)
        try:
            with self._client.stream(
                settings.method, url, content=batch.body(settings.body_format), headers=headers
            ) as response:
                start = _start_of(response)
        except httpx.TransportError as error:
            return self._unanswered(error)
        meaning = meaning_of(response.status_code, settings.retried, settings.refused)
        asked_s = retry_after_s(response.headers, datetime.now(UTC))
        return _Answer(meaning, self._described(response, start), asked_s)

    def _unanswered(self, error: httpx.TransportError) -> _Answer:
        import httpx

        lasting = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
        is_final = isinstance(error, lasting) or _distrusts(error)
        text = self._redacted(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        return _Answer(Meaning.FAILED if is_final else Meaning.RETRY, text)

    def _described(self, response: httpx.Response, start: bytes) -> str:
        status = f"{response.status_code} {response.reason_phrase}".strip()
        if response.is_redirect:
            target = origin_of(str(response.url.join(response.headers.get("location", ""))))
            return f"{status}, a redirect to {target}, which is not followed: correct http.url"
        text = self._redacted(" ".join(start.decode(errors="replace").split()))
        shown = "".join(character if character.isprintable() else "?" for character in text)
        dots = "..." if len(shown) > _SHOWN_CHARACTERS else ""
        return f"{status}: {shown[:_SHOWN_CHARACTERS]}{dots}" if shown else status

    def _redacted(self, text: str) -> str:
        for secret in self._settings.secrets:
            text = text.replace(secret, "[hidden]")
        return text


def _start_of(response: httpx.Response) -> bytes:
    """Read the answer, and return its start. The body of an accepted request is read too, to reuse the connection."""
    start, size = b"", 0
    for part in response.iter_bytes():
        start += part[: max(0, 4096 - len(start))]
        size += len(part)
        if size > _READ_MAX:
            break
    return start


def _distrusts(error: BaseException) -> bool:
    """Return whether the server's certificate is not trusted: another attempt would not help."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _pause(seconds: float, control: BatchControl, ended: threading.Event) -> None:
    """Wait in steps, so that a failure of another request ends the pause."""
    deadline = time.monotonic() + seconds
    while not ended.is_set() and (left_s := deadline - time.monotonic()) > 0:
        control.wait(min(left_s, 0.5))
