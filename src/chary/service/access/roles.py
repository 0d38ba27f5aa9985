"""Who may what: three roles, and for each action the roles that may do it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from chary.errors import InvalidParameter


class Role(StrEnum):
    """What somebody is to a dataset.

    >>> [str(role) for role in Role]
    ['custodian', 'analyst', 'reader']
    """

    CUSTODIAN = "custodian"
    ANALYST = "analyst"
    READER = "reader"


EVERYBODY: Final = frozenset(Role)
_CUSTODIAN: Final = frozenset({Role.CUSTODIAN})
_ANALYST: Final = frozenset({Role.ANALYST})
# Asking is the analyst's alone: a custodian who may ask holds a token with both roles, and the trail says so.
ACTIONS: Final[Mapping[str, frozenset[Role]]] = {
    "look": EVERYBODY,
    "history": EVERYBODY,
    "ask": _ANALYST,
    "stand": _ANALYST,
    "append": _CUSTODIAN,
    "cap": _CUSTODIAN,
    "publish": _CUSTODIAN,
    "tokens": _CUSTODIAN,
    "trail": _CUSTODIAN,
    "metrics": frozenset({Role.CUSTODIAN, Role.READER}),
}


@dataclass(frozen=True)
class Principal:
    """Who a token stands for: the analyst's name in the ledger, roles, and datasets ("*" is all of them).

    >>> alice = Principal("1f", "alice", frozenset({Role.ANALYST}), frozenset({"visits"}))
    >>> alice.may("ask"), alice.may("append"), alice.sees("visits"), alice.sees("votes")
    (True, False, True, False)
    """

    token: str
    analyst: str
    roles: frozenset[Role]
    datasets: frozenset[str]

    def may(self, action: str) -> bool:
        """Whether one of the roles may do this."""
        return bool(self.roles & ACTIONS[action])

    def sees(self, dataset: str) -> bool:
        """Whether the token is for this dataset."""
        return "*" in self.datasets or dataset in self.datasets

    @property
    def origin(self) -> str:
        """What the ledger says of entries that this token made: its name, never its secret."""
        return f"token {self.token}"

    @property
    def everywhere(self) -> bool:
        """Whether the token is for all datasets."""
        return "*" in self.datasets

    @property
    def custodian(self) -> bool:
        """Whether everything that was asked is shown."""
        return Role.CUSTODIAN in self.roles


def roles_of(names: object) -> frozenset[Role]:
    """Roles from their names; `InvalidParameter` for others and for none.

    >>> sorted(roles_of(["reader", "analyst"]))
    [<Role.ANALYST: 'analyst'>, <Role.READER: 'reader'>]
    """
    known = {role.value: role for role in Role}
    if not isinstance(names, (list, tuple)) or not names or any(name not in known for name in map(str, names)):
        raise InvalidParameter(f"roles are some of {', '.join(known)}")
    return frozenset(known[str(name)] for name in names)
