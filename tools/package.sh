#!/bin/sh
# Make an sdist, of it a wheel, install each into an empty environment, and try it there. PYTHON has `build` installed.
set -eu
python=$1
rm -rf dist
"$python" -m build --no-isolation --outdir dist . >/dev/null  # the wheel is made of the sdist, so both are whole
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
constraints=$PWD/constraints.txt
sdist=$(echo "$PWD"/dist/*.tar.gz)
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-compile -c "$constraints" dist/*.whl
cd "$work"  # not the checkout, whose folders would be imported
try() {  # the environment's perfvec
  "$1/bin/perfvec" --version
  "$1/bin/perfvec" uarch list --json >/dev/null
  "$1/bin/perfvec" trace -o true.trace.h5 -- /bin/true
  "$1/bin/perfvec" predict true.trace.h5 --uarch zen4
  "$1/bin/python" -c 'import importlib.resources as r; assert not (r.files("uarch") / "timing" / "core").is_dir()'
  "$1/bin/python" -c 'import importlib.resources as r; assert (r.files("perfvec") / "py.typed").is_file()'
}
try "$work/venv"
echo "the wheel works in an empty environment"

# The sdist, with the dependencies of the first environment, which no longer has the wheel.
"$work/venv/bin/pip" uninstall --quiet --yes perfvec-toolkit
"$python" -m venv "$work/second"
site() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
site "$work/venv" >"$(site "$work/second")/dependencies.pth"
"$work/second/bin/pip" install --quiet --disable-pip-version-check --no-compile --no-deps "$sdist"
try "$work/second"
echo "the sdist does, too"
