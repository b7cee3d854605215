"""A queue written by aiokafka."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.support.replication import Load

# A broker that is down is no error here.
logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
WAITING = 2_000


class AsyncioLoad(Load):
    """aiokafka with idempotence. `sent`: records handed over; `given_up`: of those, by error.

    After one that it gave up, a producer of a new identity goes on.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, interval_s: float) -> None:
        super().__init__(topic, partitions)
        self.sent = 0
        self.given_up: Counter[str] = Counter()
        self._bootstrap = bootstrap
        self._interval_s = interval_s
        self._waiting: set[asyncio.Future[object]] = set()
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._write())
        except Exception as error:
            self._failed.append(error)
            raise

    async def _write(self) -> None:
        while not self._stop.is_set():
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap.split(","),
                acks="all",
                enable_idempotence=True,
                linger_ms=5,
                request_timeout_ms=10_000,
                metadata_max_age_ms=2_000,
            )
            try:
                await producer.start()
                before = self.given_up.total()
                while not self._stop.is_set() and self.given_up.total() == before:
                    await self._some(producer)
                    await asyncio.sleep(self._interval_s)
                await asyncio.wait_for(producer.flush(), 200)
            except KafkaError:
                # None of its brokers answers, or it has lost its identity.
                await asyncio.sleep(0.5)
            finally:
                await producer.stop()

    async def _some(self, producer: AIOKafkaProducer) -> None:
        for _ in range(min(15, WAITING - len(self._waiting))):
            partition, value = self.sent % len(self.acknowledged), b"%d" % self.sent
            self.sent += 1
            future = await producer.send(self.topic, value, partition=partition)
            self._waiting.add(future)
            future.add_done_callback(lambda done, value=value: self._delivered(done, value))

    def _delivered(self, done: asyncio.Future[object], value: bytes) -> None:
        self._waiting.discard(done)
        if done.cancelled() or (error := done.exception()) is not None:
            self.given_up["cancelled" if done.cancelled() else type(error).__name__] += 1
            return
        metadata = done.result()
        self.acknowledged[metadata.partition].append((metadata.offset, value))  # type: ignore[attr-defined]

    def finish(self) -> None:
        """Stop, and let what was sent be acknowledged."""
        self._stop.set()
        self._thread.join(250)
        assert not self._thread.is_alive(), "aiokafka's producer does not come to an end"
        assert not self._failed, self._failed[:3]
