"""Log lines as text or as JSON; one line is one fact.

Line breaks and other control characters in a message (a client id may hold any) are written as escapes, so nobody can
write a line of their own. The stack trace of a fault in the broker follows its line as text; in JSON it is a field.
"""

from __future__ import annotations

import json
import logging
from typing import Final

TEXT, JSON = "text", "json"

_LINE: Final = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {10: "\\n", 13: "\\r", 9: "\\t"}


class TextFormatter(logging.Formatter):
    """`[time] LEVEL message (logger)`, as Kafka's own log4j.properties has it."""

    def __init__(self) -> None:
        super().__init__(_LINE)

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = record.message.translate(_CONTROL)
        return super().formatMessage(record)


class JsonFormatter(logging.Formatter):
    """One JSON object: `time` (ISO 8601 with the zone), `level`, `logger`, `thread`, `message`, and `exception` where
    there is a stack trace."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = ""

    def format(self, record: logging.LogRecord) -> str:
        time = f"{self.formatTime(record)}.{int(record.msecs):03d}{self.formatTime(record, '%z')}"
        fields = {
            "time": time,
            "level": record.levelname,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            fields["exception"] = record.exc_text
        return json.dumps(fields, ensure_ascii=False)


def formatter(name: str) -> logging.Formatter:
    """That of `odradek.log.format`."""
    return JsonFormatter() if name == JSON else TextFormatter()
