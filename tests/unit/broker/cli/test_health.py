"""What `cluster health` makes of a picture of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click
import pytest

from broker.cli import health
from broker.cli.errors import CommandError
from broker.cli.health import Disk, Finding, Lag, Limits, Picture, Severity, findings
from broker.cli.main import odradek
from log.topic_partition import TopicPartition
from network.client.cluster_client import ClusterClient
from network.client.cluster_metadata import BrokerAddress, ClusterMetadata, PartitionMetadata, TopicMetadata
from network.protocol.errors import ApiError, ErrorCode

LIMITS = Limits(disk_warning=85, disk_critical=95, skew_warning=10)


def partition(number: int, leader: int, replicas: list[int], isr: list[int]) -> PartitionMetadata:
    return PartitionMetadata(number, leader, 0, replicas, isr, [], ErrorCode.NONE)


def picture(*partitions: PartitionMetadata, brokers: tuple[int, ...] = (0, 1, 2), controller: int = 0) -> Picture:
    topic = TopicMetadata("t", bytes(16), False, ErrorCode.NONE, {each.partition: each for each in partitions})
    addresses = {each: BrokerAddress(each, "host", 9092) for each in brokers}
    return Picture(ClusterMetadata(addresses, controller, "id", {"t": topic}), {"t": 2})


def test_nothing_is_wrong() -> None:
    assert findings(picture(partition(0, 0, [0, 1, 2], [0, 1, 2])), LIMITS) == []


def test_the_worst_comes_first() -> None:
    found = findings(
        picture(
            partition(0, -1, [2, 1], [2]),
            partition(1, 0, [0, 1, 2], [0]),
            partition(2, 0, [0, 1, 2], [0, 1]),
            brokers=(0, 1),
            controller=2,
        ),
        LIMITS,
    )
    assert found == [
        Finding(Severity.CRITICAL, "no controller"),
        Finding(Severity.CRITICAL, "1 partition without leader: t-0"),
        Finding(Severity.CRITICAL, "1 partition under min.insync.replicas: t-1"),
        Finding(Severity.WARNING, "brokers that hold replicas and are not running: 2"),
        Finding(Severity.WARNING, "3 partitions under-replicated: t-0, t-1, t-2"),
    ]


def test_a_topic_with_few_replicas_asks_for_no_more() -> None:
    assert findings(picture(partition(0, 0, [0], [0])), LIMITS) == []


def test_brokers_that_are_awaited() -> None:
    seen = picture(partition(0, 0, [0, 1, 2], [0, 1, 2]))
    wanted = Limits(disk_warning=85, disk_critical=95, skew_warning=10, brokers=4)
    assert findings(seen, wanted) == [Finding(Severity.CRITICAL, "3 of 4 brokers run")]


def test_a_broker_that_does_not_know_all_others_yet() -> None:
    seen = picture(partition(0, 0, [0, 1, 2], [0, 1, 2]))
    seen.seen = {0: frozenset({0, 1, 2}), 1: frozenset({0, 1, 2}), 2: frozenset({2})}
    expected = [Finding(Severity.WARNING, "brokers that do not know all others: 2")]
    assert findings(seen, LIMITS) == expected
    seen.seen = dict.fromkeys(range(3), frozenset({0, 1, 2}))
    assert findings(seen, LIMITS) == []


def test_of_many_some_are_named() -> None:
    found = findings(picture(*(partition(n, 0, [0, 1, 2], [0, 1]) for n in range(7))), LIMITS)
    assert found[0].text == "7 partitions under-replicated: t-0, t-1, t-2, t-3, t-4 and 2 more"


def test_disks() -> None:
    seen = picture(partition(0, 0, [0, 1], [0, 1]))
    seen.disks = [
        Disk(0, "a", 84, 1, False),
        Disk(0, "b", 85, 1, False),
        Disk(1, "c", 95, 1, False),
        Disk(1, "d", None, None, True),
    ]
    assert [(each.severity.name, each.text) for each in findings(seen, LIMITS)] == [
        ("CRITICAL", "disk of c of broker 1 is 95 % full"),
        ("CRITICAL", "log directory d of broker 1 has failed"),
        ("WARNING", "disk of b of broker 0 is 85 % full"),
    ]


def test_leaders_that_are_not_where_they_belong() -> None:
    def skewed(away: int) -> Picture:
        return picture(*(partition(n, 1 if n < away else 0, [0, 1], [0, 1]) for n in range(10)))

    assert findings(skewed(1), LIMITS) == []
    assert findings(skewed(2), LIMITS)[0].text.startswith("20 % of the partitions are not led by")
    assert skewed(2).leaders == {0: 8, 1: 2, 2: 0}
    # A preferred replica that is out of sync cannot lead.
    assert picture(partition(0, 1, [0, 1], [1])).not_preferred == []


def test_the_largest_lag() -> None:
    seen = picture()
    assert seen.largest_lag is None
    seen.lags = [Lag(TopicPartition("t", n), 1, n) for n in (1, 5, 3)]
    assert seen.largest_lag == Lag(TopicPartition("t", 5), 1, 5)


def test_who_may_not_ask_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: object) -> None:
        raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    class Client:
        def metadata(self) -> ClusterMetadata:
            return picture(partition(0, 0, [0], [0])).metadata

    monkeypatch.setattr(health, "ongoing", forbidden)
    monkeypatch.setattr(health, "_min_isr", lambda *_: {})
    with pytest.raises(CommandError, match="needs describe"):
        health.look(cast(ClusterClient, Client()))


@pytest.mark.parametrize(
    "words", [["--no-such-option"], ["--brokers", "many"], ["-b", "no-port"], ["--profile", "none"], []]
)
def test_what_keeps_a_monitor_from_looking_is_unknown(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A monitor would take 2, as of other command lines that are wrong, for critical."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises((CommandError, click.ClickException)) as error:
        odradek.main(["cluster", "health", *words], standalone_mode=False)
    assert vars(error.value)["exit_code"] == 3
