"""Options of a write: those of Spark's Kafka sink and of Kafka's producer that make sense here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from log.records.compression import Codec
from network.client.security import ClientSecurity
from spark_jobs.connection import CLIENT_ID, client_security_of, required_bootstrap
from spark_jobs.option_table import OptionError, check_names
from spark_jobs.options import flag, positive

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_WRITE_ID = re.compile(r"[a-zA-Z0-9._-]{1,150}")
_CODECS = {"none": Codec.NONE, **{codec.config_name: codec for codec in Codec}}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Validated options of a write. Sizes in bytes, times in ms."""

    bootstrap_servers: str
    security: ClientSecurity
    topic: str | None
    include_timestamp: bool
    acks: int
    idempotent: bool
    codec: Codec
    batch_bytes: int
    request_bytes: int
    buffer_bytes: int
    client_id: str
    delivery_timeout_ms: int
    request_timeout_ms: int
    max_block_ms: int
    effectively_once: bool
    write_id: str | None
    compare_rows: bool
    transaction_timeout_ms: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Check and read the options. Raises OptionError."""
        given = {name.lower(): value for name, value in options.items()}
        check_names(given, "W")
        topic = given.get("topic")
        if topic is not None and (not _TOPIC_NAME.fullmatch(topic) or topic in (".", "..")):
            raise OptionError(f"option topic is {topic!r}, which is no topic name")
        acks = {"all": -1, "-1": -1, "1": 1}.get(given.get("kafka.acks", "all").strip().lower())
        if acks is None:
            raise OptionError(
                f"option kafka.acks is {given['kafka.acks']!r}; give 'all' or '1' (with 0 nobody would notice a loss)"
            )
        idempotent = flag(given, "kafka.enable.idempotence", acks == -1)
        if idempotent and acks != -1:
            raise OptionError("kafka.enable.idempotence needs kafka.acks 'all'; drop one of the two options")
        once = _choice(given, "odradek.delivery", ("at-least-once", "effectively-once")) == "effectively-once"
        if once and not idempotent:
            raise OptionError("odradek.delivery 'effectively-once' needs kafka.acks 'all' and idempotence")
        write_id = given.get("odradek.write.id")
        if write_id is not None and not _WRITE_ID.fullmatch(write_id):
            raise OptionError(f"option odradek.write.id is {write_id!r}; give letters, digits, '.', '_' or '-'")
        codec = _CODECS.get(given.get("kafka.compression.type", "none").strip().lower())
        if codec is None:
            raise OptionError(f"option kafka.compression.type is unknown; choose from {', '.join(_CODECS)}")
        return cls(
            bootstrap_servers=required_bootstrap(given),
            security=client_security_of(given),
            topic=topic,
            include_timestamp=flag(given, "includeTimestamp", False),
            acks=acks,
            idempotent=idempotent,
            codec=codec,
            batch_bytes=positive(given, "kafka.batch.size") or 512 * 1024,
            request_bytes=positive(given, "kafka.max.request.size") or 1024 * 1024,
            buffer_bytes=positive(given, "kafka.buffer.memory") or 32 * 1024 * 1024,
            client_id=given.get("kafka.client.id", CLIENT_ID),
            delivery_timeout_ms=positive(given, "kafka.delivery.timeout.ms") or 120_000,
            request_timeout_ms=positive(given, "kafka.request.timeout.ms") or 30_000,
            max_block_ms=positive(given, "kafka.max.block.ms") or 60_000,
            effectively_once=once,
            write_id=write_id,
            compare_rows=_choice(given, "odradek.replay.check", ("content", "count")) == "content",
            transaction_timeout_ms=positive(given, "kafka.transaction.timeout.ms") or 900_000,
        )


def _choice(given: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    """One of these values, the first without the option. Raises OptionError."""
    found = given.get(name, values[0]).strip().lower()
    if found not in values:
        raise OptionError(f"option {name} is {found!r}; give {' or '.join(map(repr, values))}")
    return found
