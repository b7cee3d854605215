"""A local cluster with security: who may come in, what brokers are told of it, and what clients need.

Clients log in by SCRAM-SHA-512, whose users are kept in ZooKeeper: `odradek users` adds more while the cluster runs,
which PLAIN, with its users in the brokers' files, has no way to. The brokers' own user is PLAIN's: it has to be there
before there is a broker that could make one of SCRAM. Passwords and keys are made once and stay in
``DIRECTORY/security``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.errors import MissingPrerequisiteError
from broker.dev.client_access import ClientAccess, ClientFiles, login_module
from broker.dev.private_files import write_private
from log.files.properties_text import format_properties, parse_properties
from network.client.security import client_security
from network.sasl.nonces import new_nonce

if TYPE_CHECKING:
    from network.client.connection import SocketWrapper
    from timer.clock import Clock

BROKER = "broker"
ADMIN = "admin"
# Who may what: broker/dev/users.py.
USERS = (ADMIN, "alice", "bob")
_CLIENT = "client"
_BROKERS_MECHANISM = "PLAIN"
MECHANISM = "SCRAM-SHA-512"


@dataclass(frozen=True)
class DevSecurity:
    """Of one cluster; ``protocol`` is that of its only listener, ``directory`` has its files. ``new`` are those whose
    password was made at this start: what ZooKeeper has of them, if anything, is of another."""

    protocol: str
    directory: Path
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    new: frozenset[str] = frozenset()

    @property
    def has_users(self) -> bool:
        """Whether clients log in; then the authorizer decides what they may."""
        return self.protocol.startswith("SASL")

    @property
    def brokers_user(self) -> str:
        """As whom brokers, and who looks after them, log in."""
        return BROKER

    @property
    def authority(self) -> Path | None:
        """The certificate that clients trust; None without TLS."""
        return self.directory / "ca.pem" if self.protocol.endswith("SSL") else None

    @property
    def names(self) -> tuple[str, ...]:
        """Whose configuration there is, the first may do everything."""
        return USERS if self.has_users else (_CLIENT,)

    def files(self, name: str) -> ClientFiles:
        """Where it is."""
        return ClientFiles(self.directory, name)

    def access(self, name: str, bootstrap: str) -> ClientAccess:
        """What that client needs."""
        if not self.has_users:
            return ClientAccess(bootstrap, self.protocol, self.authority)
        mechanism = _BROKERS_MECHANISM if name == BROKER else MECHANISM
        return ClientAccess(bootstrap, self.protocol, self.authority, mechanism, name, self.passwords[name])

    def key_file(self, broker_id: int) -> Path:
        """A broker's key and certificates."""
        return self.directory / f"broker-{broker_id}.pem"

    def wrapper(self, name: str, clock: Clock) -> SocketWrapper | None:
        """What makes that client's connections out of plain ones."""
        return client_security(self.access(name, "").java(), clock)

    def broker_settings(self, broker_id: int, listeners: Sequence[str] = ()) -> dict[str, str]:
        """Kafka's keys; `listeners` are the names of all, where it is not one with the name of the protocol."""
        settings = {} if listeners else {"security.inter.broker.protocol": self.protocol}
        if self.authority is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.key_file(broker_id)),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority),
            }
        if self.has_users:
            password = self.passwords[BROKER]
            own = {"username": BROKER, "password": password, f"user_{BROKER}": password}
            for listener in listeners or (self.protocol,):
                prefix = f"listener.name.{listener.lower()}"
                settings[f"{prefix}.plain.sasl.jaas.config"] = login_module(_BROKERS_MECHANISM, **own)
                settings[f"{prefix}.scram-sha-512.sasl.jaas.config"] = login_module(MECHANISM)
            settings |= {
                "sasl.enabled.mechanisms": f"{_BROKERS_MECHANISM},{MECHANISM}",
                "sasl.mechanism.inter.broker.protocol": _BROKERS_MECHANISM,
                "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
                "super.users": f"User:{ADMIN};User:{BROKER}",
            }
        return settings


def prepare(protocol: str, directory: Path, brokers: int, bootstrap: str, clock: Clock) -> DevSecurity:
    """See that every file is there. Raises MissingPrerequisiteError where TLS can't be had."""
    directory = directory.absolute() / "security"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    passwords: dict[str, str] = {}
    new: set[str] = set()
    if protocol.startswith("SASL"):
        passwords, new = _passwords(directory / "passwords.properties")
    security = DevSecurity(protocol, directory, passwords, frozenset(new))
    if security.authority is not None:
        _certify(security, security.authority, brokers, clock)
    for name in security.names:
        security.files(name).write(security.access(name, bootstrap))
    return security


def _certify(security: DevSecurity, public: Path, brokers: int, clock: Clock) -> None:
    try:
        from broker.dev.authority import Authority
    except ImportError:
        raise MissingPrerequisiteError(
            "certificates are made with cryptography: pip install 'odradek[security]'"
        ) from None
    authority = Authority(security.directory / "authority.pem", public, clock.wall_ms())
    for broker_id in range(brokers):
        authority.provide(security.key_file(broker_id), f"broker-{broker_id}")


def _passwords(file: Path) -> tuple[dict[str, str], set[str]]:
    """Those of the file; who has none there gets one that nobody can guess, and is named in the second."""
    found = parse_properties(file.read_text("latin-1")) if file.exists() else {}
    new = {name for name in (BROKER, *USERS) if not found.get(name)}
    if new:
        found |= {name: new_nonce() for name in sorted(new)}
        write_private(file, format_properties(found, "made by odradek dev").encode("latin-1"))
    return found, new
