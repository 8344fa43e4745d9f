#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables of bats and tests/lib
# Code in a QEMU that somebody has taken over (intruder.c) does not get out of its jail; and without the
# layer of the jail that stops it, it does, so each of these attempts is one. With everything on,
# several layers stop most of them: for each layer it is shown that it stops something when those
# beside it are taken away.

load ../lib/common
load ../lib/vm
load attack

# Everything but that the object is loaded, without which there is no intruder.
readonly ALL=userns,mountns,pidns,netns,ipcns,landlock,filter,sandbox,chroot,uid,limits,nonewprivs

# expected COLUMN WORD: the attempts that have this word there.
expected() {
	awk -v c="$1" -v w="$2" '
		/^#   / { next }
		/^# attempt/ { for (i = 2; i <= NF; i++) if ($i == c) at = i - 1 }
		/^[a-z]/ && at && (w == "" || $at == w) { print $1 }' "$BATS_TEST_DIRNAME/attempts.txt"
}

# Each attempt was made, and none of another name; what came of it is known.
assert_complete() {
	assert_equal 'attempts that were made' "$(cut -d ' ' -f 1 <<<"$output" | sort)" \
		"$(expected plain '' | sort)" || return
	! grep -E ' (HANGS|UNTRIED|UNKNOWN)$' <<<"$output" || fail "attempts that came to nothing:" "$output"
}

got_through() {
	sed -n 's/ DONE$//p' <<<"$output"
}

# assert_through COLUMN: those get through that have to.
assert_through() {
	local missing
	missing=$(comm -13 <(got_through | sort) <(expected "$1" x | sort))
	[[ -z $missing ]] || fail "stopped, although there is no jail:" \
		"$(grep -wF -- "$missing" <<<"$output")"
}

# stopped WEAKNESS ATTEMPT...; through WEAKNESS ATTEMPT...: without these layers all are, or none is.
stopped() {
	intrude "$@" || return
	[[ -z $(got_through) ]] || fail "gets through without '$1':" "$output" || return
	assert_equal "attempts that were made" "$(grep -c . <<<"$output")" $(($# - 1))
}

through() {
	intrude "$@" || return
	assert_equal "stopped although '$1' is missing" "$(grep -v ' DONE$' <<<"$output")" '' || return
	assert_equal "attempts that were made" "$(grep -c . <<<"$output")" $(($# - 1))
}

# bats test_tags=user
@test "an intruder in QEMU gets through with nothing: no file, socket, process, privilege, no more than its share" {
	: >"$TEST_DIR/reached.log"
	intrude nothing
	assert_complete
	assert_equal 'what gets through' "$(got_through)" ''
	assert_equal 'who was reached' "$(<"$TEST_DIR/reached.log")" ''
	# The others did not notice.
	run -0 holt exec other echo here
	assert_output here
	kill -0 "$(<"$TEST_DIR/prey.pid")"
	run -0 holt run --rm demo echo 'the template is as it was'
	assert_output 'the template is as it was'
}

# bats test_tags=user
@test "without the jail, it gets through with all that the host itself does not refuse" {
	: >"$TEST_DIR/reached.log"
	intrude $ALL
	assert_complete
	assert_through "$( ((EUID == 0)) && echo root || echo user)"
	assert_equal 'who was reached' "$(sort -u "$TEST_DIR/reached.log" | tr '\n' ' ')" \
		'reached abstract reached tcp reached tcp-host reached udp reached unix '
}

@test "as a program of root in no jail, it gets through with the rest" {
	((EUID == 0)) || skip "only root may"
	make_intruder nothing
	local dir=$TEST_DIR/intruder pid
	echo content >"$dir/file"
	truncate -s 1M "$dir/disk"
	# Its mounts are its own.
	(ulimit -n 4096 && exec unshare --mount "$dir/standin" 5<"$dir/file" 6<>"$dir/disk") \
		</dev/null >/dev/null 2>&1 3>&- &
	pid=$!
	wait_for 20 grep -qaE '^(end|execute DONE)' "$dir/disk" || true
	kill -9 "$pid" 2>/dev/null || true
	output=$(tail -c +1048577 "$dir/disk" | tr -d '\0' | grep -vE '^(begin|held|end)( |$)')
	# As a program it is replaced by the one that it executes: that is its end.
	output+=$'\nexecute-made DONE'
	assert_complete
	assert_through plain
}

# bats test_tags=user
@test "a program in QEMU's place reaches nothing either, before QEMU's own part of the jail" {
	ENGINE=standin
	: >"$TEST_DIR/reached.log"
	intrude nothing
	assert_complete
	assert_equal 'what gets through' "$(comm -23 <(got_through | sort) <(expected program x | sort))" ''
	assert_equal 'who was reached' "$(<"$TEST_DIR/reached.log")" ''
}

# The layers, one by one.

# bats test_tags=user
@test "layer filter: without it there are sockets, keys, and other modes for files that are everybody's" {
	stopped nothing make-socket held-mode held-owner held-times
	through filter,uid make-socket held-mode held-owner held-times
}

# bats test_tags=user
@test "layer sandbox: without QEMU's own filter it makes processes" {
	stopped nothing make-process
	through sandbox make-process
}

# bats test_tags=user
@test "layer chroot: without it there is what QEMU was loaded from" {
	through chroot open-loaded
}

# bats test_tags=user
@test "layers mount namespace and landlock: either hides the host's files, without both they are there" {
	stopped landlock open-public open-home open-secret create-public
	stopped mountns open-public open-home open-secret create-public
	through landlock,mountns,uid open-public open-home open-secret create-public
}

# bats test_tags=user
@test "layer network namespace: without it listeners of the host are reached" {
	stopped filter,landlock connect-loopback connect-host connect-abstract
	through filter,landlock,netns connect-loopback connect-host connect-abstract
}

# bats test_tags=user
@test "layer pid namespace: without it other processes are there to be signalled" {
	stopped filter,landlock,uid signal-victim signal-keeper signal-thread limit-victim
	through filter,landlock,uid,pidns signal-victim signal-keeper signal-thread limit-victim
}

# bats test_tags=user
@test "layer ipc namespace: without it the host's shared memory is there" {
	through ipcns attach-shared-memory
}

# bats test_tags=user
@test "layer user namespace: without it the intruder is somebody that the host knows" {
	through userns be-somebody
}

@test "layer own user: without it root's files are there, beside whatever else fails" {
	((EUID == 0)) || skip "an ordinary user has no other user to give"
	stopped mountns,landlock open-secret open-shadow open-home
	through mountns,landlock,uid open-secret open-shadow open-home
}

# bats test_tags=user
@test "layer limits: without them it fills the host's disk, and opens what there is to open" {
	through limits fill-disk fill-disk-by-allocating exhaust-descriptors
}

# bats test_tags=user
@test "layer no_new_privs: without it a program with privileges would have them" {
	through nonewprivs,sandbox gain-by-exec
}

# Where it is, is up to the mode of the file and the shim (openshim.c): QEMU itself would open it for
# writing, and then nothing would be in the way.
# bats test_tags=user
@test "layer shim: a QEMU that opens the template's memory itself, where its mode lets it, could write it" {
	local memory
	memory=$(sed -n 's/^memory //p' "$TEST_DIR/prey")
	stopped nothing held-write held-map held-truncate held-allocate held-open-again
	INTRUDER=intruder-bare
	chmod 666 "$memory"
	chmod 711 "$HOLT_HOME" "$HOLT_HOME/templates" "${memory%/*}"
	run through mountns,landlock,uid,userns held-write held-map held-truncate held-allocate held-open-again
	chmod 700 "$HOLT_HOME" "$HOLT_HOME/templates" "${memory%/*}"
	chmod 400 "$memory"
	assert_status 0
}
