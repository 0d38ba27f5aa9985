"""Reserve - run - settle: the one place where data, noise, filter and ledger meet."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chary import noise
from chary.amounts import Amount
from chary.data import Reading, Rows
from chary.errors import BudgetRefused
from chary.filters import Filter, Price
from chary.ledger import Ledger, Reservation, SecretMoved
from chary.session.interaction import ENCODER, Interaction, Json, Ran, Touched
from chary.session.refusal import refused

STEPS = ("asked", "reserved", "evaluated", "ran", "settled")
ATTEMPTS = 5


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
        body = interaction.text()
        self.on_step("asked")
        if request is not None:
            stored = self.ledger.replay(self.dataset, self.analyst, request, interaction.kind, body)
            if stored is not None:
                return interaction.present(json.loads(stored.answer or "null"), stored.number)
        interaction.check(self._secret(interaction))
        plans = interaction.prepare(self.rows)
        price = interaction.price(self.filter)
        reservation, most = self._reserve(interaction, price, body, request)
        answer = self._answer(_Running(interaction, plans, price, reservation, most))
        return interaction.present(answer, reservation.call)

    def _reserve(
        self, interaction: Interaction, price: Price, body: str, request: str | None
    ) -> tuple[Reservation, int]:
        """Charge the worst price; an interaction that can halt takes as many hits as fit, at least one.

        Another process may take the room between looking and charging, so looking is repeated a few times.
        """
        for _ in range(ATTEMPTS):
            most = self._affordable(interaction, price)
            worst = interaction.worst(price, most)
            try:
                return self.ledger.reserve(self.dataset, self.analyst, interaction.kind, body, worst, request), most
            except BudgetRefused:
                if most == 1 or not interaction.may_halt(price):
                    break
        raise refused(interaction, self.filter, self.left())

    def _affordable(self, interaction: Interaction, price: Price) -> int:
        if not interaction.may_halt(price):
            return interaction.most_hits
        fits = Amount(price.hit.main).copies_in(self.left())
        return interaction.most_hits if fits is None else max(1, min(interaction.most_hits, fits))

    def left(self) -> Amount:
        """What this analyst could still spend: the smaller of the dataset's room and the analyst's."""
        return left_of(self.ledger, self.dataset, self.analyst)

    def _answer(self, running: "_Running") -> Json:
        """Run and settle. When the held state moved meanwhile, whatever came out, the outcome, unseen by anybody, is
        thrown away and the run repeated on the new state, under the same reservation."""
        for _ in range(ATTEMPTS - 1):
            try:
                return self._run_and_settle(running)
            except SecretMoved:
                continue
        return self._run_and_settle(running)

    def _run_and_settle(self, running: "_Running") -> Json:
        secret, ran = self._run(running)
        final = running.interaction.final(running.price, ran, running.most)
        answer = ENCODER.encode(ran.answer)
        held = running.interaction.held
        seen = {} if held is None else {held: secret}
        self.ledger.settle(running.reservation, final, ran.hits, ran.tests, answer, ran.secret, ran.secrets, seen)
        self.on_step("settled")
        return ran.answer

    def _run(self, running: "_Running") -> tuple[bytes | None, Ran]:
        """Touch the data. Until the first read an interruption gives the reservation back, afterwards it stays.

        What an earlier run under this reservation found was thrown away unseen, so it does not count as a read.
        """
        touching, interaction = False, running.interaction
        try:
            self.on_step("reserved")
            secret = self._secret(interaction)
            interaction.check(secret)
            touching = True
            values = [plan.run() for plan in running.plans]
            self.on_step("evaluated")
            most = None if running.most >= interaction.most_hits else running.most
            ran = interaction.run(Touched(values, self.source, secret, most, running.price))
            self.on_step("ran")
            return secret, ran
        except BaseException:
            if not touching:
                self.ledger.void(running.reservation)
            raise

    def _secret(self, interaction: Interaction) -> bytes | None:
        return None if interaction.held is None else self.ledger.secret(interaction.held)


def left_of(ledger: Ledger, dataset: str, analyst: str) -> Amount:
    """What an analyst could still spend: the smaller of the dataset's room and the analyst's."""
    whole = ledger.balance(dataset).left or Amount(0)
    own = ledger.analyst_balance(dataset, analyst).left
    return whole if own is None else Amount(min(whole.main, own.main), min(whole.delta, own.delta))


@dataclass
class _Running:
    """A call between reserve and settle."""

    interaction: Interaction
    plans: Sequence[Reading]
    price: Price
    reservation: Reservation
    most: int
