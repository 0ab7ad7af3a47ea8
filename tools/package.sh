#!/bin/sh
# Make an sdist, of it a wheel, install the wheel into an empty environment, and try it there. PYTHON has `build` installed.
set -eu
python=$1
rm -rf dist
"$python" -m build --no-isolation --outdir dist . >/dev/null  # the wheel is made of the sdist, so both are whole
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
constraints=$PWD/constraints.txt
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile -c "$constraints" dist/*.whl
cd "$work"  # not the checkout, whose folders would be imported
"$work/venv/bin/perfvec" --version
"$work/venv/bin/perfvec" uarch list --json >/dev/null
"$work/venv/bin/perfvec" trace -o true.trace.h5 -- /bin/true
"$work/venv/bin/perfvec" predict true.trace.h5 --uarch zen4
"$work/venv/bin/python" -c 'import importlib.resources as r; assert not (r.files("uarch") / "timing" / "core").is_dir()'
echo "the wheel works in an empty environment"
