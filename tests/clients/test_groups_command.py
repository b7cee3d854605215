"""`odradek groups` on a running broker, its groups made by confluent-kafka."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from tests.clients.group_harness import Members, group_name, names, produce
from tests.clients.offsets import committed_offsets, wait_committed
from tests.support.cluster import ROOT, Cluster, python_environment


@pytest.fixture
def odradek(cluster: Cluster) -> Callable[..., tuple[int, list[list[str]], str]]:
    """Run `odradek groups ...`: exit code, the words of each line, and standard error."""

    def run(*arguments: str) -> tuple[int, list[list[str]], str]:
        command = [sys.executable, "-m", "broker", "groups", *arguments, "-b", cluster.bootstrap]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=python_environment(), timeout=60, check=False
        )
        return done.returncode, [line.split() for line in done.stdout.splitlines()], done.stderr

    return run


def test_the_life_of_a_group(
    cluster: Cluster,
    members: Members,
    create_topic: Callable[..., str],
    odradek: Callable[..., tuple[int, list[list[str]], str]],
) -> None:
    topic, group = create_topic(2), group_name()
    member = members.add("confluent", group, topic)
    members.wait_values(produce(cluster, topic, 20, 2))
    wait_committed(cluster, group, topic, 2, 10)

    assert [group] in odradek("list")[1]
    assert [group, "classic", "Stable"] in odradek("list", "--state")[1]
    assert [group, "classic", "Stable"] not in odradek("list", "--in-state", "empty")[1]
    code, lines, error = odradek("describe", group)
    assert (code, error) == (0, "")
    assert lines[0][:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert [line[:6] for line in lines[1:]] == [[group, topic, str(n), "10", "10", "0"] for n in (0, 1)]
    assert lines[1][7:] == ["/127.0.0.1", "rdkafka"]
    (_, row) = odradek("describe", group, "--members", "--verbose")[1]
    assert row[-2:] == ["2", f"{topic}(0,1)"]
    (_, row) = odradek("describe", group, "--state")[1]
    assert row == [group, cluster.brokers[0].address, "(0)", "range", "Stable", "1"]

    # Nothing of a living group is changed.
    code, _, error = odradek("reset-offsets", group, "--topic", topic, "--to-earliest", "--execute")
    assert (code, "Stable" in error) == (1, True)
    assert odradek("delete", group)[0] == 1
    code, lines, _ = odradek("delete-offsets", group, "--topic", topic)
    assert (code, len([line for line in lines if any("GROUP_SUBSCRIBED_TO_TOPIC" in word for word in line)])) == (1, 2)

    member.leave()
    code, lines, error = odradek("reset-offsets", group, "--topic", f"{topic}:1", "--to-offset", "4")
    assert (code, lines[1]) == (0, [group, topic, "1", "4"])
    assert "Nothing was changed" in error
    assert committed_offsets(cluster, group) == {(topic, 0): 10, (topic, 1): 10}
    assert odradek("reset-offsets", group, "--topic", f"{topic}:1", "--to-offset", "4", "--execute")[0] == 0
    assert odradek("reset-offsets", group, "--topic", f"{topic}:0", "--shift-by", "-3", "--execute")[0] == 0
    assert committed_offsets(cluster, group) == {(topic, 0): 7, (topic, 1): 4}
    rows = [line for line in odradek("describe", group)[1] if line[1:2] == [topic]]
    assert [(row[3], row[5]) for row in rows] == [("7", "3"), ("4", "6")]
    assert odradek("reset-offsets", group, "--all-topics", "--shift-by", "100", "--execute")[0] == 0
    assert committed_offsets(cluster, group) == {(topic, 0): 10, (topic, 1): 10}
    assert odradek("reset-offsets", group, "--all-topics", "--by-duration", "PT1H", "--execute")[0] == 0
    assert committed_offsets(cluster, group) == {(topic, 0): 0, (topic, 1): 0}
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 3_600))
    assert odradek("reset-offsets", group, "--all-topics", "--to-datetime", soon, "--execute")[0] == 0
    assert committed_offsets(cluster, group) == {(topic, 0): 10, (topic, 1): 10}

    code, lines, _ = odradek("delete-offsets", group, "--topic", f"{topic}:0")
    assert (code, lines[1]) == (0, [topic, "0", "deleted"])
    assert committed_offsets(cluster, group) == {(topic, 1): 10}
    assert odradek("delete", group) == (0, [["Deleted", "group", f"{group}."]], "")
    code, _, error = odradek("describe", group)
    assert (code, "no such group" in error) == (1, True)
    code, _, error = odradek("delete", group)
    assert (code, "GROUP_ID_NOT_FOUND" in error) == (1, True)


def test_a_reset_of_a_new_group_makes_it(
    cluster: Cluster,
    members: Members,
    create_topic: Callable[..., str],
    odradek: Callable[..., tuple[int, list[list[str]], str]],
) -> None:
    topic, group = create_topic(2), group_name()
    values = produce(cluster, topic, 20, 2)
    assert odradek("reset-offsets", group, "--topic", topic, "--to-latest", "--execute")[0] == 0
    member = members.add("confluent", group, topic)
    members.wait_balanced([member], names(topic, 2))
    new = produce(cluster, topic, 4, 2)
    members.wait_values(new)
    assert not {record[3] for record in member.records} & set(values)


def test_wrong_options_end_with_2(odradek: Callable[..., tuple[int, list[list[str]], str]]) -> None:
    for arguments in (["--to-earliest"], ["--topic", "t"], ["--topic", "t", "--to-earliest", "--to-latest"]):
        code, _, error = odradek("reset-offsets", "g", *arguments)
        assert (code, bool(re.search("give ", error))) == (2, True)
