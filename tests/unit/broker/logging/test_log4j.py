"""A log4j.properties in the form in which Kafka ships it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.config.keys import ConfigError
from broker.config.loggers import levels as all_levels
from broker.config.loggers import set_level
from broker.logging import log4j

AS_SHIPPED = """\
# A comment
log4j.rootLogger=INFO, stdout, kafkaAppender

log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.appender.kafkaAppender=org.apache.log4j.DailyRollingFileAppender
log4j.appender.kafkaAppender.DatePattern='.'yyyy-MM-dd-HH
log4j.appender.kafkaAppender.File=${kafka.logs.dir}/server.log

log4j.logger.org.apache.zookeeper=INFO
log4j.logger.kafka=INFO
log4j.logger.kafka.request.logger=WARN, requestAppender
log4j.additivity.kafka.request.logger=false
log4j.logger.kafka.network.RequestChannel$=WARN, requestAppender
log4j.logger.kafka.controller=DEBUG, controllerAppender
log4j.logger.kafka.log.LogCleaner=ERROR, \\
    cleanerAppender
log4j.logger.state.change.logger=trace, stateChangeAppender
log4j.logger.kafka.authorizer.logger=OFF, authorizerAppender
log4j.logger.only.appenders=, cleanerAppender
log4j.logger.kafka.coordinator.transaction=FATAL
log4j.logger.org.reflections=ERROR
"""


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in ("", *logging.root.manager.loggerDict)}
    yield
    for name in ("", *logging.root.manager.loggerDict):
        logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


def test_its_levels_are_read(tmp_path: Path) -> None:
    path = tmp_path / log4j.FILE_NAME
    path.write_text(AS_SHIPPED)
    assert log4j.read(path) == {
        "root": "INFO",
        "org.apache.zookeeper": "INFO",
        "kafka": "INFO",
        "kafka.request.logger": "WARN",
        "kafka.network.RequestChannel$": "WARN",
        "kafka.controller": "DEBUG",
        "kafka.log.LogCleaner": "ERROR",
        "state.change.logger": "TRACE",
        "kafka.authorizer.logger": "OFF",
        "kafka.coordinator.transaction": "FATAL",
        "org.reflections": "ERROR",
    }


def test_they_hold_for_the_loggers_of_the_same_work_here(tmp_path: Path) -> None:
    path = tmp_path / log4j.FILE_NAME
    path.write_text(AS_SHIPPED)
    assert log4j.apply(log4j.read(path)) == ["org.reflections"]
    found = all_levels()
    assert found["kafka.controller"] == "DEBUG"
    assert found["controller.event_manager"] == "DEBUG"
    assert found["log.cleaner"] == "ERROR"
    assert found["broker.transactions.markers"] == "FATAL"  # by the package above Kafka's classes
    assert not logging.getLogger("kafka.authorizer.logger").isEnabledFor(logging.CRITICAL)
    assert found["kafka.server.ReplicaManager"] == "INFO"


def test_a_narrower_name_wins_wherever_it_stands(tmp_path: Path) -> None:
    set_level("controller", None)
    log4j.apply({"kafka.controller": "ERROR", "kafka": "DEBUG", "root": "WARN"})
    assert logging.getLogger("controller").level == logging.ERROR
    assert logging.getLogger("broker").level == logging.DEBUG


def test_a_level_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / log4j.FILE_NAME
    path.write_text("log4j.logger.kafka.controller=LOUD, x\n")
    with pytest.raises(ConfigError, match=r"kafka\.controller has the level LOUD; allowed are DEBUG"):
        log4j.read(path)


def test_where_it_is_looked_for(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    beside, named, other = tmp_path / log4j.FILE_NAME, tmp_path / "named", tmp_path / "other"
    assert log4j.find(config, None, {}) is None
    assert log4j.find(None, None, {}) is None
    for path in (beside, named, other):
        path.write_text("")
    options = {"KAFKA_LOG4J_OPTS": f"-Dx=y -Dlog4j.configuration=file:{other}"}
    assert log4j.find(config, None, {}) == beside
    assert log4j.find(config, str(named), {}) == named
    assert log4j.find(config, str(named), options) == other
    with pytest.raises(ConfigError, match=r"odradek\.log\.log4j\.file: there is no file .*missing"):
        log4j.find(config, str(tmp_path / "missing"), {})
