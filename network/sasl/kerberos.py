"""Keys and tickets of Kerberos, by the options of Java's `Krb5LoginModule`, and the security contexts made with them.

The library is `gssapi` (MIT's or Heimdal's own), an extra: `odradek[kerberos]`. Which realms there are and where their
servers stand is said by the file of `-Djava.security.krb5.conf` among `KAFKA_OPTS`, else by `KRB5_CONFIG`, else by
/etc/krb5.conf. A key table is read for each login, so new keys are in force at once; a ticket made with one is got anew
after half of its life. A ticket cache is read for each login, and filled by somebody else (kinit).
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

from network.sasl.jaas import JaasError
from network.sasl.java_options import java_property
from network.sasl.mechanism import SaslError

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SERVICE_NAME = "sasl.kerberos.service.name"

# Minor codes that say nothing.
_SILENT = ("Success", "Unknown error")


def library(environment: MutableMapping[str, str] | None = None) -> Any:
    """The module `gssapi`, told where its configuration is. Raises `JaasError` without the extra."""
    environment = os.environ if environment is None else environment
    file = java_property(environment, "java.security.krb5.conf")
    if file is not None:
        environment["KRB5_CONFIG"] = file
    try:
        import gssapi
    except ImportError as error:
        why = "" if isinstance(error, ModuleNotFoundError) and error.name == "gssapi" else f" ({error})"
        raise JaasError(f"GSSAPI needs Kerberos' library: pip install 'odradek[kerberos]'{why}") from None
    return gssapi


def default_realm() -> str:
    """That of the configuration, empty if there is none."""
    gssapi = library()
    try:
        name = gssapi.Name("x", gssapi.NameType.kerberos_principal).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).rpartition("@")[2]


def service_name(options: Mapping[str, str], configured: str | None) -> str:
    """That of the login module or of the configuration, which must agree. Raises `JaasError`."""
    of_module = options.get("serviceName")
    if of_module is not None and configured is not None and of_module != configured:
        raise JaasError(
            f"Conflicting serviceName values found in JAAS and Kafka configs value in JAAS file {of_module}, value in "
            f"Kafka config {configured}"
        )
    found = of_module or configured
    if not found:
        raise JaasError(f"No serviceName defined in either JAAS or Kafka config ({SERVICE_NAME})")
    return found


# A cache in memory is known by its name in the whole process, and outlives the login that made it.
_cache_numbers = itertools.count(1)


class KerberosLogin:
    """One principal's key table or ticket cache."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises `JaasError`, also for a key table that is missing or has no key of the principal."""
        self._gssapi = library()
        self._principal = options.get("principal")
        self._keytab: str | None = None
        self._lock = threading.Lock()
        self._tickets: tuple[Any, float] | None = None
        if _is_true(options, "useKeyTab"):
            self._keytab = _file(options.get("keyTab"))
            if self._keytab is None or not self._principal:
                raise JaasError("useKeyTab=true needs keyTab and principal among the options of the login module")
            self._keys()
        self._cache = options.get("ticketCache")
        if not self._keytab and not _is_true(options, "useTicketCache"):
            raise JaasError("GSSAPI needs useKeyTab=true or useTicketCache=true among the options of its login module")

    def acceptor(self) -> Callable[[], Acceptor]:
        """What makes the server's side of contexts. Raises `JaasError` without a key table."""
        if self._keytab is None:
            raise JaasError("a broker's login module needs useKeyTab=true, keyTab and principal")
        keys = self._keys()
        return lambda: Acceptor(self._gssapi, keys)

    def initiator(self, service: str, host: str) -> Initiator:
        """The client's side of a context with `service` on `host`. May wait for the realm's servers, and raises
        `SaslError` if they do not give a ticket."""
        gssapi = self._gssapi
        with _errors(gssapi):
            target = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
            return Initiator(gssapi, target, self._credentials())

    def _name(self) -> Any:
        gssapi = self._gssapi
        return gssapi.Name(self._principal, gssapi.NameType.kerberos_principal) if self._principal else None

    def _keys(self) -> Any:
        gssapi = self._gssapi
        try:
            with _errors(gssapi):
                return gssapi.Credentials(
                    usage="accept",
                    name=self._name(),
                    mechs=[gssapi.MechType.kerberos],
                    store={"keytab": f"FILE:{self._keytab}"},
                )
        except SaslError as error:
            raise JaasError(f"the key table cannot be used: {error}") from None

    def _credentials(self) -> Any:
        if self._keytab is None:
            return self._acquire({"ccache": f"FILE:{_file(self._cache)}"} if self._cache else {})
        with self._lock:
            return self._fresh()

    def _fresh(self) -> Any:
        """A ticket with at least half of its life left, or the one we have while no other is to be had."""
        gssapi, held = self._gssapi, self._tickets
        if held is not None and _seconds_left(gssapi, held[0]) > held[1]:
            return held[0]
        cache = f"MEMORY:odradek-{next(_cache_numbers)}"
        try:
            found = self._acquire({"client_keytab": f"FILE:{self._keytab}", "ccache": cache})
        except gssapi.exceptions.GSSError:
            if held is not None and _seconds_left(gssapi, held[0]) > 0:
                return held[0]
            raise
        self._tickets = found, _seconds_left(gssapi, found) / 2
        return found

    def _acquire(self, store: Mapping[str, str]) -> Any:
        gssapi = self._gssapi
        return gssapi.Credentials(
            usage="initiate", name=self._name(), mechs=[gssapi.MechType.kerberos], store=dict(store) or None
        )


class _Context:
    def __init__(self, gssapi: Any, context: Any) -> None:
        self._gssapi = gssapi
        self._context = context
        # An error is told at once, not after its token was sent: Kafka's brokers send none.
        context.__DEFER_STEP_ERRORS__ = False

    @property
    def established(self) -> bool:
        return bool(self._context.complete)

    @property
    def peer(self) -> str:
        with _errors(self._gssapi):
            return str(self._context.initiator_name)

    def step(self, token: bytes) -> bytes:
        with _errors(self._gssapi):
            return self._context.step(token) or b""

    def wrap(self, data: bytes) -> bytes:
        with _errors(self._gssapi):
            return bytes(self._context.wrap(data, False).message)

    def unwrap(self, token: bytes) -> bytes:
        with _errors(self._gssapi):
            return bytes(self._context.unwrap(token).message)


class Acceptor(_Context):
    """The server's side of one context."""

    def __init__(self, gssapi: Any, keys: Any) -> None:
        super().__init__(gssapi, gssapi.SecurityContext(creds=keys, usage="accept"))


class Initiator(_Context):
    """The client's side of one context."""

    def __init__(self, gssapi: Any, target: Any, tickets: Any) -> None:
        flags = gssapi.RequirementFlag
        context = gssapi.SecurityContext(
            name=target,
            creds=tickets,
            usage="initiate",
            mech=gssapi.MechType.kerberos,
            flags=[flags.mutual_authentication, flags.integrity],
        )
        super().__init__(gssapi, context)


@contextmanager
def _errors(gssapi: Any) -> Iterator[None]:
    """The library's errors as ours: who and which file is named in them, never a key."""
    try:
        yield
    except gssapi.exceptions.GSSError as error:
        raise SaslError(_text(error)) from None


def _text(error: Any) -> str:
    minor = [each for each in error.get_all_statuses(error.min_code, False) if each not in _SILENT]
    return "; ".join(minor or error.get_all_statuses(error.maj_code, True))


def _seconds_left(gssapi: Any, credentials: Any) -> float:
    try:
        return float(credentials.lifetime or 0)
    except gssapi.exceptions.ExpiredCredentialsError:
        return 0


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _file(text: str | None) -> str | None:
    return None if text is None else text.removeprefix("FILE:")
