#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# The verbs of boxes that live on, from outside.

load ../lib/common
load ../lib/vm

teardown() {
	remove_boxes
	common_teardown
}

# status_of BOX: what ps -a has in its column.
status_of() {
	holt ps -a | sed -n "s/^.*   \([A-Z][a-z]* .*[a-z)]\)   *$1\$/\1/p"
}

@test "with a name a box stays, with its disk, until rm; start finds it again" {
	run -3 holt run --name kept demo sh -c 'cat /file; echo written >/file; exit 3'
	run -0 holt ps -q
	assert_output ''
	run -0 holt ps -a --names
	assert_output kept
	assert_match "$(status_of kept)" '^Exited \(3\) .* ago$'
	run -0 holt start kept
	assert_output kept
	run -0 holt wait kept
	assert_output 3
	run -0 --separate-stderr holt logs kept
	assert_output written
	run -0 holt rm kept
	assert_output kept
	run -0 holt ps -aq
	assert_output ''
}

@test "without a name, and with --rm, nothing is left; a name is taken once" {
	run -0 holt run demo true
	run -0 holt run --rm --name short demo true
	run -0 holt ps -aq
	assert_output ''
	run -0 holt run --name one demo true
	run --separate-stderr holt run --name one demo true
	assert_status 125
	assert_match "$stderr" "^holt: .*'one'"
	run -0 holt rm one
}

@test "a program that cannot be started: 127, and a box with a name is still there" {
	run -127 --separate-stderr holt run --name broken demo /no/such/program
	run -0 holt ps -a --names
	assert_output broken
	run -0 holt rm broken
	run -127 --separate-stderr holt run demo /no/such/program
	run -0 holt ps -aq
	assert_output ''
}

@test "a detached box: every verb, by name and by the beginning of its id" {
	local id
	id=$(holt run -d --name web -e A=1 -u agent -w /made demo sh -c \
		'trap "echo usr1" USR1; trap "echo term; exit 4" TERM; echo up; while :; do sleep 0.1; done')
	assert_match "$id" '^[0-9a-f]{12,}$'
	run -0 holt ps -q
	assert_output "${id:0:12}"
	assert_match "$(status_of web)" '^Up '
	# What the program was given is there for every other command, unless it says otherwise.
	run -0 holt exec "${id:0:6}" sh -c 'echo "$A $(id -un) $(pwd)"; cat'
	assert_output '1 agent /made'
	run -0 holt exec -e A=2 -u root -w /tmp web sh -c 'echo "$A $(id -un) $(pwd)"'
	assert_output '2 root /tmp'
	# A directory is made for the program of a box, not for one more command (K18).
	run --separate-stderr holt exec -w /not/there web true
	assert_status 125
	assert_match "$stderr" "'/not/there': No such file"
	run -7 holt exec web sh -c 'exit 7'
	run -127 holt exec web /no/such/program
	run -0 bash -c 'echo typed | "$HOLT" exec -i web cat'
	assert_output typed
	run -0 holt start web
	assert_output web

	run -0 holt pause web
	assert_match "$(status_of web)" '^Up .* \(Paused\)$'
	run --separate-stderr holt exec web true
	assert_status 125
	assert_match "$stderr" "^holt: .*$id: .*paused"
	sleep 3
	run -0 holt unpause web
	# The machine stood still, its clock does not show it.
	run -0 holt exec web date +%s
	assert_between "seconds behind the host" $(($(date +%s) - output)) -1 1

	run -0 holt kill -s SIGUSR1 web
	wait_for 5 has_log web usr1
	run -0 holt rename web site
	assert_equal "its name" "$(holt ps --names)" site
	run -0 holt inspect site
	assert_equal "inspect" "$(jq -r '.[] | .id + " " + .name + " " + .state.status' <<<"$output")" "$id site running"
	run -0 holt ps --json
	assert_equal "ps --json" "$(jq -r .id <<<"$output")" "$id"

	run --separate-stderr holt rm site
	assert_status 1
	assert_match "$stderr" $'\n'"hint: .*(stop|-f)"
	wait_for 5 has_log site up
	run -0 holt restart site
	# Again: its trap is set.
	wait_for 10 has_logs site up 2
	run -0 holt stop site
	assert_output site
	assert_match "$(status_of site)" '^Exited \(4\) '
	run -0 holt stop site
	run -0 --separate-stderr holt logs -n 1 site
	assert_output term
	run -0 holt rm "$id"
}

has_log() {
	holt logs "$1" | grep -q "$2"
}

# has_logs BOX TEXT LINES
has_logs() {
	(($(holt logs "$1" | grep -c "$2") == $3))
}

@test "K05: stop kills what is deaf to its signal after the grace; ps says what killed it" {
	local start took
	holt run -d --name deaf demo sh -c 'trap "" TERM; echo up; while :; do sleep 1; done'
	wait_for 10 has_log deaf up
	start=$(now_ms)
	run -0 holt stop -t 1 deaf
	took=$(($(now_ms) - start))
	assert_between "the time of stop" "$took" 1000 3500
	assert_match "$(status_of deaf)" '^Exited \(137\) '
	holt start deaf
	run -0 holt kill deaf
	assert_match "$(status_of deaf)" '^Exited \(137\) .* \(killed\)$'
	run -0 holt wait deaf
	assert_output 137
	run -0 holt rm deaf
}

@test "several boxes: each is tried, each success is told, one failure is 1" {
	holt run -d --name a demo sleep 1000
	holt run -d --name b demo sleep 1000
	run --separate-stderr holt stop -t 0 a no-such-box b
	assert_status 1
	assert_output $'a\nb'
	assert_match "$stderr" "no-such-box"
	run -0 holt start b
	# Only what does not run is pruned.
	run -0 holt prune -f
	assert_equal "number of pruned boxes" "${#lines[@]}" 1
	assert_equal "what is left" "$(holt ps -a --names)" b
	run -0 holt rm -f b
	assert_output b
}

@test "exec -d goes on without holt, and is taken over by its number" {
	local n i
	holt run -d --name work demo sleep 1000
	n=$(holt exec -d work sh -c 'echo first; sleep 2; echo last; exit 6')
	assert_match "$n" '^[0-9]+$'
	run -6 --separate-stderr holt exec --attach "$n" work
	assert_output $'first\nlast'
	# It has ended, and can be asked again.
	run -6 --separate-stderr holt exec --attach "$n" work
	run --separate-stderr holt exec --attach 4000 work
	assert_status 125
	# A reader that leaves does not end it.
	n=$(holt exec -d work sh -c 'while echo line; do sleep 0.1; done')
	for i in 1 2 3; do
		run -0 bash -c '"$HOLT" exec --attach "$1" work | head -n 1' - "$n"
		assert_output line
	done
	# More output than is kept: how much is missing is told.
	n=$(holt exec -d work sh -c 'head -c 1000000 /dev/zero; echo end; echo done >&2')
	wait_for 20 finished work "$n"
	holt exec --attach "$n" work >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	local kept lost
	kept=$(wc -c <"$BATS_TEST_TMPDIR/out")
	lost=$(sed -n 's/^holt: \([0-9]*\) bytes of stdout .*/\1/p' "$BATS_TEST_TMPDIR/err")
	assert_equal "kept and lost together" $((kept + lost)) 1000004
	grep -qx "done" "$BATS_TEST_TMPDIR/err"
	n=$(holt exec -d --replay-size 64k work head -c 200000 /dev/zero)
	wait_for 20 finished work "$n"
	# What had not yet reached the keeper comes besides.
	kept=$(holt exec --attach "$n" work 2>"$BATS_TEST_TMPDIR/err" | wc -c)
	lost=$(sed -n 's/^holt: \([0-9]*\) bytes of stdout .*/\1/p' "$BATS_TEST_TMPDIR/err")
	assert_between "kept of 200,000" "$kept" 65536 131072
	assert_equal "kept and lost together" $((kept + lost)) 200000
	run -0 holt rm -f work
}

# ended NAME WHY: whether ps says so.
ended() {
	[[ $(status_of "$1") == *"($2)" ]]
}

# pid_of MEMBER BOX
pid_of() {
	holt inspect "$2" | jq ".[0].state.$1"
}

@test "ps -a says why a box ended: five ends" {
	run -137 --separate-stderr holt run --name eater -m 128m demo tail /dev/zero
	assert_match "$(status_of eater)" '^Exited \(137\) .* ago \(out of memory\)$'
	"$HOLT" run --name mine demo sh -c 'echo up; sleep 1000' >"$BATS_TEST_TMPDIR/mine" 3>&- &
	local owner=$!
	wait_for 30 grep -q up "$BATS_TEST_TMPDIR/mine"
	kill -9 "$owner"
	wait_for 5 ended mine 'owner gone'
	holt start mine
	kill -9 "$(pid_of vmm_pid mine)"
	wait_for 5 ended mine crashed
	assert_match "$(holt inspect mine | jq -r '.[0].state.text')" 'signal 9'
	holt start mine
	kill -9 "$(pid_of keeper_pid mine)"
	wait_for 5 ended mine lost
	# Nobody saw when.
	assert_equal "status" "$(status_of mine)" 'Exited (137) (lost)'
	holt start mine
	holt stop -t 0 mine
	assert_match "$(status_of mine)" '^Exited \(137\) .* ago \(stopped\)$'
	run -0 holt rm mine eater
}

# Whether an exec has ended: its program is not in the box any more.
finished() {
	! holt exec "$1" pgrep head
}

@test "logs: the last lines, times, both streams, and following until the end" {
	holt run -d --name talk demo sh -c 'for i in 1 2 3; do echo "out $i"; done; echo err >&2; sleep 3; echo late'
	wait_for 10 has_log talk 'out 3'
	run -0 --separate-stderr holt logs -n 2 talk
	assert_match "$output" 'out 3'
	[[ $output != *'out 1'* ]] || fail "more than the last lines: $output"
	run -0 --separate-stderr holt logs -t talk
	assert_match "${lines[0]}" '^20[0-9-]+T[0-9:]+\.[0-9]{9}Z out 1$'
	assert_match "$stderr" ' err$'
	run -0 --separate-stderr holt logs -f talk
	assert_output $'out 1\nout 2\nout 3\nlate'
	assert_equal stderr "$stderr" err
	run -0 holt rm talk
}

@test "events tell what happened, in order, also afterwards" {
	local actions
	holt run -d --name seen demo sleep 1000
	holt pause seen
	holt unpause seen
	holt rename seen seen2
	holt stop -t 0 seen2
	holt stop seen2 # nothing happens to it
	holt rm seen2
	run -0 --separate-stderr holt events --since 10m --until 0s --json
	actions=$(jq -r .action <<<"$output" | tr '\n' ' ')
	assert_match "$actions" 'create start pause unpause rename (stop |kill )*die (stop )?destroy'
	run -0 --separate-stderr holt events --since 10m --until 0s
	assert_match "$output" 'Z box create [0-9a-f]{12} name=seen '
	# What is to come.
	"$HOLT" events >"$BATS_TEST_TMPDIR/events" 3>&- &
	local listener=$!
	sleep 0.5
	holt run demo true
	wait_for 5 grep -q ' box destroy ' "$BATS_TEST_TMPDIR/events"
	kill "$listener"
	wait "$listener" || true
}

@test "stats of a box, as a table and as JSON" {
	holt run -d --name busy demo sh -c 'while :; do :; done'
	run -0 --separate-stderr holt stats --no-stream --json busy
	assert_equal "name" "$(jq -r .name <<<"$output")" busy
	assert_between "memory" "$(jq .memory_used_bytes <<<"$output")" 1000000 536870912
	assert_between "disk" "$(jq .disk_total_bytes <<<"$output")" 1000000000 10737418240
	run -0 --separate-stderr holt stats --no-stream
	assert_match "$output" 'busy +[0-9]+\.[0-9]% +[0-9.]+ MiB / [0-9.]+ MiB'
	local cpu=${output##*busy }
	cpu=${cpu%%.*}
	assert_between "the processor of a busy loop" "${cpu// /}" 30 110
	run -0 holt pause busy
	run -0 --separate-stderr holt stats --no-stream
	assert_match "$output" 'busy +--'
	run -0 holt rm -f busy
}

@test "cp: files, directories and tar archives, both ways" {
	local dir=$BATS_TEST_TMPDIR
	mkdir -p "$dir/tree/sub"
	echo content >"$dir/tree/sub/file"
	echo colon >"$dir/a:b"
	holt run -d --name files demo sleep 1000
	run -0 holt cp "$dir/tree" files:/root
	run -0 holt exec files cat /root/tree/sub/file
	assert_output content
	(cd "$dir" && holt cp ./a:b files:tmp/colon)
	run -0 holt exec files cat /tmp/colon
	assert_output colon
	run -0 holt cp files:/root/tree/. "$dir/back"
	assert_equal "what came back" "$(<"$dir/back/sub/file")" content
	holt cp files:/root/tree - </dev/null | tar -tf - | grep -q 'tree/sub/file'
	run -0 bash -c 'tar -cf - -C "$1" tree | "$HOLT" cp - files:/opt' - "$dir"
	run -0 holt exec files cat /opt/tree/sub/file
	assert_output content
	run --separate-stderr holt cp files:/no/such/file "$dir"
	assert_status 1
	assert_match "$stderr" '/no/such/file'
	run -0 holt rm -f files
}

@test "options of run: --env-file, --pids-limit, --disk, --stop-signal, --log-size" {
	printf '# comment\nFILE=of file\nBOTH=file\nHOLT_HOME\nUNSET_HERE\n' >"$BATS_TEST_TMPDIR/env"
	run -0 --separate-stderr holt run -e BOTH=option --env-file "$BATS_TEST_TMPDIR/env" --disk 64m demo sh -c \
		'echo "$FILE|$BOTH|$HOLT_HOME|${UNSET_HERE-unset}"; echo "disk=$(df -k / | awk "NR == 2 { print \$2 }")"'
	assert_equal "environment" "${lines[0]}" "of file|option|$HOLT_HOME|unset"
	assert_between "disk in KiB" "$(fact disk)" 30000 65536
	run --separate-stderr holt run --pids-limit 4 demo sh -c \
		'sleep 9 & sleep 9 & sleep 9 & sleep 9 & sleep 9 & wait'
	assert_match "$stderr" "fork"
	holt run -d --name quits --stop-signal QUIT --log-size 64k demo sh -c \
		'trap "echo quit; exit 8" QUIT; seq 100000; while :; do sleep 0.1; done'
	wait_for 20 has_log quits 100000
	run -0 holt stop quits
	assert_match "$(status_of quits)" '^Exited \(8\) '
	assert_between "the log" "$(holt logs quits | wc -c)" 1000 131072
	run -0 holt rm quits
}
