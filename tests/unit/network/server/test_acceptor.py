from __future__ import annotations

import socket
import sys

import pytest

from network.server.acceptor import bind
from network.server.server_config import ListenerConfig, SocketServerConfig

LISTENER = ListenerConfig("PLAINTEXT", "127.0.0.1", 0)


def receive_buffer(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems give other sizes than those asked for")
def test_the_system_sizes_a_buffer_unless_told_otherwise() -> None:
    config = SocketServerConfig([LISTENER])
    with (
        socket.socket() as untouched,
        bind(LISTENER, 1, config.socket_receive_buffer_bytes) as by_the_system,
        bind(LISTENER, 1, 50_000) as told,
    ):
        assert receive_buffer(by_the_system) == receive_buffer(untouched)
        assert receive_buffer(told) == 100_000  # Linux doubles it, for its own accounts
