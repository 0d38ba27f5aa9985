"""The counters of a race: what each target was hit for, and how far the least of them rose (docs/theory.md)."""

from collections.abc import Mapping

from chary.errors import UnknownHeld


def check_opened(race: int, secret: bytes | None) -> None:
    """Refuse a race whose opening was interrupted."""
    if secret is None:
        raise UnknownHeld(f"call {race} counts no targets: it was interrupted; open a new one")


def risen(before: Mapping[str, int], raised: Mapping[str, int], full: int | None) -> tuple[dict[str, int], int]:
    """The counters after a call that raised some of them, and what is charged; `full` is paid instead of counting.

    >>> risen({"a": 0, "b": 2}, {"a": 1, "b": 4}, None), risen({"a": 0, "b": 2}, {}, 9)
    (({'a': 1, 'b': 6}, 1), ({'a': 0, 'b': 2}, 9))
    """
    if full is not None:
        return dict(before), full
    after = {name: count + raised.get(name, 0) for name, count in before.items()}
    return after, min(after.values()) - min(before.values())
