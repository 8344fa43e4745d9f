#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2016
# Spares: machines that wait to become boxes, on real ones. Each test asks for its own, so that none
# is left after it.

load ../lib/common
load ../lib/vm

teardown() {
	local id
	for id in $(holt ps -aq --no-trunc); do
		holt rm -f "$id" >/dev/null
	done
	holt template spares demo 0 >/dev/null
	common_teardown
}

# spares_ready READY [WANTED]: what `template ls` says of the image.
spares_are() {
	[[ $(holt template ls --json | jq -r 'map(select(.bare | not)) |
		"\(map(.spares_ready) | add)/\(map(.spares_wanted) | max)"') == "$1" ]]
}

# The directories of spares.
spare_dirs() {
	find "$HOLT_HOME/spares" -mindepth 2 -maxdepth 2 -type d
}

origin_of() {
	holt inspect "$1" | jq -r '.[0].state.origin'
}

# Processes of a spare by its directory, as its state tells: keeper_pid or vmm_pid.
pid_of() {
	jq ".$2" "$1/state.json"
}

# What makes a box different from all others, and what must not differ.
readonly WHO='hostname; cat /etc/machine-id /proc/sys/kernel/random/boot_id /sys/class/net/eth0/address
	head -c 16 /dev/urandom | hexdump -v -e "1/1 \"%02x\""; echo; date +%s; ls /root'

@test "K33 2 boxes take over 2 spares, each with its own identity, and the next 2 are started" {
	run holt template spares demo 2
	assert_status 0
	assert_output '2 ready'
	assert_equal 'boxes before' "$(holt ps -aq)" ''
	spares_are 2/2
	local a b i
	holt run -d --name a demo sh -c "echo up; touch /root/of-a; sleep 1000" >/dev/null
	holt run -d --name b --hostname bee demo sleep 1000 >/dev/null
	for i in a b; do
		assert_equal "origin of $i" "$(origin_of $i)" spare
	done
	mapfile -t a < <(holt exec a sh -c "$WHO")
	mapfile -t b < <(holt exec b sh -c "$WHO")
	assert_equal 'hostname of a' "${a[0]}" "$(holt inspect a | jq -r '.[0].id')"
	assert_equal 'hostname of b' "${b[0]}" bee
	assert_equal 'address of a' "${a[3]}" "$(holt inspect a | jq -r '.[0].mac')"
	for i in 1 2 3 4; do
		[[ -n ${a[i]} && ${a[i]} != "${b[i]}" ]] || fail "line $i is '${a[i]}' in both boxes" || return
	done
	assert_between 'clock of a' "$((EPOCHSECONDS - a[5]))" 0 5
	assert_equal 'files of a and b' "${a[6]:-} ${b[6]:-}" 'of-a '
	# Nothing is seen of those that wait.
	assert_equal 'boxes' "$(holt ps -aq | wc -l)" 2
	wait_for 20 spares_are 2/2
	assert_equal 'directories of spares' "$(spare_dirs | wc -l)" 2
	assert_equal 'log of a' "$(holt logs a)" up
	local dir
	dir=$HOLT_HOME/boxes/$(holt inspect a | jq -r '.[0].id')
	[[ -S $dir/sock && -s $dir/log && -s $dir/state.json && -s $dir/disk.raw && -e $dir/rootfs ]]
	# From then on they are boxes like any other.
	holt stop -t 0 a >/dev/null
	assert_equal 'state of a' "$(holt inspect a | jq -r '.[0].state.status')" exited
	holt start a >/dev/null
	assert_equal 'origin of the second start' "$(origin_of a)" bare
	assert_equal 'file of a' "$(holt exec a ls /root)" of-a
	holt rm -f a b >/dev/null
	assert_equal 'directories of boxes' "$(ls "$HOLT_HOME/boxes")" ''
}

@test "4 processes that claim 2 spares at once get 4 different boxes" {
	holt template spares demo 2 >/dev/null
	local i pids=()
	for i in 1 2 3 4; do
		"$HOLT" run -d --name "r$i" demo sleep 1000 >/dev/null 3>&- &
		pids+=($!)
	done
	wait "${pids[@]}"
	local names=() spares=0
	for i in 1 2 3 4; do
		names+=("$(holt exec "r$i" hostname)")
		[[ $(origin_of "r$i") != spare ]] || spares=$((spares + 1))
		[[ $(origin_of "r$i") =~ ^(spare|template)$ ]] || fail "origin $(origin_of "r$i")" || return
	done
	assert_equal 'different ones' "$(printf '%s\n' "${names[@]}" | sort -u | wc -l)" 4
	assert_between 'taken spares' "$spares" 2 4
}

@test "a box that is not kept takes over a spare, and 6 killed callers leave nothing" {
	holt template spares demo 2 >/dev/null
	box attached demo sh -c 'echo out; echo err >&2; exit 7'
	boxes
	assert_box attached 7 out
	# shellcheck disable=SC2154 # set by assert_box
	assert_equal stderr "$stderr" err
	local ms pid
	for ms in 8 12 16 24 32 60; do
		holt template spares demo 2 >/dev/null
		"$HOLT" run demo sleep 1000 >/dev/null 2>&1 3>&- &
		pid=$!
		sleep "0.0$(printf %02d "$ms")"
		kill -9 "$pid"
		wait "$pid" || true
		wait_for 3 no_box
		assert_between 'machines' "$(all_vmms | wc -l)" 0 2
	done
	# Whatever is left of the spare, too.
	holt template spares demo 0 >/dev/null
	assert_equal 'directories of spares' "$(spare_dirs)" ''
}

# Whoever comes next removes what was made for a box that nobody had started yet.
no_box() {
	holt ps -aq >/dev/null && [[ -z $(ls "$HOLT_HOME/boxes") ]]
}

# bats test_tags=user
@test "K37 a spare with a stopped machine and one with a stopped keeper are passed over, 2.5 s each" {
	holt template spares demo 2 >/dev/null
	local dirs keeper vmm start took
	mapfile -t dirs < <(spare_dirs)
	vmm=$(pid_of "${dirs[0]}" vmm_pid)
	keeper=$(pid_of "${dirs[1]}" keeper_pid)
	kill -STOP "$vmm" "$keeper"
	start=$(now_ms)
	run holt run -d --name fresh demo sleep 1000
	took=$(($(now_ms) - start))
	assert_status 0
	assert_equal origin "$(origin_of fresh)" template
	# 2.5 s for each that hangs, and a clone.
	assert_between 'time in ms' "$took" 2000 7500
	wait_for 3 gone "$vmm" "$keeper"
	wait_for 20 spares_are 2/2
	# The rest: one whose machine was killed, one whose keeper was.
	mapfile -t dirs < <(spare_dirs)
	kill -9 "$(pid_of "${dirs[0]}" vmm_pid)" "$(pid_of "${dirs[1]}" keeper_pid)"
	holt run demo true
	wait_for 20 spares_are 2/2
	assert_equal 'directories of spares' "$(spare_dirs | wc -l)" 2
}

gone() {
	local pid
	for pid; do
		[[ ! -e /proc/$pid ]] || return 1
	done
}

@test "a spare whose agent has gone silent is passed over" {
	local start took
	HOLT_AGENT=$(liar claim-silent)
	export HOLT_AGENT
	holt template spares demo 1 >/dev/null
	start=$(now_ms)
	# This agent knows no network.
	run --separate-stderr holt run --network none demo true
	took=$(($(now_ms) - start))
	assert_status 0
	assert_between 'time in ms' "$took" 2000 6000
}

@test "spares go with their template, with the image, and when they are not wanted" {
	image other --busybox --env X=1
	mkdir "$TEST_DIR/third"
	: >"$TEST_DIR/third/mark"
	image third --busybox --layer "$TEST_DIR/third"
	holt template spares demo 2 >/dev/null
	holt template spares demo 1 >/dev/null
	spares_are 1/1
	assert_equal 'directories of spares' "$(spare_dirs | wc -l)" 1
	holt template rm "$(holt template ls --json | jq -r '.[] | select(.spares_ready > 0).id')" >/dev/null
	assert_equal 'processes' "$(all_vmms)$(all_keepers)" ''
	# And nobody wants them back.
	holt run demo true
	sleep 0.5
	spares_are 0/0
	holt template spares third 1 >/dev/null
	holt image rm third >/dev/null
	assert_equal 'processes' "$(all_vmms)$(all_keepers)" ''
	run --separate-stderr holt template spares third 1
	assert_status 1
	assert_match "$stderr" 'third'
	run --separate-stderr holt template spares demo 65
	assert_status 1
	assert_match "$stderr" '64'
}

@test "above the ceiling on memory spares end first, then a start fails with a hint" {
	holt template spares demo 2 >/dev/null
	# Without room for the 64 MiB of one more, until one of them has gone.
	run --separate-stderr env HOLT_MAX_MEMORY="$(($(pss_kib) + 60 * 1024))k" "$HOLT" run --no-template demo true
	assert_status 0
	spares_are 1/2
	run --separate-stderr env HOLT_MAX_MEMORY=1m "$HOLT" run --no-template demo true
	assert_status 125
	assert_match "$stderr" 'ceiling.*HOLT_MAX_MEMORY'
	spares_are 0/2
	run --separate-stderr env HOLT_MAX_MEMORY=1m "$HOLT" template spares demo 1
	assert_status 1
	assert_match "$stderr" 'HOLT_MAX_MEMORY'
}

# What all machines take of the host's memory.
pss_kib() {
	local pid
	for pid in $(all_vmms); do
		cat "/proc/$pid/smaps_rollup"
	done | awk '/^Pss:/ { sum += $2 } END { print sum }'
}

@test "what killed keepers of spares leave is swept" {
	holt template spares demo 2 >/dev/null
	# shellcheck disable=SC2046 # several
	kill -9 $(all_keepers)
	wait_for 3 no_vmm
	assert_equal 'left directories' "$(spare_dirs | wc -l)" 2
	holt ps >/dev/null
	assert_equal 'directories' "$(spare_dirs)" ''
}

no_vmm() {
	[[ -z $(all_vmms) ]]
}
