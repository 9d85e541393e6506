"""Completion scripts for four shells from one grammar. Each is plain text that starts nothing of ours while typing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Option:
    """``values`` are the only ones it takes; without any, files are offered where it takes one."""

    names: tuple[str, ...]
    takes_value: bool = False
    values: tuple[str, ...] = ()
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A verb, or a sub-verb in ``inner``; ``words`` are what may stand alone after it."""

    about: str = ""
    options: tuple[Option, ...] = ()
    words: tuple[str, ...] = ()
    inner: dict[str, Command] = field(default_factory=dict)


def completion_script(shell: str, grammar: Mapping[str, Command]) -> str:
    """The script to source."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish, "powershell": _powershell}[shell](grammar)


def _places(grammar: Mapping[str, Command]) -> Iterator[tuple[str, Command]]:
    """``source``, ``source fetch``, … with what may follow."""
    for verb, command in grammar.items():
        yield verb, command
        for name, inner in command.inner.items():
            yield f"{verb} {name}", inner


def _flags(command: Command) -> list[str]:
    return [name for option in command.options for name in option.names if name.startswith("--")]


def _follows(command: Command) -> list[str]:
    return [*command.inner, *command.words, *_flags(command)]


def _values(grammar: Mapping[str, Command]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for place, command in _places(grammar):
        for option in command.options:
            if option.values:
                for name in option.names:
                    yield place, name, option.values


def _bash(grammar: Mapping[str, Command]) -> str:
    verbs = " ".join(grammar)
    subs = "|".join(f"{verb}\\ {name}" for verb, one in grammar.items() for name in one.inner) or "none"
    values = "\n".join(
        f'        "{place} {name}") words="{" ".join(given)}" ;;' for place, name, given in _values(grammar)
    )
    takers = "|".join(
        sorted(
            {n for _, one in _places(grammar) for o in one.options if o.takes_value and not o.values for n in o.names}
        )
    )
    follows = "\n".join(f'        "{place}") words="{" ".join(_follows(one))}" ;;' for place, one in _places(grammar))
    return f"""# rekindle completion for bash
_rekindle() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}}
    local place=${{COMP_WORDS[1]}} words="" word
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=( $(compgen -W "{verbs} --help --version" -- "$cur") )
        return
    fi
    for word in "${{COMP_WORDS[@]:2:COMP_CWORD-2}}"; do
        case "$place $word" in {subs}) place="$place $word"; break ;; esac
    done
    case "$place $prev" in
{values}
    esac
    if [ -n "$words" ]; then
        COMPREPLY=( $(compgen -W "$words" -- "$cur") )
        return
    fi
    case "$prev" in
        {takers}) COMPREPLY=( $(compgen -f -- "$cur") ); return ;;
    esac
    case "$place" in
{follows}
    esac
    COMPREPLY=( $(compgen -W "$words" -- "$cur") )
    case "$cur" in -*) ;; *) COMPREPLY+=( $(compgen -f -- "$cur") ) ;; esac
}}
complete -o filenames -F _rekindle rekindle ./rekindle
"""


def _zsh(grammar: Mapping[str, Command]) -> str:
    verbs = "\n".join(f"        {_single(f'{verb}:{one.about}')}" for verb, one in grammar.items())
    rows = []
    for place, one in _places(grammar):
        inner = [_single(f"{name}:{each.about}") for name, each in one.inner.items()]
        inner += [_single(word) for word in one.words]
        options = [_single(f"{o.names[-1]}:{o.about}") for o in one.options if o.names[-1].startswith("--")]
        rows.append(f"        {_single(place)}) found=({' '.join([*inner, *options])}) ;;")
    values = "\n".join(
        f"        {_single(f'{place} {name}')}) compadd -- {' '.join(map(_single, given))}; return ;;"
        for place, name, given in _values(grammar)
    )
    subs = "|".join(_single(f"{verb} {name}") for verb, one in grammar.items() for name in one.inner)
    follows = "\n".join(rows)
    return f"""#compdef rekindle
# rekindle completion for zsh
_rekindle() {{
    local -a verbs found
    local place=${{words[2]}} word
    verbs=(
{verbs}
    )
    if (( CURRENT == 2 )); then
        _describe verb verbs
        return
    fi
    for word in ${{words[3,CURRENT-1]}}; do
        case "$place $word" in ({subs}) place="$place $word"; break ;; esac
    done
    case "$place ${{words[CURRENT-1]}}" in
{values}
    esac
    case $place in
{follows}
    esac
    _describe option found
    [[ $PREFIX == -* ]] || _files
}}
if [ "$funcstack[1]" = _rekindle ]; then _rekindle "$@"; else compdef _rekindle rekindle; fi
"""


def _fish(grammar: Mapping[str, Command]) -> str:
    rows = ["# rekindle completion for fish", "complete -c rekindle -f"]
    for verb, one in grammar.items():
        rows.append(f"complete -c rekindle -n __fish_use_subcommand -a {verb} -d {_single(one.about)}")
        seen = f"'__fish_seen_subcommand_from {verb}'"
        for name, inner in one.inner.items():
            rows.append(f"complete -c rekindle -n {seen} -a {name} -d {_single(inner.about)}")
        if one.words:
            rows.append(f"complete -c rekindle -n {seen} -a {_single(' '.join(one.words))}")
        options = {option.names: option for each in (one, *one.inner.values()) for option in each.options}
        for option in options.values():
            long = [f"-l {name[2:]}" for name in option.names if name.startswith("--")]
            short = [f"-s {name[1:]}" for name in option.names if len(name) == 2]
            value = ["-x -a " + _single(" ".join(option.values))] if option.values else []
            value += ["-r -F"] if option.takes_value and not option.values else []
            words = " ".join([*short, *long, *value, f"-d {_single(option.about)}"])
            rows.append(f"complete -c rekindle -n {seen} {words}")
        rows.append(f"complete -c rekindle -n {seen} -F")
    return "\n".join(rows) + "\n"


def _powershell(grammar: Mapping[str, Command]) -> str:
    follows = "\n".join(
        f"    {_doubled(place)} = @({', '.join(map(_doubled, _follows(one))) or ''})" for place, one in _places(grammar)
    )
    values = "\n".join(
        f"    {_doubled(f'{place} {name}')} = @({', '.join(map(_doubled, given))})"
        for place, name, given in _values(grammar)
    )
    verbs = ", ".join(_doubled(verb) for verb in grammar)
    return f"""# rekindle completion for PowerShell
$rekindleFollows = @{{
{follows}
}}
$rekindleValues = @{{
{values}
}}
Register-ArgumentCompleter -Native -CommandName @('rekindle', 'rekindle.cmd') -ScriptBlock {{
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object {{ $_.ToString() }})
    if ($wordToComplete -and $words.Count) {{ $words = @($words | Select-Object -First ($words.Count - 1)) }}
    $place = if ($words.Count) {{ $words[0] }} else {{ '' }}
    foreach ($word in ($words | Select-Object -Skip 1)) {{
        if ($rekindleFollows.ContainsKey("$place $word")) {{ $place = "$place $word"; break }}
    }}
    $last = if ($words.Count) {{ $words[-1] }} else {{ '' }}
    $offer = if (-not $words.Count) {{ @({verbs}) }}
        elseif ($rekindleValues.ContainsKey("$place $last")) {{ $rekindleValues["$place $last"] }}
        else {{ $rekindleFollows[$place] }}
    $offer | Where-Object {{ $_ -like "$wordToComplete*" }} |
        ForEach-Object {{ [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_) }}
}}
"""


def _single(text: str) -> str:
    """One word in single quotes, for bash, zsh and fish alike."""
    return "'" + text.replace("\\", " ").replace("'", "’") + "'"


def _doubled(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
