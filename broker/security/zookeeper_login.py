"""How this broker proves to ZooKeeper who it is: SASL DIGEST-MD5, by the JAAS file that Kafka's broker would read.

The context is `Client`, or the one that `-Dzookeeper.sasl.clientconfig` among `KAFKA_OPTS` names, with ZooKeeper's
`DigestLoginModule`. Needs the extra `odradek[zookeeper-sasl]`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.config.keys import ConfigError
from broker.security.sasl.jaas_sources import jaas_file, java_property
from network.sasl.jaas import JaasError, parse_file

_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
_KEY = "zookeeper.set.acl"


def zookeeper_login(*, needed: bool, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Options of kazoo, none without a login. Raises `ConfigError`, without secrets; also when a login is `needed`
    (`zookeeper.set.acl`), for without one the ACLs would be for nobody."""
    environment = os.environ if environment is None else environment
    options = None
    if java_property(environment, "zookeeper.sasl.client") != "false":
        options = _options(environment)
    if options is None:
        if needed:
            raise ConfigError(
                f"{_KEY} is true, but there is no login to ZooKeeper: KAFKA_OPTS names no JAAS file "
                "(-Djava.security.auth.login.config) that has a context Client, and it is not shown a certificate "
                "(zookeeper.ssl.client.enable, zookeeper.clientCnxnSocket, zookeeper.ssl.keystore.location)"
            )
        return {}
    username, password = options.get("username"), options.get("password")
    if not username or password is None:
        raise ConfigError("the login to ZooKeeper needs username and password among the options of its login module")
    if importlib.util.find_spec("puresasl") is None:
        raise ConfigError("a login to ZooKeeper needs the extra odradek[zookeeper-sasl]")
    return {"sasl_options": {"mechanism": "DIGEST-MD5", "username": username, "password": password}}


def _options(environment: Mapping[str, str]) -> Mapping[str, str] | None:
    path = jaas_file(environment)
    if path is None:
        return None
    context = java_property(environment, "zookeeper.sasl.clientconfig") or "Client"
    try:
        modules = parse_file(Path(path).read_text(encoding="utf-8")).get(context)
    except (JaasError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the JAAS file {path} cannot be read: {error}") from None
    if modules is None:
        return None
    for module in modules:
        if module.name == _MODULE:
            return module.options
    raise ConfigError(f"{context} of {path} has no login module {_MODULE}; no other login to ZooKeeper is served")
