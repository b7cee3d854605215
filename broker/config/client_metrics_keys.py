"""Configs of a subscription to client metrics (KIP-714, resource type `client-metrics`)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.config.keys import ConfigError, ConfigKey, ConfigType, Importance, parse_value

METRICS = "metrics"
INTERVAL_MS = "interval.ms"
MATCH = "match"

MIN_INTERVAL_MS = 100
MAX_INTERVAL_MS = 3_600_000
DEFAULT_INTERVAL_MS = 300_000

CLIENT_METRICS_KEYS = {
    key.name: key
    for key in (
        ConfigKey(METRICS, ConfigType.LIST, "", Importance.MEDIUM),
        ConfigKey(INTERVAL_MS, ConfigType.INT, str(DEFAULT_INTERVAL_MS), Importance.MEDIUM),
        ConfigKey(MATCH, ConfigType.LIST, "", Importance.MEDIUM),
    )
}


def parse_subscription(overrides: Mapping[str, str]) -> tuple[list[str], int, list[str]]:
    """The prefixes of metrics, the interval in ms and the items of the match. Raises `ConfigError` for an unknown name
    or a wrong interval; Kafka answers an interval that is no number with UNKNOWN_SERVER_ERROR."""
    for name in overrides:
        if name not in CLIENT_METRICS_KEYS:
            raise ConfigError(f"Unknown client metrics configuration: {name}")
    metrics: list[str] = parse_value(CLIENT_METRICS_KEYS[METRICS], overrides.get(METRICS, ""))
    interval_ms: int = parse_value(
        CLIENT_METRICS_KEYS[INTERVAL_MS], overrides.get(INTERVAL_MS, str(DEFAULT_INTERVAL_MS))
    )
    if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
        raise ConfigError(
            f"Invalid value {interval_ms} for {INTERVAL_MS}, interval must be between {MIN_INTERVAL_MS} and "
            f"{MAX_INTERVAL_MS} (1 hour)"
        )
    # A match that is there is checked even when it is empty, as in Kafka.
    match: list[str] = parse_value(CLIENT_METRICS_KEYS[MATCH], overrides[MATCH]) or [""] if MATCH in overrides else []
    return metrics, interval_ms, match
