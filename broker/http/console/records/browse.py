"""One page of records: from where, at most so many, and only those that fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from broker.http.console.access import Problem
from broker.http.console.api.question import Question, refused
from broker.http.console.api.reading import EARLIEST, LATEST, offsets
from broker.http.console.records.avro import AvroError, AvroSchema
from broker.http.console.records.fetching import Fetched, fetch
from broker.http.console.records.values import AVRO, FORMATS, Decoder
from log.records.record import Record
from log.topic_partition import TopicPartition
from network.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from network.client.cluster_client import ClusterClient
    from timer.clock import Clock

FIRST, END, OFFSET, TIME, CURSORS = "first", "end", "offset", "time", "cursors"
MAX_RECORDS = 200
MAX_PARTITIONS = 100
"""Of one topic at a time; the others have to be named."""
MAX_SCHEMA = 128 * 1024
SHOWN_BYTES = 8 * 1024
"""Of a key, a value or a header in a list of records."""
WHOLE_BYTES = 1024 * 1024
"""Of the same in a record that is asked for alone."""
MAX_HEADERS = 100
SCAN_MS = 800
"""For one page: who seeks a rare record asks again from where the search has come to."""
ANSWER_BYTES = 2 * 1024 * 1024


@dataclass(slots=True)
class _Wish:
    """What to show of which records."""

    limit: int
    key: Decoder
    value: Decoder
    texts: tuple[str, str, str]
    """What has to be in key, value and a header; empty for whatever."""
    shown: int


@dataclass(slots=True)
class _Page:
    positions: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    rows: list[dict[str, Any]] = field(default_factory=list)
    scanned: int = 0
    size: int = 0
    problems: dict[str, str] = field(default_factory=dict)

    def open(self) -> dict[TopicPartition, int]:
        """Partitions that have more, and where to go on."""
        return {
            tp: position
            for tp, position in self.positions.items()
            if position < self.ends.get(tp, 0) and str(tp.partition) not in self.problems
        }


class RecordBrowser:
    """Answers `POST records`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def browse(self, client: ClusterClient, question: Question) -> Any:
        """Records in order, where each partition goes on, and how many were looked at."""
        topic = question.text("topic")
        partition = question.number("partition", -1, low=-1, high=2**31 - 1)
        limit = question.number("limit", 50, low=1, high=MAX_RECORDS)
        committed = bool(question.number("committed", 0, high=1))
        wish = _wish(question, limit)
        seen = client.metadata([topic])
        found = seen.topics.get(topic)
        if found is None or found.error is not ErrorCode.NONE:
            code = found.error if found is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            status = HTTPStatus.FORBIDDEN if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else HTTPStatus.NOT_FOUND
            raise Problem(status, code.name, code.message)
        numbers = [number for number in found.partitions if partition in (-1, number)]
        if not numbers:
            raise Problem(HTTPStatus.NOT_FOUND, "partition", f"{topic} has no partition {partition}.")
        names = [TopicPartition(topic, number) for number in numbers[:MAX_PARTITIONS]]
        isolation = 1 if committed else 0
        firsts = offsets(client, seen, names, EARLIEST, isolation)
        ends = offsets(client, seen, names, LATEST, isolation)
        page = _Page(self._positions(client, question, seen, names, firsts, ends, limit), ends)
        for tp in names:
            if tp not in ends:
                page.problems[str(tp.partition)] = "its leader does not answer, or may not be asked"
        begins = dict(page.positions)
        self._fill(client, page, wish, isolation)
        return {
            "records": in_order(page.rows),
            "begins": {str(tp.partition): position for tp, position in begins.items()},
            "cursors": {str(tp.partition): position for tp, position in page.positions.items()},
            "firsts": {str(tp.partition): offset for tp, offset in firsts.items()},
            "ends": {str(tp.partition): offset for tp, offset in ends.items()},
            "scanned": page.scanned,
            "more": bool(page.open()),
            "left_out": max(0, len(numbers) - MAX_PARTITIONS),
            "problems": page.problems,
        }

    def _positions(
        self,
        client: ClusterClient,
        question: Question,
        seen: Any,
        names: list[TopicPartition],
        firsts: dict[TopicPartition, int],
        ends: dict[TopicPartition, int],
        limit: int,
    ) -> dict[TopicPartition, int]:
        start = question.one_of("start", (FIRST, END, OFFSET, TIME, CURSORS), END)
        known = [tp for tp in names if tp in firsts and tp in ends]
        if start == FIRST:
            wanted = {tp: firsts[tp] for tp in known}
        elif start == END:
            each = -(-limit // max(1, len(known)))
            wanted = {tp: ends[tp] - each for tp in known}
        elif start == OFFSET:
            wanted = dict.fromkeys(known, question.number("value"))
        elif start == TIME:
            found = offsets(client, seen, known, question.number("value"))
            wanted = {tp: found[tp] if found.get(tp, -1) >= 0 else ends[tp] for tp in known}
        else:
            cursors = question.map("cursors", MAX_PARTITIONS)
            wanted = {tp: _cursor(cursors, tp.partition, ends[tp]) for tp in known}
        return {tp: min(max(offset, firsts[tp]), ends[tp]) for tp, offset in wanted.items()}

    def _fill(self, client: ClusterClient, page: _Page, wish: _Wish, isolation: int) -> None:
        deadline = self._clock.monotonic_ms() + SCAN_MS
        while (left := wish.limit - len(page.rows)) > 0 and page.size < ANSWER_BYTES:
            is_open = page.open()
            if not is_open:
                return
            before = dict(page.positions)
            share = -(-left // len(is_open))
            for tp, answer in fetch(client, is_open, isolation).items():
                self._take(page, tp, answer, wish, min(share, wish.limit - len(page.rows)))
            if page.positions == before or self._clock.monotonic_ms() > deadline:
                return

    def _take(self, page: _Page, tp: TopicPartition, answer: Fetched, wish: _Wish, share: int) -> None:
        """Records of one answer, until this partition has had its share; the position is behind the last one."""
        for record in answer.records:
            if record.offset >= page.ends[tp]:
                page.positions[tp] = page.ends[tp]
                return
            if share <= 0 or page.size >= ANSWER_BYTES:
                page.positions[tp] = record.offset
                return
            page.scanned += 1
            if fits(record, wish.texts, wish.key, wish.value):
                row = shown(record, tp.partition, wish.key, wish.value, wish.shown)
                page.rows.append(row)
                page.size += _size(row)
                share -= 1
        if answer.problem is not None:
            page.problems[str(tp.partition)] = answer.problem
        page.positions[tp] = max(page.positions[tp], answer.next_offset)


def _wish(question: Question, limit: int) -> _Wish:
    schema = None
    forms = [question.one_of(f"{part}_format", FORMATS, "auto") for part in ("key", "value")]
    if AVRO in forms:
        try:
            schema = AvroSchema(question.text("schema", "", MAX_SCHEMA))
        except AvroError as error:
            raise refused(str(error)) from None
    key, value = (Decoder(form, schema) for form in forms)
    texts = question.text("key", ""), question.text("text", ""), question.text("header", "")
    return _Wish(limit, key, value, texts, WHOLE_BYTES if limit == 1 else SHOWN_BYTES)


def _cursor(cursors: dict[str, Any], partition: int, default: int) -> int:
    found = cursors.get(str(partition), default)
    if isinstance(found, bool) or not isinstance(found, int):
        raise refused("cursors have to be numbers")
    return found


def fits(record: Record, texts: tuple[str, str, str], key: Decoder, value: Decoder) -> bool:
    """Whether each wanted text is where it is wanted. `name=text` asks for a header of that name."""
    in_key, in_value, in_header = texts
    if in_key and not _holds(record.key, in_key, key):
        return False
    if in_value and not _holds(record.value, in_value, value):
        return False
    if not in_header:
        return True
    name, equals, text = in_header.partition("=")
    for header, data in record.headers:
        content = (data or b"").decode("utf-8", "replace")
        if (equals and header == name and text in content) or in_header in header or in_header in content:
            return True
    return False


def _holds(data: bytes | None, text: str, decoder: Decoder) -> bool:
    if data is None:
        return False
    if decoder.reads_bytes:
        return text in decoder.decode(data)[1]
    return text.encode("utf-8", "replace") in data


def shown(record: Record, partition: int, key: Decoder, value: Decoder, limit: int) -> dict[str, Any]:
    """A record as the page gets it."""
    plain = Decoder("auto")
    return {
        "partition": partition,
        "offset": record.offset,
        "time": record.timestamp,
        "key": _part(record.key, key, limit),
        "value": _part(record.value, value, limit),
        "headers": [[name, _part(data, plain, limit)] for name, data in record.headers[:MAX_HEADERS]],
        "more_headers": max(0, len(record.headers) - MAX_HEADERS),
    }


def _part(data: bytes | None, decoder: Decoder, limit: int) -> dict[str, Any] | None:
    """None for null. A part that is too large is decoded whole, where it takes that, and its text cut."""
    if data is None:
        return None
    whole = data if decoder.reads_bytes else data[:limit]
    form, text, problem = decoder.decode(whole)
    part: dict[str, Any] = {"form": form, "text": text[: 4 * limit], "size": len(data)}
    if len(data) > len(whole) or len(text) > 4 * limit:
        part["cut"] = True
    if problem is not None:
        part["problem"] = problem
    return part


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By time, but each partition's in the order of its offsets.

    The two can differ: a producer without idempotence that tries a batch again writes it behind a later one, and a
    clock may be set back. Such a record stands where the latest of those before it in its partition stands.
    """
    latest: dict[int, int] = {}
    keyed = []
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        time = latest[row["partition"]] = max(row["time"], latest.get(row["partition"], row["time"]))
        keyed.append(((time, row["partition"], row["offset"]), row))
    return [row for _, row in sorted(keyed, key=lambda pair: pair[0])]


def _size(row: dict[str, Any]) -> int:
    parts = [row["key"], row["value"], *(part for _, part in row["headers"])]
    return sum(len(part["text"]) for part in parts if part is not None) + 100
