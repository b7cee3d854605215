"""What a client has to know of a secured local cluster, in the words of the libraries that are most in use."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from broker.dev.private_files import write_private
from log.files.properties_text import format_properties
from network.sasl.clients import LOGIN_MODULES


def login_module(mechanism: str, **options: str) -> str:
    """A value of `sasl.jaas.config`."""
    texts = {name: value.replace("\\", r"\\").replace('"', r"\"") for name, value in options.items()}
    given = "".join(f' {name}="{text}"' for name, text in texts.items())
    return f"{LOGIN_MODULES[mechanism]} required{given};"


@dataclass(frozen=True)
class ClientAccess:
    """One client's. ``authority`` is the file to trust, None without TLS; no ``user``: no SASL."""

    bootstrap: str
    protocol: str
    authority: Path | None = None
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)

    def java(self) -> dict[str, str]:
        """For Java clients, Kafka's tools and `--command-config` of ours."""
        found = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.authority is not None:
            found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)}
        if self.user:
            found["sasl.mechanism"] = self.mechanism
            found["sasl.jaas.config"] = login_module(self.mechanism, username=self.user, password=self.password)
        return found

    def librdkafka(self) -> dict[str, str]:
        """For confluent-kafka and the other libraries on librdkafka."""
        found = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.authority is not None:
            found["ssl.ca.location"] = str(self.authority)
        if self.user:
            found |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.user,
                "sasl.password": self.password,
            }
        return found

    def spark(self) -> dict[str, str]:
        """Options of Spark's own connector, `format("kafka")`."""
        return {f"kafka.{name}": value for name, value in self.java().items()}


@dataclass(frozen=True)
class ClientFiles:
    """Where a client's configuration stands."""

    directory: Path
    name: str

    @property
    def java(self) -> Path:
        return self.directory / f"{self.name}.properties"

    @property
    def librdkafka(self) -> Path:
        return self.directory / f"{self.name}.json"

    @property
    def spark(self) -> Path:
        return self.directory / f"{self.name}.spark.json"

    def write(self, access: ClientAccess) -> None:
        """All of them, for nobody else to read."""
        write_private(self.java, format_properties(access.java(), "of odradek dev").encode("latin-1"))
        write_private(self.librdkafka, _json(access.librdkafka()))
        write_private(self.spark, _json(access.spark()))


def _json(values: dict[str, str]) -> bytes:
    return json.dumps(values, indent=2).encode() + b"\n"
