# Sourced by ./rekindle and ./check, which set $here. Finds a Python and keeps .venv in step with pyproject.toml.

ready() {
    # The copy of pyproject.toml beside the environment is compared byte for byte: no Python start needed.
    [ -x "$here/.venv/bin/python" ] && cmp -s "$here/pyproject.toml" "$here/.venv/ready.$1"
}

find_python() {
    for name in ${REKINDLE_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python}; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$name"
            return 0
        fi
    done
    echo "rekindle: no Python 3.11 or newer found. On Debian and Ubuntu: sudo apt install python3 python3-venv" >&2
    return 1
}

set_up() {
    python=$(find_python) || exit 2
    "$python" "$here/tools/bootstrap.py" "$@" || exit $?
    cp "$here/pyproject.toml" "$here/.venv/ready.use"
    if [ "${1-}" = --dev ]; then cp "$here/pyproject.toml" "$here/.venv/ready.dev"; fi
}
