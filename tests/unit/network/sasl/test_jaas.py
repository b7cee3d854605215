"""JAAS texts as Kafka reads them."""

from __future__ import annotations

import pytest

from network.sasl.jaas import JaasError, parse_file, parse_modules, parse_single

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ("", {}),
        ('username="alice" password="secret"', {"username": "alice", "password": "secret"}),
        ("username='alice' password = word", {"username": "alice", "password": "word"}),
        (r'a="q\"uo\\te" b="\t\101\60x" c="say \'no\'"', {"a": 'q"uo\\te', "b": "\tA0x", "c": "say 'no'"}),
        ('a="x;y=z//w" /* no "comment" */ b="1" // end', {"a": "x;y=z//w", "b": "1"}),
        ('"user_o\'b,r ien"="p ä"', {"user_o'b,r ien": "p ä"}),
        ('user_my-name$x="1" refreshKrb5Config=true', {"user_my-name$x": "1", "refreshKrb5Config": "true"}),
    ],
)
def test_options(options: str, read: dict[str, str]) -> None:
    module = parse_single(f"{PLAIN} Required\n  {options}\n;")
    assert (module.name, module.flag, dict(module.options)) == (PLAIN, "required", read)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Login module not specified"),
        ("   /* nothing */ ", "Login module not specified"),
        (PLAIN, "control flag not specified"),
        (f"{PLAIN} maybe;", "Invalid login module control flag"),
        (f'{PLAIN} required password="secret"', "not terminated by semi-colon"),
        (f"{PLAIN} required password;", "Value not specified for key 'password'"),
        (f"{PLAIN} required password=;", "Value not specified for key 'password'"),
        (f"{PLAIN} required password=42;", "Value not specified for key 'password'"),
        (f"{PLAIN} required username=alice password=my secret;", "Value not specified for the key behind 'password'"),
        (f"{PLAIN} required; {SCRAM} required;", "contains 2 login modules, should be 1 module"),
    ],
)
def test_what_is_no_configuration(text: str, said: str) -> None:
    with pytest.raises(JaasError, match=said) as caught:
        parse_single(text)
    assert "secret" not in str(caught.value)


def test_several_modules() -> None:
    text = f'{PLAIN} required a="1"; {SCRAM} optional b="2";'
    assert [(each.name, each.flag) for each in parse_modules(text)] == [(PLAIN, "required"), (SCRAM, "optional")]


def test_a_file_has_contexts() -> None:
    contexts = parse_file(
        f"""
        // of the broker
        KafkaServer {{
            {PLAIN} required
                username="admin" user_admin="secret";
            {SCRAM} required;
        }};
        internal.KafkaServer {{ {SCRAM} required username="inner"; }};
        Client {{ org.apache.zookeeper.server.auth.DigestLoginModule required username="zk" password="p"; }};
        """
    )
    assert list(contexts) == ["KafkaServer", "internal.KafkaServer", "Client"]
    assert [module.name for module in contexts["KafkaServer"]] == [PLAIN, SCRAM]
    assert contexts["internal.KafkaServer"][0].options == {"username": "inner"}
    for text in ("KafkaServer", "KafkaServer {", f"KafkaServer {{ {PLAIN} required; }}", "A { }; A { };"):
        with pytest.raises(JaasError):
            parse_file(text)


def test_a_module_shows_no_values() -> None:
    assert "secret" not in repr(parse_single(f'{PLAIN} required password="secret";'))
