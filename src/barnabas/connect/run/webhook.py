"""Delivers notices of failures to the webhook of ``barnabas.connect.webhook.url``.

The herder hands over a notice and never waits. One coroutine sends the notices in their order, one at a time: with a
limit for each attempt, and with pauses between attempts. Meanwhile others wait in a queue with a limit. The oldest is
dropped if it is full, because the latest notices describe the present state. Dropped notices are counted and logged.

The URL of a webhook is often a secret, so only its server is ever shown.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from barnabas.common.clock import Clock
from barnabas.common.config_value import Password
from barnabas.connect.decide.notices.failure_notice import FailureNotice
from barnabas.connect.decide.notices.webhook_attempts import AttemptBudget, Outcome, outcome_of
from barnabas.connect.decide.notices.webhook_request import WebhookMessage, webhook_message
from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect.settings.webhook_rules import webhook_secret
from barnabas.connect.settings.worker_config import WorkerConfig

__all__ = ["Webhook", "WebhookSettings"]

log = logging.getLogger(__name__)
logging.getLogger("httpx").setLevel(logging.WARNING)  # It would log each URL, which is the secret of many webhooks.

_CLOSE_WAIT_S = 2.0
_LOG_DROPS_EVERY_MS = 30_000


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    url: str = field(repr=False)
    secret: bytes | None = field(repr=False)
    events: frozenset[str]
    timeout_s: float
    budget: AttemptBudget
    queue_max: int

    @classmethod
    def of(cls, config: WorkerConfig) -> WebhookSettings | None:
        """Return the settings; None without a URL. ``config`` has been checked."""
        url, secret = config.barnabas_connect_webhook_url, config.barnabas_connect_webhook_secret
        if url is None:
            return None
        return cls(
            url,
            webhook_secret(secret.value) if isinstance(secret, Password) else None,
            frozenset(config.barnabas_connect_webhook_events),
            config.barnabas_connect_webhook_timeout_ms / 1000,
            AttemptBudget(
                config.barnabas_connect_webhook_retry_max_attempts,
                config.barnabas_connect_webhook_retry_backoff_ms,
                config.barnabas_connect_webhook_retry_backoff_max_ms,
            ),
            config.barnabas_connect_webhook_queue_max,
        )

    @property
    def server(self) -> str:
        """Return the scheme, host and port, which may be shown."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"


class Webhook:
    """Create it, ``begin`` and ``close`` it on the event loop, where ``notice`` is called."""

    def __init__(
        self, settings: WebhookSettings, *, group: str, worker: str, clock: Clock, new_id: Callable[[], str]
    ) -> None:
        self._settings = settings
        self._group = group
        self._worker = worker
        self._clock = clock
        self._new_id = new_id
        self._waiting: deque[WebhookMessage] = deque()
        self._is_sending = False
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._changed = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._unlogged_drops = 0
        self._quiet_until_ms = 0.0
        self.sent = 0
        self.retries = 0
        self.dropped = {"queue": 0, "refused": 0, "unanswered": 0, "stopped": 0}
        """The notices that were not delivered, by reason: the queue was full, the server refused them, no attempt had
        an answer that accepts them, or the worker stopped."""

    @property
    def waiting(self) -> int:
        """Return how many notices wait, the one in progress included."""
        return len(self._waiting) + self._is_sending

    def begin(self) -> None:
        self._sender = asyncio.create_task(self._send_all(), name="webhook")

    def notice(self, notice: FailureNotice) -> None:
        """Take a notice over. Never waits."""
        if notice.kind not in self._settings.events:
            return
        message = webhook_message(notice, id_=self._new_id(), group=self._group, worker=self._worker)
        if len(self._waiting) >= self._settings.queue_max:
            self._drop_oldest()
        self._waiting.append(message)
        self._is_idle.clear()
        self._changed.set()

    def skipped(self, task: ConnectorTaskId, records: int, dead_letters: int, at_ms: int) -> None:
        """Skipped records are figures, and no failure."""

    async def close(self) -> None:
        """Send what waits, for a short time, because a worker that stops must not wait for a server."""
        if self._sender is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_WAIT_S):
                await self._is_idle.wait()
        except TimeoutError:
            self.dropped["stopped"] += self.waiting
            log.warning("%d notices were not sent to the webhook, because the worker stops", self.waiting)
        self._sender.cancel()
        await asyncio.gather(self._sender, return_exceptions=True)

    def _drop_oldest(self) -> None:
        self._waiting.popleft()
        self.dropped["queue"] += 1
        self._unlogged_drops += 1
        self._log_drops()

    def _log_drops(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._unlogged_drops and now_ms >= self._quiet_until_ms:
            log.warning(
                "the webhook %s is too slow: %d notices were dropped, because %d wait already",
                *(self._settings.server, self._unlogged_drops, self._settings.queue_max),
            )
            self._unlogged_drops, self._quiet_until_ms = 0, now_ms + _LOG_DROPS_EVERY_MS

    async def _send_all(self) -> None:
        context = await asyncio.to_thread(ssl.create_default_context)
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(
            verify=context, timeout=None, limits=limits, follow_redirects=False, trust_env=False
        ) as client:
            while True:
                await self._changed.wait()
                self._changed.clear()
                while self._waiting:
                    self._is_sending = True
                    await self._deliver(client, self._waiting.popleft())
                    self._is_sending = False
                    self._log_drops()
                self._is_idle.set()

    async def _deliver(self, client: httpx.AsyncClient, message: WebhookMessage) -> None:
        retry = 0
        while True:
            outcome, text, asked_s = await self._attempt(client, message)
            if outcome is Outcome.ACCEPTED:
                self.sent += 1
                return
            retry += 1
            pause_ms = self._settings.budget.pause_ms(retry, asked_s) if outcome is Outcome.RETRY else None
            if pause_ms is None:
                self.dropped["refused" if outcome is Outcome.REFUSED else "unanswered"] += 1
                log.error(
                    "the webhook %s did not accept a notice after %d attempts: %s",
                    *(self._settings.server, retry, text),
                )
                return
            log.info("the webhook %s: retry %d in %g s: %s", self._settings.server, retry, pause_ms / 1000, text)
            self.retries += 1
            await asyncio.sleep(pause_ms / 1000)

    async def _attempt(self, client: httpx.AsyncClient, message: WebhookMessage) -> tuple[Outcome, str, int | None]:
        """Send once. Return the outcome, a text for the log, and the server's ``Retry-After`` in seconds."""
        headers = message.headers(self._settings.secret, self._clock.now_ms())
        try:
            async with (
                asyncio.timeout(self._settings.timeout_s),  # For all of it: a server may also answer byte by byte.
                client.stream("POST", self._settings.url, content=message.body, headers=headers) as response,
            ):
                asked = response.headers.get("retry-after", "").strip()
                asked_s = int(asked[:9]) if asked.isascii() and asked.isdigit() else None
                return outcome_of(response.status_code), f"it answered with {response.status_code}", asked_s
        except TimeoutError:
            return Outcome.RETRY, f"no answer in {self._settings.timeout_s:g} s", None
        except httpx.TransportError as error:
            reason = type(error).__name__ + (f": {error}" if str(error) else "")
            is_lasting = isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError)
            return (Outcome.REFUSED if is_lasting else Outcome.RETRY), reason, None
        except Exception as error:  # It must not end the delivery of later notices. Its text may quote the URL.
            return Outcome.REFUSED, f"the request can't be sent ({type(error).__name__})", None
