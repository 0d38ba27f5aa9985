"""`chary weights`: shares of rows from a public histogram that is corrected where it is off."""

import hashlib
import json
from fractions import Fraction
from typing import Annotated, Any, Final

import typer

from chary.calls import Run, Weights
from chary.calls.weights import WeightedAnswer, WeightsState
from chary.charts import check_picture
from chary.cli.asking.cells import listed_lines
from chary.cli.asking.form_fields import FieldOption
from chary.cli.asking.forms import Form
from chary.cli.asking.opened import check_public_size, sized
from chary.cli.asking.options import Picture
from chary.cli.asking.row_commands import Stated, of_form
from chary.cli.commands import Found, Shown
from chary.cli.output import console, narrow, show_answer, show_table
from chary.errors import BudgetRefused
from chary.growth.plots import draw_answers
from chary.ledger import State
from chary.numbers import exact

Where = Annotated[
    list[str], typer.Option(help="Predicate, such as \"sex = 'f'\", or @FILE, one a line; may be given several times.")
]
Verify = Annotated[bool, typer.Option("--must-verify", help="Refuse what could only be answered unverified.")]
# Fields that came after the first ledgers: they are part of the key of an opening only where they say something else.
LATER: Final = {"follow_size": True, "update": "projected", "mixing": "0.1"}

# Ledgers hold keys of openings from when hits that were not said were so many.
_USUAL_THEN: Final = 10
# What only sharp tests are asked with.
SHARP: Final = ("price", "tests", "sure", "value")


def _weights(stated: Stated, *, where: Where, must_verify: Verify = False, plot: Picture = None) -> Found:
    """Shares of rows from a public histogram; charged where it was off. The same options go on with the same one.

    Calls are of --epsilon-per-call, or as large as pays for --hits when the histogram is opened. With --price, --tests
    or --value-share hard is told from easy by the sharpest tests, and --hits of them fit.

    Example: chary weights visits.csv --columns age=BIGINT --each-row --relation replace --epsilon 1 --delta 1e-6
    --hits 20 --alpha 0.1 --bins age=0,18,65,120 --values sex=f,m --where "sex = 'f'"
    """
    check_public_size(stated.source)
    if plot is not None:
        check_picture(plot)
    conditions = listed_lines(where)
    run = _opened(stated)
    for condition in conditions:
        run.state.estimate(condition)  # one that is refused later would take paid answers along
    answers, refused = _answers(run, conditions, must_verify)
    if refused is not None and not answers:
        raise refused
    paid = stated.charged(None, *(answer.charged for _, answer in answers))
    yield Shown({"answers": [_row(*answer) for answer in answers]} | _figures(run) | paid, _people)
    if plot is not None:
        draw_answers(run.state, answers, plot)
    if refused is not None:
        raise refused


def _answers(
    run: Run[WeightedAnswer, WeightsState], where: list[str], must_verify: bool
) -> tuple[list[tuple[str, WeightedAnswer]], BudgetRefused | None]:
    """The answers up to the first that is refused, since they are paid; and why it is."""
    answers: list[tuple[str, WeightedAnswer]] = []
    for condition in where:
        try:
            answers.append((condition, run.ask(condition, must_verify=must_verify)))
        except BudgetRefused as refused:
            return answers, refused
    return answers, None


def _figures(run: Run[WeightedAnswer, WeightsState]) -> dict[str, Any]:
    stands = run.state.standing()
    return {"call": run.call, "hard_left": stands.hard_left, "epsilon_per_call": stands.epsilon}


def _people(figures: dict[str, Any]) -> None:
    rows, told = figures["answers"], narrow(figures["answers"])
    columns = [column.replace("_", " ") for column in told[0]] if told else ["where"]
    show_table(columns, [tuple(row.values()) for row in told])
    if not all(row["verified"] for row in rows):
        console.print("unverified: no hit fits into what is left, so the histogram answered alone", soft_wrap=True)
    show_answer({name: value for name, value in figures.items() if name != "answers"})


def _row(condition: str, answer: WeightedAnswer) -> dict[str, Any]:
    low, high = answer.interval or (None, None)
    known = {"where": condition, "share": answer.share, "hard": answer.hard, "verified": answer.verified}
    return known | {"low": low, "high": high, "error_bar": answer.error_bar}


def _opened(stated: Stated) -> Run[WeightedAnswer, WeightsState]:
    """The histogram that was opened with the same options, or a new one."""
    asked, size, said = stated.asked, sized(stated.size), FORM.read(stated.asked, stated.said)
    told = [said["universe"].body(), str(exact(said["alpha"], "alpha")), _size(asked.hits, size)]
    other = {name: str(said[name]) for name, usual in LATER.items() if said[name] != usual}
    if other | (sharp := {name: str(exact(said[name], name)) for name in SHARP if said[name] is not None}):
        told.append(other | sharp)
    # Ledgers hold the name that the command had when their histograms were opened.
    key = f"chary ask {hashlib.sha256(json.dumps(told).encode()).hexdigest()}"
    return stated.session.start(_call(stated, key, sharply=bool(sharp)), request=key)


def _call(stated: Stated, key: str, *, sharply: bool) -> Weights:
    """The opening; one by Laplace noise is of the size that it was opened with."""
    if sharply:
        call: Weights = stated.call(epsilon=stated.given.epsilon_per_call, hits=stated.given.hits)
        return call
    call = stated.call(epsilon=_earlier(stated, key) or stated.asked.epsilon)
    return call


def _size(hits: int | None, size: Fraction | None) -> Any:
    return {"hits": _USUAL_THEN if hits is None else hits} if size is None else str(size)


def _earlier(stated: Stated, key: str) -> Fraction | None:
    """The size of the opening under this key, also of one that was interrupted: what is left is another by now."""
    spine = stated.session.spine
    for call in spine.ledger.calls(spine.dataset, analyst=spine.analyst, keys=key):
        if call.request == key and call.state != State.VOIDED:
            return Fraction(json.loads(call.body)["epsilon_per_call"])
    return None


# --hits is a size here, as everywhere: the field of that name would follow what is left whenever it is repeated.
FORM: Final = Form(Weights, {"hits": FieldOption("hits", (), lambda *_: None)}, sized_by_hits=True)
weights = of_form(FORM, _weights, _weights.__doc__, "weights")
