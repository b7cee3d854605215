"""Settings of the transaction coordinator, in the units of their keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Defaults are Kafka's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_timed_out_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 3_600_000
    request_timeout_ms: int = 30_000
    load_buffer_bytes: int = 5_242_880

    @classmethod
    def from_kafka_config(cls, config: KafkaConfig) -> TransactionConfig:
        return cls(
            max_timeout_ms=config.get_int("transaction.max.timeout.ms"),
            id_expiration_ms=config.get_int("transactional.id.expiration.ms"),
            abort_timed_out_interval_ms=config.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            remove_expired_interval_ms=config.get_int("transaction.remove.expired.transaction.cleanup.interval.ms"),
            request_timeout_ms=config.get_int("request.timeout.ms"),
            load_buffer_bytes=config.get_int("transaction.state.log.load.buffer.size"),
        )
