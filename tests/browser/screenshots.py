"""Writes the pictures of the page that the documentation shows: python -m tests.browser.screenshots."""

import io
import os
import re
import tempfile
from pathlib import Path

from PIL import Image

from tests.browser.kit import DATASET, Visitor, batch, browsing, missing, serving
from tests.paths import ROOT

PLACE = f"/page/datasets/{DATASET}"
FIGURES = ROOT / "docs" / "figures"
WIDE, PHONE = {"width": 1120, "height": 800}, {"width": 360, "height": 740}
# So large pictures would make the documentation slow.
MOST_BYTES = 150_000
# The page has few colours, so that these tell all of it.
COLOURS = 128
BATCHES = ((220, 61), (180, 62), (40, 30), (260, 60))


def main():
    """Take all of them."""
    reason = missing()
    if reason is not None:
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as site, browsing() as browser:
        alice = Visitor(browser, site.address, viewport=WIDE)
        carol = Visitor(browser, site.address, viewport=WIDE)
        alice.log_in(site.token("alice", "analyst"))
        carol.log_in(site.token("carol", "custodian"))
        let_questions_stand(alice.page)
        append_batches(site, alice, carol.page)
        ask(alice.page)
        take(alice.page, "ask")
        for name in ("standing", "budget", "history"):
            alice.page.goto(f"{PLACE}/{name}")
            take(alice.page, name)
        carol.page.goto(f"{PLACE}/custodian")
        take(carol.page, "custodian")
        publish(carol.page)
        take(carol.page, "report")
        by_night_on_a_phone(browser, site)


def let_questions_stand(page):
    """What raises an alarm as the rows grow: whoever is 60 and older, and the sites."""
    stand(page, "release_if", {"Only rows where": "age >= 60", "Above": "250", "Hits": "20"})
    groups = {"For each value of": "site", "Its public values": "1..6", "Above": "1100", "Hits": "40"}
    stand(page, "release_if", groups | {"Only rows where": "age < 60"})


def stand(page, kind, said):
    """Fill the form of a kind and let it stand."""
    page.goto(f"{PLACE}/ask?kind={kind}")
    fill(page, said)
    page.get_by_role("button", name="Let it stand").click()
    page.get_by_label("Share of the budget, at most").fill("0.4")
    page.get_by_label("Tell", exact=True).select_option("all")
    page.get_by_role("button", name="Let it stand").click()
    page.get_by_text("waits for rows that arrive").first.wait_for()


def fill(page, said):
    """Fields by their labels."""
    for label, text in said.items():
        page.get_by_label(re.compile(f"^{label}( optional)?$")).first.fill(text)


def append_batches(site, alice, page):
    """Batches that a custodian appends; each is waited for until it was asked about."""
    for number, (rows, age) in enumerate(BATCHES, 1):
        page.goto(f"{PLACE}/custodian")
        page.get_by_label("A CSV of new rows").set_input_files(batch(site.folder, rows, age))
        page.get_by_role("button", name="Append").click()
        asked = re.compile(rf"\b{number}\b")
        alice.until(lambda asked=asked: both_asked(alice.page, asked), f"{PLACE}/standing")


def both_asked(page, times):
    """Whether both questions were asked so often."""
    told = page.locator("dl.figures > div", has_text="Times asked").locator("dd").all_inner_texts()
    return len(told) == 2 and all(times.search(each) for each in told)


def ask(page):
    """One question with its quote and its answer."""
    page.goto(f"{PLACE}/ask?kind=release_if")
    fill(page, {"For each value of": "plan", "Its public values": "1..19", "Above": "200", "Hits": "40"})
    page.get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url(re.compile("answer="))
    page.get_by_text("A hit costs", exact=True).wait_for()


def publish(page):
    """The report of now."""
    page.goto(f"{PLACE}/report")
    page.get_by_role("button", name="Publish").click()
    page.get_by_text("Budget charged", exact=True).wait_for()


def by_night_on_a_phone(browser, site):
    """The same page in the dark, on a small screen."""
    phone = Visitor(browser, site.address, viewport=PHONE, color_scheme="dark")
    phone.log_in(site.token("carol", "custodian"))
    phone.page.goto(f"{PLACE}/standing")
    take(phone.page, "phone", whole=False)


def take(page, name, *, whole=True):
    """A picture of the page, once its own pictures are there."""
    page.wait_for_function("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    place = FIGURES / f"page-{name}.png"
    taken = page.screenshot(full_page=whole, animations="disabled", caret="hide")
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(place, optimize=True)
    size = os.path.getsize(place)
    if size > MOST_BYTES:
        raise SystemExit(f"{place.name} has {size:,} bytes, more than {MOST_BYTES:,}")


if __name__ == "__main__":
    main()
