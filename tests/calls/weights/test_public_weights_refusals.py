"""What public histograms refuse, whether paid call by call or in rounds of sparse vector."""

import pytest

from chary import count
from chary.errors import BudgetExceeded, InvalidParameter, InvalidQuery, NotPriced
from tests.calls.weights import sparse_weights_kit, weighting_kit
from tests.session.kit import CLINICS, error_texts, shows_data

FORMS = {
    "multiplicative_weights": weighting_kit.weights_of,
    "sparse_multiplicative_weights": sparse_weights_kit.weights_of,
}
BAD_OPENINGS = [
    ({"alpha": 0}, InvalidParameter),
    ({"alpha": "nan"}, InvalidParameter),
    ({"alpha": None}, InvalidParameter),
    ({"universe": None}, InvalidQuery),
    ({"universe": "age"}, InvalidQuery),
    ({"universe": {"age": CLINICS}}, InvalidQuery),
    ({"universe": {"height": [1]}}, InvalidQuery),
    ({"epsilon": -1}, InvalidParameter),
    ({"epsilon": None}, InvalidParameter),
    ({"update": "quick"}, InvalidParameter),
    ({"mixing": 2}, InvalidParameter),
    ({"call": 2}, InvalidParameter),
]
BAD_OPENINGS_OF = {
    "multiplicative_weights": [
        ({"hits": 3}, InvalidParameter),
        ({"epsilon": None, "hits": 0}, InvalidParameter),
        ({"follow_size": 1}, InvalidParameter),
        ({"epsilon": "1e-14"}, InvalidParameter),
    ],
    "sparse_multiplicative_weights": [
        ({"rho": "0.1"}, InvalidParameter),
        ({"epsilon": None, "rho": 0}, InvalidParameter),
        ({"delta": "1e-7"}, InvalidParameter),
        ({"constants": "published", "delta": "1e-7"}, NotPriced),
        ({"constants": "published", "epsilon": None, "rho": "0.1"}, InvalidParameter),
        ({"constants": "better"}, InvalidParameter),
        ({"exponent": 1}, InvalidParameter),
        ({"rounds": 0}, InvalidParameter),
        ({"epsilon": "1e-12"}, InvalidParameter),
        ({"epsilon": 2}, BudgetExceeded),
    ],
}
of_each_form = pytest.mark.parametrize("form", FORMS)


@of_each_form
@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (3, InvalidQuery),
        ("age >= 35", InvalidQuery),
        ("cost > 3", InvalidQuery),
        ("clinic LIKE 'n%'", InvalidQuery),
        ("clinic = 3", InvalidQuery),
        ("clinic = 'North'", InvalidQuery),
        ("age < 30 OR clinic IN ('north', 'nowhere')", InvalidQuery),
        ("clinic >", InvalidQuery),
        (count().by("clinic", CLINICS), InvalidQuery),
        (count("clinic = 'north'", without="age >= 30"), InvalidQuery),
    ],
)
def test_what_cannot_be_answered_is_refused_before_anything_is_read(rows, form, asked, error):
    seen = []
    session = rows(on_step=seen.append)
    weights = FORMS[form](session)
    seen.clear()
    with pytest.raises(error) as caught:
        weights.ask(asked)
    assert seen == []
    assert not shows_data(error_texts(caught.value))


@pytest.mark.parametrize(
    ("form", "options", "error"), [(form, *bad) for form in FORMS for bad in BAD_OPENINGS + BAD_OPENINGS_OF[form]]
)
def test_bad_openings_are_refused_and_nothing_is_recorded(rows, form, options, error):
    session = rows()
    with pytest.raises(error):
        FORMS[form](session, **options)
    assert session.history == []


@of_each_form
def test_a_secret_size_is_no_size(opened, form):
    for options in ({}, {"privacy_unit": None}, {"neighbors": "replace"}):
        with pytest.raises(InvalidQuery, match="number of rows is secret"):
            FORMS[form](opened(**options))
