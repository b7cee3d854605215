"""``python -m tests.peers.franz_go``: a Go client logs in to a broker of each kind, by SASL_SSL and every mechanism.

It writes in a transaction, works in a group and reads all back, is refused a topic that it may not write to and a wrong
password; by PLAIN, both SCRAMs, OAUTHBEARER and a delegation token. Needs Go, which fetches franz-go; not a part of
``make test``. Exit code 1 when anything failed.
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from broker.dev.polling import wait_until
from broker.dev.processes import free_ports
from network.client.connection import Connection, ConnectionFailed
from network.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from network.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from network.sasl.unsecured_token import make_unsecured
from tests.contract.test_sasl import upsertion
from tests.support import wire
from tests.support.cluster import CLOCK, Kind
from tests.support.guarded import ADMIN, Guarded, bearer, running_guarded, scram
from tests.support.rules_in_force import permit, set_users
from tests.support.zookeeper_servers import zookeeper_server

SOURCE = Path(__file__).parent
SCRAMS = ("SCRAM-SHA-512", "SCRAM-SHA-256")
USER, PASSWORD = "gopher", "gopher's"
NEEDED = {"": (2, (3, 4)), "team-": (3, (3,)), "franz-": (5, (4,))}
"""By what goes before the topic's name: type of resource, and operations (3 READ, 4 WRITE)."""


def build(directory: Path) -> Path:
    """The client's program."""
    program = directory / "client"
    environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=SOURCE, env=environment, check=True)
    return program


def entered(guarded: Guarded, mechanism: str) -> Connection:
    """The user, as soon as the broker knows them."""
    made: list[Connection] = []

    def enter() -> bool:
        with contextlib.suppress(ConnectionFailed):
            made.append(guarded.log_in(mechanism, scram(USER, PASSWORD)))
        return bool(made)

    assert wait_until(enter, CLOCK, 30_000), f"{mechanism} lets nobody in"
    return made[0]


def logins(guarded: Guarded) -> dict[str, tuple[str, str]]:
    """User and password of each mechanism."""
    with entered(guarded, SCRAMS[0]) as owner:
        token = owner.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1), 3)
    entered(guarded, SCRAMS[1]).close()
    jwt, _ = make_unsecured(bearer(USER), CLOCK.wall_ms())
    return {
        "PLAIN": (ADMIN["username"], ADMIN["password"]),
        SCRAMS[0]: (USER, PASSWORD),
        SCRAMS[1]: (USER, PASSWORD),
        f"{SCRAMS[1]}+token": (token.token_id, base64.b64encode(token.hmac).decode()),
        "OAUTHBEARER": ("", jwt),
    }


def run(kind: Kind, program: Path, directory: Path, zookeeper: str) -> list[str]:
    """What failed."""
    failed = []
    with running_guarded([kind], directory / kind, f"{zookeeper}/{kind}") as guarded:
        set_users(guarded.cluster, made={USER: PASSWORD})
        with guarded.cluster.client() as client:
            client.call_controller(AlterUserScramCredentialsRequest(upsertions=[upsertion(USER, PASSWORD, SCRAMS[1])]))
        wire.create_topic(guarded.cluster, "closed")
        authority = str(guarded.authority.pem_file(directory / f"{kind}.pem"))
        for number, (mechanism, (user, password)) in enumerate(logins(guarded).items()):
            topic = wire.create_topic(guarded.cluster, f"go-{number}", partitions=3)
            needed = [(each, f"{prefix}{topic}", what) for prefix, (each, all_) in NEEDED.items() for what in all_]
            permit(guarded.broker, USER, *needed)
            command = [str(program), guarded.address(), authority, topic, mechanism, user, password]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            print(f"{kind}: {(done.stdout + done.stderr).strip()}", flush=True)
            if done.returncode or not done.stdout.startswith("ok"):
                failed.append(f"{kind} {mechanism}")
    return failed


def main() -> int:
    """Exit code."""
    kinds: tuple[Kind, ...] = ("odradek", "kafka")
    with tempfile.TemporaryDirectory(prefix="odradek-peer-") as name:
        directory = Path(name)
        program = build(directory)
        server = zookeeper_server("embedded", directory / "zookeeper", free_ports(1)[0])
        try:
            server.wait_until_ready(CLOCK)
            failed = [each for kind in kinds for each in run(kind, program, directory, server.connect)]
        finally:
            server.stop()
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
