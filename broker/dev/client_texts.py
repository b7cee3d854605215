"""What `odradek dev` prints of a secured cluster: configuration to be pasted, and where more of it is."""

from __future__ import annotations

from broker.dev.security import ADMIN, DevSecurity

# Whose configuration is shown: one for whom ACLs count.
_SHOWN = "alice"


def client_texts(security: DevSecurity, bootstrap: str) -> str:
    """Lines; they hold the password of one user, who may write and create topics."""
    name = _SHOWN if security.has_users else security.names[0]
    access, files = security.access(name, bootstrap), security.files(name)
    lines = [f"{security.protocol}; files for clients are in {security.directory}"]
    if security.has_users:
        lines += [
            f"users: {ADMIN} may do everything, alice writes to and creates topics, bob reads, others need ACLs",
            f"`odradek` commands are {ADMIN}; what follows is for {name}",
        ]
    lines += ["", f"confluent-kafka ({files.librdkafka.name}):"]
    lines += [f'    "{key}": "{value}",' for key, value in access.librdkafka().items()]
    lines += ["", f"Java clients, Kafka's tools ({files.java.name}):"]
    lines += [f"    {key}={value}" for key, value in access.java().items()]
    lines += ["", f'Spark, format("kafka") ({files.spark.name}):']
    lines += [f"    .option({key!r}, {value!r})" for key, value in access.spark().items()]
    return "\n".join(lines) + "\n"
