"""The operator's commands on four real brokers in two racks, beside Kafka's own tools (about 2 minutes)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker.cli.errors import CommandError
from broker.cli.main import odradek
from broker.dev.waiting import wait_until
from network.cluster_metadata import PartitionMetadata
from network.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.reference import kafka
from tests.support.cluster import CLOCK, Cluster, running_cluster

RACKS = {0: "left", 1: "left", 2: "right", 3: "right"}
WAIT_MS = 60_000
ELECTION_TOOL = "org.apache.kafka.tools.LeaderElectionCommand"


@pytest.fixture(scope="module")
def cluster(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false"}
    with running_cluster(
        ["odradek"] * len(RACKS),
        tmp_path_factory.mktemp("operator"),
        f"{zookeeper}/operator",
        settings,
        {broker: {"broker.rack": rack} for broker, rack in RACKS.items()},
    ) as cluster:
        yield cluster


def run(cluster: Cluster, *words: object) -> Result:
    """`odradek WORDS` with its output; a CommandError comes out."""
    arguments = [str(word) for word in words] + ["--bootstrap-server", cluster.bootstrap]
    return CliRunner().invoke(odradek, arguments, catch_exceptions=False)


def output(cluster: Cluster, *words: object) -> str:
    """What a command that succeeds prints."""
    result = run(cluster, *words)
    assert result.exit_code == 0, result.output
    return result.output


def create(cluster: Cluster, topic: str, replicas: list[list[int]], **configs: str) -> None:
    """A topic with replicas by hand."""
    wanted = CreatableTopic(
        name=topic,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in enumerate(replicas)],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    with cluster.client() as client:
        (result,) = client.call_controller(CreateTopicsRequest(topics=[wanted], timeout_ms=15_000)).topics
    assert result.error_code == 0, result.error_message


def partitions(cluster: Cluster, topic: str) -> dict[int, PartitionMetadata]:
    with cluster.client() as client:
        return client.topic(topic, refresh=True).partitions


def wait_for(cluster: Cluster, topic: str, condition: Callable[[dict[int, PartitionMetadata]], bool]) -> None:
    """Until the metadata of a topic is so."""
    seen: list[object] = []

    def holds() -> bool:
        seen[:] = [partitions(cluster, topic)]
        return condition(seen[0])  # type: ignore[arg-type]

    assert wait_until(holds, CLOCK, WAIT_MS), seen


def move_leader_away(cluster: Cluster, topic: str) -> None:
    """Restart the broker that leads, so that another one does."""
    leader = cluster.brokers[partitions(cluster, topic)[0].leader]
    leader.stop()
    leader.start()
    cluster.wait_ready()
    wait_for(cluster, topic, lambda found: len(found[0].isr) == len(found[0].replicas))
    assert partitions(cluster, topic)[0].leader != leader.broker_id


# -- brokers list, elect-leaders -------------------------------------------------------------------------------------


def test_brokers_are_listed_with_what_they_hold(cluster: Cluster) -> None:
    create(cluster, "held", [[1, 2]])
    wait_for(cluster, "held", lambda found: set(found[0].isr) == {1, 2})
    rows = [line.split() for line in output(cluster, "brokers", "list").splitlines()]
    assert rows[0][:3] == ["BROKER", "ADDRESS", "RACK"]
    assert [row[:3] for row in rows[1:]] == [
        [str(broker.broker_id), broker.address, RACKS[broker.broker_id]] for broker in cluster.brokers
    ]
    assert sum("controller" in row for row in rows) == 1


def test_preferred_leaders_by_our_command_and_by_kafkas(cluster: Cluster, tmp_path: Path) -> None:
    create(cluster, "elected", [[3, 1]])
    create(cluster, "steady", [[0, 1]])
    wait_for(cluster, "elected", lambda found: set(found[0].isr) == {1, 3})
    assert output(cluster, "elect-leaders", "--topic", "elected") == "No election was needed for elected-0.\n"
    file = tmp_path / "elections.json"
    file.write_text(json.dumps({"partitions": [{"topic": name, "partition": 0} for name in ("elected", "steady")]}))

    move_leader_away(cluster, "elected")
    text = output(cluster, "elect-leaders", "--path-to-json", file)
    assert text == "Elected preferred leaders of elected-0.\nNo election was needed for steady-0.\n"
    wait_for(cluster, "elected", lambda found: found[0].leader == 3)

    move_leader_away(cluster, "elected")
    done = kafka.run_tool(
        ELECTION_TOOL, "--bootstrap-server", cluster.bootstrap, "--election-type", "preferred",
        "--path-to-json-file", str(file),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Successfully completed leader election (PREFERRED) for partitions elected-0" in done.stdout
    assert "Valid replica already elected for partitions steady-0" in done.stdout
    wait_for(cluster, "elected", lambda found: found[0].leader == 3)

    with pytest.raises(CommandError, match=r"none-0: .*UNKNOWN_TOPIC_OR_PARTITION"):
        run(cluster, "elect-leaders", "--topic", "none", "--partition", 0)
    output(cluster, "elect-leaders", "--all")
    assert output(cluster, "elect-leaders", "--all") == "No election was needed.\n"


def test_an_unclean_election_brings_a_leader_back(cluster: Cluster) -> None:
    """The only replica in sync dies; the other one leads once somebody decides so."""
    create(cluster, "unclean", [[3, 2]])
    wait_for(cluster, "unclean", lambda found: set(found[0].isr) == {2, 3})
    first, second = cluster.brokers[3], cluster.brokers[2]
    second.stop()
    wait_for(cluster, "unclean", lambda found: found[0].isr == [3])
    first.stop()
    second.start()
    cluster.wait_ready()
    wait_for(cluster, "unclean", lambda found: found[0].leader == -1)
    try:
        with pytest.raises(CommandError, match=r"unclean-0: .*PREFERRED_LEADER_NOT_AVAILABLE"):
            run(cluster, "elect-leaders", "--topic", "unclean", "--partition", 0)
        text = output(cluster, "elect-leaders", "--type", "unclean", "--topic", "unclean", "--partition", 0)
        assert text == "Elected unclean leaders of unclean-0.\n"
        wait_for(cluster, "unclean", lambda found: found[0].leader == 2)
    finally:
        first.start()
        cluster.wait_ready()
    wait_for(cluster, "unclean", lambda found: set(found[0].isr) == {2, 3})
