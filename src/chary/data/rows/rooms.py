"""How often units may still take part in what each of them may take part in so many times."""

import numpy as np
import pyarrow as pa


class Rooms:
    """How often some units may still take part, all others `hits` times. Secret.

    `left` has a column `unit` (int64 or string) and a column `room`. It is told apart by identity: an engine may keep
    what it made of it for as long as it lives.
    """

    def __init__(self, left: pa.Table, hits: int) -> None:
        self.left, self.hits = left, hits
        rooms = left["room"].to_numpy() if len(left) else np.array([hits])
        self.any, self.any_spent = len(left) > 0, bool(np.any(rooms == 0))
        self.least = int(rooms[rooms > 0].min(initial=hits))

    def __repr__(self) -> str:
        return "Rooms(<secret>)"
