"""A TCP proxy between two programs, that can hold what they say or cut them off."""

from __future__ import annotations

import contextlib
import socket
import threading

HOST = "127.0.0.1"


class Proxy:
    """Forwards connections to `host:port` of `target`, from a port of its own.

    `hold` keeps bytes back as a network that loses every packet does: nobody is told. `cut` resets all connections and
    every new one. `resume` ends both; what was held is delivered.
    """

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"{HOST}:{self.port}"
        self._flows = threading.Event()
        self._flows.set()
        self._refuses = False
        self._closed = False
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        threading.Thread(target=self._accept, name=f"proxy to {target}", daemon=True).start()

    def hold(self) -> None:
        """Deliver nothing more, in neither direction."""
        self._flows.clear()

    def cut(self) -> None:
        """Reset all connections, and new ones at once."""
        self._refuses = True
        self._reset_all()

    def resume(self) -> None:
        """Forward again."""
        self._refuses = False
        self._flows.set()

    def close(self) -> None:
        """End everything."""
        self._closed = self._refuses = True
        self._flows.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._reset_all()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                _reset(near)
                continue
            try:
                far = socket.create_connection(self._target, 5)
                far.settimeout(None)
            except OSError:
                _reset(near)
                continue
            with self._lock:
                self._sockets |= {near, far}
            for source, sink in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65_536):
                self._flows.wait()
                sink.sendall(data)
            self._flows.wait()
        except OSError:
            pass
        with self._lock:
            self._sockets -= {source, sink}
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            # The other direction's thread may still be in a call on it; the last reference closes it.

    def _reset_all(self) -> None:
        with self._lock:
            sockets, self._sockets = self._sockets, set()
        for end in sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()
