"""What can go wrong, with the same sentences as on the command line."""

import http.client

__all__ = ["BadInput", "CohortError", "Failed", "ServiceError"]


class CohortError(Exception):
    """Everything that cohort refuses or fails at. The message is one line: what was found, what
    was expected, what to do."""


class BadInput(CohortError, ValueError):
    """What was given is at fault."""


class Failed(CohortError, RuntimeError):
    """The machine is at fault: a disk that is full, threads that cannot be started."""


class ServiceError(CohortError):
    """The service refused a request, or did not answer."""

    def __init__(self, message: str, code: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        #: The service's word for it, such as ``decision_unknown``; it never changes.
        self.code = code
        #: The status of the answer; ``None`` where there was none.
        self.status = status


def cause_of(lost: Exception) -> str:
    """Why there was no whole answer, in words."""
    if isinstance(lost, http.client.IncompleteRead):
        return (
            "the answer broke off before its end (of a log: events may have been removed before they "
            "were sent, and the service's log says so)"
        )
    return str(lost) or type(lost).__name__
