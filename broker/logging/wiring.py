"""Logging of one broker's process, as its configuration has it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.config.loggers import ROOT
from broker.logging import log4j
from broker.logging.files import FileSettings, LogFiles
from broker.logging.formats import formatter
from broker.logging.request_log import REQUEST_LOGGER

logger = logging.getLogger(__name__)

DEFAULT_LEVEL = "INFO"
# Of what is loud at INFO and says little, only warnings; a log4j.properties may say otherwise.
_QUIET = ("kazoo", REQUEST_LOGGER)


def start_logging(config: KafkaConfig, config_file: Path | None, level: str | None = None) -> Callable[[], None]:
    """Send log lines where the configuration says; returns what ends it. `level` is the root's, whatever a
    log4j.properties says. Raises `ConfigError`."""
    levels_file = log4j.find(config_file, config["odradek.log.log4j.file"], os.environ)
    levels = {} if levels_file is None else log4j.read(levels_file)
    shape = formatter(config.get_str("odradek.log.format"))
    to_files = bool(config["odradek.log.dir"])
    stop = _start_files(config, shape) if to_files else _nothing
    _start_stderr(shape, logging.CRITICAL if to_files else logging.NOTSET)
    logging.getLogger().setLevel(DEFAULT_LEVEL)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    unknown = log4j.apply(levels)
    if level is not None:
        logging.getLogger().setLevel(level)
    if levels_file is not None:
        logger.info("levels of loggers are those of %s, %s", levels_file, f"{ROOT} {levels.get(ROOT, DEFAULT_LEVEL)}")
    if unknown:
        logger.info("%s: no such loggers here, passed over: %s", levels_file, ", ".join(unknown))
    return stop


def _nothing() -> None:
    pass


def _start_stderr(shape: logging.Formatter, level: int) -> None:
    """With files only what ends the broker is written there: whoever started it looks there first."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(shape)
    handler.setLevel(level)
    logging.getLogger().addHandler(handler)


def _start_files(config: KafkaConfig, shape: logging.Formatter) -> Callable[[], None]:
    directory = Path(config.get_str("odradek.log.dir"))
    settings = FileSettings(
        directory, config.get_int("odradek.log.file.max.bytes"), config.get_int("odradek.log.file.backups")
    )
    try:
        files = LogFiles(settings, shape)
    except OSError as error:
        raise ConfigError(f"odradek.log.dir: log files cannot be made in {directory}: {error}") from None
    files.start()
    return files.stop
