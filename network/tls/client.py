"""The client's side of TLS: a wrapper for `Connection`, and the context of keys and files that may change."""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any

from network.client.connection import AuthenticationFailed, SocketWrapper
from network.tls.settings import TlsSettings, is_current, read_settings

logger = logging.getLogger(__name__)


class CurrentContext:
    """What new connections use. Keys and files are looked at for each: new ones make a new context, and those that
    cannot be used leave the old one, with an error in the log."""

    def __init__(self, value: Callable[[str], Any], whose: str) -> None:
        """`value` gives the value of a key, or None; `whose` connections these are is for the log."""
        self._value = value
        self._whose = whose
        self._made: tuple[TlsSettings, ssl.SSLContext] | None = None

    def __call__(self) -> ssl.SSLContext:
        """Raises ValueError when there is none, and never was one."""
        made = self._made
        if made is not None and is_current(made[0], self._value):
            return made[1]
        try:
            settings = read_settings(self._value)
            made = settings, settings.client_context()
        except ValueError as error:
            if made is None:
                raise
            logger.error("new TLS settings of connections to %s cannot be used: %s", self._whose, error)
        self._made = made
        return made[1]


class TlsSocket(ssl.SSLSocket):
    """A socket to which several buffers can be given at once, as to a plain one."""

    def sendmsg(self, buffers: Any, *_: Any) -> int:  # type: ignore[override]
        parts: Sequence[Any] = list(buffers)
        return self.send(b"".join(parts))


def tls_wrapper(context: Callable[[], ssl.SSLContext]) -> SocketWrapper:
    """Encrypts a connected socket within its time-out; `context` is asked for each, for it may have been renewed.

    Unlike on a plain socket, only one thread at a time may send or receive.

    A peer that is not trusted, or not the one that was meant, is `AuthenticationFailed`: it will not be another one
    the next time.
    """

    def wrap(sock: socket.socket, host: str) -> socket.socket:
        current = context()
        current.sslsocket_class = TlsSocket
        try:
            return current.wrap_socket(sock, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            sock.close()
            raise AuthenticationFailed(str(error)) from error
        except BaseException:
            sock.close()
            raise

    return wrap
