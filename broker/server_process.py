"""The process of a broker: its configuration and log are read, it runs until it is told to stop.

`run_server` gives the exit status: 0 stopped as asked, 1 could not start, 2 the configuration is wrong, wherever that
shows.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from broker.config.kafka_config import KafkaConfig, read_properties
from broker.config.keys import ConfigError
from broker.logging.wiring import start_logging
from broker.registration import StoppedAtStartError
from broker.server import BrokerServer
from broker.start_failures import config_explained, explain
from broker.stop_signals import catch_stop_signals
from network.allocator import keep_freed_memory

logger = logging.getLogger(__name__)

WRONG_CONFIGURATION = 2
_GC_THRESHOLDS = (20_000, 20, 50)


def parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    """`key=value` items of `--override`. Raises `ConfigError`."""
    parsed: dict[str, str] = {}
    for item in overrides:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--override needs key=value, not {item!r}")
        parsed[key.strip()] = value.strip()
    return parsed


def _spare_the_collector() -> None:
    """Leave what start-up made out of every later garbage collection, and collect less often: requests make few
    cycles, and a collection stops every thread for as long as it walks the heap."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def run_server(config_file: Path | None, overrides: Sequence[str] = (), log_level: str | None = None) -> int:
    """Run one broker until SIGTERM or SIGINT; returns the exit status. `log_level` goes before any log4j.properties."""
    properties: dict[str, str] = {}
    try:
        properties = read_properties(config_file, parse_overrides(overrides))
        config = KafkaConfig(properties)
        stop_logging = start_logging(config, config_file, log_level)
    except (ConfigError, ValueError) as error:
        print(f"odradek server: {config_explained(str(error), properties)}", file=sys.stderr)
        return WRONG_CONFIGURATION
    except OSError as error:
        print(f"odradek server: {error}", file=sys.stderr)
        return WRONG_CONFIGURATION
    try:
        return _run(config)
    finally:
        stop_logging()


def _run(config: KafkaConfig) -> int:
    keep_freed_memory()
    stop = catch_stop_signals()
    server = BrokerServer(config, must_stop=stop.has_come)
    try:
        server.startup()
    except StoppedAtStartError as stopped:
        logger.info("%s", stopped)
        return 0
    except Exception as error:
        why = explain(error, config)
        logger.critical("the broker could not be started: %s", why or error, exc_info=why is None)
        return WRONG_CONFIGURATION if isinstance(error, ConfigError) else 1
    _spare_the_collector()
    stop.wait()
    logger.info("stopping")
    server.shutdown()
    return 0
