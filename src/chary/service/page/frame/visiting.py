"""Who came to a page, of which dataset, and whether the token behind the cookie may do what the page does."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from chary.errors import InvalidParameter
from chary.service.access.roles import ACTIONS, Principal
from chary.service.api.admission import admitted
from chary.service.api.places import Asking, DatasetName
from chary.service.api.service_state import service_of
from chary.service.page.frame.log_ins import NotLoggedIn, log_ins
from chary.service.page.frame.posted_forms import cookie_of


@dataclass(frozen=True)
class Logged:
    """A dependency of a page: whoever is logged in, if the token may do this action.

    Guarantee: no page but the one to log in runs without one; what a role may is the table of the interface.
    """

    action: str

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InvalidParameter(f"actions are {', '.join(ACTIONS)}")

    def __call__(self, request: Request) -> Principal:
        cookie = cookie_of(request)
        who = log_ins(request).found(cookie) if cookie else None
        if who is None:
            raise NotLoggedIn
        request.state.who = who
        return admitted(request, who, self.action)


@dataclass(frozen=True)
class Visiting:
    """A dependency of a page about a dataset: who asks, of which one."""

    action: str

    def __call__(self, request: Request, dataset: DatasetName) -> Asking:
        who = Logged(self.action)(request)
        on = Asking(who, service_of(request).datasets.for_(who, dataset))
        request.state.on = on
        return on


Looker = Annotated[Asking, Depends(Visiting("look"))]
Asker = Annotated[Asking, Depends(Visiting("ask"))]
Historian = Annotated[Asking, Depends(Visiting("history"))]
Publisher = Annotated[Asking, Depends(Visiting("publish"))]
