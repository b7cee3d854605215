"""Client telemetry of one broker (KIP-714): subscriptions, clients, and the series of what they push.

Off unless `odradek.client.telemetry.enable` is set: Apache Kafka 3.9.1 in ZooKeeper mode has none of it, and clients
push to every broker that offers to take it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping

from broker.config.keys import ConfigError
from broker.metrics import MetricsRegistry
from broker.telemetry.clients import Clients, expiry_ms
from broker.telemetry.otlp import OtlpError, decode
from broker.telemetry.series import ClientSeries, Source
from broker.telemetry.subscriptions import ClientSubscription, Subscriptions
from controller.zk import paths
from log.errors import DecompressionError, RecordTooLargeError
from log.records.compression import Codec, decompress
from network.protocol.errors import ApiError, ErrorCode
from timer.clock import Clock

logger = logging.getLogger(__name__)

ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""In the order of preference."""
_EXPANSION = 8
"""So many times `telemetry.max.bytes` may a push have when it is decompressed."""


class ClientTelemetry:
    """Methods may be called from any thread."""

    def __init__(self, clock: Clock, metrics: MetricsRegistry, *, max_bytes: int, max_series: int) -> None:
        self.max_bytes = max_bytes
        self.subscriptions = Subscriptions()
        self.clients = Clients(self.subscriptions, clock, max_bytes=max_bytes)
        self.series = ClientSeries(clock, max_series)
        self._lock = threading.Lock()
        self._done: Counter[str] = Counter()
        for name, value in {
            "ClientMetricsInstanceCount": lambda: len(self.clients),
            "ClientMetricsThrottleCount": lambda: self.clients.throttled,
            "ClientMetricsUnknownSubscriptionRequestCount": lambda: self.clients.unknown,
            "ClientMetricsPluginExportCount": lambda: self._done["taken"],
            "ClientMetricsPluginErrorCount": lambda: self._done["failed"],
            "SeriesCount": lambda: len(self.series),
            "DroppedPointsCount": lambda: self.series.dropped + self._done["skipped"],
        }.items():
            metrics.gauge("kafka.server", "ClientMetrics", name, value)

    def on_change(self, name: str, overrides: Mapping[str, str]) -> None:
        """The full set of a subscription's configs; the name as in the path."""
        try:
            self.subscriptions.on_change(paths.desanitize(name), overrides)
        except ConfigError as error:
            logger.error("the subscription %s to client metrics is ignored: %s", paths.desanitize(name), error)

    def take(self, source: Source, subscription: ClientSubscription, codec: Codec, data: bytes) -> None:
        """The metrics of one push. Raises TELEMETRY_TOO_LARGE or INVALID_RECORD."""
        try:
            metrics = decode(decompress(codec, data, self.max_bytes * _EXPANSION))
        except RecordTooLargeError:
            self._count(failed=1)
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE) from None
        except (DecompressionError, OtlpError) as error:
            self._count(failed=1)
            logger.info("metrics of the client %s cannot be read: %s", source.client_instance_id, error)
            raise ApiError(ErrorCode.INVALID_RECORD) from None
        self._count(taken=1, skipped=metrics.skipped)
        self.series.take(source, metrics.points, expiry_ms(subscription.interval_ms))

    def _count(self, **done: int) -> None:
        with self._lock:
            for what, number in done.items():
                self._done[what] += number

    def expire(self) -> None:
        """Forget clients and series that nothing was heard of for long."""
        self.clients.expire()
        self.series.expire()
