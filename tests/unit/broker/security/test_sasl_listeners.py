"""The mechanisms of listeners by configuration: where login modules stand, what is refused, handlers of one's own."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError
from broker.config.listener_values import ListenerValues, Proposed
from broker.security.listener_trial import ListenerTrial
from broker.security.listeners import ListenerSecurity
from broker.security.peers import PeerSecurity
from broker.security.sasl.jaas_sources import JaasSources
from broker.security.sasl.jwks import KeySet
from broker.security.sasl.listeners import SaslListeners
from broker.security.sasl.signed_tokens import SignedTokens
from broker.security.scram_credentials import ScramCredentials
from network.protocol.messages.api_versions import ApiVersionsResponse
from network.sasl.mechanism import SaslAuthenticationError, SaslError
from network.sasl.oauthbearer import InvalidTokenError, OAuthToken
from network.sasl.scram_credential import SHA_256, ScramCredential, credential_of, salted_password
from tests.support.sasl import begun_login
from timer.clock import ManualClock

BASE = {
    "zookeeper.connect": "127.0.0.1:1",
    "broker.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:1,OUT://127.0.0.1:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUT:SASL_PLAINTEXT",
}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
JAAS = "listener.name.out.{}.sasl.jaas.config"
HANDLER = "listener.name.out.{}.sasl.server.callback.handler.class"


def no_signed_tokens(listener: str, values: ListenerValues, keep_fresh: bool) -> SignedTokens:
    raise ConfigError(f"{listener} has no keys")


def listeners(properties: dict[str, str]) -> SaslListeners:
    return SaslListeners(
        KafkaConfig({**BASE, **properties}),
        ManualClock(),
        ScramCredentials(),
        lambda mechanism: lambda token_id: None,
        lambda info, header, request: (True, ApiVersionsResponse()),
        no_signed_tokens,
    )


def run(properties: dict[str, str], mechanism: str, *messages: bytes) -> str:
    """Who is let in, or in which words not."""
    server = listeners(properties).settings("OUT").mechanisms[mechanism].make()
    try:
        for message in messages:
            server.evaluate(message)
    except (SaslAuthenticationError, SaslError) as error:
        return str(error)
    return server.authorization_id


class OwnPasswords:
    """As a user would write it."""

    def configure(self, configs: dict[str, str], mechanism: str, options: dict[str, str]) -> None:
        self.suffix = options["suffix"] + configs["broker.id"] + mechanism

    def authenticate(self, username: str, password: str) -> bool:
        if username == "broken":
            raise RuntimeError(password)
        if username == "later":
            return cast(bool, self)  # as an async method gives something that is only true in a condition
        return password == username + self.suffix


class OwnCredentials:
    def credential(self, mechanism: str, username: str) -> ScramCredential | None:
        salted = salted_password(SHA_256, username, b"s", 4096)
        return credential_of(SHA_256, b"s", salted, 4096) if mechanism == "SCRAM-SHA-256" else None


class OwnTokens:
    def validate(self, token: str) -> OAuthToken:
        if token != "sesame":
            raise InvalidTokenError("no")
        return OAuthToken("carol", 5)

    def validate_extensions(self, token: OAuthToken, extensions: dict[str, str]) -> dict[str, str]:
        return dict.fromkeys(extensions.keys() - {"known"}, "unknown")


def test_users_of_plain_stand_in_the_login_module() -> None:
    settings = {"sasl.enabled.mechanisms": "PLAIN", JAAS.format("plain"): f'{PLAIN} required user_a="b";'}
    assert run(settings, "PLAIN", b"\0a\0b") == "a"
    assert "Invalid username" in run(settings, "PLAIN", b"\0a\0c")


def test_a_listener_and_a_mechanism_have_values_of_their_own() -> None:
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "connections.max.reauth.ms": "1000",
        "sasl.server.max.receive.size": "1",
        "listener.name.out.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.out.plain.connections.max.reauth.ms": "5",
        "listener.name.out.connection.failed.authentication.delay.ms": "7",
        "listener.name.out.sasl.server.max.receive.size": "9",
        JAAS.format("plain"): f"{PLAIN} required;",
        JAAS.format("scram-sha-256"): f"{SCRAM} required;",
    }
    made = listeners(settings).settings("OUT")
    assert {name: each.max_reauth_ms for name, each in made.mechanisms.items()} == {"PLAIN": 5, "SCRAM-SHA-256": 1000}
    assert (made.failure_delay_ms, made.max_frame_bytes) == (7, 9)


def test_own_handlers() -> None:
    here = __name__
    plain = {
        "sasl.enabled.mechanisms": "PLAIN",
        JAAS.format("plain"): f'{PLAIN} required suffix="-";',
        HANDLER.format("plain"): f"{here}:OwnPasswords",
    }
    assert run(plain, "PLAIN", b"\0x\0x-1PLAIN") == "x"
    assert run(plain, "PLAIN", b"\0x\0x") == "Authentication failed: Invalid username or password"
    assert run(plain, "PLAIN", b"\0later\0x") == "Authentication failed: Invalid username or password"
    assert run(plain, "PLAIN", b"\0broken\0sesame") == (
        "Authentication failed: credentials for user could not be verified"
    )
    scram = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        **{JAAS.format(name): f"{SCRAM} required;" for name in ("scram-sha-256", "scram-sha-512")},
        **{HANDLER.format(name): f"{here}:OwnCredentials" for name in ("scram-sha-256", "scram-sha-512")},
    }
    assert run(scram, "SCRAM-SHA-256", b"n,,n=x,r=c") == "x"
    assert "no credential" in run(scram, "SCRAM-SHA-512", b"n,,n=x,r=c")
    oauth = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        JAAS.format("oauthbearer"): f"{OAUTH} required;",
        HANDLER.format("oauthbearer"): f"{here}:OwnTokens",
    }
    assert run(oauth, "OAUTHBEARER", b"n,,\x01auth=Bearer sesame\x01known=1\x01\x01") == "carol"
    assert "other: unknown" in run(oauth, "OAUTHBEARER", b"n,,\x01auth=Bearer sesame\x01other=1\x01\x01")
    assert run(oauth, "OAUTHBEARER", b"n,,\x01auth=Bearer other\x01\x01", b"\x01") == '{"status":"invalid_token"}'


def test_tokens_that_anybody_can_make_are_not_taken_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    taken = {"sasl.enabled.mechanisms": "OAUTHBEARER", JAAS.format("oauthbearer"): f"{OAUTH} required;"}
    listeners(taken).settings("OUT")
    assert "listener OUT takes unsecured tokens" in caplog.text
    KeySet("https://issuer/keys", ManualClock(), 1)
    assert "not encrypted" not in caplog.text
    KeySet("http://issuer/keys", ManualClock(), 1)
    assert "http://issuer/keys is not encrypted" in caplog.text


def proposed(config: KafkaConfig, dynamic: dict[str, str]) -> Proposed:
    return Proposed(config, dynamic, config.merged(dynamic, {}))


def test_a_listener_is_tried_with_values_that_do_not_hold_yet() -> None:
    """Of what it would be made of nothing is made: this handler cannot be without its options."""
    config = KafkaConfig({**BASE, "sasl.enabled.mechanisms": "SCRAM-SHA-256"})
    security = ListenerSecurity(config, listeners({}))
    (endpoint,) = (each for each in config.listeners if each.listener_name == "OUT")
    trial = ListenerTrial(security)
    dynamic = {
        "sasl.enabled.mechanisms": "PLAIN",
        JAAS.format("plain"): f"{PLAIN} required;",
        HANDLER.format("plain"): f"{__name__}:OwnPasswords",
    }
    trial(endpoint, proposed(config, dynamic), False)
    for name in dynamic:
        with pytest.raises(ConfigError, match=r"(?i)out"):
            trial(endpoint, proposed(config, {**dynamic, name: "nothing"}), False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        there = endpoint.with_address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(ConfigError, match="cannot bind listener OUT"):
            trial(there, proposed(config, dynamic), True)
        trial(there, proposed(config, dynamic), False)


def test_a_new_login_to_other_brokers_that_cannot_be_used_leaves_the_old_one(caplog: pytest.LogCaptureFixture) -> None:
    config = KafkaConfig(
        {
            **BASE,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            JAAS.format("plain"): f'{PLAIN} required username="a" password="alice-secret";',
        }
    )
    peers = PeerSecurity(config, ManualClock())
    wrap = peers.wrapper("OUT")
    assert wrap is not None

    assert b"PLAIN" in begun_login(wrap)
    config.use_dynamic({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, {})
    peers.reload()
    assert "the new login to other brokers cannot be used, the old one stays" in caplog.text
    assert b"PLAIN" in begun_login(wrap)
    login = {JAAS.format("scram-sha-256"): f'{SCRAM} required username="a" password="alice-secret";'}
    config.use_dynamic({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256", **login}, {})
    peers.reload()
    assert b"SCRAM-SHA-256" in begun_login(wrap)
    assert "-secret" not in caplog.text


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, r"is not set \(for GSSAPI of the listener OUT\)"),
        ({JAAS.format("gssapi"): f"{KRB5} required;"}, "No serviceName defined in either JAAS or Kafka config"),
        (
            {JAAS.format("gssapi"): f"{KRB5} required serviceName=a;", "sasl.kerberos.service.name": "b"},
            "Conflicting serviceName values",
        ),
        ({"sasl.enabled.mechanisms": "PLAIN,KERBEROS"}, "KERBEROS, which this broker does not serve"),
        ({"sasl.enabled.mechanisms": ""}, "has no SASL mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "Could not find a 'KafkaServer' or 'out.KafkaServer' entry"),
        ({"sasl.enabled.mechanisms": "PLAIN", JAAS.format("plain"): "x"}, "control flag not specified"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", JAAS.format("plain"): f'{SCRAM} required password="sesame";'},
            "has no login module",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                JAAS.format("plain"): f"{PLAIN} required;",
                HANDLER.format("plain"): "com.example.Handler",
            },
            "is a Java class; name a Python one",
        ),
        (
            {
                "sasl.enabled.mechanisms": "PLAIN",
                JAAS.format("plain"): f"{PLAIN} required;",
                HANDLER.format("plain"): f"{__name__}:OwnPasswords",
            },
            "OwnPasswords cannot be used: KeyError: 'suffix'",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                JAAS.format("oauthbearer"): f"{OAUTH} required;",
                HANDLER.format("oauthbearer"): (
                    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
                ),
            },
            "OUT has no keys",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                JAAS.format("oauthbearer"): f'{OAUTH} required unsecuredValidatorAllowableClockSkewMs="-1";',
            },
            "must not be negative",
        ),
    ],
)
def test_what_ends_the_start(properties: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    with pytest.raises(ConfigError, match=said) as caught:
        listeners(properties).settings("OUT")
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("useTicketCache=true", "a broker's login module needs useKeyTab=true, keyTab and principal"),
        ("useKeyTab=true", "useKeyTab=true needs keyTab and principal"),
        ("useTicketCache=false", "GSSAPI needs useKeyTab=true or useTicketCache=true"),
        (
            'useKeyTab=true keyTab="/no/keytab" principal=x',
            "the key table cannot be used: Key table file '/no/keytab' not found",
        ),
    ],
)
def test_what_kerberos_needs_of_a_broker(options: str, said: str) -> None:
    pytest.importorskip("gssapi")
    settings = {JAAS.format("gssapi"): f'{KRB5} required serviceName=a {options} password="sesame";'}
    with pytest.raises(ConfigError, match=said) as caught:
        listeners(settings).settings("OUT")
    assert "sesame" not in str(caught.value)


def test_kerberos_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    settings = {JAAS.format("gssapi"): f"{KRB5} required serviceName=a;"}
    with pytest.raises(ConfigError, match=r"pip install 'odradek\[kerberos\]'$"):
        listeners(settings).settings("OUT")


def test_the_static_file(tmp_path: Path) -> None:
    file = tmp_path / "ja as.conf"
    file.write_text(f'KafkaServer {{ {PLAIN} required a="1"; {SCRAM} required b="2"; }};')
    config = KafkaConfig(BASE)
    environment = {"KAFKA_OPTS": f"-Xmx1g '-Djava.security.auth.login.config={file}' -Dx=y"}
    sources = JaasSources(config, environment)
    assert sources.options("OUT", "PLAIN") == {"a": "1"}
    assert sources.options("OUT", "SCRAM-SHA-512") == {"b": "2"}
    with pytest.raises(ConfigError, match="no login module"):
        sources.options("OUT", "OAUTHBEARER")
    file.write_text(f'KafkaServer {{ {PLAIN} required a="1"; }}; out.KafkaServer {{ {PLAIN} required a="3"; }};')
    assert JaasSources(config, environment).options("OUT", "PLAIN") == {"a": "3"}
    own = KafkaConfig({**BASE, JAAS.format("plain"): f'{PLAIN} required a="4";'})
    assert JaasSources(own, environment).options("OUT", "PLAIN") == {"a": "4"}
    for text in ("KafkaServer {", ""):
        file.write_text(text)
        with pytest.raises(ConfigError, match="JAAS"):
            JaasSources(config, environment).options("OUT", "PLAIN")


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, r"\(for GSSAPI of the listener OUT\)"),
        (
            {  # of no single listener: Kafka does not start with it either
                "listener.name.out.sasl.mechanism.inter.broker.protocol": "PLAIN",
                JAAS.format("plain"): f'{PLAIN} required username="a" password="sesame";',
            },
            r"\(for GSSAPI of the listener OUT\)",
        ),
        ({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, "must be included in sasl.enabled.mechanisms"),
        (
            {
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.enabled.mechanisms": "PLAIN",
                JAAS.format("plain"): f'{PLAIN} required password="sesame";',
            },
            "needs username and password",
        ),
    ],
)
def test_brokers_that_could_not_log_in_do_not_start(properties: dict[str, str], said: str) -> None:
    config = KafkaConfig({**BASE, "inter.broker.listener.name": "OUT", **properties})
    with pytest.raises(ConfigError, match=said) as caught:
        PeerSecurity(config, ManualClock()).inter_broker  # noqa: B018
    assert "sesame" not in str(caught.value)


def test_no_login_where_none_is_asked_for() -> None:
    config: Any = KafkaConfig(BASE)
    assert PeerSecurity(config, ManualClock()).inter_broker is None
