"""A process that sends news until it is killed: python -m tests.service.sending_child FOLDER URL."""

import sys
import time
from pathlib import Path

from chary.service.config import configured
from chary.service.core import delivery
from chary.service.store import ServiceStore


def main(folder: Path, url: str) -> None:
    """Send what is due, again and again."""
    place = {"url": url, "form": "pagerduty", "secret-file": "routing"}
    config = configured({"folder": folder, "service": {"webhook": {"ops": place}}, "dataset": {}}, "a test")
    # A minute is a second, so that what was cut off is sent again soon; nobody waits that long for an answer.
    sending = delivery.Delivery(config, ServiceStore(folder / "service.db"), lambda: time.time() * 50)
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    while True:
        sending.tick()
        time.sleep(0.001)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
