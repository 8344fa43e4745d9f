#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables of bats and tests/lib
# What a taken over QEMU says to the keeper over the sockets that it has (attempt_speech.c): the box may
# end for it, by type; the keeper does not crash, grow or keep what it is given, and nobody else notices.

load ../lib/common
load ../lib/vm
load attack

# speak ATTEMPT: begin a box whose QEMU says that, and wait until it has, or is gone.
speak() {
	local disk
	make_intruder nothing "only $1" || return
	# Time to look at the keeper before.
	holt run -d --name intruder demo sh -c "sleep 1; $NOW" >/dev/null || return
	disk=$HOLT_HOME/boxes/$(holt inspect intruder | jq -r '.[0].id')/disk.raw
	KEEPER=$(holt inspect intruder | jq -r '.[0].state.keeper_pid')
	BEFORE=$(find "/proc/$KEEPER/fd" -mindepth 1 | wc -l)
	wait_for 30 report_ended "$disk" || fail "'$1': no end:" "$(report "$disk")" || return
	# A keeper that listens no more takes no more: what is too long is not said to its end.
	grep -qE "^$1 (DONE|ETIME)" <<<"$(report "$disk")" || ! box_runs || fail "'$1' was not said:" \
		"$(report "$disk")"
}

# goes_on ATTEMPT...: the box is as before, and its keeper.
goes_on() {
	local what
	for what in "$@"; do
		speak "$what" || return
		run timeout 20 "$HOLT" exec intruder echo here
		assert_equal "'$what': what an exec says" "$output" here || return
		assert_between "'$what': descriptors of the keeper" \
			"$(find "/proc/$KEEPER/fd" -mindepth 1 | wc -l)" 1 $((BEFORE + 4)) || return
		assert_between "'$what': peak of the keeper (KiB)" "$(peak_kib "$KEEPER")" 1 32768 || return
		holt rm -f intruder >/dev/null
	done
}

# ends ATTEMPT...: the box ends, and says that it was the guest's fault.
ends() {
	local what
	for what in "$@"; do
		speak "$what" || return
		wait_for 10 eval '! box_runs' || return
		assert_equal "'$what': why it ended" \
			"$(holt inspect intruder | jq -r '.[0].state.reason')" 'guest broke the protocol' || return
		holt rm -f intruder >/dev/null
	done
}

others_are_fine() {
	run -0 holt exec other echo here
	assert_output here
}

# bats test_tags=user
@test "K47: noise on the lanes, and descriptors with it, end the box by type" {
	ends noise-control noise-bulk pass-bulk
	others_are_fine
}

# bats test_tags=user
@test "K47: a monitor that answers with noise, without an end, too deep, unasked: the box goes on without it" {
	goes_on noise-monitor monitor-endless monitor-deep monitor-number monitor-unasked monitor-greeting \
		monitor-text
	others_are_fine
}

@test "K47: 51,200 events of the monitor, and 4 MiB of escapes, zeros and no text as console: neither grows" {
	goes_on monitor-events console-flood
}

@test "K47: 20,000 descriptors over each socket: the keeper keeps none" {
	goes_on pass-control pass-console pass-monitor
}
