"""What the console costs, how fast it opens and how smoothly it scrolls, in Debian's Chromium.

    python -m benchmarks.console [--topics 1000] [--partitions 10] [--groups 100] [--brokers 3] [--trace FILE] [--quick]

Partitions have one replica: each takes three descriptors of its broker, and many systems give a process 20,000. CPU is
that of the broker that serves the page and that of all others together, in percent of a core: with no page, with each
of some pages open, and with the internals open. Opening is from the navigation to the first row that can be read, in a
browser that has the page's files (warm) and in one that has not (cold). Frames are counted by the browser's own
tracing while a list is scrolled from end to end; `--trace` keeps that trace.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.table import Table

from benchmarks.targets import children, cpu_seconds
from broker.dev.processes import free_ports
from broker.dev.zookeeper import EmbeddedZooKeeper
from network.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from network.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.cluster import HOST, Cluster, running_cluster
from timer.clock import SystemClock

WINDOW_S = 10.0
OPENINGS = 5
AT_ONCE = 50
SCROLL = """() => new Promise(done => {
    const body = document.querySelector(".tbody");
    const began = performance.now();
    const frames = [];
    const step = now => {
        frames.push(now);
        const place = (now - began) / 4000;
        body.scrollTop = place * (body.scrollHeight - body.clientHeight);
        if (place < 1) requestAnimationFrame(step); else done(frames);
    };
    requestAnimationFrame(step);
})"""


def fill(cluster: Cluster, topics: int, partitions: int, groups: int) -> None:
    """Topics without records, and groups with an offset in each partition of one of them."""
    names = [f"topic-{number:04}" for number in range(topics)]
    with cluster.client() as client:
        for start in range(0, topics, AT_ONCE):
            wanted = [
                CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
                for name in names[start : start + AT_ONCE]
            ]
            answer = client.call_controller(CreateTopicsRequest(topics=wanted, timeout_ms=120_000), 150_000)
            assert not any(each.error_code for each in answer.topics)
        for number in range(groups):
            rows = [
                OffsetCommitRequestPartition(partition_index=each, committed_offset=0, committed_metadata="")
                for each in range(partitions)
            ]
            topic = OffsetCommitRequestTopic(name=names[number % topics], partitions=rows)
            client.call_coordinator(
                f"group-{number:03}", 0, OffsetCommitRequest(group_id=f"group-{number:03}", topics=[topic])
            )


def opening_ms(page: Page, address: str) -> float:
    """From the navigation to the first row."""
    page.goto("about:blank")
    began = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_selector(".tbody .row")
    return (time.perf_counter() - began) * 1000


def openings(browser: Browser, address: str) -> dict[str, float]:
    """Median ms of cold and of warm openings, and what a warm one takes of CPU: browser, its driver and brokers."""
    cold, warm, spent = [], [], []
    for _ in range(OPENINGS):
        context = browser.new_context()
        page = context.new_page()
        cold.append(opening_ms(page, address))
        page.wait_for_load_state("networkidle")
        before = cpu_by_process()
        warm.append(opening_ms(page, address))
        # A navigation may begin a process; one that ends meanwhile is not counted.
        spent.append(sum(1000 * (used - before.get(pid, 0)) for pid, used in cpu_by_process().items()))
        context.close()
    return {
        "cold_ms": statistics.median(cold),
        "warm_ms": statistics.median(warm),
        "warm_cpu_ms": statistics.median(spent),
    }


def cpu_by_process() -> dict[int, float]:
    """CPU seconds of everything that was started from here."""
    found = {}
    for pid in children(os.getpid()):
        with contextlib.suppress(OSError):
            found[pid] = cpu_seconds(pid)
    return found


def main_thread_ms(events: list[dict[str, Any]]) -> float:
    """CPU of the page's own thread, in ms: of what is at work in it, not again what that contains."""
    named = (each for each in events if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain")
    threads = {(each["pid"], each["tid"]) for each in named}
    spent, end = 0.0, 0.0
    for each in sorted((each for each in events if each["ph"] == "X"), key=lambda each: (each["ts"], -each["dur"])):
        if (each["pid"], each["tid"]) in threads and each["ts"] >= end:
            spent, end = spent + each.get("tdur", 0) / 1000, each["ts"] + each["dur"]
    return spent


def frames(page: Page, address: str, trace: Path | None) -> dict[str, float]:
    """Frames a second, the longest one in ms, what a frame takes of the CPU of the page's own thread, and frames that
    the browser says it dropped, of four seconds. How many there are rests on the machine's other load, what one takes
    does not: it has 16.7 ms."""
    page.goto(address)
    page.wait_for_selector(".tbody .row")
    cdp = page.context.new_cdp_session(page)
    events: list[dict[str, Any]] = []
    ended: list[object] = []
    cdp.on("Tracing.dataCollected", lambda found: events.extend(found["value"]))
    cdp.on("Tracing.tracingComplete", lambda found: ended.append(found))
    categories = ["devtools.timeline", "disabled-by-default-devtools.timeline.frame", "cc,benchmark"]
    cdp.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": {"includedCategories": categories}})
    times: list[float] = page.evaluate(SCROLL)
    cdp.send("Tracing.end")
    while not ended:
        page.wait_for_timeout(50)
    if trace is not None:
        trace.write_text(json.dumps({"traceEvents": events}))
    gaps = [after - before for before, after in pairwise(times)]
    return {
        "frames_per_second": 1000 * len(gaps) / (times[-1] - times[0]),
        "longest_ms": max(gaps),
        "cpu_ms_a_frame": main_thread_ms(events) / len(gaps),
        "dropped": sum(event["name"] == "DroppedFrame" for event in events),
    }


def cpu_percent(pids: list[int], during: Callable[[], object]) -> dict[str, float]:
    """Of a core, over the time that `during` lets pass: that of the first process, and of the others."""
    before, began = list(map(cpu_seconds, pids)), time.perf_counter()
    during()
    spent = [after - start for after, start in zip(map(cpu_seconds, pids), before, strict=True)]
    per = 100 / (time.perf_counter() - began)
    return {"percent": per * spent[0], "others_percent": per * sum(spent[1:])}


@contextlib.contextmanager
def running_zookeeper(folder: Path) -> Iterator[str]:
    """The address of an embedded one."""
    server = EmbeddedZooKeeper(folder / "zookeeper", free_ports(1)[0], folder / "zookeeper.log")
    try:
        server.wait_until_ready(SystemClock())
        yield server.connect
    finally:
        server.stop()


class _Measured:
    """What was seen, in the order in which it was."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = {}

    def add(self, what: str, **values: float) -> None:
        self.found[what] = {name: round(value, 2) for name, value in values.items()}

    def show(self, title: str) -> None:
        table = Table("what", "value", title=title)
        for what, values in self.found.items():
            table.add_row(what, ", ".join(f"{name} {value:g}" for name, value in values.items()))
        Console().print(table)


def measure(
    page: Page, browser: Browser, pids: list[int], console: str, window_s: float, trace: Path | None
) -> _Measured:
    """Before any page was open, of opening, of open pages, of scrolling, and after all pages were closed."""
    seen = _Measured()

    def wait() -> None:
        page.wait_for_timeout(window_s * 1000)

    seen.add("CPU, no page ever opened", **cpu_percent(pids, wait))
    for view in ("/topics", "/partitions", "/groups", "/"):
        seen.add(f"{view} opens", **openings(browser, f"{console}#{view}"))
    for view in ("/", "/topics", "/groups", "/internals/requests", "/internals/waiting"):
        page.goto("about:blank")
        page.goto(f"{console}#{view}")
        page.wait_for_selector(f'body[data-shown="{view}"]', state="attached")
        seen.add(f"CPU, {view} open", **cpu_percent(pids, wait))
    for view in ("/topics", "/partitions"):
        seen.add(f"{view} scrolled", **frames(page, f"{console}#{view}", trace))
    page.goto("about:blank")
    seen.add("CPU, all pages closed again", **cpu_percent(pids, wait))
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--groups", type=int)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--trace", type=Path, help="a file that Chromium's own tools open")
    parser.add_argument("--quick", action="store_true", help="100 topics, 10 groups, CPU over 3 s each")
    parser.add_argument("--json", action="store_true", help="one object on standard output")
    options = parser.parse_args()
    topics = options.topics or (100 if options.quick else 1000)
    groups = options.groups or (10 if options.quick else 100)
    ports = free_ports(options.brokers)
    own = {number: {"odradek.http.port": str(port)} for number, port in enumerate(ports)}
    settings = {"offsets.topic.num.partitions": "1"}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_zookeeper(Path(folder)) as zookeeper,
        running_cluster(["odradek"] * options.brokers, Path(folder), zookeeper, settings, own) as cluster,
        sync_playwright() as playwright,
    ):
        fill(cluster, topics, options.partitions, groups)
        pids = [broker.process.pid for broker in cluster.brokers if broker.process is not None]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        window_s = 3.0 if options.quick else WINDOW_S
        seen = measure(page, browser, pids, f"http://{HOST}:{ports[0]}/console/", window_s, options.trace)
        browser.close()
    if options.json:
        size = {"topics": topics, "partitions": options.partitions, "groups": groups}
        print(json.dumps({**size, "measured": seen.found}))
    else:
        seen.show(f"{topics} topics of {options.partitions}, {groups} groups")


if __name__ == "__main__":
    main()
