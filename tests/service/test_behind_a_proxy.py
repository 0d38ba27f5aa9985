"""Where a request came from: what a proxy says counts only where the chary.toml names that proxy."""

import pytest

from chary.errors import InvalidParameter
from chary.service.config import configured
from tests.service.kit import bearing, client_of, listening, service_at

WRONG = bearing("chary_0000000000000000_x")


def tries(address, said):
    """Statuses of wrong tokens, each with what a header says of where it came from."""
    with client_of(address) as client:
        return [client.get("/v1/datasets", headers=WRONG | {"X-Forwarded-For": each}).status_code for each in said]


def test_a_header_that_nobody_vouches_for_is_not_believed(tmp_path):
    with listening(service_at(tmp_path)) as address:
        assert tries(address, [f"10.0.0.{number}" for number in range(12)]) == [401] * 10 + [429] * 2


def test_a_proxy_that_is_named_says_who_came(tmp_path):
    with listening(service_at(tmp_path, proxies=["127.0.0.0/8", "::1"])) as address:
        assert tries(address, ["10.0.0.1"] * 11) == [401] * 10 + [429]
        assert tries(address, ["10.0.0.2"]) == [401]
        # The proxy adds the address it saw behind what the client had made up.
        assert tries(address, ["10.0.0.3, 10.0.0.1"]) == [429]


@pytest.mark.parametrize("wrong", ["*", "0.0.0.0/0", "::/0", "proxy.example.org", "127.0.0.1/8"])
def test_not_everybody_is_a_proxy(tmp_path, wrong):
    with pytest.raises(InvalidParameter, match="proxies"):
        configured({"folder": tmp_path, "service": {"proxies": [wrong]}, "dataset": {}}, "a test")
