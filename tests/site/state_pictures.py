"""Pictures of the state machines, drawn from the tables that are executed.

A state or an arrow that a table gets or loses changes its picture, and a state without a place here fails the drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TypeVar

from broker.groups.classic.states import TABLE as GROUP_TABLE
from broker.groups.classic.states import Event, GroupState
from broker.replication.isr.machine import TABLE as ISR_TABLE
from broker.replication.isr.machine import IsrEvent
from broker.replication.isr.state import IsrPhase
from broker.transactions.state import VALID_PREVIOUS, TransactionState
from controller.states import PARTITION_TABLE, REPLICA_TABLE, PartitionStatus, ReplicaStatus
from tests.site.svg import Box, Drawing

State = TypeVar("State", bound=Enum)
Edges = Mapping[tuple[State, State], tuple[str, ...]]
"""For a pair of states the lines at the arrow between them."""


def words(name: str) -> str:
    """CamelCase of SCREAMING_CASE."""
    return "".join(part.capitalize() for part in name.split("_"))


def draw(
    title: str,
    places: Mapping[State, tuple[float, float]],
    edges: Edges[State],
    *,
    size: tuple[int, int],
    bends: Mapping[tuple[State, State], float] | None = None,
    notes: Mapping[State, tuple[str, ...]] | None = None,
) -> str:
    """States at their places and an arrow for each edge; those that go both ways are bent apart. Notes stand below."""
    drawing = Drawing(*size, title)
    boxes = {
        state: Box(x, y, len(words(state.name)) * 7.4 + 26, 34, (words(state.name),))
        for state, (x, y) in places.items()
    }
    lowest = max(y for _, y in places.values())
    for (start, end), lines in edges.items():
        if start is end:
            drawing.loop(boxes[start], lines, below=boxes[start].y == lowest)
        else:
            bend = (bends or {}).get((start, end), 22 if (end, start) in edges else 0)
            drawing.arrow(boxes[start], boxes[end], lines, bend=bend)
    for state, box in boxes.items():
        drawing.box(box)
        if notes and state in notes:
            drawing.label(box.x, box.y + 30 + 6.5 * len(notes[state]) - 6.5, notes[state])
    return drawing.render()


def from_table(table: Mapping[State, Mapping[State, Enum]]) -> dict[tuple[State, State], tuple[str, ...]]:
    """Edges of the controller's kind of table: the event is the state that is asked for."""
    return {
        (before, after): () if effect.name == "NOTHING" else (effect.name.lower().replace("_", " "),)
        for before, row in table.items()
        for after, effect in row.items()
    }


def by_events(rows: Iterable[tuple[State, Enum, State]], left_out: frozenset[Enum]) -> Edges[State]:
    """Edges with the names of the events that lead along them."""
    found: dict[tuple[State, State], list[str]] = {}
    for before, event, after in rows:
        if event not in left_out:
            found.setdefault((before, after), []).append(event.name.lower().replace("_", " "))
    return {pair: tuple(names) for pair, names in found.items()}


def partitions() -> str:
    """`PARTITION_TABLE`."""
    s = PartitionStatus
    places = {s.NON_EXISTENT: (100.0, 90.0), s.NEW: (290.0, 90.0), s.ONLINE: (540.0, 90.0), s.OFFLINE: (540.0, 230.0)}
    return draw(
        "States of a partition in the controller",
        places,
        from_table(PARTITION_TABLE),
        size=(680, 300),
    )


def replicas() -> str:
    """`REPLICA_TABLE`."""
    s = ReplicaStatus
    places = {
        s.NON_EXISTENT: (110.0, 90.0),
        s.NEW: (330.0, 90.0),
        s.ONLINE: (580.0, 90.0),
        s.OFFLINE: (580.0, 260.0),
        s.DELETION_INELIGIBLE: (800.0, 175.0),
        s.DELETION_STARTED: (320.0, 260.0),
        s.DELETION_SUCCESSFUL: (110.0, 260.0),
    }
    return draw(
        "States of a replica in the controller",
        places,
        from_table(REPLICA_TABLE),
        size=(920, 380),
        bends={(s.DELETION_STARTED, s.DELETION_INELIGIBLE): 120},
    )


def isr() -> str:
    """`broker/replication/isr/machine.py`, without the controller's own word, which ends everything in COMMITTED."""
    s, e = IsrPhase, IsrEvent
    rows = [(phase, event, after) for phase, row in ISR_TABLE.items() for event, (_, after) in row.items()]
    quiet = frozenset({e.LEADS, e.FOLLOWS, e.CLEARED, e.LATE})
    places = {s.COMMITTED: (360.0, 110.0), s.PENDING_EXPAND: (150.0, 300.0), s.PENDING_SHRINK: (570.0, 300.0)}
    edges = dict(by_events(rows, quiet))
    notes = {
        phase: ("stays on: " + ", ".join(names[:2]) + ",", ", ".join(names[2:]))
        for phase in (s.PENDING_EXPAND, s.PENDING_SHRINK)
        for names in [edges.pop((phase, phase))]
    }
    return draw("Phases of an ISR at its leader", places, edges, size=(720, 390), notes=notes)


def groups() -> str:
    """`broker/groups/classic/states.py`, without the ends in DEAD."""
    s, e = GroupState, Event
    rows = [(state, event, after) for state, row in GROUP_TABLE.items() for event, (_, after) in row.items()]
    edges = {
        pair: names
        for pair, names in by_events(rows, frozenset({e.DISMISSED, e.REMOVED})).items()
        if pair[0] is not pair[1]
    }
    places = {
        s.EMPTY: (110.0, 120.0),
        s.PREPARING_REBALANCE: (400.0, 120.0),
        s.COMPLETING_REBALANCE: (760.0, 120.0),
        s.STABLE: (580.0, 300.0),
    }
    return draw("States of a classic consumer group", places, edges, size=(920, 360), bends={(s.EMPTY, s.STABLE): 40})


def transactions() -> str:
    """`VALID_PREVIOUS` of `broker/transactions/state.py`, without the ends in DEAD."""
    s = TransactionState
    edges: dict[tuple[TransactionState, TransactionState], tuple[str, ...]] = {}
    notes: dict[TransactionState, tuple[str, ...]] = {}
    for after, sources in VALID_PREVIOUS.items():
        for before in sorted(sources - {s.DEAD, after}):
            if before in (s.COMPLETE_COMMIT, s.COMPLETE_ABORT):
                first, *_ = notes.get(before, ("next:",))
                notes[before] = (first + ("" if first.endswith(":") else ",") + " " + words(after.name),)
            elif after is not s.DEAD:
                edges[before, after] = ()
    edges[s.EMPTY, s.ONGOING] = ("AddPartitionsToTxn,", "AddOffsetsToTxn")
    edges[s.ONGOING, s.PREPARE_COMMIT] = ("EndTxn: commit",)
    edges[s.ONGOING, s.PREPARE_ABORT] = ("EndTxn: abort,", "timeout")
    edges[s.PREPARE_COMMIT, s.COMPLETE_COMMIT] = ("all markers", "are written")
    edges[s.PREPARE_ABORT, s.COMPLETE_ABORT] = ("all markers", "are written")
    edges[s.ONGOING, s.PREPARE_EPOCH_FENCE] = ("InitProducerId",)
    places = {
        s.EMPTY: (80.0, 150.0),
        s.ONGOING: (320.0, 150.0),
        s.PREPARE_COMMIT: (580.0, 60.0),
        s.COMPLETE_COMMIT: (820.0, 60.0),
        s.PREPARE_EPOCH_FENCE: (320.0, 290.0),
        s.PREPARE_ABORT: (580.0, 210.0),
        s.COMPLETE_ABORT: (820.0, 210.0),
    }
    return draw("States of a transaction", places, edges, size=(940, 340), notes=notes)


PICTURES = {
    "partition-states.svg": partitions,
    "replica-states.svg": replicas,
    "isr-phases.svg": isr,
    "group-states.svg": groups,
    "transaction-states.svg": transactions,
}
