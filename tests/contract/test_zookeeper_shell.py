"""ZooKeeper's own command line client, of Kafka 3.9.1, says the same of the embedded server as of a real one."""

from __future__ import annotations

import re

import pytest

from tests.reference import kafka
from tests.support.zookeeper_servers import ZooKeepers, zookeeper_kinds

COMMANDS = """\
create /shell-test data
create /shell-test
create -s /shell-test/seq- one
create -e /shell-test/ephemeral two
create -c /shell-test/container
create /shell-test/a/b/c none
get -s /shell-test
ls /shell-test
ls -s /shell-test
ls -R /shell-test
stat /shell-test
set /shell-test more
set -v 7 /shell-test more
set -s -v 1 /shell-test most
addWatch -m PERSISTENT /shell-test
set /shell-test told
removewatches /shell-test
removewatches /shell-test
getAcl /shell-test
addauth digest user:secret
setAcl /shell-test/container auth::cdrwa
getAcl -s /shell-test/container
setAcl /shell-test/container nobody:x:r
whoami
getEphemerals /shell-test
getAllChildrenNumber /shell-test
sync /shell-test
delete /shell-test
delete -v 9 /shell-test/ephemeral
deleteall /shell-test
get /shell-test
version
close
"""
# Of each server and each moment its own.
OWN = (
    (re.compile(r"^(cZxid|mZxid|pZxid) = 0x[0-9a-f]+$"), r"\1 = own"),
    # 0x0 is nobody's.
    (re.compile(r"^(ephemeralOwner) = 0x[0-9a-f]{2,}$"), r"\1 = own"),
    (re.compile(r"^(ctime|mtime) = .*$"), r"\1 = own"),
    (re.compile(r"127\.0\.0\.1:\d+"), "HOST:PORT"),
    (re.compile(r"0x[0-9a-f]{8,}"), "own"),
    (re.compile(r"zxid: \d+"), "zxid: own"),
    (re.compile(r"^(WATCHER::|WatchedEvent)(.*) zxid: .*$"), r"\1\2"),
)


def spoken(address: str) -> list[str]:
    """What the shell prints, without what differs each time."""
    done = kafka.run_tool("org.apache.zookeeper.ZooKeeperMain", "-server", address, stdin=COMMANDS)
    lines = []
    for line in (done.stdout + "\n--- errors\n" + done.stderr).splitlines():
        # The welcome, and lines of the log with their times.
        if re.match(r"^(\[?\d{4}-|\[?\d{2}:|Connecting to|Welcome|JLine|\[zk: )", line):
            continue
        for pattern, text in OWN:
            line = pattern.sub(text, line)
        lines.append(line.rstrip())
    return lines


@pytest.mark.skipif(len(zookeeper_kinds(both=True)) < 2, reason="compares both servers")
def test_zookeeper_shell_says_the_same(zookeepers: ZooKeepers) -> None:
    kafka.require()
    found = {kind: spoken(zookeepers.address(kind)) for kind in zookeeper_kinds(both=True)}
    assert "Created /shell-test" in found["java"]
    assert any("Node already exists: /shell-test" in line for line in found["java"])
    assert len(found["java"]) > 60
    assert found["embedded"] == found["java"]
