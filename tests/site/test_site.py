"""The documentation is whole: generated parts are up to date, links lead somewhere, names exist, commands parse."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from broker.cli.main import odradek
from tests.site.generated import WRITTEN
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


@pytest.mark.parametrize("name", WRITTEN)
def test_what_the_code_writes_is_up_to_date(name: str) -> None:
    """Else: python -m tests.site.generated"""
    assert (DOCS / name).read_text(encoding="utf-8") == WRITTEN[name]()


def test_the_site_is_built_and_asks_nobody_else(tmp_path: Path) -> None:
    """Strict: a link or an anchor that leads nowhere, or a page that is in no menu, fails."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    loads = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(https?:)?//", re.IGNORECASE)
    assert [str(page) for page in pages if loads.search(page.read_text(encoding="utf-8"))] == []


def names_in(path: Path) -> set[str]:
    """Functions, methods, classes and names that are given a value in a module or class body."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_names_of_the_code_exist(page: Path) -> None:
    missing = []
    for reference in re.findall(r"`((?:\w+/)+[a-z]\w*\.py(?:::\w+)?)`", page.read_text(encoding="utf-8")):
        path, _, name = reference.partition("::")
        if not (ROOT / path).is_file() or (name and name not in names_in(ROOT / path)):
            missing.append(reference)
    assert missing == []


def commands_in(page: Path) -> Iterator[str]:
    """`odradek ...` in indented and fenced blocks of a page; with `\\` at its end a line goes on."""
    fenced = False
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced or line.startswith("    "):
            for part in re.split(r"[|&;]\s+", line.split(" #")[0].strip().removeprefix("$ ")):
                if re.match(r"odradek( |$)", part):
                    yield part.rstrip(" &")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_parse(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a command with options that it has, and nothing is missing; files need not be there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ODRADEK_BOOTSTRAP_SERVERS", "127.0.0.1:9092")
    wrong = []
    for line in commands_in(page):
        words = [re.sub(r"^<.*>$", "x", word) for word in shlex.split(line)[1:] if word != "..."]
        command: click.Command = odradek
        context: click.Context | None = None
        try:
            while True:
                context = command.make_context(command.name or "odradek", list(words), parent=context)
                if not isinstance(command, click.Group) or not (context._protected_args + context.args):
                    break
                name, found, words = command.resolve_command(context, context._protected_args + context.args)
                assert found is not None, name
                command = found
        except click.exceptions.Exit:
            pass  # --help and --version
        except click.UsageError as error:
            if "does not exist" not in error.message:
                wrong.append(f"{line}: {error.format_message()}")
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_of_make_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    suites = re.search(r"^SUITES := (.*)$", makefile, re.MULTILINE)
    assert suites is not None
    targets = {*re.findall(r"^([a-z-]+):", makefile, re.MULTILINE), *suites[1].split()}
    text = page.read_text(encoding="utf-8")
    asked = re.findall(r"(?:^ {4}|`)make ([a-z-]+)", text, re.MULTILINE)
    assert set(asked) - targets == set()
