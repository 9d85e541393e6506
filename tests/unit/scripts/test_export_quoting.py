"""Quoting, held against the languages' own readers where Python has one."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from needs import tool
from rekindle.errors import BadInput
from rekindle.scripts import quoting

TEXT = st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=40)
CONTROL = st.sampled_from(["a\nb", "a\rb", "a\0b", "a\x1b[31m", "a\u2028b", "\x85"])


@given(TEXT)
def test_a_shell_word_is_one_word_that_means_the_text(text: str) -> None:
    assert shlex.split(quoting.sh_word(text)) == [text]


@tool("sh")
def test_a_real_shell_agrees() -> None:
    nasty = "a b'c\"d$e`f\\g!h*i?j[k]l{m}n~o#p&q|r;s<t>u(v)w=x%y^z ü"
    done = subprocess.run(["sh", "-c", f"printf %s {quoting.sh_word(nasty)}"], capture_output=True, text=True)
    assert done.stdout == nasty


@given(CONTROL)
def test_control_characters_are_refused_everywhere(text: str) -> None:
    for quote in (quoting.sh_word, quoting.batch_word, quoting.docker_word, quoting.yaml_word):
        with pytest.raises(BadInput):
            quote(text)
    with pytest.raises(BadInput):
        quoting.batch_set("NAME", text)
    for remark in (quoting.comment, quoting.batch_remark):
        assert len(remark(text).splitlines()) <= 1


@given(TEXT)
def test_batch_set_keeps_one_line_and_doubles_every_percent(text: str) -> None:
    try:
        line = quoting.batch_set("NAME", text)
    except BadInput:
        assert '"' in text and text != text.rstrip()
        return
    assert line.splitlines() == [line]
    assert line.count("%") == 2 * text.count("%")
    if '"' not in text:
        assert line == f'set "NAME={text.replace("%", "%%")}"'


@given(TEXT.filter(lambda text: '"' not in text))
def test_a_batch_word_hides_everything_special_in_quotes(text: str) -> None:
    word = quoting.batch_word(text)
    if set(text) & set("&|<>^() ,;=!'`"):
        assert word.startswith('"') and word.endswith('"')
    assert word.replace("%%", "%").strip('"').rstrip("\\") == text.strip('"').rstrip("\\")


@given(st.text(max_size=60))
def test_a_comment_is_one_line_without_control(text: str) -> None:
    made = quoting.comment(text)
    assert len(made.splitlines()) <= 1 and "\x1b" not in made


def _docker_reads(word: str) -> str:
    """A Dockerfile's double quotes: a backslash takes the next character as it is."""
    assert word[0] == word[-1] == '"'
    out, at = "", 1
    while at < len(word) - 1:
        if word[at] == "\\":
            at += 1
        else:
            assert word[at] not in '"$', "would end the word or be replaced"
        out += word[at]
        at += 1
    return out


@given(TEXT)
def test_a_docker_word_reads_back(text: str) -> None:
    assert _docker_reads(quoting.docker_word(text)) == text


@given(TEXT)
def test_a_yaml_word_is_json_and_starts_no_expression_of_its_own(text: str) -> None:
    read = json.loads(quoting.yaml_word(text))
    # What GitHub makes of it: our own expression gives the three characters back.
    assert read.replace("${{ '${{' }}", "${{") == text
    assert "${{" not in read.replace("${{ '${{' }}", "")


@pytest.mark.parametrize("name", ["", "1A", "A B", "A=B", "A;rm", "Ä", "A\n"])
def test_no_strange_variable_names(name: str) -> None:
    with pytest.raises(BadInput):
        quoting.variable_name(name)
    with pytest.raises(BadInput):
        quoting.batch_set(name, "x")
