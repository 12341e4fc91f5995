"""The command ``cohort``, which comes with the package: ``cohort --help``, ``python -m cohort``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

from cohort import _engine

__all__ = ["main"]


def main(words: Sequence[str] | None = None) -> int:
    """Does what the words say (those of the process, unless told) and returns how the process is to
    end: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    words = sys.argv[1:] if words is None else list(words)
    # Whatever Python has not written yet comes before what the command says.
    sys.stdout.flush()
    asked = ["cohort", *map(os.fspath, words)]
    if threading.current_thread() is not threading.main_thread():
        return _engine.run_command(asked)
    # Ctrl-C is the command's business while it runs: Python would wait for its end.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return _engine.run_command(asked)
    finally:
        signal.signal(signal.SIGINT, before)
