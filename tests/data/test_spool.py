"""Folders for rows that pass through: what is left by a kill goes, and what cannot be opened is no reason to try on."""

import errno
import os

import pytest

from chary.data import spool


def test_a_folder_that_cannot_be_opened_is_an_error_and_no_loop(monkeypatch, tmp_path):
    opened, tries = os.open, []

    def full(name, *how, **more):
        if "chary-rows-" in str(name):
            tries.append(name)
            raise OSError(errno.EMFILE, "too many open files")
        return opened(name, *how, **more)

    monkeypatch.setattr(spool.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spool.os, "open", full)
    with pytest.raises(OSError, match="too many"), spool.spool_folder():
        pass
    assert len(tries) <= 2
