"""What a custodian looks after: who may take how much, under which tokens; and how a ledger is copied."""

import json
import shlex
from dataclasses import dataclass
from typing import Final

from chary.amounts import Amount
from chary.core.charges import accounts_of
from chary.errors import InvalidParameter, LedgerError
from chary.service.access.bearer_tokens import TokenRecord
from chary.service.access.roles import Role
from chary.service.api.places import Asking
from chary.service.api.service_state import Service
from chary.service.api.token_routes import tokens_kept

_SERVER: Final = "pg_dump --format=custom --file=COPY DATABASE"


@dataclass(frozen=True)
class Capped:
    """An analyst: what was charged, and the share of the budget it is capped at; None where it is not."""

    analyst: str
    charged: float
    share: float | None


@dataclass(frozen=True)
class KeptToken:
    """A token as a custodian sees it: "valid", "expired" or "revoked"."""

    record: TokenRecord
    state: str


def analysts_capped(service: Service, on: Asking) -> list[Capped]:
    """Whoever asked, has a token to ask, or was capped, by name."""
    options = service.config.dataset.get(on.served.name)
    names = set(options.shares) if options else set()
    spine = on.served.session.spine
    names |= set(spine.ledger.analysts(spine.dataset))
    names |= {str(json.loads(entry.asked)["analyst"]) for entry in service.trail.done(on.served.name, "cap")}
    names |= {each.record.analyst for each in kept_tokens(service, on) if Role.ANALYST in each.record.roles}
    taken: dict[str, tuple[Amount, int]] = {}
    for each in on.served.charges.all(spine.ledger, spine.dataset):
        amount, basic = taken.get(each.analyst, (Amount(0), 0))
        taken[each.analyst] = amount + each.charged, basic + each.basic
    return [_capped(on, name, *taken.get(name, (Amount(0), 0))) for name in sorted(names)]


def kept_tokens(service: Service, on: Asking) -> list[KeptToken]:
    """The tokens for this dataset that somebody may end, those that are valid first."""
    now = service.standing.book.clock()
    kept = (each for each in tokens_kept(service, on.who) if {"*", on.served.name} & set(each.datasets))
    return sorted((KeptToken(each, _state(each, now)) for each in kept), key=lambda each: each.state != "valid")


def backup_commands(service: Service, on: Asking) -> list[str]:
    """What whoever runs the service types beside the chary.toml to copy the ledger and the service's own database.

    Both may be in use meanwhile. Places are told as the chary.toml has them; of a server nothing is told, since its
    address may hold a password.
    """
    if on.served.name not in service.config.dataset:
        return []
    said, ledger = service.config.service, service.config.ledger(on.served.name)
    copies = {f"chary ledger backup {shlex.quote(ledger)} COPY.ledger": ledger}
    copies |= {f"sqlite3 {shlex.quote(said.store)} '.backup COPY.db'": said.store}
    return [_SERVER if "://" in place else command for command, place in copies.items()]


def _capped(on: Asking, analyst: str, amount: Amount, basic: int) -> Capped:
    """Their charges are a share of the account that lives, a cap is one of main and delta."""
    spine = on.served.session.spine
    try:
        balance = spine.ledger.analyst_balance(spine.dataset, analyst)
    except (LedgerError, InvalidParameter):  # no name, or one that the ledger has not heard of
        return Capped(analyst, 0.0, None)
    share = None if balance.capacity is None else spine.filter.shares.taken(balance.capacity)
    return Capped(analyst, accounts_of(spine.ledger, spine.dataset).taken(amount, basic), share)


def _state(token: TokenRecord, now: float) -> str:
    return "revoked" if token.revoked is not None else "valid" if now < token.expires else "expired"
