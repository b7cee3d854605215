"""The pytest plugin: brokers for tests.

Fixtures: `kafka` (one broker for the whole session, shared by xdist's workers), `kafka_topic` (a topic of the test's
own on it), `kafka_cluster` (three brokers of the test's own, to be killed and paused). The marker
``@pytest.mark.kafka(brokers=2, config={...}, security="SASL_SSL")`` asks for another cluster; tests with equal markers
share one. `kafka.client_config` is what clients of it need.

pytest imports this module at every start, so what a cluster needs is imported by the fixtures.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from odradek.cluster import Cluster

# name of the option and of the ini key -> (default, help)
_OPTIONS = {
    "kafka_zookeeper": (
        "embedded",
        "ZooKeeper of the fixtures' clusters: embedded, java, or HOST:PORT of a running one",
    ),
    "kafka_data_dir": ("", "directory that keeps the data of the session's clusters; temporary without it"),
    "kafka_log_level": ("INFO", "log level of the brokers: DEBUG, INFO, WARNING or ERROR"),
}
_SECURITY = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MARKER = (
    "kafka(brokers=1, config={}, security='PLAINTEXT'): the cluster that `kafka` and `kafka_topic` (default: one "
    "broker) or `kafka_cluster` (default: three) stand for in this test"
)
# So much of a broker's log goes into the report of a failed test, from its end.
_REPORT_BYTES = 32_768
_NAME_LENGTH = 200
_CLUSTERS = pytest.StashKey["dict[int, _Watched]"]()


class Settings(NamedTuple):
    """What a marker asks for."""

    brokers: int = 1
    config: tuple[tuple[str, str], ...] = ()
    security: str = _SECURITY[0]

    @classmethod
    def of(cls, marker: pytest.Mark | None, brokers: int) -> Settings:
        """Raises UsageError for a marker that is wrong."""
        if marker is None:
            return cls(brokers)
        unknown = set(marker.kwargs) - {"brokers", "config", "security"}
        if marker.args or unknown:
            raise pytest.UsageError(
                "@pytest.mark.kafka takes brokers=..., config=... and security=..., not "
                f"{', '.join(sorted(unknown)) or marker.args}"
            )
        security = marker.kwargs.get("security", _SECURITY[0])
        if security not in _SECURITY:
            raise pytest.UsageError(
                f"@pytest.mark.kafka(security=...) is one of {', '.join(_SECURITY)}, not {security!r}"
            )
        config = marker.kwargs.get("config") or {}
        texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in config.items()}
        return cls(int(marker.kwargs.get("brokers", brokers)), tuple(sorted(texts.items())), security)


class _Watched(NamedTuple):
    """A cluster whose logs belong to the report of a test that fails; where the test began in each."""

    cluster: Cluster
    starts: dict[int, int]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "Kafka brokers for tests (odradek)")
    for name, (default, text) in _OPTIONS.items():
        group.addoption(f"--{name.replace('_', '-')}", dest=name, default=None, help=text)
        parser.addini(name, text, default=default)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)
    config.stash[_CLUSTERS] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A marked test gets the session's cluster of these settings: pytest keeps tests with equal ones together."""
    marker = metafunc.definition.get_closest_marker("kafka")
    if marker is not None and "kafka" in metafunc.fixturenames:
        try:
            settings = Settings.of(marker, 1)
        except pytest.UsageError as error:
            raise pytest.fail.Exception(f"{metafunc.definition.name}: {error}", pytrace=False) from None
        hidden = getattr(pytest, "HIDDEN_PARAM", f"{settings.brokers}-brokers")
        metafunc.parametrize("kafka", [settings], indirect=True, scope="session", ids=[hidden])


# ---------------------------------------------------------------------- fixtures


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker for the whole session, an `odradek.Cluster`: `kafka.bootstrap_servers` is what clients need, or
    `kafka.client_config`."""
    from odradek.shared import SharedCluster

    settings: Settings = getattr(request, "param", Settings())
    directory = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        directory = directory.parent  # of all of xdist's workers
    name = _name_of(settings)
    data = _option(request.config, "kafka_data_dir")
    cluster = SharedCluster(
        directory,
        name,
        settings.brokers,
        dict(settings.config),
        zookeeper=_option(request.config, "kafka_zookeeper"),
        data_dir=request.config.rootpath / data / name if data else None,
        log_level=_option(request.config, "kafka_log_level"),
        security=settings.security,
    )
    with cluster, _Reported(request.config, cluster, from_now=cluster.was_running):
        yield cluster


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest, kafka: Cluster) -> Iterator[str]:
    """The name of a topic that nobody else uses, deleted when the test is over."""
    from odradek.errors import ClusterError

    name = f"{re.sub('[^A-Za-z0-9._-]+', '-', request.node.name)[:_NAME_LENGTH]}-{secrets.token_hex(4)}"
    kafka.create_topic(name, -1)  # as many partitions as num.partitions of the marker's config says
    yield name
    try:
        kafka.delete_topic(name)
    except ClusterError as error:
        if "UNKNOWN_TOPIC_OR_PARTITION" not in str(error):  # the test has deleted it itself
            raise


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers of the test's own, to be killed, paused and started again."""
    from odradek.cluster import Cluster

    settings = Settings.of(request.node.get_closest_marker("kafka"), 3)
    cluster = Cluster(
        settings.brokers,
        dict(settings.config),
        zookeeper=_option(request.config, "kafka_zookeeper"),
        log_level=_option(request.config, "kafka_log_level"),
        security=settings.security,
    )
    with cluster, _Reported(request.config, cluster, from_now=False):
        yield cluster


def _option(config: pytest.Config, name: str) -> str:
    given = config.getoption(name)
    return str(config.getini(name) if given is None else given)


def _name_of(settings: Settings) -> str:
    """The same in every worker."""
    import hashlib

    if settings == Settings():
        return "kafka"
    return "kafka-" + hashlib.sha256(repr(tuple(settings)).encode()).hexdigest()[:12]


# ---------------------------------------------------------------------- reports


class _Reported:
    """Within the block the cluster's logs belong to the reports of tests that fail."""

    def __init__(self, config: pytest.Config, cluster: Cluster, *, from_now: bool) -> None:
        self._clusters = config.stash[_CLUSTERS]
        self._cluster = cluster
        self._from_now = from_now

    def __enter__(self) -> None:
        watched = _Watched(self._cluster, {})
        self._clusters[id(self._cluster)] = watched
        if self._from_now:
            _begin(watched)

    def __exit__(self, *_: object) -> None:
        del self._clusters[id(self._cluster)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for watched in item.config.stash[_CLUSTERS].values():
        _begin(watched)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        for watched in item.config.stash[_CLUSTERS].values():
            for broker in range(watched.cluster.brokers):
                text = _since(watched.cluster.log_file(broker), watched.starts.get(broker, 0))
                if text:
                    report.sections.append((f"log of Kafka broker {broker}", text))
            _begin(watched)


def _begin(watched: _Watched) -> None:
    """What comes from here on is the test's."""
    for broker in range(watched.cluster.brokers):
        path = watched.cluster.log_file(broker)
        watched.starts[broker] = path.stat().st_size if path.exists() else 0


def _since(path: Path, start: int) -> str:
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(start, end - _REPORT_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
