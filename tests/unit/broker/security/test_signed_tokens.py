"""Signed tokens against a JWKS: what is taken, and every way in which one must not be."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from broker.config.keys import ConfigError
from broker.security.sasl.jwks import KeySet
from broker.security.sasl.signed_tokens import SignedTokens, TokenRules
from network.sasl.oauthbearer import InvalidTokenError
from timer.clock import ManualClock
from timer.scheduler import ManualScheduler

RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
CLOCK = ManualClock()
NOW = CLOCK.wall_ms() // 1000
CLAIMS = {"sub": "alice", "iat": NOW, "exp": NOW + 60, "aud": "kafka", "iss": "https://issuer"}
FOR_ANYBODY = {name: value for name, value in CLAIMS.items() if name != "aud"}
REFRESH_MS = 10_000


def entry(key: Any, kid: str, **more: str) -> dict[str, Any]:
    maker = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    found: dict[str, Any] = maker.to_jwk(key.public_key(), as_dict=True)
    return {**found, "kid": kid, **more}


def key_set(tmp_path: Path, *entries: dict[str, Any]) -> KeySet:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": list(entries)}))
    keys = KeySet(file.as_uri(), CLOCK, 100)
    keys.refresh()
    return keys


def kept_fresh(load: Callable[[str], bytes]) -> tuple[KeySet, ManualScheduler, ManualClock]:
    """Keys of an issuer that are fetched again every `REFRESH_MS`, and who does it when."""
    clock = ManualClock()
    scheduler = ManualScheduler(clock)
    scheduler.startup()
    keys = KeySet("https://issuer/keys", clock, 100, load)
    keys.load()
    keys.start(scheduler, REFRESH_MS)
    return keys, scheduler, clock


@pytest.fixture
def keys(tmp_path: Path) -> KeySet:
    return key_set(tmp_path, entry(RSA, "rsa"), entry(CURVE, "ec"), entry(RSA, "only-512", alg="RS512"))


def signed(
    claims: dict[str, Any], key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **headers: Any
) -> str:
    return jwt.encode(claims, key, algorithm, headers={"kid": kid, **headers} if kid else headers)


def test_signed_tokens_are_taken(keys: KeySet) -> None:
    rules = TokenRules(["other", "kafka"], "https://issuer")
    tokens = SignedTokens(keys, rules, CLOCK)
    found = tokens.validate(signed({**CLAIMS, "scope": "a b"}))
    assert (found.principal, found.expires_ms, set(found.scope)) == ("alice", (NOW + 60) * 1000, {"a", "b"})
    assert tokens.validate(signed(CLAIMS, CURVE, "ES256", "ec")).principal == "alice"
    assert tokens.validate(signed(CLAIMS, algorithm="PS384")).principal == "alice"
    assert tokens.validate(signed({**CLAIMS, "exp": NOW - 29, "iat": NOW + 30})).principal == "alice", "clock skew"
    assert SignedTokens(keys, TokenRules(), CLOCK).validate(signed(FOR_ANYBODY)).principal == "alice"
    own = SignedTokens(keys, TokenRules(sub_claim="email", scope_claim="scp"), CLOCK)
    assert own.validate(signed({**FOR_ANYBODY, "email": "a@b", "scp": ["x"]})).scope == {"x"}


@pytest.mark.parametrize("audience", [None, []])
def test_a_token_for_somebody_is_not_for_a_broker_that_is_told_of_no_audience(
    keys: KeySet, audience: list[str] | None
) -> None:
    """As Kafka's validator: a service that trusts the same issuer must not be able to use what it was handed here."""
    tokens = SignedTokens(keys, TokenRules(audience), CLOCK)
    for meant in ("mail", ["mail", "web"]):
        with pytest.raises(InvalidTokenError):
            tokens.validate(signed({**CLAIMS, "aud": meant}))
    assert tokens.validate(signed(FOR_ANYBODY)).principal == "alice"


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_keys_that_are_too_short_are_not_used(tmp_path: Path) -> None:
    weak, secret = rsa.generate_private_key(65537, 1024), b"s" * 31
    oct_entry = {"kty": "oct", "kid": "oct", "k": base64.urlsafe_b64encode(secret).decode().rstrip("=")}
    tokens = SignedTokens(key_set(tmp_path, entry(weak, "weak"), oct_entry, entry(RSA, "rsa")), TokenRules(), CLOCK)
    for token in (signed(FOR_ANYBODY, weak, kid="weak"), signed(FOR_ANYBODY, secret, "HS256", "oct")):
        with pytest.raises(InvalidTokenError):
            tokens.validate(token)
    assert tokens.validate(signed(FOR_ANYBODY)).principal == "alice"


def without_signature() -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"none","kid":"rsa"}').decode().rstrip("=")
    return f"{head}.{signed(CLAIMS).split('.')[1]}."


def by_the_public_key_as_secret() -> str:
    """The confusion of algorithms: an HMAC with what everybody knows."""
    public = RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return jwt.encode(CLAIMS, base64.b64encode(public), "HS256", headers={"kid": "rsa"})


REFUSED: dict[str, str] = {
    "no signature": without_signature(),
    "hmac by the public key": by_the_public_key_as_secret(),
    "another key": signed(CLAIMS, OTHER),
    "an unknown key": signed(CLAIMS, kid="new"),
    "no key named": signed(CLAIMS, kid=None),
    "an algorithm the key is not for": signed(CLAIMS, kid="only-512"),
    "another audience": signed({**CLAIMS, "aud": "mail"}),
    "no audience": signed(FOR_ANYBODY),
    "another issuer": signed({**CLAIMS, "iss": "https://evil"}),
    "expired": signed({**CLAIMS, "exp": NOW - 30}),
    "no end": signed({key: value for key, value in CLAIMS.items() if key != "exp"}),
    "no beginning": signed({key: value for key, value in CLAIMS.items() if key != "iat"}),
    "from the future": signed({**CLAIMS, "iat": NOW + 31}),
    "not yet": signed({**CLAIMS, "nbf": NOW + 31}),
    "nobody": signed({**CLAIMS, "sub": " "}),
    "a number": signed({**CLAIMS, "sub": "x", "scope": 5}),
    "tampered": signed(CLAIMS)[:-6] + "AAAAAA",
    "cut": signed(CLAIMS).rpartition(".")[0],
    "what must be understood": signed(CLAIMS, crit=["exp"], exp=NOW + 60),
    "what is not encoded": signed(CLAIMS, crit=["b64"], b64=False),
    "nothing": "",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(keys: KeySet, case: str) -> None:
    tokens = SignedTokens(keys, TokenRules(["kafka"], "https://issuer"), CLOCK)
    with pytest.raises(InvalidTokenError) as caught:
        tokens.validate(REFUSED[case])
    assert "alice" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_keys_are_fetched_again_from_time_to_time_and_for_an_unknown_one() -> None:
    loads: list[str] = []
    served = [entry(RSA, "old")]

    def load(url: str) -> bytes:
        loads.append(url)
        if not served:
            raise OSError("gone")
        return json.dumps({"keys": served}).encode()

    keys, scheduler, clock = kept_fresh(load)
    tokens = SignedTokens(keys, TokenRules(), clock)
    served[:] = [entry(OTHER, "new")]
    for _ in range(5):
        with pytest.raises(InvalidTokenError):
            tokens.validate(signed(FOR_ANYBODY, OTHER, kid="new"))
    assert len(loads) == 1, "not more often than the back-off allows"
    clock.advance(100)
    with pytest.raises(InvalidTokenError):
        tokens.validate(signed(FOR_ANYBODY, OTHER, kid="new"))
    scheduler.tick()
    assert tokens.validate(signed(FOR_ANYBODY, OTHER, kid="new")).principal == "alice"
    served.clear()
    clock.advance(REFRESH_MS)
    scheduler.tick()
    assert len(loads) == 3
    assert tokens.validate(signed(FOR_ANYBODY, OTHER, kid="new")).principal == "alice", "the old keys stay"


def test_anybody_can_ask_for_new_keys_but_they_are_fetched_once_at_a_time() -> None:
    under_way: list[Callable[[], None]] = []
    scheduler: Any = SimpleNamespace(
        schedule=lambda *_: None, schedule_once=lambda name, fetch: under_way.append(fetch)
    )
    clock = ManualClock()
    keys = KeySet("https://issuer/keys", clock, 100, lambda url: json.dumps({"keys": [entry(RSA, "rsa")]}).encode())
    keys.load()
    keys.start(scheduler, REFRESH_MS)
    for _ in range(2):
        for _ in range(5):  # the issuer takes its time
            clock.advance(100)
            assert keys.find("made up") is None
        assert len(under_way) == 1
        under_way.pop()()
    assert keys.find("rsa") is not None


def test_keys_that_nobody_needs_any_more_are_not_fetched() -> None:
    loads: list[str] = []

    def load(url: str) -> bytes:
        loads.append(url)
        return json.dumps({"keys": [entry(RSA, "rsa")]}).encode()

    keys, scheduler, clock = kept_fresh(load)
    keys.stop()
    clock.advance(REFRESH_MS)
    scheduler.tick()
    assert len(loads) == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"keys": 5}', '{"keys": [5]}'])
def test_what_is_no_jwks_ends_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "jwks").write_text(text)
    keys = KeySet((tmp_path / "jwks").as_uri(), CLOCK, 100)
    with pytest.raises(ConfigError, match=r"jwks\.endpoint\.url"):
        keys.load()
    with pytest.raises(ConfigError, match="URL"):
        KeySet("ftp://x", CLOCK, 100)


def test_what_is_secret_of_an_address_is_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    def load(url: str) -> bytes:
        assert url.endswith("?key=sesame"), "it is asked with all of it"
        raise OSError("gone")

    keys = KeySet("http://issuer/keys?key=sesame", CLOCK, 100, load)
    with pytest.raises(ConfigError, match="http://issuer/keys cannot be read") as caught:
        keys.load()
    said = [str(caught.value)]
    for url in ("https://user:sesame@issuer/keys", "ftp://user:sesame@issuer/keys?sesame"):
        with pytest.raises(ConfigError, match="issuer/keys") as refused:
            KeySet(url, CLOCK, 100)
        said.append(str(refused.value))
    for url in ("https://[issuer/keys?sesame", "https://issuer:99x/keys?sesame"):
        with pytest.raises(ConfigError, match="cannot be read") as refused:
            KeySet(url, CLOCK, 100)
        said.append(str(refused.value))
    with pytest.raises(ConfigError, match="no HTTP: InvalidURL") as refused:
        KeySet("https://127.0.0.1/my keys?sesame", CLOCK, 100).load()
    said.append(str(refused.value))
    assert "sesame" not in "".join(said) + caplog.text
