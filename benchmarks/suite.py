"""All benchmarks that compare, one after the other, and one page of what they say: `make bench`.

    python -m benchmarks.suite [--quick] [--parts NAMES] [--against FILE] [--directory build/bench] [--markdown FILE]
                               [--docs] [--stored FILE]

25 to 50 minutes on two cores, by these and by the disk; `--quick` takes about a minute and only shows that
everything runs. Each part is a module of this package with `--json`. Odradek, Apache Kafka 3.9.1 and, where there is
one, the bare sink take turns in it. Results are kept as `result-TIME.json` in the directory, the page is `index.html`
there: first what falls short of Kafka, then what has changed since the last stored run (or that of `--against`), then
each part. The same as Markdown is `results.md` (or `--markdown`); `--docs` puts it into docs/performance.md.

Runs are compared by their ratios to Kafka in the same run, because machines and their other work differ between runs.
A part that fails, or is not done in time, is named on the page, and so is a workload of one; the rest goes on, and the
command ends with 1. What is there is written after every part, so an interrupted run is worth something too: with
`--stored` it is that run, parts of `--parts` are run (again) and put into it, and without these it is only shown.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bounded import run_bounded
from benchmarks.charts import replace_section
from benchmarks.rounds import log, told
from benchmarks.suite_markdown import markdown
from benchmarks.suite_page import page
from benchmarks.suite_parts import PARTS, Part
from benchmarks.suite_results import Results, Row
from tests.support.paths import ROOT

DIRECTORY = ROOT / "build" / "bench"
DOCUMENT = ROOT / "docs" / "performance.md"
HEADING = "One run of all of them"


@dataclass(frozen=True)
class Output:
    """Where results go, and with what they are compared."""

    directory: Path
    markdown: Path
    before: Results | None

    def write(self, results: Results) -> Path:
        """Returns the page."""
        (self.directory / f"result-{results.time}.json").write_text(results.to_json())
        self.markdown.write_text(markdown(results), encoding="utf-8")
        where = self.directory / "index.html"
        where.write_text(page(results, self.before), encoding="utf-8")
        return where


def run_part(part: Part, quick: bool) -> tuple[list[Row], dict[str, str]]:
    """Its rows, and what of it failed. Raises RuntimeError with the end of what it said if all of it did."""
    arguments = (part.quick or ()) if quick else part.arguments
    printed = run_bounded(part.module, ["--json", *arguments], part.limit_s, lambda line: log(f"    {line}"))
    lines = printed.strip().splitlines()
    if not lines:
        raise RuntimeError("it printed nothing")
    found = json.loads(lines[-1])
    return list(part.read(found)), found.pop("failures", {})


def run(parts: Sequence[Part], results: Results, output: Output) -> None:
    """Puts them into `results`."""
    quick = results.quick
    begun = time.monotonic()
    for number, part in enumerate(parts, 1):
        expected = "" if quick else f", about {part.seconds} s"
        so_far = f"{time.monotonic() - begun:.0f} s so far"
        log(f"[{number}/{len(parts)}] {part.name}: python -m {part.module} ... ({so_far}{expected})")
        began = time.monotonic()
        results.forget(part.name)
        try:
            results.parts[part.name], failures = run_part(part, quick)
            results.failures.update({f"{part.name}: {name}": text for name, text in failures.items()})
        except Exception as error:  # whatever it is, the other parts are measured
            results.failures[part.name] = told(error) if not isinstance(error, RuntimeError) else str(error)
        results.put_in_order([each.name for each in PARTS])
        results.seconds[part.name] = round(time.monotonic() - began)
        log(f"[{number}/{len(parts)}] {part.name}: {results.seconds[part.name]} s")
        output.write(results)


def last_stored(directory: Path, results: Results) -> Results | None:
    """The newest run of the same form that is older."""
    for path in sorted(directory.glob("result-*.json"), reverse=True):
        found = Results.of_json(path.read_text())
        if found.quick is results.quick and found.time < results.time:
            return found
    return None


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="about a minute, to see that everything runs")
    parser.add_argument("--parts", help="comma-separated, of: " + ", ".join(f"'{part.name}'" for part in PARTS))
    parser.add_argument("--against", type=Path, help="a stored result to compare with (the last one)")
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help="where results and page go")
    parser.add_argument("--markdown", type=Path, help="where the tables go as Markdown (results.md beside the page)")
    parser.add_argument("--docs", action="store_true", help="put the tables into docs/performance.md, too")
    parser.add_argument("--stored", type=Path, help="a stored result to show, and to put --parts into")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the running part is ended
    # A number in a name has a comma of its own.
    names = options.parts or ("" if options.stored else ",".join(part.name for part in PARTS))
    wanted = [part for part in PARTS if part.name in names]
    if names and not wanted:
        parser.error(f"no such part: {names}")
    options.directory.mkdir(parents=True, exist_ok=True)
    results = Results.of_json(options.stored.read_text()) if options.stored else Results.new(options.quick)
    before = Results.of_json(options.against.read_text()) if options.against else None
    before = before or last_stored(options.directory, results)
    output = Output(options.directory, options.markdown or options.directory / "results.md", before)
    run([part for part in wanted if not results.quick or part.quick is not None], results, output)
    print(output.write(results))
    if options.docs:
        replace_section(DOCUMENT, HEADING, markdown(results))
    if results.failures:
        log("\n".join(f"{name} failed: {text}" for name, text in results.failures.items()))
        sys.exit(1)


if __name__ == "__main__":
    main()
