"""Event streams: for so long, and no longer than the token is valid."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import Depends, Request

from chary.service.api.service_state import Service, Shared

# A stream ends after so many seconds, and whoever follows it comes again.
LONGEST: Final = 600.0


async def _followed(request: Request, service: Shared) -> AsyncIterator[None]:
    token: str = request.state.token
    service.streams.begin(token)
    try:
        yield
    finally:
        service.streams.end(token)


# Behind the guard of a route, which knows the token.
Followed = Annotated[None, Depends(_followed)]


async def looks(service: Service, token: str, every: float) -> AsyncIterator[None]:
    """When to look whether there is something new: until the service stops, the token ends, or `LONGEST` is over."""
    for _ in range(int(LONGEST / every)):
        yield
        if service.stopping.is_set():
            return
        await asyncio.sleep(every)
        if await asyncio.to_thread(service.tokens.holder, token) is None:
            return
