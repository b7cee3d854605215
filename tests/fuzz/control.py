"""Frames that any client may send and that cost little: what bad ones are compared with."""

from __future__ import annotations

import random

from network.protocol.header import RequestHeader, encode_request
from network.protocol.messages.metadata import MetadataRequest
from tests.fuzz.frames import Frame
from tests.support import wire

LEAVES = 0.4
"""Of the good frames, after which the client leaves for another one: as often as the broker closes for bad ones."""


def good_frame(rng: random.Random, correlation_id: int, *, login: bool) -> Frame:
    """A question for versions, or for the brokers where nobody has to log in first."""
    if login or rng.random() < 0.5:
        header = RequestHeader(18, 3, correlation_id, "fuzz")
        return Frame(encode_request(header, wire.ASK_VERSIONS), header, "good")
    header = RequestHeader(3, 9, correlation_id, "fuzz")
    return Frame(encode_request(header, MetadataRequest(topics=[])), header, "good")
