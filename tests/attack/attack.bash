# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154 # for the tests; variables of bats and tests/lib
# For the attacks: `load attack` after common and vm. An intruder is tests/attack/intruder.c: code in a
# real QEMU (or a program in its place) that tries all of attempt.h and reports what came of each.

setup_file() {
	common_setup_file
	# An intruder of another user has to get so far that only the jail stops it.
	chmod 711 "$TEST_DIR"
	demo_image
	# A spare would be one with the intruder of an earlier test.
	holt template build -q demo >/dev/null
	holt template spares demo 0 >/dev/null
	lay_out_prey
}

teardown_file() {
	kill "$(<"$TEST_DIR/prey.pid")" 2>/dev/null || true
	remove_boxes
	common_teardown_file
}

# What is there to be attacked: another box, files of each kind, the listeners and the process of prey.c.
# Everything is in $TEST_DIR/prey, as intruder.c wants it.
lay_out_prey() {
	local id dir
	mkdir "$TEST_DIR/open" "$TEST_DIR/listen"
	chmod 1777 "$TEST_DIR/open"
	echo public >"$TEST_DIR/public"
	chmod 644 "$TEST_DIR/public"
	(umask 077 && echo secret >"$TEST_DIR/secret")
	cp "$HOLT_BUILD/tests/attack/reached" "$TEST_DIR/reached"
	"$HOLT_BUILD/tests/attack/prey" "$TEST_DIR/listen" "$TEST_DIR/reached.log" >"$TEST_DIR/prey.part" \
		2>"$TEST_DIR/prey.err" </dev/null 3>&- &
	echo $! >"$TEST_DIR/prey.pid"
	id=$(holt run -d --name other demo sleep 100000)
	id=$(holt inspect other | jq -r '.[0].id')
	dir=$(echo "$HOLT_HOME"/templates/*/)
	wait_for 5 grep -q '^victim-memory ' "$TEST_DIR/prey.part"
	{
		cat "$TEST_DIR/prey.part"
		printf '%s %s\n' home "$HOLT_HOME" public "$TEST_DIR/public" secret "$TEST_DIR/secret" \
			open-dir "$TEST_DIR/open" program "$TEST_DIR/reached" \
			disk "$HOLT_HOME/boxes/$id/disk.raw" keeper-sock "$HOLT_HOME/boxes/$id/sock" \
			memory "${dir}memory" state "${dir}state" template-disk "${dir}disk.raw"
	} >"$TEST_DIR/prey"
}

# patch FILE MARK TEXT: write the text over what begins with the mark.
patch_file() {
	local at
	at=$(grep -abo -m 1 "$2" "$1" | head -n 1)
	[[ $at =~ ^[0-9]+: ]] || fail "'$1' has no '$2'" || return
	printf '%s' "$3" | dd of="$1" bs=1 seek="${at%%:*}" conv=notrunc status=none
}

# make_intruder WEAKNESS LINE...: a keeper with that weakness and an intruder beside it that is told
# these lines besides; $HOLT_KEEPER is that keeper.
make_intruder() {
	local dir=$TEST_DIR/intruder weakness=$1
	shift
	rm -rf "$dir"
	mkdir "$dir"
	cp "$HOLT_BUILD/tests/weak/holt-keeper" "$dir/holt-keeper"
	cp "$HOLT_BUILD/tests/attack/${INTRUDER:-intruder}.so" "$dir/holt-open.so"
	cp "$HOLT_BUILD/holt-net" "$dir/holt-net"
	cp "$HOLT_BUILD/tests/attack/standin" "$dir/standin"
	echo "$weakness" >"$dir/weak"
	local text
	text=HOLT-PREY$'\n'$(<"$TEST_DIR/prey")$'\n'
	(($# == 0)) || text+=$(printf '%s\n' "$@")$'\n'
	patch_file "$dir/holt-open.so" HOLT-PREY "$text" && patch_file "$dir/standin" HOLT-PREY "$text" || return
	export HOLT_KEEPER=$dir/holt-keeper
}

# The report of the intruder in this box.
report() {
	# The disk has 10 GiB; the report is behind its end.
	dd if="$1" bs=65536 skip=163840 status=none 2>/dev/null | tr -d '\0'
}

report_ended() {
	grep -q '^end' <<<"$(report "$1")" || ! box_runs
}

box_runs() {
	[[ $(holt inspect intruder | jq -r '.[0].state.status') == running ]]
}

# Its program tells the intruder that all is in place.
readonly NOW='dd if=/dev/zero of=/now bs=1M count=8; sync; sleep 100000'

# one_intruder LINE...: run one until it has tried everything or is gone; the report is $output.
one_intruder() {
	local disk
	make_intruder "$WEAKNESS" "$@" || return
	if [[ $ENGINE == standin ]]; then
		HOLT_QEMU=$TEST_DIR/intruder/standin "$HOLT" run --no-template --name intruder demo true \
			</dev/null >/dev/null 2>&1 3>&- &
		wait_for 10 holt inspect intruder
	else
		holt run -d --name intruder demo sh -c "$NOW" >/dev/null || return
	fi
	disk=$HOLT_HOME/boxes/$(holt inspect intruder | jq -r '.[0].id')/disk.raw
	wait_for 30 report_ended "$disk" || fail "report:" "$(report "$disk")" || return
	output=$(report "$disk")
	holt rm -f intruder >/dev/null
}

# intrude WEAKNESS [ATTEMPT...]: all attempts, or these; into $output, a line "ATTEMPT RESULT" for each.
# One that the intruder is killed for, which is what some layers do, has the result KILLED, and another
# one goes on with the rest. ENGINE=standin: in QEMU's place.
intrude() {
	local WEAKNESS=$1 known='' lines=() last
	shift
	(($# == 0)) || mapfile -t lines < <(printf 'only %s\n' "$@")
	while true; do
		one_intruder "${lines[@]}" || return
		known+=$(grep -vE '^(begin|end|held)( |$)' <<<"$output" || true)$'\n'
		! grep -q '^end' <<<"$output" || break
		last=$(sed -n 's/^begin //p' <<<"$output" | tail -n 1)
		[[ -n $last ]] || fail "an intruder that tried nothing" "$output" || return
		grep -q "^$last " <<<"$output" || known+="$last KILLED"$'\n'
		mapfile -t -O "${#lines[@]}" lines < <(sed -n 's/^begin /skip /p' <<<"$output")
	done
	output=$(grep . <<<"$known")
}

# The prey lives on; all of it goes with the file.
teardown() {
	holt rm -f intruder >/dev/null 2>&1 || true
}
