"""A process that cleans logs for one cleaner thread, so that compaction has a core and an interpreter of its own.

The two passes are loops over single records, which in the broker hold the interpreter lock 5 ms at a time against every
request. Plans and messages go through its standard input and output as pickles; what is large stays in files. It says
how much it has read and written after every few hundred kilobytes and goes on when it is told to, so that rate limit,
cancelling and shutdown work as in a thread. It writes `.cleaned` files only: the broker swaps them.

It ends when its input does, so with the broker, however that ends; then it touches no file any more but those that it
has open, at most until the end of a sync.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, NoReturn

from log.cleaner.passes import CleaningPasses, Progress, Replace
from log.cleaner.plan import CleaningPlan
from log.cleaner.survivors import CleanerStats
from log.errors import LogCleaningAbortedError, LogError
from log.files.names import CLEANED_SUFFIX
from log.files.segment import delete_segment_files
from log.helper_process import leave_signals_to_the_broker, reap, start_helper

MIN_BYTES = 1 << 20
"""A cleaning that reads less is done by the thread itself: a process takes as long to start."""
_REPORT_BYTES = 256 << 10

_PROGRESS, _GROUP, _DONE, _FAILED, _STOPPED = range(5)


class CleaningProcessDiedError(LogError):
    """The process is gone, or could not be started."""


class CleaningProcess:
    """Started by the first cleaning; `close` ends it, and a cleaning after that starts another. For one thread.

    It asks whether to go on after 300 ms worth of `rate`, in bytes a second, or sooner.
    """

    def __init__(self, rate: float = float("inf")) -> None:
        self._report_bytes = max(1, int(min(_REPORT_BYTES, 0.3 * rate)))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the running process."""
        return None if self._process is None else self._process.pid

    def run(self, plan: CleaningPlan, progress: Progress, replace: Replace) -> tuple[int, CleanerStats]:
        """What `CleaningPasses.run` does. Raises CleaningProcessDiedError too, with no `.cleaned` files left."""
        try:
            self._send((plan, self._report_bytes))
            while True:
                kind, content = self._receive()
                if kind == _DONE:
                    end, stats = content
                    return end, stats
                if kind == _FAILED:
                    raise content
                try:
                    progress(content) if kind == _PROGRESS else replace(*content)
                except BaseException:
                    self._send(False)
                    # It may fail as it tidies up.
                    while self._receive()[0] not in (_STOPPED, _FAILED):
                        pass
                    raise
                self._send(True)
        except CleaningProcessDiedError:
            for segment in plan.segments:
                delete_segment_files(plan.directory, segment.base_offset, CLEANED_SUFFIX)
            raise

    def _send(self, message: object) -> None:
        if self._process is None:
            self._process = self._start()
        stream = self._process.stdin
        assert stream is not None
        try:
            pickle.dump(message, stream)
            stream.flush()
        except (OSError, ValueError) as error:
            raise self._died() from error

    def _receive(self) -> tuple[int, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        try:
            kind, content = pickle.load(self._process.stdout)
        except Exception as error:
            # Bytes that are no pickle, say of what an interpreter prints at its start, may end in any error.
            raise self._died() from error
        return kind, content

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            return start_helper("log.cleaner.process", subprocess.PIPE, subprocess.PIPE)
        except OSError as error:
            raise CleaningProcessDiedError(f"the process of the cleaner cannot be started: {error}") from error

    def _died(self) -> CleaningProcessDiedError:
        status = self.close()
        return CleaningProcessDiedError(f"the process of the cleaner has ended with status {status}")

    def close(self) -> int | None:
        """End it, idle or not, and return its exit status; None if there is none."""
        process, self._process = self._process, None
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        status = reap(process)
        process.stdout.close()
        return status


# In the process


def _end() -> NoReturn:
    """The broker is gone. Files may be another broker's by now, so nothing is tidied up on the way out."""
    signal.raise_signal(signal.SIGKILL)
    raise AssertionError("unreachable")


class _Broker:
    """The other end, as the process sees it."""

    def __init__(self, requests: IO[bytes], answers: IO[bytes]) -> None:
        self._requests = requests
        self._answers = answers
        self._report_bytes = 0
        self._unreported = 0

    def next_plan(self) -> CleaningPlan:
        plan, self._report_bytes = self._receive()
        self._unreported = 0
        assert isinstance(plan, CleaningPlan)
        return plan

    def progress(self, size: int) -> None:
        self._unreported += size
        if not size or self._unreported >= self._report_bytes:
            reported, self._unreported = self._unreported, 0
            self._ask(_PROGRESS, reported)

    def replace(self, base: int, bases: Sequence[int]) -> None:
        self._ask(_GROUP, (base, bases))

    def _ask(self, kind: int, content: object) -> None:
        self.tell(kind, content)
        if not self._receive():
            raise LogCleaningAbortedError("stopped by the broker")

    def tell(self, kind: int, content: object) -> None:
        try:
            pickle.dump((kind, content), self._answers)
            self._answers.flush()
        except OSError:
            _end()

    def _receive(self) -> Any:
        try:
            return pickle.load(self._requests)
        except (OSError, EOFError, pickle.UnpicklingError):
            _end()


def _serve(broker: _Broker) -> None:
    while True:
        plan = broker.next_plan()
        try:
            result = CleaningPasses(plan, broker.progress).run(broker.replace)
        except LogCleaningAbortedError:
            broker.tell(_STOPPED, None)
        except Exception as error:
            error.add_note(f"in the process of the cleaner:\n{traceback.format_exc()}")
            broker.tell(_FAILED, _portable(error))
        else:
            broker.tell(_DONE, result)


def _portable(error: Exception) -> Exception:
    """The error if it survives the way to the broker, else one that says the same."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return LogError(f"{type(error).__name__}: {error}")
    return error


def main() -> None:
    """Serve the broker until it is gone."""
    leave_signals_to_the_broker()
    broker = _Broker(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    _serve(broker)


if __name__ == "__main__":
    main()
