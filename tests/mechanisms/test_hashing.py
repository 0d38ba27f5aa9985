"""Words of elements: keyed, the same for equal values, the same in a database."""

import hashlib

import duckdb
import numpy as np
import pytest
from scipy import stats

from chary.errors import InvalidParameter
from chary.mechanisms import new_key, words
from chary.noise import OperatingSystem, Seeded
from tests.noise.helpers import ALPHA

KEY = new_key(Seeded(1))


def test_a_word_is_the_start_of_the_hash_of_key_kind_and_text():
    texts = (b"i-5", "sé".encode(), b"b\0")
    expected = [int(hashlib.sha256(KEY.encode() + text).hexdigest()[:16], 16) for text in texts]
    assert words(KEY, [-5, "é", b"\0"]).tolist() == expected
    assert words(KEY, []).dtype == np.uint64


def test_equal_values_have_equal_words_and_others_do_not():
    same = [1, 1.0, True, np.int8(1), np.float32(1), np.uint64(1)]
    assert len(set(words(KEY, same).tolist())) == 1
    assert len(set(words(KEY, [0.0, -0.0, 0, False]).tolist())) == 1
    assert len(set(words(KEY, [float("nan"), np.nan, -float("nan")]).tolist())) == 1
    different = [1, "1", b"1", -1, 1.5, "1.5", float("inf"), -float("inf"), "inf", "", b"", 2**70, 2.0**71, "i1"]
    assert len(set(words(KEY, different).tolist())) == len(different)


def test_missing_values_have_no_word_and_odd_text_has_one():
    assert len(words(KEY, [None, 3, None])) == 1
    assert len(words(KEY, np.array(["a", None, "\udc80"], dtype=object))) == 2


@pytest.mark.parametrize("value", [[1], (), object(), 1j])
def test_other_types_are_refused_without_showing_them(value):
    with pytest.raises(InvalidParameter) as refusal:
        words(KEY, [value])
    assert repr(value) not in str(refusal.value)


@pytest.mark.parametrize("key", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, b"0" * 64, 5, None])
def test_a_key_has_64_digits(key):
    with pytest.raises(InvalidParameter) as refusal:
        words(key, [1])
    assert str(key or "nothing") not in str(refusal.value)


def test_a_database_computes_the_same_words():
    connection = duckdb.connect()
    query = "SELECT CAST('0x' || substr(sha256(? || ? || CAST(v AS VARCHAR)), 1, 16) AS UBIGINT) AS w FROM t"
    for kind, values in (("i", [0, -7, 2**62]), ("s", ["", "a", "Zoë", "i1"])):
        connection.execute("CREATE OR REPLACE TABLE t AS SELECT unnest(?) AS v", [values])
        found = connection.execute(query, [KEY, kind]).fetchnumpy()["w"]
        assert found.tolist() == words(KEY, values).tolist()


def test_keys_are_fresh_and_give_unrelated_words():
    keys = [new_key(OperatingSystem()) for _ in range(20)]
    assert len({tuple(words(key, [1, 2]).tolist()) for key in keys}) == 20


@pytest.mark.statistical
def test_bits_of_words_are_even():
    bits = np.unpackbits(words(KEY, range(20_000)).view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0)
    assert stats.chi2.sf(((bits - 10_000) ** 2 / 5_000).sum(), 64) > ALPHA
