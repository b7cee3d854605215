"""What `python -m tests.campaign` does, for a short while."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.support.cluster import ROOT, python_environment


def test_nothing_is_lost_doubled_or_reordered() -> None:
    command = [sys.executable, "-m", "tests.campaign", "--minutes", "0.2", "--seed", "4", "--brokers", "3"]
    environment = {**os.environ, **python_environment()}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False)
    print(f"\n{done.stdout}")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    found = re.search(r"; (\d+) records acknowledged .* (\d+) faults ", done.stdout)
    assert found
    assert int(found[1]) > 500
    assert int(found[2]) > 0
