"""Passwords in ZooKeeper: those that Kafka 3.9.1 encoded are read, ours look like them, and no error tells one."""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.config.password_encoder import PasswordEncoder, PasswordError
from broker.config.stored_passwords import PasswordRotation, StoredPasswords, is_password
from controller.zk.access import ControllerMovedError
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

SECRET = "encoder sécret"
GOLDEN = (Path(__file__).resolve().parents[3] / "golden" / "passwords.txt").read_text(encoding="utf-8").splitlines()
"""By the PasswordEncoder of Kafka 3.9.1: one of each of `ALGORITHMS`, and an empty password."""
PASSWORD = "p,a:s s=ž€😀"
ALGORITHMS = [
    ("PBKDF2WithHmacSHA512", "AES/CBC/PKCS5Padding", 128, 4096),
    ("PBKDF2WithHmacSHA1", "AES/CBC/PKCS5Padding", 256, 1024),
    ("PBKDF2WithHmacSHA512", "AES/GCM/NoPadding", 192, 2048),
    ("PBKDF2WithHmacSHA256", "AES/CTR/NoPadding", 128, 1024),
]
KEY = "listener.name.tls.ssl.keystore.password"
BASE = {"zookeeper.connect": "127.0.0.1:1", "broker.id": "1"}


def encoder(secret: str = SECRET, *algorithms: object) -> PasswordEncoder:
    return PasswordEncoder(secret, random.Random(1), *algorithms)  # type: ignore[arg-type]


def passwords(**secrets: str) -> StoredPasswords:
    named = {f"password.encoder.{name.replace('_', '.')}": value for name, value in secrets.items()}
    return StoredPasswords(KafkaConfig({**BASE, **named}), random.Random(1))


def shape(text: str) -> list[tuple[str, int | str]]:
    """Names in their order, values by length where they are random."""
    pairs = [each.partition(":")[::2] for each in text.split(",")]
    secret = ("salt", "initializationVector", "encryptedPassword")
    return [(name, len(value) if name in secret else value) for name, value in pairs]


@pytest.mark.parametrize(("text", "algorithms"), list(zip(GOLDEN, ALGORITHMS, strict=False)))
def test_kafkas_are_read_and_ours_are_like_them(text: str, algorithms: tuple[object, ...]) -> None:
    assert encoder().decode(text) == PASSWORD
    ours = encoder(SECRET, *algorithms).encode(PASSWORD)
    assert shape(ours) == shape(text)
    assert encoder().decode(ours) == PASSWORD


def test_an_empty_password() -> None:
    assert encoder().decode(GOLDEN[-1]) == ""
    assert encoder().decode(encoder().encode("")) == ""


@pytest.mark.parametrize("text", GOLDEN[:4])
def test_another_secret_does_not_decode(text: str) -> None:
    with pytest.raises(PasswordError, match="another secret"):
        encoder("other").decode(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("passwordLength:12", "passwordLength:11"),
        ("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding"),
        ("PBKDF2WithHmacSHA512", "PBKDF2WithHmacMD5"),
        ("keyLength:128", "keyLength:8"),
        ("iterations:4096", "iterations:-1"),
        ("iterations:4096", "iterations:many"),
        ("salt:", "salz:"),
        ("encryptedPassword:", "encryptedPassword:AA=="),
        ("encryptedPassword:", "encryptedPassword:*"),
        ("initializationVector:", "initializationVector:AA=="),
    ],
)
def test_what_is_damaged_is_not_decoded(old: str, new: str) -> None:
    assert old in GOLDEN[0]
    with pytest.raises(PasswordError) as caught:
        encoder().decode(GOLDEN[0].replace(old, new))
    assert "p,a:s" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "x", "store-secret", ":", "a:b,,c"])
def test_what_is_no_encoded_password(text: str) -> None:
    with pytest.raises(PasswordError):
        encoder().decode(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [("cipher.algorithm", "DESede/CBC/PKCS5Padding"), ("keyfactory.algorithm", "x"), ("key.length", "64")],
)
def test_algorithms_that_are_not_to_be_had_end_the_start(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^password.encoder.{name}: {value} cannot be had"):
        StoredPasswords(
            KafkaConfig({**BASE, "password.encoder.secret": "s", f"password.encoder.{name}": value}), random.Random(1)
        )


def test_only_passwords_are_encoded() -> None:
    overrides = {KEY: "sesame", "listener.name.tls.ssl.keystore.location": "/k", "own.ssl.key.password": "two"}
    stored = passwords(secret=SECRET).encoded(overrides)
    assert stored["listener.name.tls.ssl.keystore.location"] == "/k"
    assert "sesame" not in str(stored)
    assert encoder().decode(stored["own.ssl.key.password"]) == "two"
    assert passwords(secret=SECRET).decoded(stored) == overrides
    assert is_password("listener.name.a.plain.sasl.jaas.config")
    assert not is_password("password.encoder.secret")


def test_without_a_secret_or_a_single_broker_there_are_no_passwords() -> None:
    with pytest.raises(ConfigError, match="Password encoder secret not configured"):
        passwords().encoded({KEY: "sesame"})
    with pytest.raises(ConfigError, match=rf"{KEY} .* password\.encoder\.secret is not set"):
        passwords().decoded({KEY: GOLDEN[0]})
    for do in (passwords(secret=SECRET).encoded, passwords(secret=SECRET).decoded):
        with pytest.raises(ConfigError, match="only at broker level"):
            do({KEY: GOLDEN[0]}, per_broker=False)
    assert passwords().decoded({"max.connections": "1"}) == {"max.connections": "1"}


def test_what_cannot_be_decoded_can_be_replaced(caplog: pytest.LogCaptureFixture) -> None:
    stored = {KEY: GOLDEN[0], "max.connections": "1"}
    with caplog.at_level(logging.ERROR):
        assert passwords(secret="other").readable(stored) == {"max.connections": "1"}
    assert KEY in caplog.text
    assert GOLDEN[0] not in caplog.text


def test_rotation_waits_for_a_controller() -> None:
    stored = {KEY: GOLDEN[0], "max.connections": "1"}
    written: list[dict[str, str]] = []
    refusals = [ControllerMovedError("none yet")]

    def store(config: dict[str, str]) -> None:
        if refusals:
            raise refusals.pop()
        written.append(config)
        stored.update(config)

    both = passwords(secret="new", old_secret=SECRET)
    assert both.decoded(stored) == {KEY: PASSWORD, "max.connections": "1"}
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    scheduler.startup()
    rotation = PasswordRotation(both, lambda: stored, store, scheduler)
    rotation.start()
    scheduler.tick()
    assert not written
    clock.advance(1_000)
    scheduler.tick()
    assert len(written) == 1
    assert passwords(secret="new").decoded(stored) == {KEY: PASSWORD, "max.connections": "1"}
    rotation.start()
    scheduler.tick()
    assert len(written) == 1
    assert both.renewed({"max.connections": "1"}) is None
