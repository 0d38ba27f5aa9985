"""What custodians do: rows that arrive, caps, tokens, copies of the ledger."""

import asyncio
import secrets
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from chary.errors import CharyError, InvalidParameter
from chary.ledger.entries import head_of
from chary.service.access.roles import Role
from chary.service.api.custodian_routes import appended, capped
from chary.service.api.places import Asking
from chary.service.api.service_state import Service, Shared
from chary.service.api.token_routes import TokenName, token_ended, token_made
from chary.service.page.frame.posted_forms import Form, Posted
from chary.service.page.frame.shown_pages import Page, place_of, shown
from chary.service.page.frame.visiting import Visiting
from chary.service.page.looking.kept_datasets import analysts_capped, backup_commands, kept_tokens
from chary.service.serving.brought_rows import CSV_TEXT
from chary.service.wire.problems import problem, status_of

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
    """Append a CSV. A form that is sent twice adds its rows once: it has the request key. Which is told, since whoever
    came back to an old form may have chosen another file in it."""
    raw, key = form.files.get("rows", b""), form.text("key")
    try:
        if not raw or not key:
            raise InvalidParameter("choose a CSV file with a header line")
        known = await asyncio.to_thread(_newest, on)
        version = await appended(service, on, CSV_TEXT, raw, key)
    except CharyError as error:
        return await asyncio.to_thread(_refused, request, on, service, error, "rows")
    return _done(on, "rows") if version > known else _done(on, "rows", f"?again={version}")


@router.post("/caps")
def cap(request: Request, on: Capping, service: Shared, form: Form) -> Response:
    """Cap an analyst."""
    try:
        capped(service, on, form.text("analyst"), form.text("share"))
    except CharyError as error:
        return _refused(request, on, service, error, "share" if "share" in str(error) else "analyst", form)
    return _done(on, "caps")


@router.post("/tokens")
def make(request: Request, on: Keeping, service: Shared, form: Form) -> Response:
    """Make a token and show it: this is the only time."""
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


def _newest(on: Asking) -> int:
    """The number of the version of now; 0 where there is none."""
    return max((each.number for each in on.served.session.versions), default=0)


def _done(on: Asking, where: str, told: str = "") -> Response:
    return RedirectResponse(f"{place_of(on.served.name, 'custodian')}{told}#{where}", 303)


def _refused(
    request: Request, on: Asking, service: Service, error: CharyError, about: str, form: Posted | None = None
) -> Response:
    said = {} if form is None else form.fields
    return _page(request, on, service, status_of(error), problem=problem(error), about=about, said=said)


def _page(request: Request, on: Asking, service: Service, status: int = 200, **more: Any) -> Response:
    session = on.served.session
    versions = session.versions
    told: dict[str, Any] = {"versions": versions[-_VERSIONS:][::-1], "earlier": max(0, len(versions) - _VERSIONS)}
    told |= {"columns": session.schema, "key": f"page {secrets.token_hex(16)}", "roles": list(Role)}
    told |= {"head": head_of(session.spine.ledger)}
    told |= {"several": service.config.service.workers > 1, "analysts": analysts_capped(service, on)}
    told |= {"tokens": kept_tokens(service, on), "commands": backup_commands(service, on)}
    told |= {"problem": None, "about": "", "said": {}, "token": None, "again": None}
    return shown(request, "custodian", status, **(told | more))
