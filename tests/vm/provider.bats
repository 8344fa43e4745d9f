#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2154,SC2317 # text for the box's shell; set by bats' run; called by bats
# The provider as the command line has it: each call is a process of its own, and finds what the one
# before it left.

load ../lib/common
load ../lib/vm

setup() {
	common_setup
	DIR=$BATS_TEST_TMPDIR
	config
}

teardown() {
	remove_boxes
	common_teardown
}

# config LINE...: the configuration of the calls that follow.
config() {
	export HOLT_CONFIG=$DIR/config.yaml
	printf 'sandbox:\n  image: demo\n' >"$HOLT_CONFIG"
	(($# == 0)) || printf '  %s\n' "$@" >>"$HOLT_CONFIG"
}

# turn USER THREAD COMMAND [OPTION...]
turn() {
	holt sandbox exec --for "$1" --thread "$2" "${@:4}" -- "$3"
}

# entry USER THREAD MEMBER: what the pool says of the sandbox of a thread, or nothing.
entry() {
	holt sandbox ps --json | jq -r --arg u "$1" --arg t "$2" "select(.user == \$u and .thread == \$t).$3"
}

state_is() {
	[[ $(entry "$1" "$2" state) == "$3" ]]
}

pool_is_empty() {
	[[ -z $(holt sandbox ps -q) ]]
}

# token USER:THREAD
token() {
	local digest
	digest=$(printf %s "$1" | sha256sum)
	echo "${digest:0:16}"
}

# fails CODE TEXT ARGUMENT...: no output, one line with the text, and a hint (K48).
fails() {
	local code=$1 text=$2
	shift 2
	run --separate-stderr holt sandbox "$@"
	[[ $status == "$code" && -z $output ]] || fail "'$*' ends with $status and says: $output$stderr"
	[[ $stderr == 'holt: '*"$text"*$'\nhint: '?* ]] || fail "'$*': not the error '$text':" "$stderr"
}

vm_of() {
	holt inspect "holt-default-$(token "$1:$2")" | jq '.[0].state.vmm_pid'
}

readonly WORK=/mnt/user-data/workspace

# bats test_tags=user
@test "K36 what one call wrote the next one reads, in the same box; no other user or thread sees it" {
	local id first
	config 'replicas: 9'
	id=$(token ann:7)
	turn ann 7 "echo secret >$WORK/f; sleep 1000 >/dev/null 2>&1 &"
	first=$(entry ann 7 instance)
	assert_match "$first" '^[0-9a-f]{8,}$'
	assert_equal id "$(entry ann 7 id)" "$id"
	assert_equal state "$(entry ann 7 state)" warm
	assert_equal 'what the next call reads' "$(turn ann 7 "cat $WORK/f")" secret
	# C-186: what runs in the background runs on while nobody has the box.
	assert_equal 'in the background' "$(turn ann 7 'pidof sleep | wc -w')" 1
	assert_equal 'instance of the second call' "$(entry ann 7 instance)" "$first"
	# The other verbs, by scope, and by the id.
	echo more | holt sandbox append --for ann --thread 7 "$WORK/f"
	assert_equal 'read by scope' "$(holt sandbox read "$WORK/f" --for ann --thread 7)" $'secret\nmore'
	assert_equal 'read by id' "$(holt sandbox read "$id" "$WORK/f")" $'secret\nmore'
	assert_equal 'found by scope' "$(holt sandbox glob --for ann --thread 7 /mnt '*/workspace/*')" "$WORK/f"
	assert_equal 'with a directory of its own' \
		"$(holt sandbox read --for ann --thread 7 -w "$WORK" -- f)" $'secret\nmore'
	run -7 turn ann 7 'exit 7'
	local dir
	for dir in "$WORK" /mnt/user-data/uploads /mnt/user-data/outputs /mnt/skills; do
		assert_match "$(holt sandbox stat --for ann --thread 7 "$dir")" '^directory '
	done
	# Others, also those whose names are alike.
	local other
	for other in 'bob 7' 'ann 8' 'Ann 7'; do
		# shellcheck disable=SC2086 # two words
		assert_equal "files of $other" "$(turn $other "ls $WORK")" ''
	done
	turn '' 7 true
	turn 'ann ' 7 true
	assert_equal instances "$(holt sandbox ps --json | jq -r .instance | sort -u | wc -l)" \
		"$(holt sandbox ps -q | wc -l)"
	run -0 holt sandbox ps
	assert_match "$output" $'\n'"$id +ann +7 +warm "
	assert_equal 'instance at the end' "$(entry ann 7 instance)" "$first"
}

# bats test_tags=user
@test "a lease needs no process: it is renewed, ends by its time, or by release" {
	local id until
	id=$(holt sandbox acquire --for ann --thread 7 --ttl 1h)
	run -0 holt sandbox ps
	assert_match "$output" $'\n'"$id +ann +7 +active .* ago +About an hour +process "
	assert_equal id "$id" "$(token ann:7)"
	assert_equal state "$(entry ann 7 state)" active
	until=$(date -d "$(entry ann 7 lease_until)" +%s)
	assert_between 'the lease' "$((until - EPOCHSECONDS))" 3500 3600
	turn ann 7 "echo leased >$WORK/f"
	assert_equal 'state after a turn' "$(entry ann 7 state)" active
	# Renewed, which may also shorten it.
	run -0 holt sandbox acquire --for ann --thread 7 --json
	assert_output "{\"id\":\"$id\",\"box\":\"holt-default-$id\",\"ttl_ms\":600000}"
	until=$(date -d "$(entry ann 7 lease_until)" +%s)
	assert_between 'the renewed lease' "$((until - EPOCHSECONDS))" 550 600
	run -0 holt sandbox stats --json
	assert_output '{"pool":"default","replicas":3,"active":1,"warm":0,"stopped":0,"making":0}'
	holt sandbox release "$id"
	assert_equal 'state after the release' "$(entry ann 7 state) $(entry ann 7 lease_until)" 'warm null'
	# Again is fine, and so is one by its thread.
	holt sandbox release --for ann --thread 7
	holt sandbox acquire --for ann --thread 7 --ttl 1s >/dev/null
	assert_equal 'state with a short lease' "$(entry ann 7 state)" active
	wait_for 4 state_is ann 7 warm
	assert_equal 'file at the end' "$(turn ann 7 "cat $WORK/f")" leased
	fails 1 0123456789abcdef release 0123456789abcdef
}

@test "another process that has it is waited for, and named when the time is over" {
	local holder instance
	turn ann 7 true
	instance=$(entry ann 7 instance)
	"$HOLT" sandbox exec --for ann --thread 7 "sleep 3; echo held >$WORK/f" 3>&- &
	holder=$!
	wait_for 10 state_is ann 7 active
	assert_match "$(entry ann 7 holder_label)" "$holder"
	fails 1 "$holder" acquire --for ann --thread 7 --timeout 300ms
	# Without a bound of its own the call waits, and finds what the other one left.
	assert_equal 'file of the other one' "$(turn ann 7 "cat $WORK/f")" held
	wait "$holder"
	assert_equal instance "$(entry ann 7 instance)" "$instance"
}

# bats test_tags=user
@test "K27 4 processes at once for one thread: one box, and nobody's line is lost" {
	local i pids=()
	for i in 1 2 3 4; do
		"$HOLT" sandbox exec --for ann --thread 7 "echo $i >>$WORK/lines" 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	assert_equal lines "$(turn ann 7 "sort $WORK/lines" | xargs)" '1 2 3 4'
	assert_equal boxes "$(holt ps -aq | wc -l)" 1
}

# bats test_tags=user
@test "two scopes with one id: the second one gets an error, and the first one's box is untouched" {
	local instance
	turn a:b c "echo mine >$WORK/f"
	instance=$(entry a:b c instance)
	assert_equal id "$(entry a:b c id)" "$(token a:b:c)"
	fails 125 "$(token a:b:c)" exec --for a --thread b:c "cat $WORK/f"
	fails 1 "$(token a:b:c)" acquire --for a --thread b:c
	fails 1 "$(token a:b:c)" read --for a --thread b:c "$WORK/f"
	assert_equal 'file of the first one' "$(turn a:b c "cat $WORK/f")" mine
	assert_equal instance "$(entry a:b c instance)" "$instance"
}

# bats test_tags=user
@test "K36 above replicas the oldest warm one goes, and no active one ever" {
	local two
	config 'replicas: 2'
	turn u 1 true
	turn u 2 true
	turn u 1 true
	turn u 3 true
	assert_equal 'threads that are there' "$(holt sandbox ps --json | jq -r .thread | sort | xargs)" '1 3'
	holt sandbox acquire --for u --thread 1 >/dev/null
	holt sandbox acquire --for u --thread 3 >/dev/null
	two=$(entry u 1 instance)$(entry u 3 instance)
	turn u 4 true
	assert_equal 'instances of the active ones' "$(entry u 1 instance)$(entry u 3 instance)" "$two"
	assert_equal 'the one above replicas' "$(entry u 4 state)" warm
	turn u 5 true
	assert_equal 'threads that are there' "$(holt sandbox ps --json | jq -r .thread | sort | xargs)" '1 3 5'
}

# bats test_tags=user
@test "K36 an idle box is gone by its time and 2 s, without any process of ours" {
	config 'idle_timeout: 1'
	turn ann 7 "echo x >$WORK/f"
	sleep 3
	assert_equal processes "$(keepers)$(vmms)" ''
	assert_equal 'directories of boxes' "$(ls "$HOLT_HOME/boxes")" ''
	assert_equal boxes "$(holt ps -aq)" ''
	assert_equal 'files of the fresh one' "$(turn ann 7 "ls $WORK")" ''
	# A turn that takes longer than that is not idle.
	assert_equal 'a long turn' "$(turn ann 7 'sleep 3; echo done')" 'done'
}

# bats test_tags=user
@test "on_idle: stop: the thread finds its files again, once the machine is gone" {
	config 'idle_timeout: 1' 'on_idle: stop'
	turn ann 7 "echo kept >$WORK/f; echo gone >/dev/shm/f"
	wait_for 5 state_is ann 7 stopped
	assert_equal machines "$(vmms)" ''
	assert_equal 'file on the disk' "$(turn ann 7 "cat $WORK/f; ls /dev/shm")" kept
	# Only the thread's own turn finds it.
	assert_equal 'files of another one' "$(turn bob 7 "ls $WORK")" ''
}

# bats test_tags=user
@test "K37 a warm box whose machine was killed or hangs, or whose keeper does, gives way to a fresh one within the deadline" {
	local first start keeper
	turn ann 7 "echo x >$WORK/f"
	first=$(entry ann 7 instance)
	kill -KILL "$(vm_of ann 7)"
	assert_equal 'files after a kill' "$(turn ann 7 "ls $WORK; touch $WORK/g")" ''
	[[ $(entry ann 7 instance) != "$first" ]] || fail 'it is the same box'
	first=$(entry ann 7 instance)
	kill -STOP "$(vm_of ann 7)"
	start=$(now_ms)
	assert_equal 'files after a stop' "$(turn ann 7 "ls $WORK")" ''
	assert_between 'the turn after a stop, ms' "$(($(now_ms) - start))" 0 20000
	[[ $(entry ann 7 instance) != "$first" ]] || fail 'it is the same box'
	# Its keeper can hang just as well.
	first=$(entry ann 7 instance)
	turn ann 7 "echo x >$WORK/f"
	keeper=$(holt inspect "$(entry ann 7 box)" | jq '.[0].state.keeper_pid')
	kill -STOP "$keeper"
	start=$(now_ms)
	assert_equal 'files after a keeper that stands' "$(turn ann 7 "ls $WORK")" ''
	assert_between 'the turn after that, ms' "$(($(now_ms) - start))" 0 25000
	[[ $(entry ann 7 instance) != "$first" ]] || fail 'it is the same box'
	assert_equal boxes "$(holt ps -aq | wc -l)" 1
	assert_equal machines "$(vmms | wc -l)" 1
}

# bats test_tags=user
paused() {
	[[ $(holt inspect "holt-default-$(token "$1")" | jq -r '.[0].state.status') == paused ]]
}

@test "a warm box is paused after a while, goes on for its thread, and its health is a command's word" {
	local first
	config 'pause_warm_after: 1' 'health_check: exec'
	turn ann 7 "echo x >$WORK/f"
	first=$(entry ann 7 instance)
	wait_for 10 paused ann:7
	assert_equal 'state in the pool' "$(entry ann 7 state)" warm
	assert_equal 'the file' "$(turn ann 7 "cat $WORK/f")" x
	assert_equal instance "$(entry ann 7 instance)" "$first"
}

@test "another image or size: the warm box is of no use, and a fresh one takes its place" {
	local first
	[[ -e $TEST_DIR/other ]] || image other --busybox --env OTHER=1
	: >"$TEST_DIR/other"
	turn ann 7 "echo x >$WORK/f"
	first=$(entry ann 7 fingerprint)
	assert_equal 'files with another image' "$(turn ann 7 "ls $WORK; echo \$OTHER" --image other)" 1
	[[ $(entry ann 7 fingerprint) != "$first" ]] || fail 'it has the same fingerprint'
	assert_equal 'files with the first image' "$(turn ann 7 "ls $WORK")" ''
	turn ann 7 "echo x >$WORK/f"
	config 'memory_mib: 256'
	assert_equal 'files with less memory' "$(turn ann 7 "ls $WORK")" ''
	assert_equal boxes "$(holt ps -aq | wc -l)" 1
	# Of a pool more will come: it has a template of its size, without being asked for one.
	assert_equal origin "$(holt inspect "holt-default-$(token ann:7)" | jq -r '.[0].state.origin')" template
	# Variables are no part of it.
	turn ann 7 "echo x >$WORK/f"
	config 'memory_mib: 256' 'environment: {A: b}'
	assert_equal 'file with other variables' "$(turn ann 7 "cat $WORK/f; echo \$A")" $'x\nb'
	assert_equal 'the same in a directory' "$(turn ann 7 'pwd; echo $A' -w /tmp)" $'/tmp\nb'
}

# bats test_tags=user
@test "C-22 C-167 C-177 C-187 what an acquire meets: each cell of the table, with two providers and one that is killed" {
	run --separate-stderr "$HOLT_BUILD/tests/vm/cells" "$(layout)" "$(layout --busybox --env OTHER=1)"
	[[ $status == 0 ]] || fail "$output" "$stderr"
	assert_output $'absent\nwarm\nactive\nrunning\nowner dead\nunknown\nstopped\nshut down'
}

# bats test_tags=user
@test "a box under the thread's name of which nobody knows whose it is, is destroyed" {
	local name
	name=holt-default-$(token ann:7)
	holt run -d --name "$name" demo sh -c 'mkdir -p /mnt/user-data/workspace; touch /mnt/user-data/workspace/f; sleep 1000' >/dev/null
	local first
	first=$(holt inspect "$name" | jq -r '.[0].id')
	assert_equal 'files of the fresh one' "$(turn ann 7 "ls $WORK")" ''
	[[ $(holt inspect "$name" | jq -r '.[0].id') != "$first" ]] || fail 'it is the same box'
	assert_equal boxes "$(holt ps -aq | wc -l)" 1
}

# bats test_tags=user
@test "K25 a call that is ended while it acquires or works leaves nothing that is held" {
	local delay pid sig
	for delay in 0.02 0.06 0.12 0.25; do
		for sig in INT KILL; do
			env --default-signal=INT "$HOLT" sandbox exec --for ann --thread "$delay$sig" 'sleep 1000' 3>&- &
			pid=$!
			sleep "$delay"
			kill "-$sig" "$pid"
			wait "$pid" || true
			turn ann "$delay$sig" 'pidof sleep | wc -w' >"$DIR/out"
			assert_equal "commands that go on after $sig and $delay s" "$(<"$DIR/out")" 0
		done
	done
	wait_for 3 no_holder
	(($(holt ps -aq | wc -l) <= 3)) || fail "more than replicas: $(holt sandbox ps)"
}

no_holder() {
	[[ $(holt sandbox ps --json | jq -r .state | sort -u) == warm ]]
}

# bats test_tags=user
@test "the example in C: a turn, and the next one of another process" {
	local example=$HOLT_BUILD/examples/turn
	assert_equal 'the first turn' "$("$example" demo ann 7 'echo one >>f; cat f')" one
	assert_equal 'the next turn' "$(turn ann 7 'echo two >>f; cat f')" $'one\ntwo'
	assert_equal 'the third turn' "$("$example" demo ann 7 'cat f')" $'one\ntwo'
}

@test "pools of one home have nothing to do with each other" {
	turn ann 7 "echo x >$WORK/f"
	assert_equal 'files in the other pool' "$(turn ann 7 "ls $WORK; touch $WORK/g" --pool other)" ''
	assert_equal 'ids in the other pool' "$(holt sandbox ps -q --pool other)" "$(token ann:7)"
	assert_equal 'by id' "$(holt sandbox glob --pool other "$(token ann:7)" "$WORK" '*')" "$WORK/g"
	assert_equal 'file in the first one' "$(turn ann 7 "ls $WORK")" f
}
