"""A real ZooKeeper with a port for plain text and one for TLS, which knows its clients by their certificates."""

from __future__ import annotations

import sys
from pathlib import Path

from broker.dev import parent
from broker.dev.processes import ManagedProcess, free_ports
from broker.dev.zookeeper import ZooKeeperServer, java_command
from tests.support.certificates import PASSWORD, Authority
from tests.support.cluster import HOST


class TlsZooKeeper(ZooKeeperServer):
    """`connect` is its port for plain text, `secure` that for TLS."""

    def __init__(
        self, directory: Path, authority: Authority, *, hosts: tuple[str, ...] = (HOST,), **settings: str
    ) -> None:
        """Its certificate names `hosts`; `settings` are lines of its zoo.cfg with `_` for dots."""
        self.host = HOST
        self.port, secure_port = free_ports(2)
        self.connect, self.secure = f"{HOST}:{self.port}", f"{HOST}:{secure_port}"
        directory.mkdir(parents=True)
        command = java_command(directory, self.port, HOST)
        lines = {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "secureClientPort": str(secure_port),
            "secureClientPortAddress": HOST,
            "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            "ssl.keyStore.location": str(
                authority.issue("zookeeper", hosts=hosts).pkcs12_file(directory / "zookeeper.p12")
            ),
            "ssl.keyStore.password": PASSWORD,
            "ssl.trustStore.location": str(authority.pem_file(directory / "ca.pem")),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        with Path(command[-1]).open("a") as config:
            config.writelines(f"{name}={value}\n" for name, value in lines.items())
        tied = [sys.executable, "-I", "-S", str(Path(parent.__file__).resolve())]
        self.process = ManagedProcess("zookeeper", [*tied, *command], directory / "zookeeper.log", tied=True)
