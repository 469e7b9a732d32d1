"""The examples in the docstrings of the public names: each has one, and it prints what it says."""

import doctest

import pytest

import swiftrl_core

PUBLIC = [name for name in swiftrl_core.__all__ if name != "__version__"]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example_that_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.DocTestFinder(recurse=False).find(getattr(swiftrl_core, name), name, globs={})
    (test,) = found
    assert test.examples
    report = []
    doctest.DocTestRunner().run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_complete_docstring(name):
    text = getattr(swiftrl_core, name).__doc__
    sections = ["Examples\n"] if name == "SwiftRLError" else ["Examples\n", "Raises\n", "------"]
    assert all(section in text for section in sections), sections
