"""The budget: what is left and for how long, and where it went over time, by kind and by analyst."""

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from chary.service.page.frame.shown_pages import Page, shown
from chary.service.page.frame.vega_pictures import drawn
from chary.service.page.frame.visiting import Looker
from chary.service.page.looking.budget_over_time import budget_so_far, lasts, now
from chary.service.page.looking.drawn_over_time import budget_spec

router = APIRouter(prefix="/datasets/{dataset}/budget")
PAGE: Final = Page("budget", "Budget", "look", router)


@router.get("")
def budget_page(request: Request, on: Looker) -> Response:
    """What is spent and left, and what took it."""
    found = budget_so_far(on)
    spine = on.served.session.spine
    told: dict[str, Any] = {"found": found, "promise": spine.filter.budget, "accounting": spine.filter.describe()}
    days = found.days_left(now())
    return shown(request, "budget", **told, lasts=None if days is None else lasts(days))


@router.get("/picture.svg")
def picture(on: Looker, dark: bool = False) -> Response:
    """What each kind of call had taken, over time."""
    return drawn(budget_spec(budget_so_far(on), now()), dark=dark)
