"""Confluent's frame around an encoded value: a byte 0, the schema's id in four bytes, and for Protobuf the path of the
message in its file as a list of zigzag numbers (a single 0 stands for the first message)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

HEAD = 5
MAX_DEPTH = 64


class FrameError(ValueError):
    """A value that is not framed."""


class Framed(NamedTuple):
    """A column taken apart. What is null is neither in `groups` nor in `errors`."""

    groups: dict[int, npt.NDArray[np.int64]]
    """Rows by schema id."""
    errors: dict[int, str]
    """What is wrong, by row."""
    payloads: list[Any]
    """For each row the bytes behind the frame; None where there are none."""


def take_apart(column: pa.Array) -> Framed:
    """Frames of a binary column, all rows at once."""
    wide = column.cast(pa.large_binary())
    count = len(wide)
    _, edges_buffer, data_buffer = wide.buffers()
    if count == 0 or data_buffer is None:
        empty = {row: "the value has 0 bytes, a frame has 5" for row in range(count) if wide[row].is_valid}
        return Framed({}, empty, [None] * count)
    edges = np.frombuffer(edges_buffer, np.int64)[wide.offset : wide.offset + count + 1]
    data = np.frombuffer(data_buffer, np.uint8)
    valid = wide.is_valid().to_numpy(zero_copy_only=False)
    sizes = np.diff(edges)
    framed = np.flatnonzero(valid & (sizes >= HEAD))
    framed = framed[data[edges[framed]] == 0]
    head = data[edges[framed][:, None] + np.arange(1, HEAD)].astype(np.int64)
    ids = head[:, 0] << 24 | head[:, 1] << 16 | head[:, 2] << 8 | head[:, 3]
    payloads: list[Any] = [None] * count
    view = memoryview(data_buffer)
    for row in framed.tolist():
        payloads[row] = view[edges[row] + HEAD : edges[row + 1]].tobytes()
    errors = {}
    wrong = valid.copy()
    wrong[framed] = False
    for row in np.flatnonzero(wrong).tolist():
        if sizes[row] < HEAD:
            errors[row] = f"the value has {sizes[row]} bytes, a frame has {HEAD}"
        else:
            errors[row] = f"the value begins with byte {data[edges[row]]}, a frame with 0"
    return Framed({int(each): framed[ids == each] for each in np.unique(ids)}, errors, payloads)


def message_path(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Which message of its file a Protobuf payload is, from the outermost inwards, and where the message begins.

    Raises FrameError.
    """
    count, at = _zigzag(payload, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= MAX_DEPTH:
        raise FrameError(f"a message path of {count} numbers")
    path = []
    for _ in range(count):
        number, at = _zigzag(payload, at)
        path.append(number)
    return tuple(path), at


def _zigzag(payload: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(payload):
            break
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise FrameError("the message path is cut off")
