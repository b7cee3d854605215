"""Beside a ZooKeeper in the foreground, which is Java's process by then: says when it serves, and tidies up after it.

A script of the standard library alone: ``java_attendant.py HOST PORT LOG [TEMPORARY]``. Its standard input is a pipe
whose other end Java holds: it ends when Java does, however that comes.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import sys

_LOOK_S = 0.05
_TAIL_BYTES = 4_096


def main(host: str, port: str, log: str, temporary: str = "") -> None:
    """Until Java has ended."""
    try:
        while not _is_serving(host, int(port)):
            if select.select([0], [], [], _LOOK_S)[0]:
                print(f"odradek: ZooKeeper ended at start:\n{_tail(log)}", file=sys.stderr)
                return
        print(f"ready: zookeeper.connect={host}:{port}", flush=True)
        os.read(0, 1)
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def _is_serving(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), 1.0) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while chunk := connection.recv(4_096):
                answer += chunk
            return b"Mode:" in answer
    except OSError:
        return False


def _tail(log: str) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").rstrip()
    except OSError as error:
        return str(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
