"""Does a timer's cost grow with the number of live timers? `python -m benchmarks.timer [--quick] [--json] [--plot]`

Per operation, with 10^3 to 10^6 live timers of 30 s: add and cancel of a fresh timer; cancel of a random live timer
and its replacement; add and expire. Beside the timing wheel run, in the same process, a heap with lazy deletion
(heapq) and asyncio's call_later with cancel, whose loop is a heap that is rebuilt when half of it is cancelled. And
`check_and_complete` of a purgatory with 100 to 100,000 watched keys. Times are CPU time of the thread. `flatness`
is the cost at the largest size over the cost at the smallest, from medians. `--plot` draws the curves into
docs/timer.svg and the table into docs/performance.md.
"""

import argparse
import asyncio
import gc
import heapq
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from benchmarks.charts import line_chart, replace_section
from timer.clock import ManualClock
from timer.executor import InlineExecutor
from timer.purgatory import DelayedOperation, Purgatory
from timer.timer import SystemTimer, TimerTask

TIMEOUT_MS = 30_000
OPERATIONS = ("add_cancel", "random_cancel", "add_expire")
DOCS = Path(__file__).resolve().parent.parent / "docs"


class Task(TimerTask):
    __slots__ = ()

    def run(self) -> None:
        pass


class Subject(Protocol):
    """A timer under test. `add` gives a handle that `cancel` takes; `expire` moves time forward past `ms`."""

    def add(self, delay_ms: int) -> Any: ...

    def cancel(self, handle: Any) -> None: ...

    def expire(self, ms: int) -> None: ...

    def entries(self) -> int: ...

    def close(self) -> None: ...


class Wheel:
    name = "timing wheel"

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timer = SystemTimer("benchmark", self.clock, InlineExecutor())

    def add(self, delay_ms: int) -> Task:
        task = Task(delay_ms)
        self.timer.add(task)
        return task

    def cancel(self, handle: Task) -> None:
        handle.cancel()

    def expire(self, ms: int) -> None:
        self.clock.advance(ms)
        while self.timer.advance(0):
            pass

    def entries(self) -> int:
        return self.timer.size

    def close(self) -> None:
        self.timer.shutdown()


class Heap:
    """What one writes first: a heap of [deadline, number, callback]; cancelling clears the callback."""

    name = "heapq, lazy deletion"

    def __init__(self) -> None:
        self.heap: list[list[Any]] = []
        self.now = 0
        self.number = 0

    def add(self, delay_ms: int) -> list[Any]:
        self.number += 1
        entry = [self.now + delay_ms, self.number, print]
        heapq.heappush(self.heap, entry)
        return entry

    def cancel(self, handle: list[Any]) -> None:
        handle[2] = None

    def expire(self, ms: int) -> None:
        self.now += ms
        while self.heap and self.heap[0][0] <= self.now:
            heapq.heappop(self.heap)

    def entries(self) -> int:
        return len(self.heap)

    def close(self) -> None:
        self.heap.clear()


class Asyncio:
    """asyncio's own timers on a loop whose time is ours."""

    name = "asyncio call_later"

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.now = 0.0
        self.loop.time = lambda: self.now  # type: ignore[method-assign]

    def add(self, delay_ms: int) -> asyncio.TimerHandle:
        return self.loop.call_later(delay_ms / 1000, _nothing)

    def cancel(self, handle: asyncio.TimerHandle) -> None:
        handle.cancel()

    def expire(self, ms: int) -> None:
        self.now += ms / 1000
        self.turn()

    def turn(self) -> None:
        """One iteration of the loop: it drops cancelled timers and runs due ones."""
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def entries(self) -> int:
        return len(self.loop._scheduled)  # type: ignore[attr-defined]

    def close(self) -> None:
        self.loop.close()


def _nothing() -> None:
    pass


SUBJECTS: list[Callable[[], Any]] = [Wheel, Heap, Asyncio]


def fill(subject: Subject, count: int) -> list[Any]:
    """`count` live timers, their deadlines spread over the second half of the timeout, like those of a steady load."""
    choose = random.Random(count)
    return [subject.add(choose.randint(TIMEOUT_MS // 2, TIMEOUT_MS)) for _ in range(count)]


def time_add_cancel(subject: Subject, live: list[Any], rounds: int) -> float:
    add, cancel = subject.add, subject.cancel
    start = time.thread_time_ns()
    for _ in range(rounds):
        cancel(add(TIMEOUT_MS))
    if isinstance(subject, Asyncio):
        subject.turn()
    return (time.thread_time_ns() - start) / rounds


def time_random_cancel(subject: Subject, live: list[Any], rounds: int) -> float:
    add, cancel = subject.add, subject.cancel
    picks = random.Random(1).choices(range(len(live)), k=rounds)
    start = time.thread_time_ns()
    for pick in picks:
        cancel(live[pick])
        live[pick] = add(TIMEOUT_MS)
    if isinstance(subject, Asyncio):
        subject.turn()
    return (time.thread_time_ns() - start) / rounds


def time_add_expire(subject: Subject, live: list[Any], rounds: int) -> float:
    """Short timers come and go, a thousand at a time, while the long ones stay."""
    add, expire = subject.add, subject.expire
    start = time.thread_time_ns()
    for _ in range(rounds // 1_000):
        for _ in range(1_000):
            add(1)
        expire(1)
    return (time.thread_time_ns() - start) / (rounds // 1_000 * 1_000)


TIMED: dict[str, Callable[[Any, list[Any], int], float]] = {
    "add_cancel": time_add_cancel,
    "random_cancel": time_random_cancel,
    "add_expire": time_add_expire,
}


def measure_timers(sizes: list[int], repeats: int, rounds: int) -> dict[str, dict[str, dict[int, float]]]:
    """Median ns by subject, operation and size. Sizes take turns: a slow moment hits all alike."""
    results: dict[str, dict[str, dict[int, float]]] = {}
    for make in SUBJECTS:
        samples: dict[str, dict[int, list[float]]] = {name: {size: [] for size in sizes} for name in OPERATIONS}
        subjects = {size: make() for size in sizes}
        live = {size: fill(subjects[size], size) for size in sizes}
        gc.collect()
        gc.freeze()
        for repeat in range(repeats + 1):
            for size in sizes:
                for name in OPERATIONS:
                    TIMED[name](subjects[size], live[size], 1_000)  # the one before has filled the caches
                    cost = TIMED[name](subjects[size], live[size], rounds)
                    if repeat:  # the first turn warms up
                        samples[name][size].append(cost)
        for subject in subjects.values():
            subject.close()
        live.clear()
        subjects.clear()
        gc.unfreeze()
        gc.collect()
        results[make.name] = {  # type: ignore[attr-defined]
            name: {size: statistics.median(values) for size, values in by_size.items()}
            for name, by_size in samples.items()
        }
    return results


def measure_memory(count: int) -> dict[str, dict[str, float]]:
    """Entries and MB kept after `count` timers of 30 s have been added and cancelled, one after the other."""
    import tracemalloc

    results = {}
    for make in SUBJECTS:
        subject = make()
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(count):
            subject.cancel(subject.add(TIMEOUT_MS))
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        results[make.name] = {  # type: ignore[attr-defined]
            "entries_after": subject.entries(),
            "kept_mb": round((kept - before) / 1e6, 3),
            "peak_mb": round((peak - before) / 1e6, 3),
        }
        subject.close()
    return results


class Waiting(DelayedOperation):
    __slots__ = ("ready",)

    def __init__(self) -> None:
        super().__init__(TIMEOUT_MS)
        self.ready = False

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        pass


def measure_purgatory(sizes: list[int], repeats: int, rounds: int) -> dict[int, float]:
    """Median ns of an event on a random watched key that completes its operation (watching the next is not timed)."""
    samples: dict[int, list[float]] = {size: [] for size in sizes}
    purgatories: dict[int, Purgatory[Waiting]] = {}
    waiting: dict[int, list[Waiting]] = {}
    # As in the broker, where the partition that has an event owns the key.
    names = [("topic", key) for key in range(max(sizes))]
    for size in sizes:
        timer = SystemTimer("benchmark", ManualClock(), InlineExecutor())
        purgatories[size] = Purgatory("Benchmark", timer, reaper_enabled=False, purge_interval=1 << 30)
        waiting[size] = [Waiting() for _ in range(size)]
        for name, operation in zip(names, waiting[size], strict=False):
            purgatories[size].try_complete_else_watch(operation, (name,))
    gc.collect()
    gc.freeze()
    batch = min(sizes) // 2
    for repeat in range(repeats + 1):
        for size in sizes:
            purgatory, operations, spent = purgatories[size], waiting[size], 0
            choose = random.Random(repeat)
            for _ in range(rounds // batch):
                keys = choose.sample(range(size), batch)
                events = [names[key] for key in keys]
                for key in keys:
                    operations[key].ready = True
                start = time.thread_time_ns()
                for name in events:
                    purgatory.check_and_complete(name)
                spent += time.thread_time_ns() - start
                for key, name in zip(keys, events, strict=True):
                    operations[key] = Waiting()
                    purgatory.try_complete_else_watch(operations[key], (name,))
            if repeat:
                samples[size].append(spent / (rounds // batch * batch))
    gc.unfreeze()
    return {size: statistics.median(values) for size, values in samples.items()}


def run(quick: bool) -> dict[str, Any]:
    """All measurements as one object."""
    # A quick run stops at 10^5 timers; its flatness is from there. Many short turns: what else runs hits all sizes
    # alike.
    sizes = [1_000, 10_000, 100_000] if quick else [1_000, 10_000, 100_000, 1_000_000]
    repeats, rounds = (15, 2_000) if quick else (25, 4_000)
    timers = measure_timers(sizes, repeats, rounds)
    keys = [100, 1_000, 10_000, 100_000]
    purgatory = measure_purgatory(keys, repeats, rounds)
    wheel = timers[Wheel.name]
    flatness = {name: round(wheel[name][sizes[-1]] / wheel[name][sizes[0]], 3) for name in OPERATIONS}
    flatness["check_and_complete"] = round(purgatory[keys[-1]] / purgatory[keys[0]], 3)
    return {
        "benchmark": "timer",
        "quick": quick,
        "sizes": sizes,
        "ns": timers,
        "purgatory_keys": keys,
        "check_and_complete_ns": purgatory,
        "flatness": flatness,
        "memory": measure_memory(100_000 if quick else 1_000_000),
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown tables."""
    lines = ["| ns per operation | " + " | ".join(f"{size:,}" for size in result["sizes"]) + " | last / first |"]
    lines.append("|---" * (len(result["sizes"]) + 2) + "|")
    for subject, operations in result["ns"].items():
        for name, costs in operations.items():
            values = list(costs.values())
            cells = " | ".join(f"{value:,.0f}" for value in values)
            lines.append(f"| {subject}: {name.replace('_', ' ')} | {cells} | {values[-1] / values[0]:.2f} |")
    heads = " | ".join(f"{size:,} keys" for size in result["purgatory_keys"])
    lines += ["", f"| ns per event | {heads} | last / first |"]
    lines.append("|---" * (len(result["purgatory_keys"]) + 2) + "|")
    cells = " | ".join(f"{value:,.0f}" for value in result["check_and_complete_ns"].values())
    lines.append(f"| check_and_complete | {cells} | {result['flatness']['check_and_complete']:.2f} |")
    lines += ["", "| after as many adds and cancels | entries left | kept MB | peak MB |", "|---|---|---|---|"]
    for subject, memory in result["memory"].items():
        lines.append(f"| {subject} | {memory['entries_after']:,} | {memory['kept_mb']} | {memory['peak_mb']} |")
    return "\n".join(lines)


def plot(result: dict[str, Any]) -> None:
    """Write docs/timer.svg and the section of docs/performance.md."""
    series = {
        f"{subject}: {name.replace('_', ' ')}": [(size, costs[name][size]) for size in result["sizes"]]
        for subject, costs in result["ns"].items()
        for name in ("add_cancel", "random_cancel")
    }
    (DOCS / "timer.svg").parent.mkdir(exist_ok=True)
    chart = line_chart("Cost of a timer by the number of live timers", "live timers", "ns per operation", series)
    (DOCS / "timer.svg").write_text(chart)
    text = (
        "`python -m benchmarks.timer --plot` wrote this. Timers of 30 s; every cost is the median of "
        "several runs in turn; expiry costs are per timer with a thousand at a time.\n\n"
        "![cost of a timer by the number of live timers](timer.svg)\n\n" + table(result)
    )
    replace_section(DOCS / "performance.md", "Timers and purgatories", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute: up to 10^5 timers")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument("--plot", action="store_true", help="write docs/timer.svg and docs/performance.md")
    arguments = parser.parse_args()
    result = run(arguments.quick)
    if arguments.plot:
        plot(result)
    print(json.dumps(result) if arguments.json else table(result))


if __name__ == "__main__":
    main()
