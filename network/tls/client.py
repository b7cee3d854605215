"""The client's side of TLS: a wrapper for `Connection`."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from network.client.connection import SocketWrapper


class TlsSocket(ssl.SSLSocket):
    """A socket to which several buffers can be given at once, as to a plain one."""

    def sendmsg(self, buffers: Any, *_: Any) -> int:  # type: ignore[override]
        parts: Sequence[Any] = list(buffers)
        return self.send(b"".join(parts))


def tls_wrapper(context: Callable[[], ssl.SSLContext]) -> SocketWrapper:
    """Encrypts a connected socket within its time-out; `context` is asked for each, for it may have been renewed.

    Unlike on a plain socket, only one thread at a time may send or receive.

    A peer that is not trusted, or not the one that was meant, is an `OSError` (`ssl.SSLCertVerificationError`).
    """

    def wrap(sock: socket.socket, host: str) -> socket.socket:
        current = context()
        current.sslsocket_class = TlsSocket
        try:
            return current.wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise

    return wrap
