"""Datasets that are served: each opened once, asked by many analysts in sessions that share its rows and ledger."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from chary.data import CSV
from chary.errors import InvalidParameter
from chary.filters import Budget
from chary.service.access.origins import asked_through
from chary.service.access.roles import Principal
from chary.service.serving.charges_so_far import ChargesSoFar
from chary.service.serving.service_config import DatasetOptions, ServiceConfig
from chary.service.wire.problems import Refusal
from chary.session import Session, open, open_series


@dataclass(frozen=True)
class Served:
    """One dataset: the session that opened it, and whether its answers are shared among analysts.

    `growing` guards appends: one at a time. It is held together with `rows_of` in the service's database.
    """

    name: str
    session: Session
    shared: bool
    growing: threading.Lock
    charges: ChargesSoFar = field(default_factory=ChargesSoFar, repr=False, compare=False)

    def asked_by(self, analyst: str, on_step: Callable[[str], None] | None = None) -> Session:
        """A session of one analyst on the same rows and the same ledger; it is not closed."""
        spine = self.session.spine
        return Session(replace(spine, analyst=analyst, on_step=on_step or spine.on_step))

    def acting(self, who: Principal, on_step: Callable[[str], None] | None = None) -> Session:
        """The same for whatever is written: what it charges, caps or appends names the token in the ledger."""
        spine = self.asked_by(who.analyst, on_step).spine
        return Session(replace(spine, ledger=asked_through(spine.ledger, who.origin)))

    def replaying(self, analyst: str) -> Session:
        """The same, which tells what the ledger has under request keys, and asks nothing."""
        return Session(replace(self.session.spine, analyst=analyst, replays=True))

    def shown_of(self, who: Principal) -> str | None:
        """The analyst whose calls alone somebody is shown; None for whoever is shown those of all."""
        return None if self.shared or who.custodian else who.analyst

    def shows(self, who: Principal, analyst: str) -> bool:
        """Whether somebody is shown the questions and answers of an analyst."""
        return self.shown_of(who) in (None, analyst)


class ServedDatasets(Mapping[str, Served]):
    """The datasets by name."""

    def __init__(self, served: Mapping[str, Served]) -> None:
        self._served = dict(served)

    def __getitem__(self, name: str) -> Served:
        return self._served[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._served)

    def __len__(self) -> int:
        return len(self._served)

    def for_(self, who: Principal, name: str) -> Served:
        """The dataset, for somebody whose token is for it; any other is not there, whether it exists or not."""
        if name not in self._served or not who.sees(name):
            raise Refusal(404, "this token is for no dataset of that name")
        return self._served[name]

    def close(self) -> None:
        """Close rows and ledgers; everything can be reopened."""
        for served in self._served.values():
            served.session.close()


def rows_of(dataset: str) -> str:
    """The name that a process holds while the rows of a dataset must not change, or while it changes them."""
    return f"rows of {dataset}"


def opened_datasets(config: ServiceConfig) -> ServedDatasets:
    """Open every dataset of a chary.toml, and set the shares it names of analysts without a cap; all or none."""
    with ExitStack() as undo:
        served = {}
        for name, options in config.dataset.items():
            session = _opened(config, name, options)
            undo.callback(session.close)
            for analyst, share in options.shares.items():
                # Whoever has a cap keeps it: a custodian may have changed it since.
                if session.spine.ledger.analyst_balance(session.spine.dataset, analyst).capacity is None:
                    session.set_share(analyst, share)
            served[name] = Served(name, session, options.share_answers, threading.Lock())
        undo.pop_all()
    return ServedDatasets(served)


def _opened(config: ServiceConfig, name: str, said: DatasetOptions) -> Session:
    budget = None if said.epsilon is None else Budget(said.epsilon, said.delta)
    common: dict[str, Any] = {"ledger": config.place(config.ledger(name)), "budget": budget, "dataset": name}
    common |= {"filter": said.filter, "grain": said.grain, "approximate_delta": said.approximate_delta}
    common |= {"witness": None if said.witness is None else config.place(said.witness)}
    common |= {"csv": None if said.csv is None else CSV(**said.csv)}
    file = config.place(said.file)
    if said.series is not None:
        return _series(file, said, common)
    if (said.unit is None) != said.each_row:
        raise InvalidParameter(f"dataset {name!r}: say what is protected: unit, or each-row = true")
    common |= {"table": said.table, "relation": said.relation, "infer_types": said.infer_types}
    columns = None if said.columns is None else dict(said.columns)
    return open(file, privacy_unit=said.unit, columns=columns, unpivot=said.unpivot, **common)


def _series(file: str, said: DatasetOptions, common: dict[str, Any]) -> Session:
    if said.sensitivity is None or said.series is None:
        raise InvalidParameter("a series needs the most that one unit changes a count, such as sensitivity = 1")
    ordered = common | {"order_by": said.order_by, "labels": said.labels}
    return open_series(file, column=said.series, sensitivity=said.sensitivity, **ordered)
