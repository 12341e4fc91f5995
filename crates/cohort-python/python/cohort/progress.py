"""How far it is: one line in a terminal, one in a notebook, nothing in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Progress", "watcher"]

#: Called about ten times a second with what is done, what is planned, and what it is at.
Progress = Callable[[int, int, str], object]

#: Work that is over sooner shows nothing.
_QUIET_SECONDS = 1.0


def watcher(progress: bool | Progress | None) -> tuple[Progress | None, Callable[[], None]]:
    """What to tell how far it is, and what to call in the end.

    ``None`` shows progress where somebody can see it; ``True`` always, ``False`` never; a function
    is called instead.
    """
    if callable(progress):
        return progress, lambda: None
    notebook = _notebook_display()
    if progress is None:
        progress = notebook is not None or sys.stderr.isatty()
    if not progress:
        return None, lambda: None
    line = _NotebookLine(notebook) if notebook is not None else _TerminalLine()
    return line, line.clear


class _Line:
    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = False

    def __call__(self, done: int, planned: int, what: str) -> None:
        elapsed = time.monotonic() - self._started
        if elapsed < _QUIET_SECONDS:
            return
        self._shown = True
        share = done / planned if planned else 0.0
        left = f", about {_span(elapsed / share - elapsed)} left" if share > 0 else ""
        bar = "█" * round(30 * share) + "░" * (30 - round(30 * share))
        self._show(f"{bar} {share:4.0%}  {_span(elapsed)} gone{left}  {what}".rstrip())

    def clear(self) -> None:
        if self._shown:
            self._show("")

    def _show(self, text: str) -> None:
        raise NotImplementedError


class _TerminalLine(_Line):
    def _show(self, text: str) -> None:
        # To the start of the line, and clear what was there.
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


class _NotebookLine(_Line):
    def __init__(self, display: Any) -> None:
        super().__init__()
        self._display = display
        self._handle: Any = None

    def _show(self, text: str) -> None:
        content = {"text/plain": text}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def _notebook_display() -> Any:
    """IPython's display function, inside a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display

    return display


def _span(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
