# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2016,SC2034,SC2317 # expanded by another shell; for the tests; called by them
# For the files that start machines: `load ../lib/vm` (after common).
#
# A boot takes seconds under emulation. So facts are gathered many to a boot (`fact`), and boots that
# do not depend on each other run two at a time (`box`, `boxes`, `assert_box`).

# What a file of tests on machines needs: the demo image.
setup_file() {
	common_setup_file
	demo_image
}

# For the teardown of files that keep boxes: what a failed test leaves is not the next one's business.
remove_boxes() {
	local ids
	ids=$(holt ps -aq --no-trunc)
	# shellcheck disable=SC2086 # one word an id
	[[ -z $ids ]] || holt rm -f $ids >/dev/null
}

# box NAME RUN-ARGUMENT...: begin a `holt run`, at most two at a time. Its stdin is $STDIN or empty.
box() {
	local name=$1 dir=$BATS_TEST_TMPDIR ended
	shift
	if ((${#BOXES[@]} >= 2)); then
		wait -n -p ended "${BOXES[@]}" || true
		unset "BOXES[$ended]"
	fi
	{
		local code=0
		"$HOLT" run "$@" <"${STDIN:-/dev/null}" >"$dir/$name.out" 2>"$dir/$name.err" || code=$?
		echo "$code" >"$dir/$name.code"
	} 3>&- &
	BOXES[$!]=$!
}

# Wait for all of them.
boxes() {
	((${#BOXES[@]} == 0)) || wait "${BOXES[@]}"
	BOXES=()
}

# By pid: bats has a background job of its own.
BOXES=()

# assert_box NAME CODE [STDOUT]: how it ended; with STDOUT also that it said just this, and nothing on
# stderr where CODE is 0. Afterwards $output and $stderr are those of the box.
assert_box() {
	local dir=$BATS_TEST_TMPDIR
	output=$(<"$dir/$1.out")
	stderr=$(<"$dir/$1.err")
	status=$(<"$dir/$1.code")
	[[ $status == "$2" ]] || fail "box '$1': exit status $status instead of $2" "stdout: $output" \
		"stderr: $stderr" || return
	(($# < 3)) || [[ $output == "$3" ]] || fail "box '$1': stdout is not the expected" \
		"wanted: $3" "got: $output" "stderr: $stderr" || return
	(($2 != 0)) || [[ -z $stderr ]] || fail "box '$1' wrote to stderr: $stderr"
}

# assert_error NAME CODE TEXT...: holt itself failed: no output, one line with every TEXT in it, and a
# hint (K48).
assert_error() {
	local text error hint
	assert_box "$1" "$2" '' || return
	error=${stderr%%$'\n'*}
	hint=${stderr#"$error"}
	[[ $error == 'holt: '* ]] || fail "box '$1': not an error of holt: $stderr" || return
	for text in "${@:3}"; do
		[[ $error == *"$text"* ]] || fail "box '$1': the error lacks '$text':" "$stderr" || return
	done
	[[ $hint == $'\nhint: '?* && $hint != *$'\n'*$'\n'* ]] || fail "box '$1': no hint, or more than that:" "$stderr"
}

# The value of a line "KEY=value" in $output.
fact() {
	sed -n "s/^$1=//p" <<<"$output"
}

assert_fact() {
	local value
	value=$(fact "$1")
	[[ $value == "$2" ]] || fail "fact '$1' is '$value', not '$2'" "all: $output" "stderr: ${stderr:-}"
}

# The processes of this file's boxes, not of templates: `keepers`, `vmms`; each may be empty.
keepers() {
	processes_named holt-keeper 'boxes/*.lock'
}

vmms() {
	processes_named qemu-system-x86_64 'boxes/*.lock'
}

# The same of whatever the home has: boxes, spares, templates in the making.
all_keepers() {
	processes_named holt-keeper '*'
}

all_vmms() {
	processes_named qemu-system-x86_64 '*'
}

# Processes of that name which hold a file of the home open that fits the pattern.
processes_named() {
	local pid
	# The kernel keeps 15 characters of a name.
	for pid in $(pgrep -x "${1:0:15}"); do
		if [[ -n $(find "/proc/$pid/fd" -lname "$HOLT_HOME/$2" -print -quit 2>/dev/null) ]]; then
			echo "$pid"
		fi
	done
}

# begin_box RUN-ARGUMENT...: a `holt run` in the background; its pid is $CLI, its streams are files
# $OUT and $ERR.
begin_box() {
	OUT=$BATS_TEST_TMPDIR/box.out
	ERR=$BATS_TEST_TMPDIR/box.err
	: >"$OUT"
	: >"$ERR"
	# A caller that ignores hang-ups (nohup) shall not hand that on, unless the test wants it.
	env "${KEEP_SIGNALS:---default-signal=HUP}" "$HOLT" run "$@" </dev/null >"$OUT" 2>"$ERR" 3>&- &
	CLI=$!
}

# Wait for the one box to be so far that QEMU runs; then $KEEPER and $VMM are known.
await_vmm() {
	wait_for 20 has_vmm
	KEEPER=$(keepers)
	VMM=$(vmms)
	[[ $KEEPER =~ ^[0-9]+$ && $VMM =~ ^[0-9]+$ ]] || fail "not one keeper and one VM: '$KEEPER' '$VMM'"
}

# The same of a template in the making.
await_maker() {
	wait_for 20 has_maker
	KEEPER=$(all_keepers)
	VMM=$(all_vmms)
	[[ $KEEPER =~ ^[0-9]+$ && $VMM =~ ^[0-9]+$ ]] || fail "not one keeper and one VM: '$KEEPER' '$VMM'"
}

has_maker() {
	[[ -n $(all_vmms) ]]
}

has_vmm() {
	[[ -n $(vmms) ]]
}

# Whether a VM runs that is not this one.
another_vmm() {
	[[ -n $(vmms) && $(vmms) != "$1" ]]
}

# Wait for the box to have printed a text.
await_output() {
	wait_for 60 grep -q -- "$1" "$OUT"
}

# end_box CODE [MS]: wait for $CLI, which has to end with CODE, within MS.
end_box() {
	local code=0 start took
	start=$(now_ms)
	wait "$CLI" || code=$?
	took=$(($(now_ms) - start))
	[[ $code == "$1" ]] || fail "exit status $code instead of $1" "stdout: $(<"$OUT")" \
		"stderr: $(<"$ERR")" || return
	((took <= ${2:-60000})) || fail "ended after $took ms, not within $2 ms"
}

# The most memory a process ever had, in KiB.
peak_kib() {
	sed -n 's/^VmHWM:[\t ]*\([0-9]*\) kB/\1/p' "/proc/$1/status"
}

# boxtool ...: runs several commands in one box, see tests/vm/boxtool.c. Into $output and $stderr.
boxtool() {
	"$HOLT_BUILD/tests/vm/boxtool" "$@"
}

# liar MODE: an agent that misbehaves as MODE says (tests/vm/liar.c); prints its path.
liar() {
	local path=$TEST_DIR/liar-$1
	{ cat "$HOLT_BUILD/tests/vm/liar" && printf 'LIAR:%-27s' "$1"; } >"$path"
	echo "$path"
}

# small_disk MIB: puts an empty file system of that size where the home is, in a mount namespace that
# goes with its last process, as root or not. Then `inside COMMAND...` works in there, and so does `holt`.
small_disk() {
	local how=(unshare --mount --propagation private)
	((EUID == 0)) || how=(unshare --map-root-user --mount --propagation private)
	mkdir -p "$HOLT_HOME"
	"${how[@]}" sh -c 'mount -t tmpfs -o "size=$1m,mode=700" none "$2" && exec sleep 1000' - "$1" "$HOLT_HOME" \
		</dev/null >/dev/null 2>&1 3>&- &
	DISK_KEEPER=$!
	INSIDE=(nsenter --target "$DISK_KEEPER" --mount --wd=/)
	((EUID == 0)) || INSIDE+=(--user --preserve-credentials)
	wait_for 5 inside sh -c 'grep -q " $1 tmpfs " /proc/mounts' - "$HOLT_HOME" || return
	holt() {
		inside "$HOLT" "$@"
	}
}

inside() {
	"${INSIDE[@]}" "$@"
}

# resize_disk MIB
resize_disk() {
	inside mount --options-mode ignore -t tmpfs -o "remount,size=$1m" none "$HOLT_HOME"
}

# Take all the space that is left, and give it back.
fill_disk() {
	! inside dd if=/dev/zero of="$HOLT_HOME/filler" bs=64k status=none 2>/dev/null ||
		fail "the disk does not get full"
}

empty_disk() {
	inside rm "$HOLT_HOME/filler"
}

end_disk() {
	[[ -z ${DISK_KEEPER:-} ]] || kill "$DISK_KEEPER"
}

# A box without published ports runs before its network helper has said that it is up.
net_settled() {
	local i
	for ((i = 0; i < 100; i++)); do
		[[ $(holt inspect "$1" | jq -r '.[0].network.state') == starting ]] || return 0
		sleep 0.05
	done
}

# helper_of BOX: the pid of its network helper, a child of its keeper.
helper_of() {
	local keeper pid
	net_settled "$1"
	keeper=$(holt inspect "$1" | jq '.[0].state.keeper_pid')
	for pid in /proc/[0-9]*; do
		[[ $(cat "$pid/comm" 2>/dev/null) == holt-net && $(ppid_of "${pid#/proc/}") == "$keeper" ]] ||
			continue
		echo "${pid#/proc/}"
	done
}

ppid_of() {
	sed -n 's/^PPid:\t//p' "/proc/$1/status"
}

# weak_keeper LAYER...: a keeper whose jail lacks these layers, for $HOLT_KEEPER.
weak_keeper() {
	mkdir -p "$TEST_DIR/weak"
	cp "$HOLT_BUILD/tests/weak/holt-keeper" "$HOLT_BUILD/tests/weak/holt-open.so" "$HOLT_BUILD/holt-net" \
		"$TEST_DIR/weak"
	echo "$*" >"$TEST_DIR/weak/weak"
	echo "$TEST_DIR/weak/holt-keeper"
}
