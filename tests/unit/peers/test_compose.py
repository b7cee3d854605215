"""What a suite asks of `docker compose` it gets of brokers that are processes."""

from __future__ import annotations

import datetime
from pathlib import Path

from tests.peers.compose import answer, log_since
from tests.support.cluster import Cluster


def cluster_with_log(tmp_path: Path, text: str) -> Cluster:
    cluster = Cluster(["odradek"], tmp_path, "127.0.0.1:1/none")
    cluster.brokers[0].log_file.parent.mkdir(parents=True, exist_ok=True)
    cluster.brokers[0].log_file.write_text(text)
    return cluster


def test_a_log_from_a_time_on(tmp_path: Path) -> None:
    cluster = cluster_with_log(
        tmp_path, "[2026-01-02 03:04:05,678] INFO before\n[2026-01-02 03:04:06,001] WARN since\n  and more\n"
    )
    since = datetime.datetime.fromisoformat("2026-01-02 03:04:06").astimezone(datetime.UTC)
    text = since.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert log_since(cluster.brokers[0], text) == "[2026-01-02 03:04:06,001] WARN since\n  and more"
    assert answer(cluster, ["logs", "--since", text, "kafka-0"]).endswith("and more")
    assert log_since(cluster.brokers[0], "2026-01-03T00:00:00Z") == ""


def test_a_cluster_that_is_there_is_not_brought_up_or_down(tmp_path: Path) -> None:
    cluster = cluster_with_log(tmp_path, "")
    for words in (["up", "-d"], ["down", "--volumes"], ["rm", "-v", "--force", "--stop"]):
        assert answer(cluster, words) == ""
        assert cluster.brokers[0].process is None
