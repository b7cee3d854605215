"""How this broker proves to ZooKeeper who it is: SASL DIGEST-MD5, by the JAAS file that Kafka's broker would read.

The context is `Client`, or the one that `-Dzookeeper.sasl.clientconfig` among `KAFKA_OPTS` names, with ZooKeeper's
`DigestLoginModule`. Needs the extra `odradek[zookeeper-sasl]`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from broker.config.keys import ConfigError
from broker.security.sasl.jaas_sources import java_property
from network.sasl.jaas import JaasError
from network.sasl.java_options import JaasFile

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
    try:
        found = JaasFile(environment).context(java_property(environment, "zookeeper.sasl.clientconfig") or "Client")
    except JaasError as error:
        raise ConfigError(str(error)) from None
    if found is None:
        return None
    where, modules = found
    for module in modules:
        if module.name == _MODULE:
            return module.options
    raise ConfigError(f"{where} has no login module {_MODULE}; no other login to ZooKeeper is served")
