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
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True) as campaign:
        try:
            told, errors = campaign.communicate(timeout=400)
        finally:
            campaign.terminate()  # and not killed: its brokers would stay
    print(f"\n{told}")
    assert campaign.returncode == 0, told[-3000:] + errors[-6000:]
    found = re.search(r"; (\d+) records acknowledged .* (\d+) faults ", told)
    assert found
    assert int(found[1]) > 500
    assert int(found[2]) > 0
