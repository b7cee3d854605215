"""The command ``odradek``, as a script, as ``python -m odradek``, and as the program of every child process."""

from __future__ import annotations

import os
import sys

if __package__:
    from odradek._path import put_ours_first
else:  # run by its file name, with no path to our packages yet
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from _path import put_ours_first  # type: ignore[import-not-found,no-redef]

    del sys.path[0]


def main() -> None:
    """Run the command line with our own packages, whatever lies in the working directory."""
    put_ours_first()
    from broker.dev.parent import end_with_parent

    end_with_parent()
    from broker.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
