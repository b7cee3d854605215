"""The rules of docs/architecture.md, read off the source.

Where the code does not keep a rule yet, the place stands in a list here. The lists only shrink: a place that is not in
its list fails, and so does an entry that is no longer true.
"""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from broker.requests.handlers import import_handlers
from broker.requests.registry import HANDLERS
from network.protocol.api import API
from tests.support.house import Module, calls, circles, long_functions, parse, private_uses, product

BELOW: dict[str, tuple[str, ...]] = {
    "timer": (),
    "network": ("timer",),
    "log": ("timer",),
    "controller": ("timer", "network", "log.topic_partition"),
    "broker": ("timer", "network", "log", "controller"),
    "spark_jobs": ("timer", "network", "log"),
    "odradek": ("timer", "network", "log", "controller", "broker", "spark_jobs"),
}
"""What each package may import besides itself."""

SIDEWAYS = {
    ("broker.cli.spark", "spark_jobs.jobs"),
    ("broker.cli.spark", "spark_jobs.package"),
}
"""The command line starts the jobs, which run without a broker's code."""

CIRCLES: list[set[str]] = []
"""Files that reach each other: none."""

PRIVATE = {
    "network/protocol/errors.py: member._value_",  # how `enum` wants a member with attributes to be made
    "broker/server.py: os._exit",
    "broker/dev/parent.py: os._exit",  # a child whose parent has died has nobody to tell
    "spark_jobs/jobs/session.py: spark._jsc",  # pyspark has no other way to the JVM's application id
    "controller/zk/kazoo_handle.py: client._call",  # kazoo has no public call for a request of one's own
}

THREADS = {
    # Where threads live: every loop around a step, the loops of the network (those of an acceptor and a processor are
    # event loops, those of the handler pool count their idle time and end one by one), and pools.
    "broker/dev/parent.py": 1,  # a child watches the pipe of its parent before anything else of ours is imported
    "timer/worker.py": 1,
    "network/server/acceptor.py": 1,
    "network/server/handler_pool.py": 1,
    "network/server/processor.py": 1,
    "network/server/socket_server.py": 1,
    "broker/http/server.py": 1,
    "log/management/log_dir_loading.py": 2,
}

CHANCE = {
    "timer/chance.py": 1,
    # In a user's process, where `timer` may be a module of his own: names of topics, the token of a control connection.
    "odradek/pytest_plugin.py": 1,
    "odradek/supervisor.py": 1,
    # What nobody may foresee, whatever is handed in.
    "network/sasl/nonces.py": 2,
}

SOURCES = {
    # Where processes begin: from here on it is handed in.
    "broker/server.py": 1,
    "broker/dev/processes.py": 1,  # free ports
    "controller/zk/embedded/service.py": 1,
    "spark_jobs/sink.py": 1,  # an executor's task
    # A sequence of its own, so that a sample disturbs nobody's draws.
    "broker/metrics.py": 1,
}

CLOCK = {"timer/clock.py": 3}

USES = {"clock": CLOCK, "thread": THREADS, "chance": CHANCE, "source of chance": SOURCES}

LINES = 70
LONG = {
    "log.records.record_walk._walk": "the fields of a record unrolled: a call for each would double its time",
    "spark_jobs.decode.walk.walk_records": "the same loop for the compiler of loops, which LLVM makes one of",
}


def outside_floors(modules: dict[str, Module]) -> set[tuple[str, str]]:
    """(importer, imported) of every import that leaves its package for another than those below."""
    return {
        (module.name, target)
        for module in modules.values()
        for target in module.imports
        if target.split(".")[0] != module.package
        and not any(target == allowed or target.startswith(f"{allowed}.") for allowed in BELOW[module.package])
    }


def used(modules: dict[str, Module], kind: str) -> Counter[str]:
    return Counter(module.path for module in modules.values() for found, _ in calls(module) if found == kind)


class TestProduct:
    def test_no_import_leaves_its_floor_but_downwards(self) -> None:
        assert outside_floors(product()) == SIDEWAYS

    def test_circles_of_files_are_those_that_are_known(self) -> None:
        found = {" ".join(sorted(circle)) for circle in circles(product())}
        known = {" ".join(sorted(circle)) for circle in CIRCLES}
        assert not found - known, "a new circle, or one that has other files than the list says"
        assert not known - found, "a circle that is gone has to leave the list"

    def test_nobody_uses_a_private_name_of_another_module(self) -> None:
        assert set().union(*map(private_uses, product().values())) == PRIVATE

    @pytest.mark.parametrize("kind", USES)
    def test_clock_threads_and_chance_live_where_they_are_listed(self, kind: str) -> None:
        assert dict(used(product(), kind)) == USES[kind]

    def test_no_function_is_too_long_without_a_reason(self) -> None:
        found: dict[str, int] = {}
        for module in product().values():
            found |= long_functions(module, LINES)
        assert set(found) == set(LONG), found


def described_versions(docstring: str) -> list[int]:
    """The versions that a docstring's last paragraph names: `Versions: 1 this; 2-3 that; ...`."""
    _, found, notes = docstring.partition("\n\nVersions: ")
    spans = [note.split()[0].partition("-") for note in notes.split(";")] if found else []
    return [version for low, _, high in spans for version in range(int(low), int(high or low) + 1)]


class TestHandlers:
    """`broker/api` against the table of the wire."""

    import_handlers()

    @pytest.mark.parametrize("key", sorted(HANDLERS), ids=lambda key: API[key].name)
    def test_serves_every_version_of_the_wire_table_and_its_first_line_says_so(self, key: int) -> None:
        handler, spec = HANDLERS[key], API[key]
        low, high = handler.min_version, handler.max_version
        assert (low, high) == (spec.min_version, spec.max_version)
        versions = f"versions {low}-{high}" if low != high else f"version {low}"
        text = sys.modules[handler.handle.__module__].__doc__
        assert text is not None
        assert text.startswith((f"{spec.name} (key {key}, {versions}):", f"{spec.name} (key {key}, {versions})."))

    @pytest.mark.parametrize("key", sorted(HANDLERS), ids=lambda key: API[key].name)
    def test_says_what_each_version_changed(self, key: int) -> None:
        handler = HANDLERS[key]
        text = sys.modules[handler.handle.__module__].__doc__
        assert text is not None
        assert described_versions(text) == list(range(handler.min_version + 1, handler.max_version + 1))


class TestRules:
    """Each rule finds a fault that is planted for it."""

    def test_an_import_upwards_is_found_wherever_it_stands(self) -> None:
        modules = parse(
            [
                ("broker/a.py", ""),
                ("timer/at_head.py", "import broker.a"),
                ("log/in_function.py", "def f():\n    from broker import a"),
                ("network/in_annotation.py", "if TYPE_CHECKING:\n    from broker.a import X"),
                ("controller/b.py", "from log.segment import Segment\nfrom log.topic_partition import TopicPartition"),
                ("log/segment.py", ""),
                ("log/topic_partition.py", "import timer.at_head"),
            ]
        )
        assert outside_floors(modules) == {
            ("timer.at_head", "broker.a"),
            ("log.in_function", "broker.a"),
            ("network.in_annotation", "broker.a"),
            ("controller.b", "log.segment"),
        }

    def test_circles_are_found_whole_and_apart(self) -> None:
        modules = parse(
            [
                ("log/a.py", "from log.b import B"),
                ("log/b.py", "def f():\n    import log.c"),
                ("log/c.py", "if TYPE_CHECKING:\n    from log.a import A\nfrom log.d import D"),
                ("log/d.py", "from log import e"),
                ("log/e.py", "from log.d import D\nimport log.f"),
                ("log/f.py", ""),
            ]
        )
        assert circles(modules) == {frozenset({"log.a", "log.b", "log.c"}), frozenset({"log.d", "log.e"})}

    def test_private_names_of_others_are_found(self) -> None:
        source = (
            "from log.b import _hidden\n"
            "class A:\n"
            "    def __init__(self, b): self._b = b\n"
            "    def __eq__(self, other): return other._b == self._b\n"
            "    def f(self, row): return self._b._lock, row._replace(x=1), self._b.__class__\n"
        )
        [module] = parse([("log/a.py", source)]).values()
        assert private_uses(module) == {"log/a.py: log.b._hidden", "log/a.py: self._b._lock"}

    def test_clock_threads_and_chance_are_found_by_any_name(self) -> None:
        source = (
            "import time, random, threading as t, datetime\n"
            "from time import monotonic as now\n"
            "from uuid import uuid4\n"
            "from timer.chance import SystemChance as Dice\n"
            "def f(rng: random.Random) -> threading.Thread: return now() + time.sleep(1)\n"
            "def h(dice: Dice) -> Dice: return Dice()\n"
            "def g(new_id=uuid4): return t.Thread(target=f), random.Random(0), random.choice, datetime.datetime.now()\n"
        )
        [module] = parse([("log/a.py", source)]).values()
        assert sorted(calls(module)) == [
            ("chance", "random.Random"),
            ("chance", "random.choice"),
            ("chance", "uuid.uuid4"),
            ("clock", "datetime.datetime.now"),
            ("clock", "time.monotonic"),
            ("clock", "time.sleep"),
            ("source of chance", "timer.chance.SystemChance"),
            ("thread", "threading.Thread"),
        ]

    def test_a_version_that_is_left_out_of_a_docstring_is_found(self) -> None:
        text = "Name (key 1, versions 0-6): x.\n\nFrom 3 on; 5 y.\n\nVersions: 1 a thing of\n2 parts; 3-4 y; 6 z."
        assert described_versions(text) == [1, 3, 4, 6]
        assert described_versions("Name (key 1, versions 0-1): x. 1 y.") == []

    def test_a_long_function_is_found_and_its_docstring_is_free(self) -> None:
        doc = '    """' + "text\n" * 20 + '    """\n'
        source = f"def short():\n{doc}" + "    x = 1\n" * 9 + "def long():\n" + "    x = 1\n" * 10
        [module] = parse([("log/a.py", source)]).values()
        assert long_functions(module, 10) == {"log.a.long": 11}
