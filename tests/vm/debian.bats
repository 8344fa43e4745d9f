#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154 # expanded by another shell; variables of bats and tests/lib
# The Debian image of the tests: bash, python3 and the usual programs do in a machine what they do
# elsewhere. And tools/mkdebian, which makes it.

load ../lib/common
load ../lib/vm

setup_file() {
	common_setup_file
	debian_image
}

@test "debian: bash is the command; sh, python3 with its modules, awk, grep, find, tar; as agent too" {
	cat >"$BATS_TEST_TMPDIR/script" <<-'END'
		echo "bash=$BASH_VERSION"
		echo "compiled=$(ls /usr/lib/python3.*/__pycache__/uuid.*.pyc)"
		echo "python=$(python3 -c 'import json, sqlite3, ssl, subprocess, random, uuid; print(uuid.uuid4())')"
		echo "sqlite=$(python3 -c 'import sqlite3
		print(sqlite3.connect(":memory:").execute("select 6*7").fetchone()[0])')"
		echo "source=$(python3 -c 'import uuid; print(uuid.uuid4.__code__.co_filename)')"
		echo "sh=$(sh -c 'readlink /proc/$$/exe')"
		echo "awk=$(printf 'a 1\nb 2\n' | awk '{ sum += $2 } END { print sum }')"
		echo "grep=$(grep -c -E '^(root|agent):' /etc/passwd)"
		echo "find=$(find /usr/bin -name 'python3.*' -type f)"
		mkdir /tmp/d && echo text >/tmp/d/f && tar -C /tmp -czf /tmp/d.tgz d && rm -r /tmp/d
		echo "tar=$(tar -xzOf /tmp/d.tgz d/f | sed s/text/same/)"
		echo "ps=$(ps -o comm= -p $$)"
		echo "release=$(. /etc/os-release && echo "$ID $VERSION_CODENAME")"
		echo "owners=$(find / -xdev -path /home/agent -prune -o ! -user 0 -print)"
		echo "tmp=$(stat -c '%a %U' /tmp) $(stat -c '%a %U' /home/agent)"
	END
	STDIN=$BATS_TEST_TMPDIR/script box root -i debian
	box agent -u agent debian bash -c '
		id; cd && pwd
		python3 -c "open(\"/home/agent/file\", \"w\").write(\"by python\\n\")" && cat file
		stat -c %U:%G file; ! touch /etc/file 2>&1'
	boxes
	assert_box root 0
	assert_match "$(fact bash)" '^5\.[0-9.]+\([0-9]+\)-release$'
	assert_match "$(fact python)" '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
	assert_fact sqlite 42
	assert_match "$(fact compiled)" '^/usr/lib/python3[^ ]*/uuid\.[^ ]*\.pyc$'
	assert_match "$(fact source)" '^/usr/lib/python3[^ ]*/uuid\.py$'
	assert_fact sh /usr/bin/dash
	assert_fact awk 3
	assert_fact grep 2
	assert_match "$(fact find)" '^/usr/bin/python3\.[0-9]+$'
	assert_fact tar same
	assert_fact ps bash
	assert_fact release "debian $(. /etc/os-release && echo "$VERSION_CODENAME")"
	assert_fact owners ''
	assert_fact tmp '1777 root 755 agent'
	assert_box agent 0 "uid=1000(agent) gid=1000(agent) groups=1000(agent),2000(wheel)
/home/agent
by python
agent:agent
touch: cannot touch '/etc/file': Permission denied"
}

# A host without network, and without any program that could use one.
no_network() {
	mkdir "$BATS_TEST_TMPDIR/bin"
	printf '#!/bin/sh\necho "E: no network" >&2\nexit 100\n' >"$BATS_TEST_TMPDIR/bin/apt-get"
	chmod +x "$BATS_TEST_TMPDIR/bin/apt-get"
	ln -s apt-get "$BATS_TEST_TMPDIR/bin/dpkg-deb"
}

@test "mkdebian: what is there is named without network; what cannot be made leaves nothing" {
	local tree=$BATS_TEST_TMPDIR/tree image
	no_network
	PATH=$BATS_TEST_TMPDIR/bin:$PATH run -0 --separate-stderr "$ROOT/tools/mkdebian"
	image=$output
	assert_match "$image" "^$ROOT/\.images/debian-[0-9a-f]{12}$"
	[[ -e $image/oci-layout ]] || fail "no layout in '$image'"
	run -0 "$ROOT/tools/mkdebian" --path
	assert_output "$image"
	run -2 "$ROOT/tools/mkdebian" --no-such
	mkdir -p "$tree/tools"
	cp "$ROOT"/tools/mk{debian,image} "$tree/tools"
	mkdir -p "$tree/.images/tmp.killed"
	PATH=$BATS_TEST_TMPDIR/bin:$PATH run -1 --separate-stderr "$tree/tools/mkdebian"
	assert_output ''
	assert_match "$stderr" 'no network.*mkdebian: apt cannot plan the packages'
	assert_equal "what is left" "$(ls -A "$tree/.images")" ''
}
