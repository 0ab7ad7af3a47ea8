"""An iterator that is run by a thread, some items before they are asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class _End:
    """Marker behind the last item."""


def ahead(items: Iterator[T], depth: int = 2) -> Iterator[T]:
    """`items` in their order, at most `depth` of them made before they are asked for.

    It pays where making them leaves Python's lock alone most of the time. What `items` raises is raised in its place.
    """
    end = _End()
    with ThreadPoolExecutor(1) as thread:
        waiting = deque(thread.submit(next, items, end) for _ in range(depth))
        while not isinstance(item := waiting.popleft().result(), _End):
            waiting.append(thread.submit(next, items, end))
            yield item
