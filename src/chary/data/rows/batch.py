"""What is told of rows that were appended together."""

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Batch:
    """One append: `number` counts the batches of these rows from 1. How many rows there are after it may be secret.

    `found` tells that they were there before: a file of a folder that the opening had found.
    """

    number: int
    request: str | None = None
    rows: int = field(default=0, repr=False)
    found: bool = False


Arrival = Callable[[Batch], object]
