"""Reserve - run - settle: the one place where data, noise, filter and ledger meet."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chary import noise
from chary.amounts import Amount
from chary.data import Rows
from chary.errors import BudgetRefused
from chary.filters import Filter, Price
from chary.ledger import Ledger, Reservation
from chary.session.interaction import Interaction, Ran, Touched
from chary.session.refusal import refused

STEPS = ("asked", "reserved", "evaluated", "ran", "settled")
ATTEMPTS = 5
ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Spine:
    """Carries interactions through the transaction on the budget.

    Guarantees: nothing is read before the worst price is charged durably; no answer is handed out before its price and
    the answer itself are stored durably; a crash in between leaves the worst price charged. `on_step` is told each of
    `STEPS` as it is reached (for progress and for crash tests).
    """

    rows: Rows
    filter: Filter
    ledger: Ledger
    dataset: str
    analyst: str
    source: noise.Source
    on_step: Callable[[str], None]

    def perform(self, interaction: Interaction, request: str | None = None) -> Any:
        """Answer the interaction, or a repeated request from the ledger for free."""
        body = ENCODER.encode(interaction.body())
        self.on_step("asked")
        if request is not None:
            stored = self.ledger.replay(self.dataset, self.analyst, request, interaction.kind, body)
            if stored is not None:
                return interaction.present(json.loads(stored.answer or "null"), stored.number)
        interaction.check(self._secret(interaction))
        plans = [self.rows.prepare(query) for query in interaction.queries()]
        price = self.filter.price(interaction.event)
        reservation, most = self._reserve(interaction, price, body, request)
        ran = self._run(interaction, plans, reservation, None if most >= interaction.parallel else most)
        self._settle(interaction, price, reservation, ran, most)
        return interaction.present(ran.answer, reservation.call)

    def _reserve(
        self, interaction: Interaction, price: Price, body: str, request: str | None
    ) -> tuple[Reservation, int]:
        """Charge the worst price; an interaction that can halt takes as many hits as fit, at least one.

        Another process may take the room between looking and charging, so looking is repeated a few times.
        """
        for _ in range(ATTEMPTS):
            most = self._affordable(interaction, price)
            worst = price.hit.times(most)
            try:
                return self.ledger.reserve(self.dataset, self.analyst, interaction.kind, body, worst, request), most
            except BudgetRefused:
                if most == 1 or not interaction.may_halt(price):
                    break
        raise refused(interaction, self.filter, self.left())

    def _affordable(self, interaction: Interaction, price: Price) -> int:
        if not interaction.may_halt(price):
            return interaction.parallel
        fits = price.hit.copies_in(self.left())
        return interaction.parallel if fits is None else max(1, min(interaction.parallel, fits))

    def left(self) -> Amount:
        """What this analyst could still spend: the smaller of the dataset's room and the analyst's."""
        whole = self.ledger.balance(self.dataset).left or Amount(0)
        own = self.ledger.analyst_balance(self.dataset, self.analyst).left
        return whole if own is None else Amount(min(whole.main, own.main), min(whole.delta, own.delta))

    def _run(self, interaction: Interaction, plans: list[Any], reservation: Reservation, most: int | None) -> Ran:
        """Touch the data. Until the first read an interruption gives the reservation back, afterwards it stays."""
        touching = False
        try:
            self.on_step("reserved")
            secret = self._secret(interaction)
            interaction.check(secret)
            touching = True
            values = [np.atleast_1d(np.asarray(plan.run())) for plan in plans]
            self.on_step("evaluated")
            ran = interaction.run(Touched(values, self.source, secret, most))
            self.on_step("ran")
            return ran
        except BaseException:
            if not touching:
                self.ledger.void(reservation)
            raise

    def _secret(self, interaction: Interaction) -> bytes | None:
        return None if interaction.held is None else self.ledger.secret(interaction.held)

    def _settle(self, interaction: Interaction, price: Price, reservation: Reservation, ran: Ran, most: int) -> None:
        charged = min(ran.hits, most)
        final = price.hit.times(charged) + price.miss.times(most - charged)
        answer = ENCODER.encode(ran.answer)
        self.ledger.settle(reservation, final, ran.hits, ran.tests, answer, ran.secret, ran.secrets)
        self.on_step("settled")
