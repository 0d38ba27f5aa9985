"""Sessions: reserve - run - settle."""

import inspect

from chary.answers import Spending as Spending
from chary.core.quote import Quote as Quote
from chary.core.transaction import STEPS as STEPS
from chary.core.transaction import Spine as Spine
from chary.core.versions import Version as Version
from chary.session.opening import open as open
from chary.session.opening import open_counts as open_counts
from chary.session.opening import open_rows as open_rows
from chary.session.opening import open_votes as open_votes
from chary.session.session import Session as Session
from chary.session.session import entry_budget as entry_budget
from chary.session.session import findings as findings
from chary.session.session import plain_composition as plain_composition
from chary.session.session import unit_budget as unit_budget
from chary.session.statement import Entry as Entry
from chary.session.statement import PlainComposition as PlainComposition

__all__ = sorted(name for name, thing in globals().items() if name[0] != "_" and not inspect.ismodule(thing))
