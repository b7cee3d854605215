"""A process that converts records for old readers, so that this has a core and an interpreter of its own.

Conversion builds every record anew, in a loop that in the broker holds the interpreter lock 5 ms at a time against
every request. No record goes through the broker: it gives away the descriptor of the log file with position and size,
and gets back that of a file in memory with what was made of them, which it sends like a range of a log. Such a file is
a descriptor until a slow reader has had it, and descriptors are what logs need too: what is small, and what comes while
there are many of them, is read into memory.

One range at a time: message and answer are one packet each, on a pair of sockets that is the process's standard input.
It ends when the broker does.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import weakref
from contextlib import suppress
from enum import IntEnum

from log.errors import (
    CorruptRecordError,
    DecompressionError,
    InvalidRecordError,
    RecordTooLargeError,
    UnknownCompressionError,
    UnsupportedCompressionTypeError,
)
from log.files.file_range import LogFileRange, OpenFile
from log.files.handles import pread_fully, write_fully
from log.helper_process import leave_signals_to_the_broker, reap, start_helper
from log.records.down_conversion import Converted, Source, converted_pieces, is_too_new

ANSWER_S = 120.0
"""A process that takes longer is held to be stuck, and is killed."""
SMALL_BYTES = 256 << 10
"""So much is handed back as bytes, not as a file."""
MAX_FILES = 256
"""Files in memory that may be out at a time; beyond them everything is handed back as bytes."""
IS_POSSIBLE = all((hasattr(os, "memfd_create"), hasattr(socket, "SOCK_SEQPACKET"), hasattr(socket, "send_fds")))
"""Not everywhere is there a file in memory, or a way to hand one over."""

_REQUEST = struct.Struct("=qqqb")  # position, size, first offset, magic
_ANSWER = struct.Struct("=bqq")  # kind, records, bytes
_TEXT_BYTES = 2000
_ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (
        CorruptRecordError,
        DecompressionError,
        InvalidRecordError,
        RecordTooLargeError,
        UnknownCompressionError,
        UnsupportedCompressionTypeError,
        EOFError,
    )
}
"""What records, or a log that was cut, can be at fault for, by the name under which it comes back."""


class _Kind(IntEnum):
    AS_IT_IS = 0
    CONVERTED = 1
    FAILED = 2


class ConversionProcessDiedError(Exception):
    """The process is gone, does not answer, could not be started, or cannot do its work."""


class ConversionProcess:
    """Started by the first `convert`; `close` ends it, and a `convert` after that starts another. For one thread, but
    for `interrupt` and `pid`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._interrupted = False
        self._files: weakref.WeakSet[OpenFile] = weakref.WeakSet()  # those in memory that somebody has yet to send

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._process is None else self._process.pid

    def convert(self, source: Source, magic: int, first_offset: int) -> Converted | None:
        """What `convert_here` does. Raises ConversionProcessDiedError too, also for a fault that is the process's own:
        it has no memory left, or may not have a file there."""
        connection = self._socket or self._start()
        try:
            request = _REQUEST.pack(source.position, source.size, first_offset, magic)
            socket.send_fds(connection, [request], [source.fd])
            answer, files, _, _ = socket.recv_fds(
                connection, _ANSWER.size + _TEXT_BYTES, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            )
        except OSError as error:
            raise self._died(kill=True) from error
        if len(answer) < _ANSWER.size:
            raise self._died()
        kind, count, size = _ANSWER.unpack_from(answer)
        if kind == _Kind.CONVERTED:
            if not files:  # the broker has no place for another descriptor
                raise self._died(kill=True)
            return Converted(self._taken(OpenFile(files[0]), size), count)
        if kind == _Kind.AS_IT_IS:
            return None
        raise _error(answer[_ANSWER.size :].decode("utf-8", "replace"))

    def _taken(self, file: OpenFile, size: int) -> bytes | LogFileRange:
        if size <= SMALL_BYTES or len(self._files) >= MAX_FILES:
            return pread_fully(file.fd, size, 0)
        self._files.add(file)
        return LogFileRange(file, 0, size)

    def _start(self) -> socket.socket:
        if self._interrupted:
            raise ConversionProcessDiedError("no more conversions")
        try:
            ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with its:
                try:
                    self._process = start_helper("log.records.conversion_process", its.fileno(), subprocess.DEVNULL)
                except OSError:
                    ours.close()
                    raise
        except OSError as error:
            raise ConversionProcessDiedError(f"the process for conversions cannot be started: {error}") from error
        ours.settimeout(ANSWER_S)
        self._socket = ours
        # An `interrupt` that came before there was a process to end has left it to us.
        if self._interrupted:
            raise self._died(kill=True)
        return ours

    def _died(self, *, kill: bool = False) -> ConversionProcessDiedError:
        if kill and self._process is not None:
            self._process.kill()
        return ConversionProcessDiedError(f"the process for conversions has ended with status {self.close()}")

    def interrupt(self) -> None:
        """Have a `convert` of another thread fail now, and any later one. There is nothing that a kill could leave half
        done."""
        self._interrupted = True
        process, connection = self._process, self._socket
        if process is not None:
            process.kill()
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> int | None:
        """End it, idle or not, and return its exit status; None if there is none."""
        process, self._process = self._process, None
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()
        return None if process is None else reap(process)


def _error(text: str) -> Exception:
    name, _, message = text.partition("\n")
    kind = _ERRORS.get(name)
    if kind is None:
        return ConversionProcessDiedError(f"the process for conversions has failed: {name}: {message}")
    return kind(message)


# In the process


def _serve(broker: socket.socket) -> None:
    while True:
        request, files, _, _ = socket.recv_fds(broker, _REQUEST.size, 1)
        if len(request) < _REQUEST.size or not files:
            return
        position, size, first_offset, magic = _REQUEST.unpack(request)
        try:
            made = _convert(files[0], position, size, first_offset, magic)
        except Exception as error:
            text = f"{type(error).__name__}\n{error}".encode()[:_TEXT_BYTES]
            broker.send(_ANSWER.pack(_Kind.FAILED, 0, 0) + text)
            continue
        finally:
            os.close(files[0])
        if made is None:
            broker.send(_ANSWER.pack(_Kind.AS_IT_IS, 0, 0))
            continue
        file, count, size = made
        try:
            socket.send_fds(broker, [_ANSWER.pack(_Kind.CONVERTED, count, size)], [file])
        finally:
            os.close(file)


def _convert(source: int, position: int, size: int, first_offset: int, magic: int) -> tuple[int, int, int] | None:
    """(file in memory, records rewritten, bytes), or None."""
    data = pread_fully(source, size, position)
    if not is_too_new(data, magic):
        return None
    file = os.memfd_create("converted", os.MFD_CLOEXEC)
    try:
        count = written = 0
        for piece, records in converted_pieces(data, magic, first_offset):
            write_fully(file, piece)
            count += records
            written += len(piece)
    except BaseException:
        os.close(file)
        raise
    return file, count, written


def main() -> None:
    """Serve the broker until it is gone."""
    leave_signals_to_the_broker()
    with socket.socket(fileno=os.dup(0)) as broker, suppress(BrokenPipeError, ConnectionResetError):
        _serve(broker)


if __name__ == "__main__":
    main()
