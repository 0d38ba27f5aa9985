"""The page in a real browser: what analysts and custodians do, by mouse and by keyboard, day and night, on a phone."""

import re

import pytest

import chary
from tests.browser.kit import DATASET, Visitor, batch, browsing, missing, serving, violations

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")
PLACE = f"/page/datasets/{DATASET}"
PAGES = ["ask", "standing", "budget", "history", "report", "custodian"]
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A service at which one question was asked, so that no page is empty."""
    with serving(tmp_path_factory.mktemp("site")) as found:
        with chary.connect(found.address, found.token("max", "analyst"), dataset=DATASET) as session:
            session.test(chary.count("age >= 150"), above=500, epsilon="0.02")
        yield found


@pytest.fixture(scope="module")
def browser(site):
    with browsing() as found:
        yield found


@pytest.fixture
def visiting(site, browser):
    """Visitors that are logged in; nothing may be wrong in the console of any of them."""
    came = []

    def visit(analyst, *roles, token=None, **options):
        visitor = Visitor(browser, site.address, **options)
        came.append(visitor)
        visitor.log_in(token or site.token(analyst, *roles))
        return visitor

    yield visit
    for visitor in came:
        visitor.context.close()
        assert visitor.complaints == []


def fill_test(page, where, above):
    """The form of a test whether a count reaches a threshold."""
    page.goto(f"{PLACE}/ask?kind=test")
    page.get_by_label("Only rows where").fill(where)
    page.get_by_label("Above", exact=True).fill(above)
    page.get_by_label("Hits").first.fill("20")


def test_the_story_of_an_analyst_and_a_custodian(site, visiting):
    alice, carol = visiting("alice", "analyst"), visiting("carol", "custodian")
    asks_a_hit_and_a_miss(alice)
    is_refused(alice)
    lets_a_question_stand(alice)
    appends_a_batch(site, carol)
    hears_of_the_alarm(alice)
    is_out_once_the_token_is_revoked(alice, carol)
    publishes_and_shows_the_report(carol)


def asks_a_hit_and_a_miss(alice):
    page = alice.page
    for where, outcome, price in (("age >= 0", "hit", r"Charged 5 %"), ("age >= 150", "miss", r"Nothing was charged")):
        fill_test(page, where, "500")
        page.get_by_text("A hit costs", exact=True).wait_for()
        page.get_by_role("button", name="Ask", exact=True).click()
        answer = page.get_by_role("region", name="Answer")
        assert answer.locator(".tag").inner_text() == outcome
        answer.get_by_text(re.compile(price)).wait_for()


def is_refused(alice):
    page = alice.page
    page.goto(f"{PLACE}/ask?kind=release")
    page.get_by_label("Epsilon").first.fill("5")
    page.get_by_role("button", name="Ask", exact=True).click()
    told = page.get_by_role("alert")
    told.wait_for()
    assert {"Asked", "Left", "Would fit"} <= set(told.locator("dt").all_inner_texts())
    alice.refused(409)


def lets_a_question_stand(alice):
    page = alice.page
    page.goto(f"{PLACE}/ask?kind=release_if")
    page.get_by_label("Only rows where").fill("age >= 60")
    page.get_by_label("Above", exact=True).fill("200")
    page.get_by_label("Hits").first.fill("20")
    page.get_by_role("button", name="Create alert").click()
    page.get_by_label("Quota").fill("0.2")
    page.get_by_role("button", name="Create alert").click()
    page.get_by_text("waits for new rows").wait_for()


def appends_a_batch(site, carol):
    page = carol.page
    page.goto(f"{PLACE}/custodian")
    page.get_by_label("New rows (CSV file)").set_input_files(batch(site.folder, 900, 61))
    page.get_by_role("button", name="Append").click()
    page.get_by_role("cell", name="appended").wait_for()


def hears_of_the_alarm(alice):
    """The question is asked at once; the page shows it when it is loaded again."""
    page = alice.page
    alice.until(lambda: page.get_by_role("img").count() > 0, PLACE + "/standing")
    assert re.search(r"1 of 1 versions of the rows gave an alarm", page.get_by_role("img").get_attribute("alt"))
    assert page.locator("dd").first.inner_text() == "1"


def is_out_once_the_token_is_revoked(alice, carol):
    page = carol.page
    page.goto(f"{PLACE}/custodian")
    page.get_by_role("button", name=re.compile("of alice$")).click()
    page.get_by_text("revoked").wait_for()
    alice.page.goto(f"{PLACE}/budget")
    assert "/page/log-in" in alice.page.url


def publishes_and_shows_the_report(carol):
    page = carol.page
    page.goto(f"{PLACE}/report")
    page.get_by_role("button", name=re.compile("Publish")).first.click()
    page.goto(f"{PLACE}/report")
    page.get_by_text("differentially private").first.wait_for()


def test_a_question_is_asked_by_keyboard_alone(visiting):
    page = visiting("kim", "analyst").page
    page.goto(f"{PLACE}/ask?kind=test")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    for label, text in (("Only rows where", "age >= 0"), ("Above", "500"), ("Hits", "20")):
        tab_to(page, label)
        page.keyboard.type(text)
    tab_to(page, "Ask")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("answer="))
    assert page.get_by_role("region", name="Answer").locator(".tag").inner_text() == "hit"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(site, visiting, scheme):
    page = visiting("max", "analyst", "custodian", color_scheme=scheme).page
    page.goto(f"{PLACE}/history")
    call = page.locator("tbody a").first.get_attribute("href")
    found = []
    for place in ["/page/", *(f"{PLACE}/{name}" for name in PAGES), f"{PLACE}/ask?kind=test", call]:
        page.goto(place)
        found += [f"{place} {each}" for each in violations(page)]
    page.context.clear_cookies()
    page.goto("/page/log-in")
    assert found + violations(page) == []


def test_nothing_is_wider_than_a_phone(visiting):
    visitor = visiting("max", "analyst", "custodian", viewport=PHONE)
    for name in PAGES:
        visitor.page.goto(f"{PLACE}/{name}")
        assert (name, visitor.too_wide()) == (name, 0)


def focused(page):
    """The name of what has the focus, as its label or its words say it."""
    return page.evaluate(
        "(() => { const at = document.activeElement; const label = at.labels && at.labels[0];"
        " return (label || at).innerText.trim().split('\\n')[0].trim(); })()"
    )


def tab_to(page, name):
    """Press Tab until the thing of that name has the focus, and it can be seen that it has."""
    for _ in range(80):
        page.keyboard.press("Tab")
        if focused(page).split(" optional")[0] == name:
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    raise AssertionError(f"Tab never came to {name}")
