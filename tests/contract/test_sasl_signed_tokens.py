"""Signed tokens of OAUTHBEARER against a JWKS file, by Kafka's own handler and by ours under the same name."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from network.client.connection import Connection, ConnectionFailed
from network.protocol.errors import ErrorCode
from network.protocol.messages.metadata import MetadataRequest
from network.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from network.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.cluster import CLOCK, HOST, Broker, Cluster
from tests.support.sasl import LISTENER, running_sasl_cluster, sasl_port

RSA, OTHER = (rsa.generate_private_key(65537, 2048) for _ in range(2))
CURVE = ec.generate_private_key(ec.SECP256R1())
NOW = CLOCK.wall_ms() // 1000
CLAIMS = {"sub": "alice", "iat": NOW, "exp": NOW + 3600, "aud": "kafka", "iss": "https://issuer"}
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


def jwks(directory: Path) -> Path:
    keys = [
        {**jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "rsa"},
        {**jwt.algorithms.ECAlgorithm.to_jwk(CURVE.public_key(), as_dict=True), "kid": "ec"},
    ]
    file = directory / "jwks.json"
    file.write_text(json.dumps({"keys": [{**key, "use": "sig"} for key in keys]}))
    return file


@pytest.fixture(scope="module", params=["odradek", "kafka"])
def broker(
    request: pytest.FixtureRequest, zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    name = f"sasl-signed-{request.param}"
    directory = tmp_path_factory.mktemp(name)
    url = jwks(directory).as_uri()
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"
    more = {
        f"listener.name.{LISTENER.lower()}.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.audience": "mail,kafka",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
    }
    cluster: Cluster
    connect = f"{zookeeper}/{name}"
    with running_sasl_cluster([request.param], directory, connect, java_options=allowed, **more) as cluster:
        yield cluster.brokers[0]


def signed(claims: dict[str, Any], key: Any = RSA, algorithm: str = "RS256", kid: str = "rsa") -> str:
    return jwt.encode(claims, key, algorithm, headers={"kid": kid})


def unsigned() -> str:
    head = base64.urlsafe_b64encode(b'{"alg":"none","kid":"rsa"}').decode().rstrip("=")
    return f"{head}.{signed(CLAIMS).split('.')[1]}."


def by_the_public_key_as_secret() -> str:
    public = RSA.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return jwt.encode(CLAIMS, base64.b64encode(public), "HS256", headers={"kid": "rsa"})


def tried(broker: Broker, token: str) -> str | None:
    """The refusal; None for a token that lets in."""
    with Connection(HOST, sasl_port(broker), "raw", CLOCK) as connection:
        connection.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        first = f"n,,\x01auth=Bearer {token}\x01\x01".encode()
        answer = connection.call(SaslAuthenticateRequest(auth_bytes=first), 2)
        assert answer.error_code == 0
        if not answer.auth_bytes:
            assert connection.call(MetadataRequest(topics=[]), 9).brokers
            return None
        said = bytes(answer.auth_bytes).decode()
        answer = connection.call(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
        assert ErrorCode.of(answer.error_code) is ErrorCode.SASL_AUTHENTICATION_FAILED
        return said


GOOD = {
    "by RSA": signed(CLAIMS),
    "by another hash": signed(CLAIMS, algorithm="RS512"),
    "by a curve": signed(CLAIMS, CURVE, "ES256", "ec"),
    "for several": signed({**CLAIMS, "aud": ["x", "kafka"], "scope": "a b"}),
}
BAD = {
    "unsigned": unsigned(),
    "hmac by the public key": by_the_public_key_as_secret(),
    "by another key": signed(CLAIMS, OTHER),
    "by an unknown key": signed(CLAIMS, kid="new"),
    "for somebody else": signed({**CLAIMS, "aud": "web"}),
    "for nobody": signed({name: value for name, value in CLAIMS.items() if name != "aud"}),
    "of another issuer": signed({**CLAIMS, "iss": "https://evil"}),
    "expired": signed({**CLAIMS, "iat": NOW - 5000, "exp": NOW - 4000}),
    "without end": signed({name: value for name, value in CLAIMS.items() if name != "exp"}),
    "without a name": signed({name: value for name, value in CLAIMS.items() if name != "sub"}),
    "tampered": signed(CLAIMS)[:-8] + "AAAAAAAA",
}


@pytest.mark.parametrize("case", GOOD)
def test_tokens_that_let_in(broker: Broker, case: str) -> None:
    assert tried(broker, GOOD[case]) is None


def test_the_session_of_a_token_that_is_late_but_within_the_clock_skew_is_over_at_once(broker: Broker) -> None:
    now = CLOCK.wall_ms() // 1000
    with pytest.raises(ConnectionFailed):
        tried(broker, signed({**CLAIMS, "iat": now - 100, "exp": now - 5}))


@pytest.mark.parametrize("case", BAD)
def test_tokens_that_do_not(broker: Broker, case: str) -> None:
    assert tried(broker, BAD[case]) == '{"status":"invalid_token"}'
