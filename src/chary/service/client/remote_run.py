"""A run of a service: asked in the same words as one of a session."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from chary.answers import Answer, Spending
from chary.calls.run import Run
from chary.errors import InvalidParameter
from chary.service.client.said import words_said
from chary.service.wire.typed_values import of_typed
from chary.session import Quote


class RunAsker(Protocol):
    """What a run needs of the session that opened it."""

    def question(self, run: int, body: Mapping[str, Any], request: str | None) -> Answer:
        """Ask a run."""

    def quoted(self, path: str, body: Mapping[str, Any]) -> Quote:
        """Quote a question."""

    def told_run(self, run: int) -> dict[str, Any]:
        """What is public of a run now."""


class RemoteRun(Run[Any, Any]):
    """An open run: made by `Remote.start`, and again by `Remote.resume`. It is asked, quoted and closed as any run.

    `state` has the figures of what is public of it, by name; `words` are the names of what a question says.
    """

    def __init__(self, session: RunAsker, told: Mapping[str, Any]) -> None:
        """Use `Remote.start` or `Remote.resume`."""
        self.call, self.kind, self._session, self._closed = int(told["run"]), str(told["kind"]), session, False
        self._words = tuple(told["words"])

    def ask(self, *question: Any, request: str | None = None, **options: Any) -> Any:
        """As for any run. Without `request` it has a key of its own, so that trying again pays nothing twice."""
        self._open()
        return self._session.question(self.call, words_said(self._words, question, options), request)

    def quote(self, *question: Any, **options: Any) -> Quote:
        """What a question would cost now, and how accurate it would be; nothing is charged or read."""
        self._open()
        return self._session.quoted(f"runs/{self.call}/quotes", words_said(self._words, question, options))

    @property
    def state(self) -> Mapping[str, Any]:
        """The figures of what is public of the run now."""
        return MappingProxyType(self._session.told_run(self.call)["state"])

    @property
    def words(self) -> Any:
        """The names of what a question to the run may say."""
        return self._words

    @property
    def spent(self) -> Spending:
        """What the opening and all questions of the run were charged together."""
        spent: Spending = of_typed(self._session.told_run(self.call)["price"]["charged"])
        return spent

    def follow(self) -> Callable[[], object]:
        """A service asks again by standing questions: `InvalidParameter`."""
        raise InvalidParameter("a service asks again by itself where a question stands: leave follow= out")
