"""Where one begins: the datasets of a token; and the budget of one as it changes, for the line above every page."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import RedirectResponse, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent

from chary.numbers import percent, plain
from chary.service.api.datasets import LOOK_EVERY, budget_of
from chary.service.auth.tokens import Principal
from chary.service.http.admission import Asking, Followed, looks
from chary.service.pages.frame import Logged, Looker, Page, shown
from chary.service.state import Shared

router = APIRouter()
_SHOWN_BLOCKS: Final = 12


@router.get("/")
def overview(request: Request, who: Annotated[Principal, Depends(Logged("look"))], service: Shared) -> Response:
    """The datasets of this token, each with its promise and what is left."""
    names = sorted(name for name in service.datasets if who.sees(name))
    return shown(request, "overview", cards=[_card(Asking(who, service.datasets[name])) for name in names])


@router.get("/datasets/{dataset}")
def first(request: Request, on: Looker) -> Response:
    """The first page that this token may see."""
    pages: tuple[Page, ...] = request.app.state.pages
    return RedirectResponse(next(page for page in pages if on.who.may(page.action)).link(on.served.name), 303)


@router.get("/datasets/{dataset}/left/events", response_class=EventSourceResponse)
async def left_events(on: Looker, service: Shared, _: Followed) -> AsyncIterator[ServerSentEvent]:
    """The budget in words whenever it changed, as `left` events."""
    told: dict[str, Any] = {}
    async for _ in looks(service, on.who.token, LOOK_EVERY):
        now = await asyncio.to_thread(budget_of, on, False)
        if now != told:
            told = now
            words = {name: percent(share) for name, share in now.items()}
            yield ServerSentEvent(event="left", data=words | {"share": now["left"]})


def _card(on: Asking) -> dict[str, Any]:
    session = on.served.session
    epsilon, delta = session.spine.filter.budget.exact
    told: dict[str, Any] = {
        "name": on.served.name,
        "epsilon": plain(epsilon),
        "delta": plain(delta),
        "budget": budget_of(on, False),
    }
    told |= {"protects": session.spine.rows.neighbor_relation.describe(), "columns": session.schema}
    # The latest ones, which are asked most; the page of the budget has all.
    told["blocks"] = list(session.spent_by_block.items())[-_SHOWN_BLOCKS:]
    return told | {"version": len(session.versions), "shared": on.served.shared}
