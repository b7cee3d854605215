"""What a secured local cluster keeps in its directory, and when it makes something anew."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cryptography import x509

from broker.cli.errors import MissingPrerequisiteError
from broker.dev.authority import AUTHORITY_DAYS, BROKER_DAYS, LEFT_DAYS, Authority
from broker.dev.security import BROKER, USERS, DevSecurity, prepare
from log.files.properties_text import parse_properties
from network.sasl.jaas import parse_single
from network.tls.settings import read_settings
from timer.clock import ManualClock

DAY_MS = 86_400_000
BOOTSTRAP = "127.0.0.1:9092"


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def made(directory: Path, now_ms: int) -> bytes:
    """The broker's file after a start at that time."""
    authority = Authority(directory / "authority.pem", directory / "ca.pem", now_ms)
    authority.provide(directory / "broker-0.pem", "broker-0")
    certificate = x509.load_pem_x509_certificate((directory / "broker-0.pem").read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes()))
    return (directory / "broker-0.pem").read_bytes()


def test_a_certificate_is_made_anew_when_it_is_about_to_end(tmp_path: Path) -> None:
    first = made(tmp_path, 0)
    authority = (tmp_path / "authority.pem").read_bytes()
    last_ms = (BROKER_DAYS - LEFT_DAYS) * DAY_MS
    assert made(tmp_path, last_ms - 1000) == first
    second = made(tmp_path, last_ms)
    assert second != first
    assert (tmp_path / "authority.pem").read_bytes() == authority
    assert made(tmp_path, (AUTHORITY_DAYS - LEFT_DAYS) * DAY_MS) != second
    assert (tmp_path / "authority.pem").read_bytes() != authority


@pytest.mark.parametrize("text", [None, "", "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"])
def test_what_another_authority_signed_or_nobody_can_read_is_made_anew(tmp_path: Path, text: str | None) -> None:
    first = made(tmp_path, 0)
    if text is None:
        (tmp_path / "authority.pem").unlink()
    else:
        (tmp_path / "broker-0.pem").write_text(text)
    assert made(tmp_path, 0) != first


def test_files_are_kept_and_follow_the_addresses(tmp_path: Path) -> None:
    clock = ManualClock()
    prepare("SASL_SSL", tmp_path, 1, BOOTSTRAP, clock)
    before = contents(tmp_path / "security")
    prepare("SASL_SSL", tmp_path, 2, "127.0.0.1:1,127.0.0.1:2", clock)
    after = contents(tmp_path / "security")
    moved = {f"{user}.{end}" for user in USERS for end in ("properties", "json", "spark.json")}
    assert after.keys() - before.keys() == {"broker-1.pem"}
    assert {name for name in before if before[name] != after[name]} == moved
    for user in USERS:
        old, new = (json.loads(each[f"{user}.json"]) for each in (before, after))
        assert new == {**old, "bootstrap.servers": "127.0.0.1:1,127.0.0.1:2"}


def test_a_password_of_ones_own_is_taken(tmp_path: Path) -> None:
    (tmp_path / "security").mkdir()
    (tmp_path / "security" / "passwords.properties").write_text('alice=chosen "\\\\\n')
    security = prepare("SASL_PLAINTEXT", tmp_path, 1, BOOTSTRAP, ManualClock())
    assert security.passwords["alice"] == 'chosen "\\'
    java = parse_properties(security.files("alice").java.read_text())
    assert parse_single(java["sasl.jaas.config"]).options["password"] == 'chosen "\\'
    assert security.new == {BROKER, *USERS} - {"alice"}
    assert len({security.passwords[name] for name in (BROKER, *USERS)}) == 4
    assert "chosen" not in repr(security) + repr(security.access("alice", BOOTSTRAP))
    assert not list((tmp_path / "security").glob("*.pem")), "nothing of TLS is needed"


def test_clients_of_ours_read_the_files(tmp_path: Path) -> None:
    awkward = tmp_path / "ein Verzeichnis mit ä = # !"
    security = prepare("SSL", awkward, 1, BOOTSTRAP, ManualClock())
    assert security.names == ("client",)
    properties = parse_properties(security.files("client").java.read_text("latin-1"))
    assert properties == security.access("client", BOOTSTRAP).java()
    assert read_settings(properties.get).trusted is not None
    assert read_settings(security.broker_settings(0).get).keys is not None


def test_without_the_library_its_cure_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "broker.dev.authority", None)
    with pytest.raises(MissingPrerequisiteError, match=r"pip install 'odradek\[security\]'"):
        prepare("SSL", tmp_path, 1, BOOTSTRAP, ManualClock())
    shutil.rmtree(tmp_path / "security")
    assert isinstance(prepare("SASL_PLAINTEXT", tmp_path, 1, BOOTSTRAP, ManualClock()), DevSecurity)
