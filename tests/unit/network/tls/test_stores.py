"""Key stores of every kind are the same keys; what is wrong with one is said, and no secret with it."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from network.tls.ciphers import openssl_name
from network.tls.client import CurrentContext
from network.tls.settings import check_replaceable, is_current, read_settings
from network.tls.stores import MAX_BYTES, TlsConfigError, pem_key_store, read_key_store, read_trust_store
from tests.support.certificates import PASSWORD, Authority, Identity
from tests.support.cluster import ROOT


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    return authority.issue()


def der(pem: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERT") :][: pem.index("-----END CERT") + 26])


@pytest.fixture(scope="module")
def files(authority: Authority, identity: Identity, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stores")
    return {
        "JKS": identity.jks_file(folder / "k.jks"),
        "PKCS12": identity.pkcs12_file(folder / "k.p12"),
        "PEM": identity.pem_file(folder / "k.pem"),
        "trust JKS": authority.trust_file(folder / "t.jks", "JKS"),
        "trust PKCS12": authority.trust_file(folder / "t.p12", "PKCS12"),
        "trust PEM": authority.pem_file(folder / "t.pem"),
    }


def test_key_stores_hold_the_same_key(files: dict[str, Path], identity: Identity) -> None:
    pem = read_key_store(str(files["PEM"]), "PEM", None, None)
    assert pem == pem_key_store(identity.key_pem(), identity.chain_pem)
    assert len(pem.chain) == 2
    for kind in ("JKS", "PKCS12"):
        for said in ("JKS", "PKCS12"):  # Java reads either under both names
            store = read_key_store(str(files[kind]), said, PASSWORD, PASSWORD)
            assert store.chain == pem.chain
            values = {"ssl.keystore.type": said, "ssl.keystore.location": str(files[kind])}
            passwords = {"ssl.keystore.password": PASSWORD, "ssl.key.password": PASSWORD}
            read_settings({**values, **passwords}.get).server_context("none")


def test_settings_show_no_secret(files: dict[str, Path], identity: Identity) -> None:
    values = {"ssl.keystore.location": str(files["JKS"]), "ssl.keystore.password": PASSWORD}
    assert PASSWORD not in repr(read_settings(values.get))
    inline = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem,
    }
    assert "PRIVATE KEY" not in repr(read_settings(inline.get))


def test_trust_stores_hold_the_same_certificate(files: dict[str, Path], authority: Authority) -> None:
    found = {
        kind: read_trust_store(str(files[f"trust {kind}"]), kind, None if kind == "PEM" else PASSWORD)
        for kind in ("JKS", "PKCS12", "PEM")
    }
    assert len(set(found.values())) == 1
    assert found["PEM"] == (ssl.PEM_cert_to_DER_cert(authority.pem),)
    assert read_trust_store(str(files["trust JKS"]), "JKS", None) == found["PEM"]  # unchecked without a password


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_wrong_passwords_are_told(files: dict[str, Path], kind: str) -> None:
    for location, read in ((files[kind], read_key_store), (files[f"trust {kind}"], read_trust_store)):
        arguments = (None,) if read is read_key_store else ()
        with pytest.raises(TlsConfigError, match=r"cannot be read: .*password") as caught:
            read(str(location), kind, "wrong-secret", *arguments)
        assert "wrong-secret" not in str(caught.value)


def test_a_damaged_jks_store(files: dict[str, Path], tmp_path: Path) -> None:
    data = files["JKS"].read_bytes()
    path = tmp_path / "cut.jks"
    for cut in range(12, len(data) - 1, 97):
        path.write_bytes(data[:cut])
        with pytest.raises(TlsConfigError):
            read_key_store(str(path), "JKS", None, PASSWORD)


def test_an_encrypted_key_in_pem(identity: Identity) -> None:
    values = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key_pem("good"),
        "ssl.keystore.certificate.chain": identity.chain_pem.replace("\n", " "),
    }
    read_settings({**values, "ssl.key.password": "good"}.get).server_context("none")
    for wrong in ({"ssl.key.password": "bad-secret"}, {}):
        with pytest.raises(TlsConfigError, match="key cannot be used") as caught:
            read_settings({**values, **wrong}.get).server_context("none")
        assert "bad-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "key store is not specified"),
        ({"ssl.keystore.type": "BKS"}, "ssl.keystore.type must be one of"),
        ({"ssl.keystore.location": "/no/such/file"}, "No such file"),
        ({"ssl.keystore.key": "x"}, "needs ssl.keystore.type PEM"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "x"}, "need each other"),
        ({"ssl.keystore.type": "PEM", "ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "y"}, "0 private key"),
        ({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "y"}, "no certificate in PEM"),
    ],
)
def test_what_is_missing_is_told(values: dict[str, str], text: str) -> None:
    with pytest.raises(TlsConfigError, match=text):
        read_settings(values.get).server_context("none")


@pytest.mark.parametrize(
    ("values", "versions"),
    [
        ({}, ("TLSv1_2", "TLSv1_3")),
        ({"ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1_3", "TLSv1_3")),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, ("TLSv1_2", "TLSv1_2")),
        (
            {"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"},
            ("TLSv1_3", "TLSv1_3"),
        ),
    ],
)
def test_versions(values: dict[str, str], versions: tuple[str, str]) -> None:
    context = read_settings(values.get).client_context()
    assert (context.minimum_version.name, context.maximum_version.name) == versions


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"ssl.enabled.protocols": "SSLv3"}, "SSLv3 is none of"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.3"}, "leave out a version"),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}, "all together"),
        ({"ssl.cipher.suites": "NO_SUCH_SUITE"}, "none of NO_SUCH_SUITE"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be https or empty"),
    ],
)
def test_what_cannot_be_had_is_told(values: dict[str, str], text: str) -> None:
    with pytest.raises(TlsConfigError, match=text):
        read_settings(values.get).client_context()


def test_openssl_s_own_choice_of_suites_is_known(tmp_path: Path) -> None:
    """In a process of its own: the file is read when OpenSSL begins."""
    chosen = tmp_path / "openssl.cnf"
    sections = ("openssl_conf=a", "[a]", "ssl_conf=b", "[b]", "system_default=c", "[c]")
    chosen.write_text("\n".join([*sections, "Ciphersuites=TLS_AES_256_GCM_SHA384", ""]))
    code = (
        "from network.tls.settings import read_settings\n"
        "for suite in ('TLS_AES_256_GCM_SHA384', 'TLS_AES_128_GCM_SHA256'):\n"
        "    context = read_settings({'ssl.cipher.suites': suite}.get).client_context()\n"
        "    print([each['name'] for each in context.get_ciphers() if each['protocol'] == 'TLSv1.3'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "OPENSSL_CONF": str(chosen)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['TLS_AES_256_GCM_SHA384']\n"
    assert "of TLS 1.3 TLS_AES_256_GCM_SHA384 can only be allowed all together" in done.stderr


def test_names_of_suites_are_openssl_s() -> None:
    names = {each["name"] for each in ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).get_ciphers()}
    for name in (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
        "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384",
    ):
        assert openssl_name(name) in names, name
    assert openssl_name("ECDHE-RSA-AES128-GCM-SHA256") == "ECDHE-RSA-AES128-GCM-SHA256"


def test_new_content_of_a_file_is_noticed(identity: Identity, authority: Authority, tmp_path: Path) -> None:
    path = identity.pem_file(tmp_path / "k.pem")
    values: dict[str, Any] = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)}
    settings = read_settings(values.get)
    assert is_current(settings, values.get)
    values["ssl.client.auth"] = "required"
    assert not is_current(settings, values.get)
    del values["ssl.client.auth"]
    other = authority.issue("other", hosts=("localhost",))
    other.pem_file(path)
    assert not is_current(settings, values.get)
    new = read_settings(values.get)
    with pytest.raises(TlsConfigError, match="DistinguishedName does not match"):
        check_replaceable(settings.keys, new.keys, allow_dn_changes=False, allow_san_changes=True)
    with pytest.raises(TlsConfigError, match="SubjectAltNames do not match"):
        check_replaceable(settings.keys, new.keys, allow_dn_changes=True, allow_san_changes=False)
    check_replaceable(new.keys, settings.keys, allow_dn_changes=True, allow_san_changes=False)
    path.unlink()
    assert not is_current(settings, values.get)


@pytest.mark.parametrize("key", ["keystore", "truststore"])
def test_what_is_no_file_or_too_large_is_not_read(tmp_path: Path, key: str) -> None:
    """A path may come over the wire: a pipe would be waited for, a device has no end."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    reasons = {"/dev/zero": "it is no file", str(pipe): "it is no file", str(large): "it has more than 4194304 bytes"}
    for location, reason in reasons.items():
        with pytest.raises(TlsConfigError, match=f"ssl.{key}.location: {location} cannot be read: {reason}"):
            read_settings({f"ssl.{key}.location": location}.get)


def test_a_context_follows_its_files(files: dict[str, Path], tmp_path: Path) -> None:
    """And stays when they cannot be used."""
    trust = tmp_path / "trust.pem"
    values = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trust)}
    current = CurrentContext(values.get, "tests")
    with pytest.raises(TlsConfigError, match="No such file"):
        current()
    trust.write_bytes(files["trust PEM"].read_bytes())
    first = current()
    assert current() is first
    trust.write_text("no certificate")
    assert current() is first
    trust.write_text(Authority("Another").pem)
    assert [each["subject"] for each in current().get_ca_certs()] == [((("commonName", "Another"),),)]
