"""At most so many rows of one unit, in a table whose neighbours replace rows one by one."""

from dataclasses import dataclass

from chary.errors import InvalidParameter
from chary.numbers import whole


@dataclass(frozen=True)
class EntryLimit:
    """No value of the column `of` is in more than `most` rows. Rows where it is NULL belong to nobody else's unit.

    That is checked of all rows at the opening and of the units in each appended batch; a batch that breaks it is
    refused whole. Guarantee: between streams that both keep the limit no refusal happens, so none tells them apart.
    A refusal does tell that some unit has more rows, whom the limit promises nothing.
    """

    of: str
    most: int

    def __post_init__(self) -> None:
        if not isinstance(self.of, str) or not self.of:
            raise InvalidParameter("a limit on entries needs the name of the column of their unit")
        whole(self.most, "the entries of a unit")
