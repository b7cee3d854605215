"""A certificate authority for tests, and key stores in every form that Kafka reads, made when they are needed."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = "store-secret"
_PEM = serialization.Encoding.PEM


@dataclass
class Identity:
    """A key and its certificate, with the one that signed it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuer: x509.Certificate

    def key_pem(self, password: str | None = None) -> str:
        protection: Any = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, protection).decode()

    @property
    def chain_pem(self) -> str:
        return (self.certificate.public_bytes(_PEM) + self.issuer.public_bytes(_PEM)).decode()

    def pem_file(self, path: Path, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password) + self.chain_pem)
        return path

    def pkcs12_file(self, path: Path) -> Path:
        protection = serialization.BestAvailableEncryption(PASSWORD.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"own", self.key, self.certificate, [self.issuer], protection)
        )
        return path

    def jks_file(self, path: Path) -> Path:
        """By Java's keytool."""
        path.unlink(missing_ok=True)
        source = self.pkcs12_file(path.with_suffix(".from.p12"))
        keytool(
            "-importkeystore", "-srckeystore", source, "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD,
            "-destkeystore", path, "-deststoretype", "JKS", "-deststorepass", PASSWORD, "-noprompt",
        )  # fmt: skip
        return path


class Authority:
    """A certificate authority."""

    def __init__(self, name: str = "Test CA") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(subject, self._key.public_key(), subject, days=365, authority=True)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(_PEM).decode()

    def pem_file(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def trust_file(self, path: Path, kind: str) -> Path:
        """A trust store of the type PKCS12 or JKS, by Java's keytool."""
        path.unlink(missing_ok=True)
        source = self.pem_file(path.with_suffix(".pem"))
        keytool(
            "-importcert", "-alias", "ca", "-file", source, "-keystore", path, "-storetype", kind,
            "-storepass", PASSWORD, "-noprompt",
        )  # fmt: skip
        return path

    def issue(
        self, name: str = "broker", *, hosts: tuple[str, ...] = ("localhost", "127.0.0.1"), days: int = 30
    ) -> Identity:
        """`days` below zero: it ended that long ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.COUNTRY_NAME, "CZ"),
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Odradek, tests"),
                x509.NameAttribute(NameOID.COMMON_NAME, name),
            ]
        )
        certificate = self._sign(subject, key.public_key(), self.certificate.subject, days=days, hosts=hosts)
        return Identity(key, certificate, self.certificate)

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        issuer: x509.Name,
        *,
        days: int,
        hosts: tuple[str, ...] = (),
        authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=60))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if hosts:
            names = [_host(each) for each in hosts]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def keytool(*arguments: str | Path) -> None:
    done = subprocess.run(["keytool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def server_settings(identity: Identity, authority: Authority, directory: Path) -> dict[str, str]:
    """The keys of a broker that has a PKCS12 key store and a PEM trust store."""
    directory.mkdir(parents=True, exist_ok=True)
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(identity.pkcs12_file(directory / "broker.p12")),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.pem_file(directory / "ca.pem")),
    }


def of_listener(listener: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The same keys for one listener."""
    return {f"listener.name.{listener.lower()}.{key}": value for key, value in settings.items()}
