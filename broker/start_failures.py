"""Why a broker did not start, in one line for an operator: the cause, and what to do about it.

Only what is wrong around the broker is explained. For anything else there is no explanation, and the log shows where
it happened.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from broker.config.broker_keys import BROKER_KEYS, synonyms_of
from broker.config.kafka_config import KafkaConfig
from broker.config.keys import ConfigError, ConfigType
from controller.zk.brokers import BrokerIdInUseError
from controller.zk.session import AuthenticationFailedError, ConnectTimeoutError, SessionExpiredError
from log.errors import InconsistentMetadataError, LogError, StorageError
from log.management.log_dir import LogDirLockedError

_DISK = {errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EEXIST, errno.EDQUOT, errno.EIO}
_CONNECT = "zookeeper.connect"
_CONFIG_CURES = {
    "already registered by broker": "give this broker listeners and advertised.listeners of its own",
    "process.roles": "name ZooKeeper in zookeeper.connect, and take the keys of KRaft mode (process.roles, node.id, "
    "controller.*) out",
    "required configuration `zookeeper.connect`": "name ZooKeeper, as in zookeeper.connect=127.0.0.1:2181",
    "0.0.0.0": "name the address that clients use",
    "Unable to parse": "an entry is like PLAINTEXT://127.0.0.1:9092",
    "--override": "as in --override broker.id=1",
}


def explain(error: BaseException, config: KafkaConfig) -> str | None:
    """The line, or None for an error that nobody expects."""
    match error:
        case ConnectTimeoutError():
            return _zookeeper(config)
        case SessionExpiredError():
            return f"{error} while this broker started; start it again"
        case AuthenticationFailedError():
            return f"{error}; correct the credentials with which this broker logs in to ZooKeeper"
        case BrokerIdInUseError():
            return f"{error}; stop the other broker, or give this one a broker.id of its own"
        case ConfigError():
            return config_explained(str(error), config.originals)
        case LogDirLockedError():
            return f"{error}; stop the other broker, or give this one log.dirs of its own"
        case InconsistentMetadataError():
            return _inconsistent(str(error))
        case StorageError():
            found = list(_disk_problems(config.log_dirs))
            return "; ".join(found) if found else f"{error}; the lines above say why"
        case LogError():
            return f"{error}; move out of log.dirs what does not belong to this broker"
        case OSError():
            return _os_error(error, config)
    return None


def config_explained(text: str, properties: Mapping[str, str]) -> str:
    """Why a configuration was refused, with the values of the keys that the text names and what to do about it."""
    named = "".join(f" ({name}={value})" for name, value in _named(text, properties).items())
    for part, cure in _CONFIG_CURES.items():
        if part in text:
            return f"{text}{named}; {cure}"
    cure = "" if "cannot be honoured" in text else "; docs/configuration.md says what every key takes"
    return f"{text}{named}{cure}"


def _named(text: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The given keys that a text names, by their own names or others of their family (log.retention.hours for
    log.retention.ms), with values that it does not name; no passwords and no addresses, which may hold some."""
    return {
        name: properties[name]
        for word in dict.fromkeys(re.findall(r"[A-Za-z][\w.-]*\w", text))
        for name in (("broker.id", "node.id") if word == "broker.id" else synonyms_of(word))
        if name in properties
        and _may_be_told(name)
        and not re.search(rf"(?<!\w){re.escape(properties[name])}(?!\w)", text)
    }


def _may_be_told(name: str) -> bool:
    key = BROKER_KEYS.get(name)
    return key is not None and key.type is not ConfigType.PASSWORD and not name.endswith(".url")


def _zookeeper(config: KafkaConfig) -> str:
    servers = config.get_str(_CONNECT).partition("/")[0]
    unknown = [host for host in map(_host, servers.split(",")) if not _resolves(host)]
    if unknown:
        return f"the name of the ZooKeeper server {', '.join(unknown)} is not known; correct {_CONNECT}"
    timeout = config["zookeeper.connection.timeout.ms"] or config["zookeeper.session.timeout.ms"]
    return f"no ZooKeeper server answered at {servers} for {timeout} ms; start ZooKeeper, or correct {_CONNECT}"


def _host(server: str) -> str:
    return server.strip().rpartition(":")[0].strip("[]") or server.strip()


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        return False
    return True


def _inconsistent(text: str) -> str:
    if "belongs to cluster" in text:
        return f"{text}; correct {_CONNECT} (its chroot too), or give this broker other log.dirs"
    if "version 1" in text:
        return f"{text}; the directory is of KRaft mode, which is not served: give this broker other log.dirs"
    if "broker" in text:
        return f"{text}; correct broker.id or log.dirs"
    return f"{text}; correct the file, or give this broker other log.dirs"


def _os_error(error: OSError, config: KafkaConfig) -> str | None:
    if isinstance(error, socket.gaierror):
        return f"{error.strerror}: a host in listeners is not known; correct listeners"
    if error.errno == errno.EADDRINUSE:
        return f"{error.strerror or error}; stop what listens there, or change the port in listeners"
    if error.errno == errno.EADDRNOTAVAIL:
        return (
            f"{error.strerror or error}; listeners takes addresses of this machine, and advertised.listeners those "
            "that clients use"
        )
    if error.errno == errno.EACCES and "bind" in str(error):
        return f"{error.strerror or error}; choose a port from 1024 on in listeners"
    if error.errno in _DISK:
        found = list(_disk_problems(config.log_dirs))
        return "; ".join(found) if found else f"{error}; correct log.dirs or the rights there"
    return None


def _disk_problems(directories: Iterable[str]) -> Iterable[str]:
    """What is the matter with the log directories, as far as looking at them shows."""
    for name in directories:
        path = Path(name)
        there = next(each for each in (path, *path.absolute().parents) if each.exists())
        if not there.is_dir():
            yield f"log directory {name}: {there} is a file; correct log.dirs"
            continue
        state = os.statvfs(there)
        if state.f_flag & os.ST_RDONLY:
            yield f"log directory {name} is on a read-only file system; mount it writable, or correct log.dirs"
        elif (state.f_blocks and state.f_bavail == 0) or (state.f_files and state.f_favail == 0):
            yield f"the disk of log directory {name} is full; make room there and start again"
        elif not os.access(there, os.W_OK | os.X_OK):
            yield f"log directory {name} may not be written by user {os.geteuid()}; give it to that user"
