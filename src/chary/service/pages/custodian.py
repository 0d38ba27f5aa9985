"""The page of custodians."""

import asyncio
import json
import secrets
import shlex
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from chary.addresses import is_url
from chary.client.files import CSV_TEXT
from chary.client.problems import status_of
from chary.core.charges import accounts_of
from chary.errors import CharyError, InvalidParameter, LedgerError
from chary.ledger.entries import head_of
from chary.service.api.custodian import (
    TokenName,
    appended,
    capped,
    token_ended,
    token_made,
    tokens_beyond,
    tokens_kept,
)
from chary.service.auth.tokens import Role, TokenRecord
from chary.service.core.problems import LABELS, problem
from chary.service.http.admission import Asking
from chary.service.pages.frame import Form, Page, Posted, Visiting, place_of, shown
from chary.service.state import Service, Shared

# What custodians do: rows that arrive, caps, tokens, copies of the ledger.

router = APIRouter(prefix="/datasets/{dataset}/custodian")
PAGE: Final = Page("custodian", "Custodian", "cap", router)
Capping = Annotated[Asking, Depends(Visiting("cap"))]
Keeping = Annotated[Asking, Depends(Visiting("tokens"))]
Again = Annotated[int | None, Query(ge=1, le=2**53)]
_VERSIONS: Final = 20


@router.get("")
def custodian(request: Request, on: Capping, service: Shared, again: Again = None) -> Response:
    """The dataset with its versions, caps, tokens, and how it is copied; `again` is what an old form had brought."""
    return _page(request, on, service, again=again)


@router.post("/rows")
async def append(
    request: Request, on: Annotated[Asking, Depends(Visiting("append"))], service: Shared, form: Form
) -> Response:
    """Append a CSV. A form that is sent twice adds its rows once: it has the idempotency key. Which is reported, since
    anyone who came back to an old form may have chosen another file in it."""
    raw, key = form.files.get("rows", b""), form.text("key")
    try:
        if not raw or not key:
            raise InvalidParameter("choose a CSV file with a header line")
        found = await appended(service, on, CSV_TEXT, raw, key)
    except CharyError as error:
        return await asyncio.to_thread(_refused, request, on, service, error, "rows")
    if found.unparsed:
        # Once, and not in an address: it counts cells.
        return await asyncio.to_thread(_page, request, on, service, unparsed=found.unparsed)
    return _done(on, "rows") if found.new else _done(on, "rows", f"?again={found.version}")


@router.post("/caps")
def cap(request: Request, on: Capping, service: Shared, form: Form) -> Response:
    """Cap an analyst."""
    try:
        capped(service, on, form.text("analyst"), form.text("quota"))
    except CharyError as error:
        return _refused(request, on, service, error, "quota" if "quota" in str(error) else "analyst", form)
    return _done(on, "caps")


@router.post("/tokens")
def make(request: Request, on: Keeping, service: Shared, form: Form) -> Response:
    """Make a token and show it, once only."""
    days = form.text("days")
    said: dict[str, Any] = {"analyst": form.text("analyst"), "datasets": [on.served.name]}
    said |= {"roles": [role for role in Role if form.text(f"role-{role}")]}
    try:
        token = token_made(
            service, on.who, said | {"days": int(days) if days.isascii() and days.isdigit() and len(days) < 6 else 0}
        )
    except CharyError as error:
        about = next((name for name in ("days", "roles") if name in str(error)), "token-analyst")
        return _refused(request, on, service, error, about, form)
    return _page(request, on, service, token=token)


@router.post("/tokens/{token}/revoke")
def revoke(token: TokenName, on: Keeping, service: Shared) -> Response:
    """End a token now."""
    token_ended(service, on.who, token)
    return _done(on, "tokens")


def _done(on: Asking, where: str, told: str = "") -> Response:
    return RedirectResponse(f"{place_of(on.served.name, 'custodian')}{told}#{where}", 303)


def _refused(
    request: Request, on: Asking, service: Service, error: CharyError, about: str, form: Posted | None = None
) -> Response:
    said = {} if form is None else form.fields
    return _page(request, on, service, status_of(error), problem=problem(error, LABELS), about=about, said=said)


def _page(request: Request, on: Asking, service: Service, status: int = 200, **more: Any) -> Response:
    session = on.served.session
    versions = session.versions
    told: dict[str, Any] = {"versions": versions[-_VERSIONS:][::-1], "earlier": max(0, len(versions) - _VERSIONS)}
    told |= {"columns": session.schema, "key": f"page {secrets.token_hex(16)}", "roles": list(Role)}
    told |= {"head": head_of(session.spine.ledger)}
    told |= {"several": service.config.service.workers > 1, "analysts": analysts_capped(service, on)}
    told |= {"tokens": kept_tokens(service, on), "commands": backup_commands(service, on)}
    told |= {"problem": None, "about": "", "said": {}, "token": None, "again": None, "unparsed": {}}
    return shown(request, "custodian", status, **(told | more))


# What a custodian looks after: who may take how much, under which tokens; and how a ledger is copied.

_SERVER: Final = "pg_dump --format=custom --file=COPY DATABASE"


@dataclass(frozen=True)
class Capped:
    """An analyst: what was charged, and the fraction of the budget it is capped at; None where it is not."""

    analyst: str
    charged: float
    share: float | None


@dataclass(frozen=True)
class KeptToken:
    """A token as a custodian sees it: "valid", "expired" or "revoked", and whether it is theirs to revoke."""

    record: TokenRecord
    state: str
    revocable: bool


def analysts_capped(service: Service, on: Asking) -> list[Capped]:
    """Anyone who asked, has a token to ask, or was capped, by name."""
    options = service.config.dataset.get(on.served.name)
    names = set(options.shares) if options else set()
    spine = on.served.session.spine
    names |= set(spine.ledger.analysts(spine.dataset))
    names |= {str(json.loads(entry.asked)["analyst"]) for entry in service.trail.done(on.served.name, "cap")}
    names |= {each.record.analyst for each in kept_tokens(service, on) if Role.ANALYST in each.record.roles}
    added: dict[str, int] = {}
    for each in on.served.charges.all(spine.ledger, spine.dataset):
        added[each.analyst] = added.get(each.analyst, 0) + each.basic
    return [_capped(on, name, added.get(name, 0)) for name in sorted(names)]


def kept_tokens(service: Service, on: Asking) -> list[KeptToken]:
    """The tokens for this dataset, those that are valid first."""
    now = service.standing.book.clock()
    found = ((tokens_kept(service, on.who), True), (tokens_beyond(service, on.who), False))
    kept = (
        KeptToken(each, _state(each, now), revocable)
        for tokens, revocable in found
        for each in tokens
        if {"*", on.served.name} & set(each.datasets)
    )
    return sorted(kept, key=lambda each: each.state != "valid")


def backup_commands(service: Service, on: Asking) -> list[str]:
    """What anyone who runs the service types next to the chary.toml to copy the ledger and the service's own database.

    Both may be in use meanwhile. Places are reported as the chary.toml has them; of a server nothing is reported, since
    its address may hold a password.
    """
    if on.served.name not in service.config.dataset:
        return []
    said, ledger = service.config.service, service.config.ledger(on.served.name)
    copies = {f"chary ledger backup {shlex.quote(ledger)} COPY.ledger": ledger}
    copies |= {f"sqlite3 {shlex.quote(said.store)} '.backup COPY.db'": said.store}
    return [_SERVER if is_url(place) else command for command, place in copies.items()]


def _capped(on: Asking, analyst: str, basic: int) -> Capped:
    """Their charges are a fraction of the account that lives, a cap is one of main and delta."""
    spine = on.served.session.spine
    try:
        balance = spine.ledger.analyst_balance(spine.dataset, analyst)
    except (LedgerError, InvalidParameter):  # no name, or one that the ledger has not heard of
        return Capped(analyst, 0.0, None)
    share = None if balance.capacity is None else spine.filter.shares.taken(balance.capacity)
    return Capped(analyst, accounts_of(spine.ledger, spine.dataset).taken(balance.spent, basic), share)


def _state(token: TokenRecord, now: float) -> str:
    return "revoked" if token.revoked is not None else "valid" if now < token.expires else "expired"
