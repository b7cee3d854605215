"""SCRAM by the vectors of RFC 7677, by both sides against each other, and by what must be refused."""

from __future__ import annotations

import base64
import contextlib
import functools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from network.sasl.mechanism import SaslAuthenticationError, SaslError
from network.sasl.scram import ScramClient, ScramServer, TokenCredential, escape, unescape
from network.sasl.scram_credential import (
    MECHANISMS,
    SHA_256,
    SHA_512,
    ScramCredential,
    ScramMechanism,
    client_key,
    credential_of,
    keyed,
    salted_password,
    stored_key,
    xor,
)

BOTH = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"


@functools.cache
def credential(mechanism: ScramMechanism, password: str = "pencil", iterations: int = 4096) -> ScramCredential:
    return credential_of(mechanism, SALT, salted_password(mechanism, password, SALT, iterations), iterations)


def server(mechanism: ScramMechanism, user: str = "user", **options: int) -> ScramServer:
    found = {user: credential(mechanism, **options)}
    return ScramServer(mechanism, found.get, None, lambda: SERVER_NONCE)


def run(client: ScramClient, peer: ScramServer) -> list[bytes]:
    """The messages, in their order."""
    said: list[bytes] = []
    message = client.evaluate(b"")
    while message is not None:
        said += [message, peer.evaluate(message)]
        message = client.evaluate(said[-1])
    return said


def test_the_vector_of_the_rfc() -> None:
    peer, client = server(SHA_256), ScramClient(SHA_256, "user", "pencil", lambda: CLIENT_NONCE)
    assert run(client, peer) == [
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ]
    assert (peer.complete, client.complete, peer.authorization_id, peer.expires_ms) == (True, True, "user", None)


@BOTH
@settings(max_examples=30, deadline=None)
@given(password=st.text(min_size=1), name=st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1))
def test_who_knows_the_password_is_let_in_and_nobody_else(mechanism: ScramMechanism, password: str, name: str) -> None:
    stored = ScramCredential.from_text(credential(mechanism, password.encode("utf-8", "replace").decode()).to_text())
    peer = ScramServer(mechanism, {name: stored}.get, None, lambda: "s")
    run(ScramClient(mechanism, name, password.encode("utf-8", "replace").decode(), lambda: "c"), peer)
    assert peer.complete
    assert peer.authorization_id == name
    other = ScramServer(mechanism, {name: stored}.get, None, lambda: "s")
    with pytest.raises(SaslError):
        run(ScramClient(mechanism, name, password + "x", lambda: "c"), other)
    assert not other.complete


@given(st.text())
def test_names_come_back(name: str) -> None:
    assert unescape(escape(name)) == name


@BOTH
@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n=user,r=nonce",
        b"y,,n=user,r=nonce",
        b"p=tls-unique,,n=user,r=nonce",
        b"n,,n=us=er,r=nonce",
        b"n,,n=,r=nonce",
        b"n,,n=user,r=",
        b"n,,n=user,r=non\x80ce",
        b"n,,r=nonce,n=user",
        "n,,n=ü,r=nonce".encode(),
    ],
)
def test_a_malformed_first_message(mechanism: ScramMechanism, first: bytes) -> None:
    peer = server(mechanism)
    with pytest.raises(SaslError):
        peer.evaluate(first)
    with pytest.raises(SaslError):
        peer.evaluate(b"n,,n=user,r=nonce")


@BOTH
def test_an_unknown_user_and_too_few_iterations(mechanism: ScramMechanism) -> None:
    with pytest.raises(SaslError):
        server(mechanism).evaluate(b"n,,n=nobody,r=nonce")
    with pytest.raises(SaslError):
        server(mechanism, iterations=4095).evaluate(b"n,,n=user,r=nonce")


def test_another_authorization_id_is_refused_in_words() -> None:
    with pytest.raises(SaslAuthenticationError, match="different from username"):
        server(SHA_256).evaluate(b"n,a=root,n=user,r=nonce")
    server(SHA_256).evaluate(b"n,a=user,n=user,r=nonce")


@BOTH
def test_a_recorded_exchange_says_nothing_to_a_new_one(mechanism: ScramMechanism) -> None:
    first, _, final, _ = run(ScramClient(mechanism, "user", "pencil", lambda: "c"), server(mechanism))
    again = ScramServer(mechanism, {"user": credential(mechanism)}.get, None, lambda: "another")
    again.evaluate(first)
    with pytest.raises(SaslError):
        again.evaluate(final)
    assert not again.complete


@BOTH
@pytest.mark.parametrize(("before", "after", "good"), [("c", "", True), ("", "c", False), ("", "", True)])
def test_a_client_that_says_its_nonce_twice_is_let_in_as_by_kafka(
    mechanism: ScramMechanism, before: str, after: str, good: bool
) -> None:
    """librdkafka before 2.6.1 does."""
    peer = server(mechanism)
    challenge = peer.evaluate(b"n,,n=user,r=c").decode()
    bare = f"c=biws,r={before}{challenge[2:].partition(',')[0]}{after}"
    key = client_key(mechanism, salted_password(mechanism, "pencil", SALT, 4096))
    said = keyed(mechanism, stored_key(mechanism, key), f"n=user,r=c,{challenge},{bare}".encode())
    final = f"{bare},p={base64.b64encode(xor(key, said)).decode()}".encode()
    with contextlib.nullcontext() if good else pytest.raises(SaslError):
        peer.evaluate(final)
    assert peer.complete is good


@BOTH
def test_messages_out_of_their_order(mechanism: ScramMechanism) -> None:
    first, _, final, _ = run(ScramClient(mechanism, "user", "pencil", lambda: "c"), server(mechanism))
    fresh = server(mechanism)
    with pytest.raises(SaslError):
        fresh.evaluate(final)
    fresh = server(mechanism)
    fresh.evaluate(first)
    with pytest.raises(SaslError):
        fresh.evaluate(first)
    done = server(mechanism)
    run(ScramClient(mechanism, "user", "pencil", lambda: "c"), done)
    with pytest.raises(SaslError):
        done.evaluate(first)


@BOTH
def test_each_change_of_the_final_message_is_noticed(mechanism: ScramMechanism) -> None:
    first, _, final, _ = run(ScramClient(mechanism, "user", "pencil", lambda: "c"), server(mechanism))
    for at in range(len(final)):
        changed = bytearray(final)
        changed[at] ^= 1
        peer = server(mechanism)
        peer.evaluate(first)
        with pytest.raises(SaslError):
            peer.evaluate(bytes(changed))


def test_a_client_trusts_no_server_that_does_not_know_the_keys() -> None:
    client = ScramClient(SHA_512, "user", "pencil", lambda: "c")
    client.evaluate(b"")
    client.evaluate(b"r=cs,s=c2FsdA==,i=4096")
    with pytest.raises(SaslError, match="signature"):
        client.evaluate(b"v=" + base64.b64encode(bytes(64)))
    assert not client.complete
    for challenge in (b"r=xs,s=c2FsdA==,i=4096", b"r=c,s=c2FsdA==,i=4096", b"r=cs,s=c2FsdA==,i=1", b"e=no"):
        client = ScramClient(SHA_512, "user", "pencil", lambda: "c")
        client.evaluate(b"")
        with pytest.raises(SaslError):
            client.evaluate(challenge)


def test_a_token_logs_in_as_its_owner() -> None:
    token = TokenCredential(credential(SHA_512, "hmac"), "alice", 1234)
    users: dict[str, ScramCredential] = {}
    peer = ScramServer(SHA_512, users.get, {"token-id": token}.get, lambda: "s")
    run(ScramClient(SHA_512, "token-id", "hmac", lambda: "c", token_auth=True), peer)
    assert (peer.authorization_id, peer.expires_ms, peer.token_authenticated) == ("alice", 1234, True)
    for tokens in ({"other": token}.get, None):
        with pytest.raises(SaslError):
            run(
                ScramClient(SHA_512, "token-id", "hmac", lambda: "c", token_auth=True),
                ScramServer(SHA_512, {"token-id": token.credential}.get, tokens, lambda: "s"),
            )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=x",
        "salt=!,stored_key=YQ==,server_key=YQ==,iterations=4096",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=4096,more=1",
    ],
)
def test_a_damaged_credential_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="SCRAM credential") as caught:
        ScramCredential.from_text(text)
    assert "YQ==" not in str(caught.value)


def test_no_secret_is_shown() -> None:
    assert repr(credential(SHA_256)) == "ScramCredential(iterations=4096)"
