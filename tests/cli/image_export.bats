#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# holt image export: archives that other tools take, and files that are whole or not there.

load ../lib/common

setup() {
	common_setup
	export HOLT_HOME=$TEST_DIR/home-$BATS_TEST_NUMBER
	OUT=$TEST_DIR/out-$BATS_TEST_NUMBER
	mkdir "$OUT"
}

# unpacked OCI-LAYOUT:TAG DIR: by umoci, as root.
unpacked() {
	umoci unpack --image "$1" "$2" >/dev/null
}

# listing DIR: names, kinds, modes, owners, times, link counts and digests below it.
listing() {
	(cd "$1" && find . -printf '%P %y %m %U:%G %T@ %l %n\n' | sort && find . -type f -print0 | sort -z | xargs -0 sha256sum)
}

@test "an exported image: skopeo takes it, umoci finds the same files in it, import takes it back" {
	((EUID == 0)) || skip "umoci makes devices and owners"
	local layout tag
	layout=$(layout --busybox --name "r.example/demo:v1" --env A=b --user agent --workdir /srv)
	holt image import "$layout" --name r.example/demo:v1 >/dev/null
	run -0 --separate-stderr holt image export r.example/demo:v1 -o "$OUT/a.tar"
	assert_output ''
	[[ -z $stderr ]] || fail "stderr: $stderr"
	assert_equal "files" "$(ls -A "$OUT")" a.tar

	skopeo copy -q "oci-archive:$OUT/a.tar" "oci:$OUT/copied:v1"
	skopeo copy -q "oci:$layout" "oci:$OUT/original:v1"
	unpacked "$OUT/copied:v1" "$OUT/x"
	unpacked "$OUT/original:v1" "$OUT/y"
	listing "$OUT/x/rootfs" >"$OUT/x.list"
	listing "$OUT/y/rootfs" >"$OUT/y.list"
	diff -u "$OUT/y.list" "$OUT/x.list"
	[[ -s $OUT/x.list ]] || fail "nothing is in it"
	# The configuration, the layers aside.
	assert_equal "configuration" "$(skopeo inspect --config "oci:$OUT/copied:v1" | jq -S 'del(.rootfs, .history)')" \
		"$(skopeo inspect --config "oci:$layout" | jq -S 'del(.rootfs, .history)')"

	export HOLT_HOME=$TEST_DIR/home-again
	holt image import "$OUT/a.tar" >/dev/null
	run -0 holt image inspect r.example/demo:v1
	jq -e '.[0].layers == 1 and .[0].config.user == "agent" and (.[0].config.env | index("A=b"))' <<<"$output" >/dev/null ||
		fail "inspect: $output"
}

@test "an exported image: standard output has the same bytes as a file, and replaces one" {
	holt image import "$(layout --busybox)" --name demo >/dev/null
	echo old >"$OUT/a.tar"
	holt image export demo -o "$OUT/a.tar"
	holt image export demo | cat >"$OUT/b.tar"
	cmp "$OUT/a.tar" "$OUT/b.tar"
	(cd "$OUT" && holt image export demo --output c.tar)
	cmp "$OUT/a.tar" "$OUT/c.tar"
	assert_equal "oci-layout first" "$(tar tf "$OUT/a.tar" | head -n 1)" oci-layout
}

@test "an export that fails leaves the file that was there, and nothing beside it" {
	local code
	holt image import "$(layout --busybox)" --name demo >/dev/null
	echo old >"$OUT/a.tar"
	run -1 --separate-stderr holt image export nosuch -o "$OUT/a.tar"
	assert_match "$stderr" "'nosuch'"
	assert_equal "file" "$(cat "$OUT/a.tar")" old
	assert_equal "files" "$(ls -A "$OUT")" a.tar
	run -1 --separate-stderr holt image export demo -o "$OUT/no/such/a.tar"
	assert_match "$stderr" '^holt: image export: cannot make a file'
	run -2 --separate-stderr holt image export demo -o "$OUT"
	run -2 --separate-stderr holt image export
	run -2 --separate-stderr holt image export demo demo
	run -1 --separate-stderr bash -c '"$HOLT" image export demo >/dev/full'
	assert_match "$stderr" '^holt: image export: '
	# No archive goes to a terminal.
	code=0
	script -qec "'$HOLT' image export demo" /dev/null >"$OUT/shown" </dev/null || code=$?
	assert_equal "status" "$code" 2
	grep -q 'no archive is written to a terminal' "$OUT/shown"
	assert_equal "temporary files" "$(ls -A "$HOLT_HOME/images/tmp")" ''
}

@test "an export that is interrupted leaves nothing, neither beside the file nor in the store" {
	local pid code=0
	mkdir "$OUT/in"
	head -c 500M /dev/zero >"$OUT/in/zeros"
	tar -C "$OUT/in" -cf "$OUT/in.tar" .
	holt image import "$OUT/in.tar" --name big >/dev/null
	rm -r "$OUT/in" "$OUT/in.tar"
	setsid --wait env --default-signal=INT "$HOLT" image export big -o "$OUT/a.tar" 2>"$OUT.err" &
	pid=$!
	for ((i = 0; i < 200; i++)); do
		[[ -z $(ls -A "$OUT") ]] || break
		sleep 0.02
	done
	pkill -INT -P "$pid" || kill -INT "$pid"
	wait "$pid" || code=$?
	((code != 0)) || fail "the export was over before"
	assert_equal "files" "$(ls -A "$OUT")" ''
	assert_equal "temporary files" "$(ls -A "$HOLT_HOME/images/tmp")" ''
}
