"""Where the suites come from: registries, at a version that is named, fetched once and kept beside Kafka's jars."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tests.reference.kafka import cache_folder
from tests.support.fetched import fetched_once


def kept(name: str) -> Path:
    """The folder of one suite."""
    return cache_folder() / "peers" / name


def go_module(module: str, version: str) -> Path:
    """A module as Go's own cache holds it: its tests are part of it, and nobody may write into it."""
    command = ["go", "mod", "download", "-json", f"{module}@{version}"]
    done = subprocess.run(command, cwd=cache_folder(), stdout=subprocess.PIPE, check=True)
    return Path(json.loads(done.stdout)["Dir"])


def source_distribution(project: str, version: str) -> Path:
    """What PyPI holds as the source of a Python project, unpacked."""
    folder = kept(f"{project}-{version}")

    def fetch() -> None:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, f"{project}=={version}", "--dest", str(folder)], check=True)
        for archive in folder.glob("*.tar.gz"):
            with tarfile.open(archive) as file:
                file.extractall(folder, filter="data")

    return next(each for each in fetched_once(folder, fetch).iterdir() if each.is_dir())


def needed(peer: str, packages: Sequence[str]) -> Path:
    """A folder with what the tests of a Python project import besides, apart from what is installed."""
    folder = kept(f"needed-{peer}")

    def fetch() -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        subprocess.run([*command, *packages], check=True)

    return fetched_once(folder, fetch)


def git_tag(address: str, tag: str) -> Path:
    """A repository as it was when it was tagged, without its history."""
    folder = kept(f"{address.rpartition('/')[2].removesuffix('.git')}-{tag}")
    tree = folder / "tree"

    def fetch() -> None:
        clone = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1"]
        subprocess.run([*clone, "--branch", tag, address, str(tree)], check=True)

    fetched_once(folder, fetch)
    return tree
