"""Request frames: well-formed with hostile values, damaged in places that matter, captured ones flipped, and noise."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

from controller.replica_placement import MOST_PARTITIONS
from network.protocol.api import API, ApiKey
from network.protocol.errors import ProtocolError
from network.protocol.header import RequestHeader, decode_request_header, encode_request
from network.protocol.message import Message
from network.protocol.primitives import encode_unsigned_varint
from tests.fuzz.values import message
from tests.support.paths import GOLDEN

BROKERS_OWN = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN)
"""Who may send these is believed to be a broker: with the epoch and id of one they would really take it away."""
LOGINS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS)
FAVOURITES = (ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.FETCH)
_NOISE_KEYS = (-2, -1, 0, 1, 3, 18, 36, 58, 68, 74, 90)
_COUNTS = (2**31 - 1, 100_000, 1_000, -1, -2, 0)


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes with their size in front. `header` is there when an answer that comes must be one to it."""

    data: bytes
    header: RequestHeader | None
    kind: str

    def api(self) -> str:
        """The name of what it asks for, as far as it says."""
        key = int.from_bytes(self.data[4:6], "big", signed=True)
        return API[ApiKey(key)].name if key in API else "no API"

    def label(self) -> str:
        """What it says it is, in a few words."""
        version = int.from_bytes(self.data[6:8], "big", signed=True)
        return f"{self.api()} {version}, {self.kind}, {len(self.data)} bytes"


def any_frame(rng: random.Random, correlation_id: int, *, login: bool) -> Frame:
    """The next one; `login`: mostly what is sent before a login is complete."""
    frame = _drawn(rng, correlation_id, login)
    while _makes_many(frame.data):
        frame = _drawn(rng, correlation_id, login)
    return frame


def _drawn(rng: random.Random, correlation_id: int, login: bool) -> Frame:
    drawn = rng.random()
    if drawn < 0.12:
        return Frame(_captured(rng), None, "captured")
    if drawn < 0.15:
        return Frame(_noise(rng), None, "noise")
    frame = _declared(rng, correlation_id, login)
    if drawn < 0.4:
        whole = frame.header is not None and frame.header.api_key in BROKERS_OWN
        cut = frame.data[: rng.randrange(4, len(frame.data))]
        damaged = struct.pack(">i", len(cut) - 4) + cut[4:] if whole else _damaged(frame.data, rng)
        return Frame(damaged, None, "damaged")
    return frame


def _declared(rng: random.Random, correlation_id: int, login: bool) -> Frame:
    if login and rng.random() < 0.8:
        key = rng.choice(LOGINS)
    else:
        key = rng.choice(FAVOURITES) if rng.random() < 0.25 else rng.choice(tuple(API.values())).key
    spec = API[key]
    version = rng.randint(spec.min_version, spec.max_version)
    header = RequestHeader(key, version, correlation_id, rng.choice(("fuzz", "fuzz", "", "x" * 300)))
    while True:
        made = message(spec.request, version, rng)
        if key == ApiKey.CONTROLLED_SHUTDOWN:
            made.broker_id = rng.choice((-1, 7, 2**31 - 1))
        elif key in BROKERS_OWN:
            made.controller_epoch = rng.choice((-1, 0))
        elif key == ApiKey.PRODUCE and made.acks == 0 and rng.random() < 0.9:
            made.acks = 1  # without an answer there is little to see
        _spare(made)
        try:
            return Frame(encode_request(header, made), header, "declared")
        except ProtocolError:
            continue  # a value that this version has no bytes for


def _makes_many(data: bytes) -> bool:
    """Whether damage has made it a request for very many partitions, though not too many."""
    if int.from_bytes(data[4:6], "big") not in (ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS):
        return False
    try:
        header, start = decode_request_header(data[4:])
        made: Any = API[header.api_key].request.decode(data[4:], header.api_version, start)
    except (ProtocolError, KeyError):
        return False
    counts = [getattr(topic, "num_partitions", getattr(topic, "count", 0)) for topic in made.topics or ()]
    return any(10 < count <= MOST_PARTITIONS for count in counts)


def _spare(made: Message) -> None:
    """A topic of 100,000 partitions would really be made, which would take the hour."""
    for topic in getattr(made, "topics", None) or ():
        for name in ("num_partitions", "count"):
            if 10 < getattr(topic, name, 0) <= MOST_PARTITIONS:
                setattr(topic, name, 10)


def _damaged(frame: bytes, rng: random.Random) -> bytes:
    """Another size, count, tag or byte; the size in front fits unless it is what is wrong."""
    body = bytearray(frame[4:])
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        if not body:
            break
        at = rng.randrange(len(body))
        match rng.randrange(6):
            case 0:
                del body[at:]
            case 1:
                body[at] = rng.randrange(256)
            case 2:
                body[at : at + 4] = struct.pack(">i", rng.choice(_COUNTS))
            case 3:
                body[at : at + 1] = encode_unsigned_varint(rng.choice((2**32 - 1, 2**28, 1000)))
            case 4:
                body[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                body += rng.randbytes(rng.randrange(1, 30))
    return struct.pack(">i", len(body)) + body


def _noise(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return struct.pack(">i", rng.choice((-1, 0, 2**31 - 1, 3, 104_857_601))) + rng.randbytes(12)
    body = struct.pack(">hhi", rng.choice(_NOISE_KEYS), rng.randrange(-2, 20), 1) + rng.randbytes(rng.randrange(60))
    return struct.pack(">i", len(body)) + body


@cache
def captures() -> list[bytes]:
    """The requests of the golden captures, sizes included."""
    found = []
    for path in sorted((GOLDEN / "wire").glob("*.txt")):
        for line in path.read_text().splitlines():
            if not line.startswith("#"):
                _, _, direction, text = line.split(" ")
                if direction == ">" and int(path.name[:2]) not in BROKERS_OWN:
                    found.append(bytes.fromhex(text))
    return found


def _captured(rng: random.Random) -> bytes:
    body = bytearray(rng.choice(captures())[4:])
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(4, len(body))  # the key and the version stay
        body[at] = rng.choice((body[at] ^ (1 << rng.randrange(8)), rng.randrange(256)))
    return struct.pack(">i", len(body)) + body
