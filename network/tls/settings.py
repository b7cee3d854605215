"""The `ssl.` keys of one listener or one client, and the contexts of OpenSSL that come of them.

A context is never changed: new files or values make a new one, and connections go on with the one they began with.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from network.tls.certificates import alternative_names, distinguished_name, subject
from network.tls.ciphers import CIPHERS_1_3, openssl_name
from network.tls.stores import (
    TYPES,
    KeyStore,
    TlsConfigError,
    pem_key_store,
    pem_trust_store,
    read_key_store,
    read_trust_store,
)

_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

STORE_KEYS: Final = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
KEYS: Final = (*STORE_KEYS, "ssl.client.auth", "ssl.enabled.protocols", "ssl.protocol", "ssl.cipher.suites",
               "ssl.endpoint.identification.algorithm")  # fmt: skip
_DEFAULTS: Final = {
    "ssl.keystore.type": "JKS",
    "ssl.truststore.type": "JKS",
    "ssl.client.auth": "none",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.endpoint.identification.algorithm": "https",
}


@dataclass(frozen=True)
class TlsSettings:
    """The values, the stores that they name, and how the files looked when they were read."""

    values: dict[str, Any] = field(repr=False)  # passwords among them
    keys: KeyStore | None
    trusted: tuple[bytes, ...] | None
    """None: what the system trusts."""
    files: tuple[tuple[str, int, int, int], ...]

    def server_context(self, client_auth: str) -> ssl.SSLContext:
        """`client_auth`: none, requested, required. Raises `TlsConfigError`."""
        if self.keys is None:
            raise TlsConfigError("SSL key store is not specified: a listener needs ssl.keystore.location or .key")
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.verify_mode = _CLIENT_AUTH[client_auth]
        return context

    def client_context(self) -> ssl.SSLContext:
        """Raises `TlsConfigError`."""
        context = self._context(ssl.PROTOCOL_TLS_CLIENT)
        algorithm = self.values["ssl.endpoint.identification.algorithm"] or ""
        if algorithm.lower() not in ("https", ""):
            raise TlsConfigError(f"ssl.endpoint.identification.algorithm must be https or empty, not {algorithm}")
        context.check_hostname = bool(algorithm)
        return context

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        _set_protocols(context, self.values["ssl.enabled.protocols"])
        _set_ciphers(context, self.values["ssl.cipher.suites"])
        # As in Java, whatever is in the trust store is trusted, though another certificate signed it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            if self.trusted is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(cadata=b"".join(dict.fromkeys(self.trusted)))
        except ssl.SSLError as error:
            raise TlsConfigError(f"ssl.truststore: {error.reason or error}") from None
        if self.keys is not None:
            password = self.values["ssl.key.password"] or ""
            try:
                with _as_file(self.keys.pem) as path:
                    context.load_cert_chain(path, password=password)
            except (ssl.SSLError, ValueError) as error:
                reason = getattr(error, "reason", None) or "is ssl.key.password right?"
                raise TlsConfigError(f"ssl.keystore: the key cannot be used: {reason}") from None
        return context


def read_settings(value: Callable[[str], Any]) -> TlsSettings:
    """`value` gives the value of a key, typed or as text, or None. Raises `TlsConfigError`."""
    values = {key: _or_default(key, value(key)) for key in KEYS}
    for key in ("ssl.keystore.type", "ssl.truststore.type"):
        values[key] = str(values[key]).upper()
        if values[key] not in TYPES:
            raise TlsConfigError(f"{key} must be one of {', '.join(TYPES)}, not {values[key]}")
    files = tuple(_look(values[key]) for key in ("ssl.keystore.location", "ssl.truststore.location") if values[key])
    return TlsSettings(values, _key_store(values), _trust_store(values), files)


def is_current(settings: TlsSettings, value: Callable[[str], Any]) -> bool:
    """Whether neither values nor files have changed since the settings were read."""
    now = {key: _or_default(key, value(key)) for key in KEYS}
    for key in ("ssl.keystore.type", "ssl.truststore.type"):
        now[key] = str(now[key]).upper()
    return now == settings.values and all(_look(each[0]) == each for each in settings.files)


def check_replaceable(
    old: KeyStore | None, new: KeyStore | None, *, allow_dn_changes: bool, allow_san_changes: bool
) -> None:
    """A certificate that takes the place of another in a running broker is of the same subject, and names at least the
    same hosts, unless that may change. Raises `TlsConfigError`."""
    if old is None or new is None:
        return
    before, after = old.chain[0], new.chain[0]
    if not allow_dn_changes and subject(before) != subject(after):
        names = (distinguished_name(subject(before)), distinguished_name(subject(after)))
        raise TlsConfigError("Keystore DistinguishedName does not match: existing={}, new={}".format(*names))
    if not allow_san_changes and not alternative_names(before) <= alternative_names(after):
        raise TlsConfigError("Keystore SubjectAltNames do not match: the new certificate lacks some of the old one")


def _or_default(key: str, given: Any) -> Any:
    default = _DEFAULTS.get(key)
    if key in ("ssl.enabled.protocols", "ssl.cipher.suites"):
        items = given if isinstance(given, list) else [each.strip() for each in (given or "").split(",")]
        items = [each for each in items if each]
        return items or (default.split(",") if default else [])
    return default if given is None else given


def _look(location: str) -> tuple[str, int, int, int]:
    try:
        status = os.stat(location)
    except OSError:
        return location, 0, 0, 0
    return location, status.st_mtime_ns, status.st_size, status.st_ino


def _key_store(values: dict[str, Any]) -> KeyStore | None:
    location, key = values["ssl.keystore.location"], values["ssl.keystore.key"]
    chain, kind, password = values["ssl.keystore.certificate.chain"], values["ssl.keystore.type"], None
    password = values["ssl.keystore.password"]
    if key is not None or chain is not None:
        if kind != "PEM":
            raise TlsConfigError(f"ssl.keystore.key needs ssl.keystore.type PEM, not {kind}")
        if location is not None:
            raise TlsConfigError("Both SSL key store location and separate private key are specified.")
        if key is None or chain is None:
            raise TlsConfigError("ssl.keystore.key and ssl.keystore.certificate.chain need each other")
        if password is not None:
            raise TlsConfigError("SSL key store password cannot be specified with PEM format, only key password may be")
        return pem_key_store(key, chain)
    if location is None:
        return None
    if kind == "PEM" and password is not None:
        raise TlsConfigError("SSL key store password cannot be specified with PEM format, only key password may be")
    return read_key_store(location, kind, password, values["ssl.key.password"])


def _trust_store(values: dict[str, Any]) -> tuple[bytes, ...] | None:
    location, text = values["ssl.truststore.location"], values["ssl.truststore.certificates"]
    kind, password = values["ssl.truststore.type"], values["ssl.truststore.password"]
    if text is not None:
        if kind != "PEM":
            raise TlsConfigError(f"ssl.truststore.certificates needs ssl.truststore.type PEM, not {kind}")
        if location is not None:
            raise TlsConfigError("Both SSL trust store location and separate trust certificates are specified.")
        return pem_trust_store(text)
    if location is None:
        return None
    if kind == "PEM" and password is not None:
        raise TlsConfigError("SSL trust store password cannot be specified for PEM format.")
    return read_trust_store(location, kind, password)


def _set_protocols(context: ssl.SSLContext, names: list[str]) -> None:
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise TlsConfigError(f"ssl.enabled.protocols: {', '.join(unknown)} is none of {', '.join(_VERSIONS)}")
    order = list(_VERSIONS)
    places = sorted({order.index(name) for name in names})
    if places[-1] - places[0] != len(places) - 1:
        raise TlsConfigError("ssl.enabled.protocols must not leave out a version between two others")
    context.minimum_version = _VERSIONS[order[places[0]]]
    context.maximum_version = _VERSIONS[order[places[-1]]]


def _set_ciphers(context: ssl.SSLContext, names: list[str]) -> None:
    """Python's `ssl` before 3.15 chooses suites up to TLS 1.2 only; those of 1.3 are what OpenSSL's own configuration
    offers, or the version is not."""
    if not names:
        return
    newest = [name for name in names if name in CIPHERS_1_3]
    older = [name for name in names if name not in CIPHERS_1_3]
    serves_1_3 = context.maximum_version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.MAXIMUM_SUPPORTED)
    if newest and serves_1_3:
        _set_newest(context, newest)
    if serves_1_3 and not newest:
        if context.minimum_version == ssl.TLSVersion.TLSv1_3:
            raise TlsConfigError("ssl.cipher.suites names no suite of TLSv1.3, the only one of ssl.enabled.protocols")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(openssl_name(name) for name in older))
    except ssl.SSLError:
        raise TlsConfigError(f"ssl.cipher.suites: none of {', '.join(older)} can be had") from None


def _set_newest(context: ssl.SSLContext, names: list[str]) -> None:
    offered = [each["name"] for each in context.get_ciphers() if each["name"] in CIPHERS_1_3]
    if set(names) == set(offered):
        return
    choose = getattr(context, "set_ciphersuites", None)
    if choose is None:
        raise TlsConfigError(
            f"ssl.cipher.suites: of TLS 1.3 {', '.join(offered)} can only be allowed all together; name all, leave "
            "TLSv1.3 out of ssl.enabled.protocols, or name fewer as Ciphersuites in the file of OPENSSL_CONF"
        )
    choose(":".join(names))


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path to read `data` at: OpenSSL is told of keys by files only. On Linux it never reaches a disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name
