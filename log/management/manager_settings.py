"""Broker-level settings of the log manager."""

from __future__ import annotations

from dataclasses import dataclass

from log.config import MAX_INT64
from log.files.file_range import DEFAULT_OPEN_FILES


@dataclass(frozen=True, slots=True)
class LogManagerSettings:
    """Broker-level intervals and bounds, with Kafka's defaults. Milliseconds."""

    recovery_threads_per_dir: int = 1
    retention_check_ms: int = 300_000
    flush_check_ms: int = MAX_INT64
    recovery_point_checkpoint_ms: int = 60_000
    log_start_offset_checkpoint_ms: int = 60_000
    initial_task_delay_ms: int = 30_000
    file_delete_delay_ms: int = 60_000
    producer_expiration_check_ms: int = 600_000
    cleaner_enabled: bool = True
    open_files: int = DEFAULT_OPEN_FILES


DEFAULT_SETTINGS = LogManagerSettings()
