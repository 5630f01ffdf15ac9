"""Reading ahead: the batches of the next steps, read by a thread while the device works."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")

AHEAD = 2
"""Batches that are read before they are asked for."""


class ReadAhead(Generic[T]):
    """A function of the step whose next values are made by a thread.

    The values are those of the function, whatever is asked for and when: a step that was not made
    ahead is made then, and what it raises is raised to who asks for it. One thread makes them one
    after the other, so that what it reads from is never read by two. Its ``with`` block ends when
    the value in work is made; those that wait are dropped.

    Args:
        function: of the step; pure.
        end: no step from here on is made ahead.
        ahead: how many values are.
    """

    def __init__(self, function: Callable[[int], T], *, end: int, ahead: int = AHEAD) -> None:
        self._function, self._end, self._ahead = function, end, ahead
        self._made: deque[tuple[int, Future[T]]] = deque()
        self._thread = ThreadPoolExecutor(1, "batches")

    def __call__(self, step: int) -> T:
        """The value of a step, and those after it begun."""
        if not self._made or self._made[0][0] != step:
            self._drop()
            self._begin(step)
        _, value = self._made.popleft()
        first = self._made[-1][0] + 1 if self._made else step + 1
        for later in range(first, min(step + 1 + self._ahead, self._end)):
            self._begin(later)
        return value.result()

    def __enter__(self) -> ReadAhead[T]:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._made.clear()
        self._thread.shutdown(cancel_futures=True)

    def _begin(self, step: int) -> None:
        self._made.append((step, self._thread.submit(self._function, step)))

    def _drop(self) -> None:
        while self._made:
            self._made.popleft()[1].cancel()
