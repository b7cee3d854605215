"""`docker compose` as far as a suite asks for it, for brokers that are processes: start, stop, logs, exec.

The suite finds a program named docker on its PATH, which asks this process. Services are named ``kafka-ID``; Kafka's
own tools are asked for as scripts below ``/opt/kafka-VERSION/bin`` and run from its jars.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shlex
import socket
import socketserver
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.peers.tools import script, tools
from tests.reference import kafka
from tests.support.cluster import ROOT, Broker, Cluster

INSIDE = f"/opt/kafka-{kafka.VERSION}/bin"
_TIME = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


def log_since(broker: Broker, since: str) -> str:
    """Its log from a time on, which is that of ISO 8601 in UTC, as are the lines that follow a line of a time."""
    begun = datetime.datetime.fromisoformat(since).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    lines = broker.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
    times = [_TIME.match(line) for line in lines]
    first = next((number for number, time in enumerate(times) if time and time[1] >= begun), len(lines))
    return "\n".join(lines[first:])


def answer(cluster: Cluster, words: list[str]) -> str:
    """What a command prints, once it is done."""
    if words[0] in ("up", "down", "rm"):
        # The cluster is there before the suite and after it.
        return ""
    service = words[-1]
    broker = next(each for each in cluster.brokers if f"kafka-{each.broker_id}" == service)
    if words[0] == "start":
        if broker.process is None or not broker.process.is_running:
            broker.start()
        broker.wait_listening()
    elif words[0] == "stop":
        broker.stop()
    else:
        return log_since(broker, words[words.index("--since") + 1])
    return ""


@contextlib.contextmanager
def docker(cluster: Cluster, directory: Path) -> Iterator[str]:
    """A folder for PATH with a program named docker that works on this cluster."""
    lock = threading.Lock()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            words = shlex.split(self.rfile.readline().decode())
            # A suite whose time is over takes no answer.
            with lock, contextlib.suppress(BrokenPipeError):
                self.wfile.write(answer(cluster, words).encode())

    programs = tools(directory)
    address = directory / "compose"
    arguments = shlex.join([sys.executable, "-m", "tests.peers.compose", str(address), str(programs)])
    script(
        programs / "docker", f'PYTHONPATH={shlex.quote(str(ROOT))} exec {arguments} {cluster.brokers[0].address} "$@"'
    )
    with socketserver.ThreadingUnixStreamServer(str(address), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield str(programs)
        finally:
            server.shutdown()


def main(address: str, programs: str, broker: str, words: list[str]) -> int:
    """The program named docker: hands on what concerns brokers, and runs by itself what is to be run inside."""
    assert words[0] == "compose", words
    words = words[3:] if words[1] == "--profile" else words[1:]
    if words[0] == "exec":
        command = [word.replace(INSIDE, programs).replace("kafka-1:9091", broker) for word in words[3:]]
        os.execvp(command[0], command)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        connection.sendall(f"{shlex.join(words)}\n".encode())
        with connection.makefile("rb") as answered:
            sys.stdout.buffer.write(answered.read())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]))
