"""The operator's commands over the protocol, on both kinds of broker."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from log.records.old_formats import iter_entries
from tests.support import wire
from tests.support.cluster import Cluster
from tests.support.commands import Done, eventually, run


def odradek(cluster: Cluster, *arguments: str, code: int = 0) -> Done:
    done = run(*arguments, environment={"ODRADEK_BOOTSTRAP_SERVERS": cluster.bootstrap})
    assert done.code == code, done
    return done


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """Two partitions; ten records in the first, none in the second."""
    name = wire.create_topic(cluster, partitions=2)
    lines = "".join(f"{number}\n" for number in range(10)).encode()
    done = run("produce", name, "--partition", "0", "-b", cluster.bootstrap, "--json", stdin=lines)
    assert done.json == [{"topic": name, "records": 10}]
    return name


def test_api_versions(cluster: Cluster) -> None:
    rows = {row["api"]: row for row in odradek(cluster, "api-versions", "--json").json}
    assert rows["Produce"] == {"key": 0, "api": "Produce", "brokers": "0", "min": 0, "max": 11, "usable": 11}
    assert rows["Fetch"]["usable"] == 17
    table = odradek(cluster, "api-versions", "--broker", "0").out.splitlines()
    assert table[0].split() == ["KEY", "API", "BROKERS", "MIN", "MAX", "USABLE"]
    assert len(table) == len(rows) + 1
    assert "there is no broker 7; those that run: 0" in odradek(cluster, "api-versions", "--broker", "7", code=1).err


def test_get_offsets(cluster: Cluster, topic: str) -> None:
    def offsets(*arguments: str) -> list[tuple[int, int | None]]:
        return [(row["partition"], row["offset"]) for row in odradek(cluster, "get-offsets", "--json", *arguments).json]

    assert offsets("--topic", topic) == [(0, 10), (1, 0)]
    assert offsets("--topic", topic, "--partitions", "0") == [(0, 10)]
    assert offsets("--topic-partitions", f"{topic}:1-") == [(1, 0)]
    assert offsets("--topic-partitions", f"{topic}:-1") == [(0, 10)]
    assert offsets("--topic", topic, "--time", "earliest") == [(0, 0), (1, 0)]
    latest, none = offsets("--topic", topic, "--time", "-3")
    # The first record of the last millisecond in which they were made.
    assert latest in [(0, offset) for offset in range(10)]
    assert none == (1, None)
    assert offsets("--topic", topic, "--time", str(2**53)) == [(0, None), (1, None)]
    assert "no partition matches" in odradek(cluster, "get-offsets", "--topic", "no-such", code=1).err
    assert "--time 'noon'" in odradek(cluster, "get-offsets", "--time", "noon", code=2).err


def test_delete_records(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    shown = odradek(cluster, "delete-records", f"{topic}:0:4", "--dry-run", "--json").json
    assert shown == [{"topic": topic, "partition": 0, "first_offset": 0, "new_first_offset": 4}]
    assert odradek(cluster, "get-offsets", "--topic", topic, "--time", "earliest", "--json").json[0]["offset"] == 0
    deleted = odradek(cluster, "delete-records", f"{topic}:0:4", "--json").json
    assert deleted == [{"topic": topic, "partition": 0, "low_watermark": 4}]
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": -1}], "version": 1}))
    assert odradek(cluster, "delete-records", "--offset-json-file", str(file), "--json").json[0]["low_watermark"] == 10
    assert "OFFSET_OUT_OF_RANGE" in odradek(cluster, "delete-records", f"{topic}:0:11", code=1).err
    assert f"there is no partition {topic}-9" in odradek(cluster, "delete-records", f"{topic}:9:0", code=1).err
    assert "is not TOPIC:PARTITION:OFFSET" in odradek(cluster, "delete-records", topic, code=2).err


def test_log_dirs(cluster: Cluster, topic: str) -> None:
    (directory,) = odradek(cluster, "log-dirs", "--topic-list", topic, "--json").json
    assert directory["log_dir"] == str(cluster.brokers[0].data)
    assert directory["error"] is None
    assert 0 < directory["usable_bytes"] < directory["total_bytes"]
    assert [(each["partition"], each["size"] > 0) for each in directory["partitions"]] == [
        (f"{topic}-0", True),
        (f"{topic}-1", False),
    ]
    table = odradek(cluster, "log-dirs", "--topic-list", topic, "--replicas").out.splitlines()
    assert [line.split()[2] for line in table] == ["PARTITION", f"{topic}-0", f"{topic}-1"]
    assert "there is no broker 7; those that run: 0" in odradek(cluster, "log-dirs", "--broker-list", "0,7", code=1).err


def test_configs_of_a_topic(cluster: Cluster, topic: str) -> None:
    def own() -> dict[str, str]:
        rows = odradek(cluster, "configs", "describe", "--topic", topic, "--json").json
        assert all(row["source"] == "DYNAMIC_TOPIC_CONFIG" for row in rows)
        return {row["key"]: row["value"] for row in rows}

    target = ["--entity-type", "topics", "--entity-name", topic]
    diff = odradek(cluster, "configs", "set", *target, "segment.bytes=20000", "cleanup.policy=compact", "--dry-run")
    assert diff.out.splitlines() == [
        "- segment.bytes=1073741824  (not set here)",
        "+ segment.bytes=20000",
        "- cleanup.policy=delete  (not set here)",
        "+ cleanup.policy=compact",
        f"Nothing was changed in topic {topic}.",
    ]
    assert own() == {}
    policy = ["--add-config", "cleanup.policy=[compact,delete]"]
    odradek(cluster, "configs", "set", *target, "segment.bytes=20000", *policy)
    eventually(lambda: own() == {"segment.bytes": "20000", "cleanup.policy": "compact,delete"})
    deleted = odradek(cluster, "configs", "delete", *target, "segment.bytes", "--dry-run").out
    assert deleted.startswith("- segment.bytes=20000\n+ segment.bytes=1073741824  (not set here)\n")
    odradek(cluster, "configs", "delete", *target, "--delete-config", "segment.bytes,cleanup.policy")
    eventually(lambda: own() == {})
    every = odradek(cluster, "configs", "describe", *target, "--all", "--output", "yaml").out
    assert {row["key"] for row in yaml.safe_load(every)} >= {"retention.ms", "segment.bytes"}


def test_a_change_that_is_wrong_in_one_key_changes_nothing(cluster: Cluster, topic: str) -> None:
    wrong = odradek(cluster, "configs", "set", "--topic", topic, "retention.ms=5", "segment.bytes=1", code=1)
    assert "segment.bytes" in wrong.err
    assert wrong.err.count("\n") == 1
    assert odradek(cluster, "configs", "describe", "--topic", topic, "--json").json == []
    assert "Unknown topic config name: no.such" in odradek(
        cluster, "configs", "set", "--topic", topic, "no.such=1", "--dry-run", code=1
    ).err  # fmt: skip
    missing = odradek(cluster, "configs", "describe", "--topic", "not-there", code=1).err
    assert missing.startswith("odradek: topic not-there does not exist")


def test_configs_of_brokers_and_loggers(cluster: Cluster) -> None:
    for target, source in (
        (["--broker", "0"], "DYNAMIC_BROKER_CONFIG"),
        (["--entity-type", "brokers", "--entity-default"], "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    ):
        odradek(cluster, "configs", "set", *target, "log.cleaner.backoff.ms=14000")

        def found(target: list[str] = target) -> list[tuple[str, str]]:
            rows = odradek(cluster, "configs", "describe", *target, "--json").json
            return [(row["value"], row["source"]) for row in rows if row["key"] == "log.cleaner.backoff.ms"]

        eventually(lambda found=found, source=source: found() == [("14000", source)])  # type: ignore[misc]
        odradek(cluster, "configs", "delete", *target, "log.cleaner.backoff.ms")
        eventually(lambda found=found: found() == [])  # type: ignore[misc]
    odradek(cluster, "configs", "set", "--broker-logger", "0", "kafka.server.KafkaApis=ERROR")
    rows = odradek(cluster, "configs", "describe", "--broker-logger", "0", "--json").json
    assert {row["key"]: row["value"] for row in rows}["kafka.server.KafkaApis"] == "ERROR"


def test_entities_that_leave_something_open(cluster: Cluster) -> None:
    for arguments, text in (
        (["describe"], "give --entity-type"),
        (["set", "--entity-type", "topics", "a=b"], "changes are for one entity, not for all topics"),
        (["set", "--topic", "t"], "nothing to set"),
        (["set", "--topic", "t", "a"], "is not KEY=VALUE"),
        (["describe", "--topic", "t", "--broker", "0"], "only one user and one client"),
        (["describe", "--entity-type", "topics", "--entity-default"], "topics have no default entity"),
        (["describe", "--broker", "x"], "'x' is no number"),
        (["set", "--user", "u", "producer_byte_rate=much"], "a quota is a number"),
        (["set", "--user", "u", "SCRAM-SHA-256=[password=secret]"], "credentials are set with `odradek users set`"),
    ):
        done = odradek(cluster, "configs", *arguments, code=2)
        assert text in done.err
        assert "secret" not in done.err


def test_quotas_are_described(cluster: Cluster) -> None:
    for kind in ("users", "clients", "ips"):
        assert odradek(cluster, "configs", "describe", "--entity-type", kind, "--json").json == []
    both = ["--entity-type", "users", "--entity-name", "u", "--entity-type", "clients", "--entity-name", "c"]
    assert odradek(cluster, "configs", "describe", *both, "--json").json == []


QUOTAS: dict[str, tuple[list[str], str, str]] = {
    "a user": (["--user", "quinn"], "user quinn", "producer_byte_rate=2048"),
    "a client": (["--client", "app"], "client-id app", "request_percentage=25"),
    "an ip": (["--ip", "127.0.0.9"], "ip 127.0.0.9", "connection_creation_rate=100"),
    "a client of a user": (
        ["--user", "quinn", "--client", "app"], "user quinn, client-id app", "consumer_byte_rate=4096",
    ),
    "users": (["--user-defaults"], "the default user", "controller_mutation_rate=50"),
    "clients": (["--entity-type", "clients", "--entity-default"], "the default client-id", "consumer_byte_rate=1e9"),
    "ips": (["--ip-defaults"], "the default ip", "connection_creation_rate=1000"),
    "all clients of a user": (
        ["--user", "quinn", "--client-defaults"], "user quinn, the default client-id", "producer_byte_rate=1e9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("whose", QUOTAS)
def test_quotas(cluster: Cluster, whose: str) -> None:
    """Shown before they hold, changed, shown, and taken away again; other entities are not touched."""
    target, name, pair = QUOTAS[whose]
    key, _, number = pair.partition("=")
    value = str(int(float(number)))

    def rows() -> list[tuple[str, str, str]]:
        found = odradek(cluster, "configs", "describe", *target, "--json").json
        return [(row["entity"], row["key"], row["value"]) for row in found]

    def everything() -> list[object]:
        return [
            odradek(cluster, "configs", "describe", "--entity-type", kind, "--json").json
            for kind in ("users", "clients", "ips")
        ]

    before = everything()
    shown = odradek(cluster, "configs", "set", *target, pair, "--dry-run").out.splitlines()
    assert shown[0] == f"+ {pair}"
    assert shown[1].startswith("Nothing was changed in ")
    assert rows() == []
    odradek(cluster, "configs", "set", *target, pair)
    eventually(lambda: rows() == [(name, key, value)])
    assert odradek(cluster, "configs", "set", *target, f"{key}=7", "--dry-run").out.splitlines()[:2] == [
        f"- {key}={value}",
        f"+ {key}=7",
    ]
    (change,) = odradek(cluster, "configs", "delete", *target, key, "--dry-run", "--json").json
    assert (change["before"], change["after"], change["applied"]) == (value, None, False)
    assert rows() == [(name, key, value)]
    odradek(cluster, "configs", "delete", *target, key)
    eventually(lambda: rows() == [])
    assert everything() == before


def test_quotas_that_are_none(cluster: Cluster) -> None:
    for arguments, text in (
        (["--user", "quinn", "no_such_rate=1"], "no_such_rate"),
        (["--ip", "no.such.host.invalid", "connection_creation_rate=1"], "no.such.host.invalid"),
        (["--client", "app", "connection_creation_rate=1"], "connection_creation_rate"),
    ):
        done = odradek(cluster, "configs", "set", *arguments, code=1)
        assert text in done.err
        assert done.err.count("\n") == 1
    assert odradek(cluster, "configs", "describe", "--user", "quinn", "--json").json == []


def test_what_the_cluster_is_and_how_it_is(cluster: Cluster, topic: str) -> None:
    facts = odradek(cluster, "cluster", "describe", "--json").json
    assert facts["controller"] == 0
    (broker,) = facts["brokers"]
    assert (broker["broker"], f"{broker['host']}:{broker['port']}") == (0, cluster.bootstrap)
    identity = odradek(cluster, "cluster", "cluster-id").out
    assert identity == f"Cluster ID: {facts['cluster_id']}\n"
    no_disk = ["--disk-warning", "101", "--disk-critical", "101"]
    health = odradek(cluster, "cluster", "health", *no_disk, "--json").json
    assert (health["status"], health["offline"], health["under_replicated"]) == ("OK", [], [])
    assert health["partitions"] == facts["partitions"]
    screen = odradek(cluster, "cluster", "health", *no_disk).out
    assert re.search(r"^Status: +OK$", screen, re.MULTILINE)
    assert re.search(r"^Brokers: +1 running$", screen, re.MULTILINE)
    full = odradek(cluster, "cluster", "health", "--disk-warning", "1", "--disk-critical", "1", code=2)
    assert re.search(r"^CRITICAL: disk of .* of broker 0 is \d+ % full$", full.out, re.MULTILINE)


def test_a_load_and_what_it_left(cluster: Cluster) -> None:
    topic = wire.create_topic(cluster, partitions=2)
    sent = odradek(cluster, "bench", "produce", "--topic", topic, "--num-records", "500", "--json").json
    assert (sent["records"], sent["topic"]) == (500, topic)
    assert 0 < sent["latency_ms"]["p50"] <= sent["latency_ms"]["p99"] <= sent["latency_ms"]["max"]
    paced = ["--num-records", "40", "--throughput", "100", "--record-size", "10", "--producer-props", "acks=1"]
    line = odradek(cluster, "bench", "produce", "--topic", topic, *paced).out
    rate = re.match(r"40 records sent, ([\d.]+) records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, ", line)
    assert rate is not None
    assert float(rate[1]) <= 103  # 40 are due after 390 ms
    received = odradek(cluster, "bench", "consume", "--topic", topic, "--messages", "540", "--json").json
    assert received["records"] == 540
    few = odradek(cluster, "bench", "consume", "--topic", topic, "--messages", "541", "--timeout", "600", code=1)
    assert few.err == "odradek: only 540 of 541 records came\n"


LOADS = {
    "one request at a time": ["--in-flight", "1"],
    "many at a time, compressed": ["--in-flight", "20", "--compression", "zstd", "--acks", "1"],
    "unanswered": ["--acks", "0"],
    "as Kafka's tool is told": ["--producer-props", "acks=all,linger.ms=5,max.in.flight.requests.per.connection=2"],
}


@pytest.mark.parametrize("how", LOADS)
def test_loads_arrive_whole(cluster: Cluster, how: str) -> None:
    topic = wire.create_topic(cluster, partitions=3)
    small = ["--num-records", "600", "--record-size", "100", "--producer-props", "batch.size=1160"]
    sent = odradek(cluster, "bench", "produce", "--topic", topic, *small, *LOADS[how], "--json").json
    assert sent["records"] == 600
    for fetches in ("1", "16"):
        consume = ["--topic", topic, "--messages", "600", "--fetch-size", "1000", "--in-flight", fetches]
        assert odradek(cluster, "bench", "consume", *consume, "--json").json["records"] == 600
    ends = [wire.list_offset(cluster.brokers[0], topic, -1, partition=number).offset for number in range(3)]
    assert ends == [200, 200, 200]


def test_a_batch_waits_for_records(cluster: Cluster) -> None:
    """Of a thousand records a second some fifty are due within 50 ms: they go together, however fast the machine is."""
    topic = wire.create_topic(cluster)
    paced = ["--num-records", "200", "--throughput", "1000", "--record-size", "10", "--linger", "50"]
    odradek(cluster, "bench", "produce", "--topic", topic, *paced)
    data = wire.fetch(cluster.brokers[0], topic, 0).records
    batches = list(iter_entries(bytes(data or b"")))  # type: ignore[arg-type]
    assert batches[-1].last_offset == 199
    assert len(batches) <= 5


@pytest.mark.parametrize(
    ("wrong", "text"),
    {
        "acks=7": "acks=7 is none of",
        "linger.ms=-1": "linger.ms=-1 is no number of milliseconds",
        "max.in.flight.requests.per.connection=0": "per.connection=0 is no number from 1 to 100",
        "retries=3": "--producer-props retries is not known",
    }.items(),
)
def test_loads_that_cannot_be(cluster: Cluster, wrong: str, text: str) -> None:
    done = odradek(cluster, "bench", "produce", "--topic", "any", "--producer-props", wrong, code=2)
    assert text in done.err


def test_forms(cluster: Cluster, topic: str) -> None:
    assert {"topic": topic, "internal": False} in odradek(cluster, "topics", "list", "--json").json
    (described,) = yaml.safe_load(odradek(cluster, "topics", "describe", topic, "--output", "yaml").out)
    assert described["topic"] == topic
    assert described["partitions"][1] == {
        "partition": 1, "leader": 0, "replicas": [0], "isr": [0], "offline_replicas": [],
    }  # fmt: skip
    lines = odradek(cluster, "consume", topic, "--from-beginning", "--max", "10", "--json").out.splitlines()
    assert [(json.loads(line)["offset"], json.loads(line)["value"]) for line in lines] == [
        (n, str(n)) for n in range(10)
    ]
    (broker,) = odradek(cluster, "brokers", "list", "--json").json
    assert (broker["broker"], broker["role"]) == (0, "controller")
    assert odradek(cluster, "reassign", "list", "--json").json == []
    assert odradek(cluster, "transactions", "list", "--json").json == []


# -- what is named and is not there: a command says which, does the rest, and ends with 1 -----------------------------

UNKNOWN = "(UNKNOWN_TOPIC_OR_PARTITION); `odradek topics list` shows the topics"


def refused(cluster: Cluster, *arguments: str) -> Done:
    done = odradek(cluster, *arguments, code=1)
    assert done.err.count("\n") == 1, done
    return done


def test_topics_that_are_not_there(cluster: Cluster, topic: str) -> None:
    described = refused(cluster, "topics", "describe", topic, "none-1", "none-2", "--json")
    assert described.err == f"odradek: there is no topic none-1, none-2 {UNKNOWN}\n"
    assert [each["topic"] for each in described.json] == [topic]
    altered = refused(cluster, "topics", "alter", "none-1", "--partitions", "2")
    assert altered.err.startswith("odradek: there is no topic or partition none-1 ")
    deleted = refused(cluster, "topics", "delete", "none-1")
    assert deleted.err.startswith("odradek: none-1: there is no such topic")
    directories = refused(cluster, "log-dirs", "--topic-list", f"{topic},none-1", "--json")
    assert directories.err == f"odradek: there is no topic none-1 {UNKNOWN}\n"
    assert [[each["partition"] for each in row["partitions"]] for row in directories.json] == [
        [f"{topic}-0", f"{topic}-1"]
    ]
    alone = refused(cluster, "log-dirs", "--topic-list", "none-1")
    assert (alone.out, alone.err) == ("", directories.err)


def test_partitions_that_are_not_there(cluster: Cluster, topic: str) -> None:
    def unmatched(*arguments: str, shown: list[int]) -> str:
        done = refused(cluster, "get-offsets", *arguments, "--json")
        assert [row["partition"] for row in done.json] == shown
        before, _, cure = done.err.partition("; ")
        assert cure == "`odradek topics describe` shows topics and partitions\n"
        return before.removeprefix("odradek: no partition matches ")

    assert unmatched("--topic", topic, "--partitions", "0,7", shown=[0]) == f"{topic}:7"
    assert unmatched("--topic-partitions", f"{topic}:0,none-1:1", shown=[0]) == "none-1"
    assert unmatched("--topic-partitions", f"{topic}:-2,{topic}:5-9", shown=[0, 1]) == f"{topic}:5-9"
    nothing = refused(cluster, "get-offsets", "--topic", "none-1")
    assert nothing.err.startswith("odradek: no partition matches none-1; ")
    elected = refused(cluster, "elect-leaders", "--topic", topic, "--partition", "9")
    assert elected.err.startswith(f"odradek: {topic}-9: ")


def test_brokers_that_are_not_there(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    created = refused(cluster, "topics", "create", "none-3", "--replica-assignment", "0,9,8")
    assert created.err == "odradek: brokers that do not run: 8, 9; start them, or name others\n"
    assert "none-3" not in odradek(cluster, "topics", "list").out
    file = tmp_path / "plan.json"

    def plan(*rows: tuple[str, int, int]) -> str:
        partitions = [{"topic": name, "partition": number, "replicas": [broker]} for name, number, broker in rows]
        file.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(file)

    for verb in ("verify", "cancel", "execute"):
        done = refused(cluster, "reassign", verb, plan((topic, 0, 0), (topic, 4, 0), ("none-1", 0, 0)))
        assert done.err == f"odradek: there is no partition none-1-0, {topic}-4\n"
    verified = refused(cluster, "reassign", "verify", plan((topic, 0, 9)))
    assert verified.err == "odradek: there is no broker 9; those that run: 0\n"
    assert f"Reassignment of partition {topic}-0 is not active, but its replicas are [0] and not [9]." in verified.out
    assert "is completed" in odradek(cluster, "reassign", "verify", plan((topic, 0, 0))).out


def test_others_that_are_not_there(cluster: Cluster, topic: str) -> None:
    described = refused(cluster, "transactions", "describe", "nobody")
    assert described.err.startswith("odradek: there is no transactional id nobody (TRANSACTIONAL_ID_NOT_FOUND); ")
    deleted = refused(cluster, "users", "delete", "nobody")
    assert deleted.err == (
        "odradek: user nobody: Attempt to delete a user credential that does not exist (RESOURCE_NOT_FOUND); "
        "`odradek users list` shows the users\n"
    )
    assert "nobody" in refused(cluster, "users", "list", "nobody").err
    assert "there is no broker 9; those that run: 0" in refused(cluster, "api-versions", "--broker", "9").err
    assert "there is no broker 9 " in refused(cluster, "configs", "describe", "--broker-logger", "9").err
    assert "no such group: nobody" in refused(cluster, "groups", "describe", "nobody").err
    hanging = refused(cluster, "transactions", "find-hanging", "--topic", "none-1")
    assert hanging.err.startswith("odradek: there is no topic or partition none-1 ")
