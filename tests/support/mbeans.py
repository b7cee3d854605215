"""What a running Apache Kafka shows by JMX, and what the JMX exporter's example rules for Kafka make of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from broker.dev.processes import free_ports
from tests.reference import kafka
from tests.support.cluster import Broker

Labels = frozenset[tuple[str, str]]
Sample = tuple[str, Labels]


@dataclass(frozen=True)
class MBean:
    """One MBean: `name` is None where the attributes are the metrics."""

    domain: str
    type: str
    name: str | None
    tags: tuple[tuple[str, str], ...]
    attributes: dict[str, str]

    @property
    def pattern(self) -> str:
        """Its object name with `*` for what differs between instances."""
        name = "" if self.name is None else f",name={self.name}"
        return f"{self.domain}:type={self.type}{name}{''.join(f',{key}=*' for key, _ in self.tags)}"

    def samples(self) -> Iterator[tuple[Sample, str]]:
        """Series and value, by the rules; the quantiles of a histogram are left out, for no two runs have the same."""
        labels = frozenset((_identifier(key), value) for key, value in self.tags)
        attributes, base = self.attributes, f"{self.domain}_{self.type}_{self.name}"
        if self.name is None:
            for key, value in attributes.items():
                yield (_series(f"{self.domain}_{self.type}_{key}"), labels), value
        elif "PerSec" in self.name:
            yield (_series(base.partition("PerSec")[0] + "_total"), labels), attributes["Count"]
        elif "Value" in attributes:
            yield (_series(base), labels), attributes["Value"]
        elif "Count" in attributes:
            yield (_series(base + "_count"), labels), attributes["Count"]


def show_by_jmx(broker: Broker) -> int:
    """Have a broker of Apache Kafka that is not started yet serve JMX; returns the port."""
    (port,) = free_ports(1)
    options = {
        "com.sun.management.jmxremote.port": port,
        "com.sun.management.jmxremote.rmi.port": port,
        "com.sun.management.jmxremote.authenticate": "false",
        "com.sun.management.jmxremote.ssl": "false",
        "com.sun.management.jmxremote.host": "127.0.0.1",
        "java.rmi.server.hostname": "127.0.0.1",
    }
    broker.environment["JAVA_TOOL_OPTIONS"] = " ".join(f"-D{key}={value}" for key, value in options.items())
    return port


def read_mbeans(port: int) -> list[MBean]:
    """All of Kafka's own, by its JmxTool."""
    url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"
    arguments = ("--one-time", "--report-format", "tsv", "--jmx-url", url)
    done = kafka.run_tool("org.apache.kafka.tools.JmxTool", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = {}
    for line in done.stdout.splitlines():
        key, tab, value = line.partition("\t")
        name, _, attribute = key.rpartition(":")
        if tab and name.startswith("kafka"):
            found.setdefault(name, {})[attribute] = value
    return [_mbean(name, attributes) for name, attributes in found.items()]


def _mbean(object_name: str, attributes: dict[str, str]) -> MBean:
    domain, _, rest = object_name.partition(":")
    properties = {key: value.strip('"') for key, value in re.findall(r'([^,=]+)=("[^"]*"|[^,]*)', rest)}
    type_, name = properties.pop("type"), properties.pop("name", None)
    return MBean(domain, type_, name, tuple(sorted(properties.items())), attributes)


def _series(text: str) -> str:
    return _identifier(text).lower()


def _identifier(text: str) -> str:
    return re.sub("[^a-zA-Z0-9_]", "_", text)
