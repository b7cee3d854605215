"""Pictures of what has no table: the way of a request, a log, the timing wheel, a high watermark."""

from __future__ import annotations

from tests.site.svg import ACCENT, Box, Drawing

SAND, BLUE, GREEN, GREY = "#f1dfc4", "#cfe0ee", "#d5e8d4", "#e6e8ea"


def request() -> str:
    """From a socket to the handler and back."""
    d = Drawing(940, 330, "The way of a request")
    clients = d.box(Box(75, 150, 110, 46, ("clients", "any language")))
    acceptor = d.box(Box(250, 50, 100, 36, ("Acceptor",)))
    processor = d.box(Box(290, 150, 170, 64, ("Processor", "an event loop", "in a thread of its own"), is_accent=True))
    channel = d.box(Box(570, 70, 160, 46, ("RequestChannel", "queued.max.requests")))
    pool = d.box(Box(820, 70, 160, 46, ("HandlerPool", "num.io.threads")))
    api = d.box(Box(820, 180, 160, 46, ("broker/api", "one file a request"), is_accent=True))
    log = d.box(Box(820, 285, 100, 36, ("log",)))
    waiting = d.box(Box(570, 250, 160, 46, ("purgatory", "until done or due")))
    d.arrow(clients, acceptor, ("connect",))
    d.arrow(acceptor, processor)
    d.arrow(clients, processor, (), bend=-14)
    d.arrow(processor, channel, ("whole frames",))
    d.arrow(channel, pool)
    d.arrow(pool, api)
    d.arrow(api, log, ("read, append",))
    d.arrow(api, waiting, ("must wait",))
    d.arrow(waiting, processor, ("answer later",), bend=10)
    d.arrow(api, processor, ("answer: gathered write, sendfile",))
    d.arrow(processor, clients, (), bend=-14)
    return d.render()


def log() -> str:
    """One partition on the disk."""
    d = Drawing(940, 320, "The log of a partition")
    x = 30.0
    for name, width, colour in (
        ("0 … 11 999", 230, GREY),
        ("12 000 … 25 310", 230, GREY),
        ("25 311 … (active)", 250, SAND),
    ):
        d.bar(x, 50, width, 46, colour)
        d.text(x + width / 2, 42, name, quiet=True)
        x += width + 6
    d.text(x + 14, 78, "append", anchor="start", bold=True)
    d.line(x + 8, 74, x - 2, 74, head=True)
    offset = x - 256
    for count, width in enumerate((74, 44, 92, 40)):
        d.bar(offset, 50, width - 2, 46, BLUE if count != 2 else GREEN)
        offset += width
    d.text(630, 112, "record batches, stored as they came over the wire", quiet=True)
    d.text(40, 148, "00000000000025311.log", anchor="start", bold=True)
    d.text(40, 166, "batches one behind the other; sent from the file with sendfile", anchor="start", quiet=True)
    d.text(40, 196, "00000000000025311.index", anchor="start", bold=True)
    d.text(
        40, 214, "offset → position, one entry of 8 bytes every 4 KiB of log, memory-mapped", anchor="start", quiet=True
    )
    d.text(40, 244, "00000000000025311.timeindex", anchor="start", bold=True)
    d.text(40, 262, "largest timestamp so far → offset, 12 bytes", anchor="start", quiet=True)
    d.text(500, 196, "00000000000025311.snapshot, .txnindex", anchor="start", bold=True)
    d.text(500, 214, "producers' sequences; aborted transactions", anchor="start", quiet=True)
    d.text(500, 244, "leader-epoch-checkpoint", anchor="start", bold=True)
    d.text(500, 262, "leader epoch → its first offset: where a follower truncates", anchor="start", quiet=True)
    d.text(500, 148, "a look-up", anchor="start", bold=True)
    d.text(500, 166, "segment by name, index by bisection, then a walk of at most 4 KiB", anchor="start", quiet=True)
    d.text(470, 300, "names and formats are Apache Kafka's: a directory changes hands in both directions", quiet=True)
    return d.render()


def timers() -> str:
    """Three levels of the wheel, with Kafka's tick and size."""
    wheel_size = 20
    d = Drawing(940, 300, "A hierarchical timing wheel")
    tick = 1
    for level, y in enumerate((60.0, 140.0, 220.0)):
        each = tick * wheel_size**level
        d.text(30, y - 12, f"level {level}", anchor="start", bold=True)
        d.text(
            84,
            y - 12,
            f"{wheel_size} buckets of {each} ms, {each * wheel_size:,} ms in all",
            anchor="start",
            quiet=True,
        )
        for bucket in range(wheel_size):
            colour = GREY
            if (level, bucket) in {(0, 4), (0, 15), (1, 3), (1, 12), (2, 1), (2, 10)}:
                colour = SAND
            d.bar(30 + bucket * 30, y, 28, 26, colour)
    d.line(30 + 12.5 * 30, 140, 30 + 15.3 * 30, 90, head=True)
    d.line(30 + 10.5 * 30, 220, 30 + 12.3 * 30, 170, head=True)
    d.text(660, 72, "adding, cancelling, expiring: O(1),", anchor="start", quiet=True)
    d.text(660, 88, "however many timers there are", anchor="start", quiet=True)
    d.text(660, 152, "a bucket that falls due is put back", anchor="start", quiet=True)
    d.text(660, 168, "into the finer wheel below", anchor="start", quiet=True)
    d.text(660, 232, "only buckets stand in a heap,", anchor="start", quiet=True)
    d.text(660, 248, "so nobody ticks while nothing is due", anchor="start", quiet=True)
    d.text(470, 285, "Varghese and Lauck, 1987", quiet=True)
    return d.render()


def replication() -> str:
    """A leader and its followers."""
    d = Drawing(940, 290, "Log end offsets and the high watermark")
    rows = (("leader, broker 0", 9), ("follower, broker 1", 8), ("follower, broker 2", 6))
    for row, (name, end) in enumerate(rows):
        y = 60 + row * 62
        d.text(30, y + 20, name, anchor="start", bold=True)
        for offset in range(end):
            d.bar(190 + offset * 46, y, 44, 32, GREEN if offset < 6 else BLUE)
            d.text(212 + offset * 46, y + 20, str(offset), quiet=True)
        d.text(190 + end * 46 + 10, y + 20, f"log end offset {end}", anchor="start", quiet=True)
    x = 190 + 6 * 46 - 1
    d.parts.append(f'<path d="M{x} 40 L{x} 226" stroke="{ACCENT}" stroke-width="1.6"/>')
    d.parts.append(
        f'<text x="{x}" y="32" text-anchor="middle" font-size="12" font-weight="600" fill="{ACCENT}">'
        "high watermark 6</text>"
    )
    d.text(
        470,
        252,
        "A follower's Fetch from offset n says that it has all before n. The high watermark is the smallest",
        quiet=True,
    )
    d.text(
        470,
        268,
        "log end offset of the in-sync replicas; consumers read up to it, and acks=all waits for it.",
        quiet=True,
    )
    return d.render()


PICTURES = {"request.svg": request, "log.svg": log, "timing-wheel.svg": timers, "high-watermark.svg": replication}
