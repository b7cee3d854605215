"""``odradek log``: look into the files of a data directory, and check them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from broker.cli.errors import CommandError
from broker.cli.log_decoders import offsets_decoder, transaction_log_decoder
from broker.cli.output import is_for_people, item, line, output_option
from log.errors import LogError
from log.tools.dump import DumpOptions, dump_file, format_item
from log.tools.verify import Severity, Verifier, is_log_directory, log_bytes

DECODERS = {"offsets": offsets_decoder, "transactions": transaction_log_decoder}


@click.group("log")
def command() -> None:
    """Dump and verify files of a data directory."""


@command.command("dump")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--deep-iteration", is_flag=True, help="Show the records of each batch.")
@click.option("--print-data-log", is_flag=True, help="Show keys and payloads too; implies --deep-iteration.")
@click.option("--offsets-decoder", "decoder", flag_value="offsets", help="Payloads are of __consumer_offsets.")
@click.option(
    "--transaction-log-decoder", "decoder", flag_value="transactions", help="Payloads are of __transaction_state."
)
@click.option("--skip-record-metadata", is_flag=True, help="Of records show keys and payloads only.")
@click.option("--index-sanity-check", is_flag=True, help="Of indexes check only what a broker checks at start.")
@click.option("--verify-index-only", is_flag=True, help="Of indexes show only entries that disagree with the log.")
@click.option("--max-bytes", type=click.IntRange(0), help="Stop in a .log file after so many bytes.")
@output_option
def dump(
    files: tuple[Path, ...],
    deep_iteration: bool,
    print_data_log: bool,
    decoder: str | None,
    skip_record_metadata: bool,
    index_sanity_check: bool,
    verify_index_only: bool,
    max_bytes: int | None,
) -> None:
    """Show what FILES hold: segments, indexes, producer snapshots, checkpoints and metadata files.

    The text is that of Kafka's own dump tool. The exit code is 1 when a file does not parse or disagrees with its
    segment.
    """
    options = DumpOptions(
        deep=deep_iteration or print_data_log or decoder is not None,
        print_data=print_data_log or decoder is not None,
        skip_record_metadata=skip_record_metadata,
        index_sanity_check=index_sanity_check,
        verify_index_only=verify_index_only,
        max_bytes=max_bytes,
        decoder=DECODERS[decoder] if decoder is not None else None,
    )
    problems = False
    for path in files:
        line(f"Dumping {path}")
        try:
            for each in dump_file(path, options):
                problems = problems or each.kind == "problem"
                item(format_item(each), {"file": str(path), "kind": each.kind, **each.fields})
        except (ValueError, LogError, OSError) as error:
            problems = True
            if is_for_people():
                click.echo(f"{path}: {error}", err=True)
            else:
                item("", {"file": str(path), "kind": "problem", "text": str(error)})
    if problems:
        sys.exit(1)


@command.command("verify")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--shallow", is_flag=True, help="Check batches only, not the records in them.")
@click.option("--quiet", is_flag=True, help="Show errors only.")
@output_option
def verify(directory: Path, shallow: bool, quiet: bool) -> None:
    """Check a log directory, or one partition directory in it, without changing it.

    Checksums, order of offsets and leader epochs, records, indexes, producer snapshots and checkpoints. The exit code
    is 0 when there is no error, 1 when there is one, 2 when the directory cannot be read or is neither. A broker may be
    running on it; then its active segments can show findings that are none.
    """
    if not is_log_directory(directory):
        raise CommandError(f"{directory} is no log directory and no partition directory", exit_code=2)
    counts = dict.fromkeys(Severity, 0)
    try:
        with _Progress(directory, enabled=is_for_people()) as progress:
            verifier = Verifier(deep=not shallow, progress=progress.advance)
            for finding in verifier.verify(directory):
                counts[finding.severity] += 1
                if quiet and finding.severity is not Severity.ERROR:
                    continue
                with progress.hidden():
                    item(
                        f"{finding.severity}: {finding.path}: {finding.message}",
                        {"severity": finding.severity, "path": finding.path, "message": finding.message},
                    )
    except OSError as error:
        raise CommandError(f"cannot read {error.filename or directory}: {error.strerror}", exit_code=2) from error
    totals = verifier.totals
    names = ("partitions", "segments", "batches", "records", "bytes")
    item(
        f"{totals.partitions} partitions, {totals.segments} segments, {totals.batches} batches, "
        f"{totals.records} records, {totals.bytes} bytes: {counts[Severity.ERROR]} errors, "
        f"{counts[Severity.WARNING]} warnings, {counts[Severity.NOTE]} notes",
        {"totals": {name: getattr(totals, name) for name in names}, **{f"{name}s": n for name, n in counts.items()}},
    )
    if counts[Severity.ERROR]:
        sys.exit(1)


class _Progress:
    """A progress bar on standard error when that is a terminal, and nothing otherwise."""

    def __init__(self, directory: Path, *, enabled: bool) -> None:
        self._directory = directory
        self._enabled = enabled and sys.stderr.isatty()

    def __enter__(self) -> _Progress:
        if self._enabled:
            from broker.cli.progress import byte_bar

            self._bar = byte_bar()
            self._task = self._bar.add_task("verify", total=log_bytes(self._directory))
            self._bar.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._enabled:
            self._bar.stop()

    def advance(self, size: int) -> None:
        if self._enabled:
            self._bar.advance(self._task, size)

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """What is written meanwhile stands above the bar."""
        if self._enabled:
            self._bar.stop()
        yield
        if self._enabled:
            self._bar.start()
