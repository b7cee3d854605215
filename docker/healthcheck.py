"""Healthy means: the broker answers on its first listener and is in its own metadata, with a controller."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from log.files.properties_text import parse_properties
from network.client.cluster_client import ClusterClient
from network.client.security import client_security
from timer.clock import SystemClock

EFFECTIVE = Path("/tmp/odradek/effective.properties")
# How brokers log in, where the cluster is secured (docker-compose.secure.yml).
LOGIN = Path("/security/broker.properties")


def main() -> int:
    """Exit code 0 when healthy; one line says why not."""
    found = re.findall(r"^listeners=\w+://[^:]*:(\d+)", EFFECTIVE.read_text(), re.MULTILINE)
    port = found[-1] if found else "9092"
    broker_id = re.findall(r"^broker\.id=(\d+)", EFFECTIVE.read_text(), re.MULTILINE)
    try:
        wrap = client_security(parse_properties(LOGIN.read_text()), SystemClock()) if LOGIN.exists() else None
        servers = f"127.0.0.1:{port}"
        with ClusterClient(servers, "healthcheck", SystemClock(), request_timeout_ms=5_000, wrap=wrap) as client:
            seen = client.metadata([], 5_000)
    except OSError as error:
        print(f"the broker does not answer: {error}")
        return 1
    if seen.controller_id < 0:
        print("the broker knows no controller")
        return 1
    if broker_id and int(broker_id[-1]) not in seen.brokers:
        print(f"the broker is not in its metadata: {sorted(seen.brokers)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
