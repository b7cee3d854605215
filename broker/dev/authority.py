"""The certificate authority of a local cluster and the certificates of its brokers, made once and kept as PEM files.

Its certificate is for everybody, its key and those of the brokers are the owner's alone. A certificate that is about to
end is made anew.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from broker.dev.private_files import write_private

AUTHORITY_DAYS = 3650
BROKER_DAYS = 365
# One that ends sooner is made anew at the start.
LEFT_DAYS = 30
_PEM = serialization.Encoding.PEM


class Authority:
    """Signs for localhost, 127.0.0.1 and the name of a broker's container."""

    def __init__(self, private: Path, public: Path, now_ms: int) -> None:
        """The one of the file ``private``, made if it is not there; ``public`` gets its certificate."""
        self._now = datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC)
        if not self._read(private):
            self._key = ec.generate_private_key(ec.SECP256R1())
            self._certificate = self._sign("odradek dev", self._key.public_key(), AUTHORITY_DAYS, authority=True)
            write_private(private, _key_text(self._key) + self._certificate.public_bytes(_PEM))
        public.write_bytes(self._certificate.public_bytes(_PEM))

    def provide(self, file: Path, name: str) -> None:
        """See that the file has a key, its certificate, and the authority's."""
        if self._is_good(file):
            return
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key.public_key(), BROKER_DAYS, authority=False)
        chain = [certificate, self._certificate]
        write_private(file, _key_text(key) + b"".join(each.public_bytes(_PEM) for each in chain))

    def _read(self, file: Path) -> bool:
        """Whether there is an authority that lasts a while."""
        try:
            data = file.read_bytes()
            key = serialization.load_pem_private_key(data, None)
            certificate = x509.load_pem_x509_certificate(data)
        except (OSError, ValueError, TypeError):
            return False
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not self._lasts(certificate):
            return False
        self._key, self._certificate = key, certificate
        return True

    def _is_good(self, file: Path) -> bool:
        """Whether the broker's certificate is of this authority and lasts a while."""
        try:
            certificate = x509.load_pem_x509_certificate(file.read_bytes())
            certificate.verify_directly_issued_by(self._certificate)
        except (OSError, ValueError, TypeError, InvalidSignature):
            return False
        return self._lasts(certificate)

    def _lasts(self, certificate: x509.Certificate) -> bool:
        return certificate.not_valid_after_utc - self._now > datetime.timedelta(days=LEFT_DAYS)

    def _sign(self, name: str, key: ec.EllipticCurvePublicKey, days: int, *, authority: bool) -> x509.Certificate:
        subject = _name(name)
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only",
             "decipher_only"), False,
        )  # fmt: skip
        identity = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if authority else self._certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - datetime.timedelta(days=1))
            .not_valid_after(self._now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(authority, 0 if authority else None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(identity, critical=False)
            .add_extension(
                x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **usage),
                critical=True,
            )
        )
        if not authority:
            here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            hosts = [x509.DNSName("localhost"), here, x509.DNSName(name)]
            roles = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
            builder = builder.add_extension(x509.ExtendedKeyUsage(roles), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
