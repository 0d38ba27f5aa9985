"""Secret states of public length: how long a state is in a ledger's file must not tell what it holds."""

from typing import Final

MARK: Final = b"\x00state\x00"  # no state that was written before there was padding begins with NUL
# The length of what is inside, which zeros at its end could not tell.
_LENGTH_BYTES: Final = 8
SMALL: Final = 1024
"""Room for a few secret whole numbers: noise that would not fit has hundreds of digits, and its scale some twenty."""


def padded(state: bytes, room: int) -> bytes:
    """The state, filled up to a length that follows from `room` alone, as long as it fits.

    A state that does not fit gets twice the room, and so on: then the length tells the power of two.

    >>> len(padded(b"7", 64)) == len(padded(b"1234567", 64)) < len(padded(b"7" * 65, 64))
    True
    """
    while len(state) > room:
        room *= 2
    return MARK + len(state).to_bytes(_LENGTH_BYTES, "big") + state.ljust(room, b"\x00")


def unpadded(stored: bytes) -> bytes:
    """The state that `padded` was given; one of an old ledger, which was not padded, as it is.

    >>> unpadded(padded(b"[7, 0]", 64)), unpadded(b"[7, 0]")
    (b'[7, 0]', b'[7, 0]')
    """
    if not stored.startswith(MARK):
        return stored
    begin = len(MARK) + _LENGTH_BYTES
    return stored[begin : begin + int.from_bytes(stored[len(MARK) : begin], "big")]
