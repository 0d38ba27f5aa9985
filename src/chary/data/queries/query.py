"""What every query is: a function from a database to exact integers, and how far neighbours can move them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypedDict

from typing_extensions import TypeVar

from chary.data.domain.keys import Domain, Key
from chary.data.neighbouring import Neighbouring
from chary.data.predicates.predicate import Predicate
from chary.data.queries.contribution import Contribution, per_unit
from chary.errors import InvalidQuery

AnsweredT = TypeVar("AnsweredT", default=Any)


class Limits(TypedDict, total=False):
    """The two limits of `Keying`, of which at most one may be given."""

    keep_per_unit: int | None
    stated_per_unit: int | None


@dataclass(frozen=True)
class Keying:
    """The public keys of a keyed query, and in how many of them one unit may appear.

    `keep_per_unit=c`: chary itself keeps, for each unit, only the first c keys in the order of the list.
    `stated_per_unit=c`: the caller vouches that no unit has rows in more than c of the keys. Nothing checks it: if it
    is false, so is the privacy guarantee.
    """

    domain: Domain
    keep_per_unit: int | None = None
    stated_per_unit: int | None = None

    def __post_init__(self) -> None:
        if self.keep_per_unit is not None and self.stated_per_unit is not None:
            raise InvalidQuery("give keep_per_unit (chary enforces it) or stated_per_unit (you vouch for it), not both")
        for name in ("keep_per_unit", "stated_per_unit"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, per_unit(getattr(self, name), name))

    def spread(self, unit: str | None) -> int:
        """The largest number of keys in which one unit has rows; a single row has one key."""
        limit = self.keep_per_unit or self.stated_per_unit or len(self.domain)
        return 1 if unit is None else min(limit, len(self.domain))

    def body(self) -> dict[str, Any]:
        """A JSON-able description."""
        limits = {"keep_per_unit": self.keep_per_unit, "stated_per_unit": self.stated_per_unit}
        return self.domain.body() | limits


@dataclass(frozen=True, kw_only=True)
class Keyed(Generic[AnsweredT]):
    """Shared by everything that can be asked for each key: `where`, `keying`, `by`, `keys`."""

    where: Predicate | None = None
    keying: Keying | None = None

    def _keyed(self, columns: str | Sequence[str], keys: Iterable[Any], limits: Limits) -> Any:
        """The same query for each key; what `by` of every kind of query does."""
        if self.keying is not None:
            raise InvalidQuery("the query is keyed already: give all columns in one call, by(['clinic', 'day'], keys)")
        keying = Keying(Domain.of(columns, keys), **limits)
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return type(self)(**(fields | {"keying": keying}))

    @property
    def keys(self) -> tuple[tuple[Key, ...], ...] | None:
        """The public keys in the order of the answers; None for a query with a single answer."""
        return None if self.keying is None else self.keying.domain.rows

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose values are the parts of a key."""
        return () if self.keying is None else self.keying.domain.columns

    def _common_body(self) -> dict[str, Any]:
        by = None if self.keying is None else self.keying.body()
        return {"where": None if self.where is None else self.where.text, "by": by}

    def _clauses(self) -> str:
        where = "" if self.where is None else f" where {self.where.text}"
        if self.keying is None:
            return where
        return f"{where} by {', '.join(self.keying.domain.columns)} ({len(self.keying.domain)} keys)"


class Query(ABC, Generic[AnsweredT]):
    """A query whose answer is one exact integer, or one for each key, in steps of `grid`.

    Its type says what a release of it answers: `Query[NoisyNumber]`, or with keys `Query[NoisyNumbers]`. Frozen and
    hashable. `sensitivity`, `reach`, `l1` and `together` follow from `contribution`; see there for the proofs.
    """

    @property
    @abstractmethod
    def grid(self) -> Fraction:
        """The size of one step: an answer n means n * grid."""

    @property
    @abstractmethod
    def keys(self) -> tuple[tuple[Key, ...], ...] | None:
        """The public keys in the order of the answers; None for a single answer."""

    @property
    def columns(self) -> tuple[str, ...]:
        """What the parts of a key are called."""
        return ("position",)

    @abstractmethod
    def contribution(self, neighbouring: Neighbouring) -> Contribution:
        """What one unit can cause; `InvalidQuery` when the query does not bound it for this unit."""

    def known_range(self, neighbouring: Neighbouring) -> tuple[int | None, int | None]:
        """What the answer can be whatever the data, None for no end: counts, say, are never below 0."""
        unit = self.contribution(neighbouring)
        return 0 if unit.low >= 0 else None, 0 if unit.high <= 0 else None

    @abstractmethod
    def body(self) -> dict[str, Any]:
        """A JSON-able canonical description: equal queries, and only they, have equal bodies."""

    @abstractmethod
    def describe(self) -> str:
        """A short text for people; it does not list the keys."""

    def sensitivity(self, neighbouring: Neighbouring) -> int:
        """The largest change of one key's integer between neighbours."""
        return self.contribution(neighbouring).sensitivity(neighbouring.relation)

    def reach(self, neighbouring: Neighbouring) -> int:
        """In how many keys neighbours can differ; 1 for a single answer."""
        return self.contribution(neighbouring).reach(neighbouring.relation)

    def l1(self, neighbouring: Neighbouring) -> int:
        """The largest sum of changes over all keys between neighbours."""
        return self.contribution(neighbouring).l1(neighbouring.relation)

    def one_direction(self, neighbouring: Neighbouring) -> bool:
        """Whether any two neighbours differ in one direction: no key's integer rises where another's falls.

        A choice of the largest then takes half the noise (theory 2).
        """
        return self.contribution(neighbouring).one_direction(neighbouring.relation)

    def together(self, neighbouring: Neighbouring) -> int:
        """The largest change of the sum over any of the keys between neighbours."""
        return self.contribution(neighbouring).together(neighbouring.relation)
