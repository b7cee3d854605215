"""The broker's login to ZooKeeper, from the JAAS file that Java would be given."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.keys import ConfigError
from broker.security.zookeeper_login import zookeeper_login

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN = {"sasl_options": {"mechanism": "DIGEST-MD5", "username": "u", "password": "p"}}


def environment(file: Path, text: str, more: str = "") -> dict[str, str]:
    file.write_text(text)
    return {"KAFKA_OPTS": f"-Djava.security.auth.login.config={file} {more}"}


def test_the_context_of_the_client(tmp_path: Path) -> None:
    file, entry = tmp_path / "jaas", f'{{ {MODULE} required username="u" password="p"; }};'
    assert zookeeper_login(needed=True, environment=environment(file, f"Client {entry}")) == LOGIN
    named = environment(file, f"Zk {entry}", "-Dzookeeper.sasl.clientconfig=Zk")
    assert zookeeper_login(needed=True, environment=named) == LOGIN
    for none in (
        {},
        environment(tmp_path / "other", f"KafkaServer {entry}"),
        environment(file, f"Client {entry}", "-Dzookeeper.sasl.client=false"),
    ):
        assert zookeeper_login(needed=False, environment=none) == {}
        with pytest.raises(ConfigError, match=r"zookeeper\.set\.acl is true, but there is no login"):
            zookeeper_login(needed=True, environment=none)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'Client {{ {MODULE} required password="sesame"; }};', "needs username and password"),
        ('Client { com.sun.security.auth.module.Krb5LoginModule required key="sesame"; };', "has no login module"),
        (f'Client {{ {MODULE} required password="sesame" }};', "cannot be read"),
    ],
)
def test_what_ends_the_start(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        zookeeper_login(needed=False, environment=environment(tmp_path / "jaas", text))
    assert "sesame" not in str(caught.value)
