"""The levels in a log4j.properties as Kafka ships it.

Read are `log4j.rootLogger` and `log4j.logger.NAME`; appenders, layouts and additivity belong to log4j. A NAME is one of
Kafka's loggers or a package above some of them (`kafka.server`); one that nothing here corresponds to is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from broker.config.keys import ConfigError
from broker.config.loggers import KAFKA_LOGGERS, LEVELS, OFF, ROOT, set_level
from log.files.properties_text import parse_properties

FILE_NAME: Final = "log4j.properties"
_ENVIRONMENT: Final = "KAFKA_LOG4J_OPTS"
_OPTION: Final = "-Dlog4j.configuration="
_ROOTS: Final = ("log4j.rootLogger", "log4j.rootCategory")
_LOGGERS: Final = ("log4j.logger.", "log4j.category.")


def find(config_file: Path | None, key: str | None, environment: Mapping[str, str]) -> Path | None:
    """The file that holds: the one that KAFKA_LOG4J_OPTS names, else the one of the key, else the one beside
    `config_file`; None if there is none. Raises `ConfigError` where a named one is not there."""
    named = next(
        (word.removeprefix(_OPTION) for word in environment.get(_ENVIRONMENT, "").split() if word.startswith(_OPTION)),
        None,
    )
    for source, text in ((_ENVIRONMENT, named), ("odradek.log.log4j.file", key)):
        if text:
            path = Path(text.removeprefix("file://").removeprefix("file:"))
            if not path.is_file():
                raise ConfigError(f"{source}: there is no file {path}; name a log4j.properties that exists")
            return path
    beside = config_file.parent / FILE_NAME if config_file is not None else None
    return beside if beside is not None and beside.is_file() else None


def read(path: Path) -> dict[str, str]:
    """Levels by logger's name, the root's under `root`. Raises `ConfigError` for a level that is none."""
    found: dict[str, str] = {}
    for key, value in parse_properties(path.read_text(encoding="utf-8")).items():
        if key in _ROOTS:
            name = ROOT
        else:
            name = next((key.removeprefix(prefix) for prefix in _LOGGERS if key.startswith(prefix)), "")
        if not name:
            continue
        level = value.partition(",")[0].strip().upper()
        if level in ("", "INHERITED", "NULL"):
            continue  # only appenders are named
        level = "TRACE" if level == "ALL" else level
        if level not in (*LEVELS, OFF):
            raise ConfigError(f"{path}: {name} has the level {level}; allowed are {', '.join(LEVELS)}, ALL, OFF")
        found[name] = level
    return found


def apply(levels: Mapping[str, str]) -> list[str]:
    """Set the levels, broader names first; returns the names that mean nothing here."""
    unknown = []
    for name in sorted(levels, key=lambda name: (name != ROOT, name.count("."))):
        targets = [name] if name == ROOT or name in KAFKA_LOGGERS else _below(name)
        for target in targets:
            set_level(target, levels[name])
        if not targets:
            unknown.append(name)
    return unknown


def _below(package: str) -> list[str]:
    return [name for name in KAFKA_LOGGERS if name.startswith(f"{package}.")]
