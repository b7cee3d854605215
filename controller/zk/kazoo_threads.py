"""What kazoo asks its handler of threads for: sockets, and when they can be read. Ours belong to one session only, and
may be TLS.

kazoo has TLS of its own, with other files than Kafka's and two gaps: a broker's choice of protocols is lost, and an
answer that came in one TLS record with the one before waits until something else comes, for it is no longer in the
socket.
"""

from __future__ import annotations

import errno
import ssl
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from controller.zk.kazoo_log import ServerNews

TlsContext = Callable[[], ssl.SSLContext]


class OneSessionThreads(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, but once the session is `lost` no connection is ever made again."""

    def __init__(self, tls: TlsContext | None, news: ServerNews) -> None:
        super().__init__()
        self.lost = False
        self.server = ""
        """The last one that a connection was made to, or tried."""
        self.tls_error = ""
        """Why the last connection could not be secured; empty when it could."""
        self._tls = tls
        self._news = news

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        if self.lost:
            raise OSError("the session of this client is over")
        host, (_, port) = kwargs["hostname"], kwargs["address"]
        self.server = f"{host}:{port}"
        try:
            made = super().create_connection(*args, **kwargs)
            if self._tls is not None:
                made = self._secure(made, host, self._tls())
        except Exception as error:
            self._news.failed(self.server, error)
            raise
        self._news.connected(self.server)
        return made

    def select(self, readers: Any, writers: Any, failing: Any, timeout: float | None = None) -> Any:
        """What has been decrypted already can be read at once."""
        decrypted = [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
        if not decrypted:
            return super().select(readers, writers, failing, timeout)
        ready = super().select([each for each in readers if each not in decrypted], writers, failing, 0)
        return [*decrypted, *ready[0]], ready[1], ready[2]

    def _secure(self, plain: Any, host: str, context: ssl.SSLContext) -> ssl.SSLSocket:
        """Within the time-out that the socket has."""
        try:
            secured = context.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            plain.close()
            self.tls_error = _cause(host, error)
            raise OSError(errno.EPROTO, self.tls_error) from error  # kazoo logs the text that stands beside a number
        self.tls_error = ""
        return secured


def _cause(host: str, error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of ZooKeeper on {host} is not taken: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ConnectionError) or getattr(error, "reason", "") == "WRONG_VERSION_NUMBER":
        return f"ZooKeeper on {host} ends the handshake of TLS; it has to be its secureClientPort"
    reason = str(getattr(error, "reason", None) or error)
    if "ALERT" in reason and "CERTIFICATE" in reason:
        return f"ZooKeeper on {host} does not take our certificate, or wants one: {reason}"
    return f"no TLS with ZooKeeper on {host}: {reason}"
