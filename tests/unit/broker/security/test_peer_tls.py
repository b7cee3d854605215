"""TLS to other brokers while the configuration changes."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.security.peers import PeerSecurity
from tests.support.certificates import Authority
from timer.clock import ManualClock

KEY = "ssl.endpoint.identification.algorithm"


def test_whether_a_broker_s_name_is_compared_is_what_holds_now(tmp_path: Path) -> None:
    authority = Authority()
    elsewhere = authority.issue("elsewhere", hosts=("elsewhere",))
    config = KafkaConfig(
        {
            "zookeeper.connect": "127.0.0.1:1",
            "listeners": "SSL://127.0.0.1:1",
            "inter.broker.listener.name": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.pem_file(tmp_path / "ca.pem")),
        }
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(elsewhere.pem_file(tmp_path / "elsewhere.pem"))
    wrap = PeerSecurity(config, ManualClock()).inter_broker
    assert wrap is not None

    def connect() -> str | None:
        """The version that was agreed on."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.settimeout(30)
            theirs.settimeout(30)
            server = threading.Thread(target=_serve, args=(context, theirs))
            server.start()
            try:
                secured = wrap(ours, "localhost")
                assert isinstance(secured, ssl.SSLSocket)
                return secured.version()
            finally:
                ours.close()
                server.join()

    with pytest.raises(OSError, match="Hostname mismatch"):
        connect()
    config.use_dynamic({KEY: ""}, {})
    assert connect() == "TLSv1.3"
    config.use_dynamic({}, {})
    with pytest.raises(OSError, match="Hostname mismatch"):
        connect()


def _serve(context: ssl.SSLContext, sock: socket.socket) -> None:
    try:
        context.wrap_socket(sock, server_side=True).close()
    except OSError:
        sock.close()  # the other side has gone
