"""Distinguished names and the principals that rules make of them: what Java and Kafka's own class say of the same."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from broker.config.keys import ConfigError
from broker.dev.java import find_java
from broker.security.principal_mapping import NoMatchingRule, PrincipalMapper
from network.tls.certificates import distinguished_name, not_after, subject
from tests.reference import kafka

gateway = pytest.importorskip("py4j.java_gateway")

NAMES = (
    "CN=kafka-1.example.org,OU=Servers,O=Odradek,L=Prague,ST=Bohemia,C=CZ",
    "CN=alice,OU=SRE,O=Odradek\\, tests,C=CZ",
    "CN=Duke, OU=JavaSoft, O=Sun Microsystems, C=US",
    "cn=lower",
    "",
)
RULES = (
    "DEFAULT",
    "RULE:^CN=(.*?),.*$/$1/",
    "RULE:^CN=(.*?),.*$/$1/L",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),.*$/$1@$2/U",
    "RULE:^CN=(.*?),OU=Servers.*$/server-$1/,RULE:^CN=(.*?),.*$/$1/,DEFAULT",
    "RULE:^CN=([^,]+),.*$/$1\\/x/\n DEFAULT",
    "  RULE:.*C=(..)$/cost\\$$1/L , DEFAULT  ",
    "RULE:^cn=(.*)$//",
    "RULE:^CN=(.*?),.*$/$1/L,RULE:^cn=(.*)$/$1/U",
    "RULE:^CN=(.*)$/\\$1-$1/",
    "RULE:^CN=(.*)$/$2-$1/",
    "RULE:^CN=(.*)$/a\\\\$1/",
    "RULE:^CN=([^,]+),.*$/$1x/\nDEFAULT",
    "DEFAULTS",
    "RULE:^CN=(.*?),.*$/$1",
    "RULE:^CN=(.*?),.*$/$1/LU",
    "RULE:^CN=(.*?),.*$/$1/X",
    "NONSENSE",
    "",
)


@pytest.fixture(scope="module")
def jvm() -> Iterator[Any]:
    libs = kafka.require()
    port, process = gateway.launch_gateway(
        classpath=f"{libs}/*", java_path=find_java(), die_on_exit=True, return_proc=True
    )
    opened = gateway.JavaGateway(gateway_parameters=gateway.GatewayParameters(port=port))
    yield opened.jvm
    opened.shutdown()
    process.stdin.close()
    process.wait(30)


def theirs(jvm: Any, rules: str, name: str) -> str | None:
    try:
        mapper = jvm.org.apache.kafka.common.security.ssl.SslPrincipalMapper.fromRules(rules)
        return str(mapper.getName(name))
    except Exception:
        return None


def ours(rules: str, name: str) -> str | None:
    try:
        return PrincipalMapper(rules).name(name)
    except (ConfigError, NoMatchingRule):
        return None


@pytest.mark.parametrize("rules", RULES)
def test_rules_say_what_kafka_s_say(jvm: Any, rules: str) -> None:
    assert [ours(rules, name) for name in NAMES] == [theirs(jvm, rules, name) for name in NAMES]


def attributes() -> Iterator[x509.Name]:
    def name(*pairs: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
        return x509.Name([x509.NameAttribute(kind, value) for kind, value in pairs])

    yield name((NameOID.COUNTRY_NAME, "CZ"), (NameOID.ORGANIZATION_NAME, "A, B"), (NameOID.COMMON_NAME, "x"))
    yield name((NameOID.COMMON_NAME, "#sharp"), (NameOID.ORGANIZATION_NAME, 'q"uo+te;<>\\='))
    yield name((NameOID.COMMON_NAME, "  blanks around "), (NameOID.LOCALITY_NAME, "in  between"))
    yield name((NameOID.COMMON_NAME, "Přemysl Žluťoučký 東京"), (NameOID.STATE_OR_PROVINCE_NAME, "S"))
    yield name((NameOID.EMAIL_ADDRESS, "a@example.org"), (NameOID.COMMON_NAME, "mail"))
    yield name((NameOID.USER_ID, "u1"), (NameOID.DOMAIN_COMPONENT, "org"), (NameOID.STREET_ADDRESS, "Road 1"))
    yield name((NameOID.SERIAL_NUMBER, "123"), (NameOID.TITLE, "Dr"), (NameOID.COMMON_NAME, "others"))
    yield x509.Name(
        [
            x509.RelativeDistinguishedName(
                [
                    x509.NameAttribute(NameOID.COMMON_NAME, "several"),
                    x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "in one"),
                ]
            ),
            x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COUNTRY_NAME, "CZ")]),
        ]
    )
    yield x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "printable", _type=_ASN1Type.PrintableString)])
    yield x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "wide", _type=_ASN1Type.BMPString)])


def certificate(name: x509.Name, end: datetime.datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(end)
    )
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize("name", list(attributes()), ids=lambda name: name.rfc4514_string()[:30])
def test_names_are_written_as_java_writes_them(jvm: Any, name: x509.Name) -> None:
    der = certificate(name, datetime.datetime(2049, 12, 31, tzinfo=datetime.UTC))
    assert distinguished_name(subject(der)) == jvm.javax.security.auth.x500.X500Principal(subject(der)).getName()


@pytest.mark.parametrize("year", [2030, 2049, 2050, 2150])
def test_ends_of_certificates(year: int) -> None:
    end = datetime.datetime(year, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    assert not_after(certificate(name, end)) == end
