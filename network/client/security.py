"""How a client secures its connections, from the keys of Java clients: `security.protocol`, `ssl.*`, `sasl.*`."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from network.client.connection import Secured
from network.oauth.keys import KEYS as OAUTH_KEYS
from network.sasl.clients import CLIENT_HANDLER, LOGIN_MODULES, client_mechanism
from network.sasl.jaas import JaasError, parse_single
from network.sasl.java_options import JaasFile
from network.sasl.kerberos import SERVICE_NAME
from network.sasl.login import login_wrapper
from network.tls.client import CurrentContext, tls_wrapper
from network.tls.settings import KEYS as TLS_KEYS

if TYPE_CHECKING:
    from network.client.connection import Session, SocketWrapper
    from timer.clock import Clock

_JAAS = "sasl.jaas.config"
CLIENT_KEYS = ("security.protocol", "sasl.mechanism", _JAAS, SERVICE_NAME, CLIENT_HANDLER, *OAUTH_KEYS, *TLS_KEYS)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_DEFAULT_MECHANISM = "GSSAPI"
_CONTEXT = "KafkaClient"


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The properties, to be carried to where connections are made. Its text shows none of them."""

    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, properties: Mapping[str, str], clock: Clock) -> ClientSecurity:
        """Those of `properties` that are about security. Raises ValueError as `client_security` does."""
        own = {name: value for name, value in properties.items() if name in CLIENT_KEYS or name.startswith("ssl.")}
        client_security(own, clock)
        return cls(tuple(own.items()))

    def wrapper(self, clock: Clock) -> SocketWrapper | None:
        """What is done to each connected socket; None for plain text. Made once in a process for equal properties, for
        it costs more than a connection. Raises ValueError as `client_security` does, for instance where a file is
        missing."""
        return _made(self, clock)  # type: ignore[arg-type] # every clock has a hash


@functools.lru_cache(maxsize=16)
def _made(security: ClientSecurity, clock: Clock) -> SocketWrapper | None:
    return client_security(dict(security.properties), clock)


def client_security(properties: Mapping[str, str], clock: Clock) -> SocketWrapper | None:
    """What is done to each connected socket; None for plain text. Raises ValueError, without secrets, for properties
    that make no sense, and for a protocol or mechanism that is not served."""
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise ValueError(f"security.protocol: {protocol} is not served, only {', '.join(PROTOCOLS)}")
    wrappers: list[SocketWrapper] = []
    if protocol.endswith("SSL"):
        context = CurrentContext(properties.get, "brokers")
        context()  # a mistake is told now
        wrappers.append(tls_wrapper(context))
    if protocol.startswith("SASL_"):
        wrappers.append(_login(properties, clock))
    return chain(wrappers)


def chain(wrappers: list[SocketWrapper]) -> SocketWrapper | None:
    """One wrapper that applies all, the first first."""
    if not wrappers:
        return None

    def wrap(sock: socket.socket, host: str) -> socket.socket | Secured:
        session: Session | None = None
        for each in wrappers:
            made = each(sock, host)
            sock, session = made if isinstance(made, Secured) else (made, session)
        return sock if session is None else Secured(sock, session)

    return wrap


def _login(properties: Mapping[str, str], clock: Clock) -> SocketWrapper:
    mechanism = properties.get("sasl.mechanism", _DEFAULT_MECHANISM).strip()
    text = properties.get(_JAAS)
    where = _JAAS
    try:
        if text is not None:
            options = parse_single(text).options
        else:
            where, options = _of_file(mechanism)
        make = client_mechanism(mechanism, options, clock, properties.get)
    except JaasError as error:
        raise ValueError(f"{where}: {error}") from None
    return login_wrapper(make, properties.get("client.id", ""), clock)


def _of_file(mechanism: str) -> tuple[str, Mapping[str, str]]:
    """What to call the context of clients in the JAAS file, and the options of the mechanism's module in it."""
    try:
        where, modules = JaasFile(os.environ).need(_CONTEXT)
    except JaasError as error:
        raise ValueError(f"{_JAAS} is not set, so there is nobody to log in as: {error}") from None
    wanted = LOGIN_MODULES.get(mechanism)
    for module in modules:
        if module.name == wanted:
            return where, module.options
    raise ValueError(f"{where} has no login module for {mechanism}" + (f": {wanted}" if wanted else ""))
