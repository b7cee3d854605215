"""Every page with commands of `odradek` has a test that runs them, or a reason for none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.site.test_site import PAGES, commands_in
from tests.support.cluster import python_environment
from tests.support.paths import ROOT

GUIDE = "tests/operations/test_pages.py::test_page"
REFERENCE = "tests/operations/test_reference_pages.py::test_commands"
ZOOKEEPER = "tests/operations/test_reference_pages.py::test_zookeeper_of_one_node"
SECURITY = "tests/operations/test_security_page.py::test_from_nothing_to_scram"

RUN = {
    "README.md": "tests/cluster/test_readme.py::test_the_tour",
    "docs/client-telemetry.md": REFERENCE,
    "docs/logging.md": REFERENCE,
    "docs/operations/backup-and-restore.md": GUIDE,
    "docs/operations/growing-and-shrinking.md": GUIDE,
    "docs/operations/lost-data-directory.md": GUIDE,
    "docs/operations/lost-zookeeper.md": GUIDE,
    "docs/operations/moving-partitions.md": GUIDE,
    "docs/operations/replacing-a-broker.md": GUIDE,
    "docs/operations/replacing-a-disk.md": GUIDE,
    "docs/operations/rolling-restart.md": GUIDE,
    "docs/operations/unclean-shutdown.md": GUIDE,
    "docs/security.md": SECURITY,
    "docs/security/acls.md": REFERENCE,
    "docs/security/quotas.md": REFERENCE,
    "docs/spark-cluster.md": "tests/site/test_commands_are_run.py::test_the_zip_of_the_spark_source",
    "docs/start/spark.md": "tests/site/test_start.py::test_spark",
    "docs/zookeeper.md": ZOOKEEPER,
}

NOT_RUN = {
    "docs/spark.md": "the jobs run in tests/spark with topics and directories of their own, and by docs/operations",
}


def test_no_page_is_forgotten() -> None:
    assert RUN.keys() & NOT_RUN.keys() == set()
    assert RUN.keys() | NOT_RUN.keys() == {str(page.relative_to(ROOT)) for page in PAGES if any(commands_in(page))}


@pytest.mark.parametrize("page", RUN)
def test_its_test_is_there(page: str) -> None:
    file, _, test = RUN[page].partition("::")
    assert f"\ndef {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_the_zip_of_the_spark_source(tmp_path: Path) -> None:
    (command,) = commands_in(ROOT / "docs" / "spark-cluster.md")
    words = [sys.executable, "-m", "broker", *command.split()[1:]]
    done = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, **python_environment()}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (made,) = tmp_path.glob("*.zip")
    assert any(name.startswith("spark_jobs/") for name in ZipFile(made).namelist())
