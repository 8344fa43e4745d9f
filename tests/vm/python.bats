#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables shared with bats and tests/lib
# The Python package, from its wheel, on real machines. What it does in detail is tested by
# bindings/python/tests; here the wheel is alone with the machine.

load ../lib/common
load ../lib/vm

setup_file() {
	common_setup_file
	demo_image
	holt image tag demo alpine
	[[ -x $HOLT_BUILD/python/bin/python ]] || tools/python-venv "$HOLT_BUILD"
}

# An environment with nothing but the wheel.
@test "three lines in a clean virtual environment run a command in a machine" {
	local venv=$BATS_TEST_TMPDIR/venv
	python3 -m venv "$venv"
	"$venv/bin/pip" install --quiet --disable-pip-version-check "$HOLT_BUILD"/wheels/*.whl
	cd "$BATS_TEST_TMPDIR"
	run -0 --separate-stderr env -u HOLT_KEEPER -u HOLT_AGENT -u HOLT_KERNEL "$venv/bin/python" - <<-'PY'
		import holt
		with holt.Home().box("alpine") as box:
		    print(box.exec(["uname", "-r"]).stdout.decode(), end="")
	PY
	[[ $output == 6.*-cloud-amd64 ]] || fail "no kernel of a guest: $output" "$stderr"
	[[ $output != "$(uname -r)" ]]
	# Its own kernel, since no other was named and the wheel is alone.
	[[ -n $(find "$venv" -path '*/holt/_lib/holt/kernel/boot/vmlinuz-*') ]]
	[[ -z $(holt ps -aq) ]]
}

@test "the examples of docs/python.md do what they say" {
	cd "$BATS_TEST_TMPDIR"
	run -0 --separate-stderr "$HOLT_BUILD/python/bin/python" -X dev -W error \
		"$OLDPWD/tests/vm/python_examples" "$OLDPWD/docs/python.md"
	[[ $output == *'examples ran: 6'* ]] || fail "$output" "$stderr"
	[[ -z $stderr ]] || fail "$stderr"
	[[ $output == *Linux* && $output == *"Exit Code: 2"* && $output == *hello* ]]
	[[ -z $(holt ps -aq) ]]
}
