"""Runs that are asked one question, or one for each key at once."""

from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from chary.answers import NoisyNumber, NoisyNumbers
from chary.calls.run import AnswerT, Run, StateT
from chary.data import Query

TableT = TypeVar("TableT")


class KeyedRun(Run[AnswerT, StateT], Generic[AnswerT, TableT, StateT]):
    """A run whose answer to a query with public keys is a table, in one scan, and to any other query one answer."""

    if TYPE_CHECKING:
        # A run of any kind takes any words; those of this one begin with the query, whose type says what is answered.
        @overload  # type: ignore[override]
        def ask(self, query: Query[NoisyNumber], *, request: str | None = None, **options: Any) -> AnswerT: ...

        @overload
        def ask(self, query: Query[NoisyNumbers], *, request: str | None = None, **options: Any) -> TableT: ...

        def ask(self, *question: Any, request: str | None = None, **options: Any) -> Any:
            """As for any run."""
