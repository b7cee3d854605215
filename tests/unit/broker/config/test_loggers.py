from __future__ import annotations

import logging

import pytest

from broker.config import loggers
from network.protocol.errors import ApiError
from tests.support.paths import ROOT

# Loggers that are no file's own: they are called as in Kafka.
OF_NO_FILE = {"kazoo", "kafka.request.logger", "kafka.authorizer.logger"}


def test_every_name_stands_for_code_that_is_there() -> None:
    for names in loggers.KAFKA_LOGGERS.values():
        for name in names:
            if name not in OF_NO_FILE:
                path = ROOT / name.replace(".", "/")
                assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_a_level_of_kafkas_name_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    api, dispatcher = logging.getLogger("broker.api"), logging.getLogger("broker.requests.dispatcher")
    monkeypatch.setattr(api, "level", logging.NOTSET)
    monkeypatch.setattr(dispatcher, "level", logging.NOTSET)
    loggers.set_level("kafka.server.KafkaApis", "TRACE")
    assert api.isEnabledFor(logging.DEBUG - 5)
    assert dispatcher.level == api.level
    assert loggers.levels()["kafka.server.KafkaApis"] == loggers.levels()["broker.api"] == "TRACE"
    loggers.set_level("kafka.server.KafkaApis", None)
    assert api.level == logging.NOTSET
    assert loggers.levels()["broker.api"] == loggers.levels()["root"]


@pytest.mark.parametrize(
    ("level", "shown"),
    [(logging.DEBUG - 9, "TRACE"), (logging.INFO + 3, "INFO"), (logging.CRITICAL, "FATAL"), (logging.WARNING, "WARN")],
)
def test_levels_between(level: int, shown: str) -> None:
    made = logging.getLogger("test.of.levels")
    made.setLevel(level)
    assert loggers.levels()["test.of.levels"] == shown


def test_unknown_ones() -> None:
    with pytest.raises(ApiError, match=r"Logger no\.such does not exist!"):
        loggers.check("no.such")
    with pytest.raises(ApiError, match="Cannot set the log level of root to debug"):
        loggers.check_level("root", "debug")
