"""Start of a container: environment variables become configuration keys, then this process becomes the broker.

As in the Kafka images: KAFKA_ADVERTISED_LISTENERS is advertised.listeners; in names one underscore is a dot, two are
an underscore, three are a dash. A mounted /etc/odradek/server.properties, or the file that ODRADEK_MOUNTED names, is
read first, variables win over it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

MOUNTED = Path(os.environ.get("ODRADEK_MOUNTED", "/etc/odradek/server.properties"))
# In memory: the root of the container may be read-only.
EFFECTIVE = Path("/tmp/odradek/effective.properties")
PREFIX = "KAFKA_"
# Variables of the Kafka images that are for their scripts, not for the broker.
NOT_CONFIGURATION = frozenset(
    {"KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_JMX_PORT"}
)
DEFAULTS = {"log.dirs": "/var/lib/odradek/data"}


def key_of(variable: str) -> str:
    """Configuration key of a variable's name: ___ is -, __ is _, _ is a dot."""
    name = variable.removeprefix(PREFIX).lower()
    return name.replace("___", "\0").replace("__", "\1").replace("_", ".").replace("\0", "-").replace("\1", "_")


def properties(environment: Mapping[str, str], mounted: str) -> str:
    """The effective file: defaults, the mounted file, then the variables."""
    lines = [f"{key}={value}" for key, value in DEFAULTS.items()]
    lines.append(mounted.rstrip("\n"))
    for variable, value in sorted(environment.items()):
        if variable.startswith(PREFIX) and variable not in NOT_CONFIGURATION:
            escaped = value.replace("\\", "\\\\").replace("\n", "\\n")
            lines.append(f"{key_of(variable)}={escaped}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the file and exec the command, so that signals reach the broker itself."""
    EFFECTIVE.parent.mkdir(mode=0o700, exist_ok=True)
    EFFECTIVE.write_text(properties(os.environ, MOUNTED.read_text() if MOUNTED.exists() else ""))
    if sys.argv[1:]:
        command = sys.argv[1:]
    else:
        command = [str(Path(sys.executable).with_name("odradek")), "server", "--config", str(EFFECTIVE)]
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
