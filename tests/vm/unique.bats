#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154 # expanded by another shell; variables of bats and tests/lib
# Clones of one template are machines of their own: clocks (K32), random numbers and names (K33),
# memory and disk.

load ../lib/common
load ../lib/vm

setup_file() {
	common_setup_file
	# A QEMU in its jail sees all of its place, under root as another user.
	mkdir -m 755 "$TEST_DIR/odd"
	cp "$HOLT_BUILD/tests/vm/shiftclock.so" "$TEST_DIR/odd"
	chmod 755 "$TEST_DIR/odd/shiftclock.so"
	mkdir "$TEST_DIR/layer"
	cp "$HOLT_BUILD/tests/vm/first" "$TEST_DIR/layer"
	image first --busybox --layer "$TEST_DIR/layer"
}

teardown() {
	remove_boxes
	common_teardown
}

origin() {
	holt inspect "$1" | jq -r '.[0].state | .origin + (.origin_note | if . == "" then "" else ": " + . end)'
}

# The directory of the full template of "first" that was used last.
template_dir() {
	echo "$HOLT_HOME/templates/$(holt template ls --json |
		jq -r '[.[] | select(.image == "first" and (.bare | not))][0].id')"
}

# ---- K33 ----

# Everything that the 20 programs said under this key: all of them something, no two the same.
assert_different() {
	local key=$1 count=$2 values
	values=$(cat "$BATS_TEST_TMPDIR"/clone-*.out | sed -n "s/^$key=//p")
	assert_equal "number of '$key'" "$(grep -c . <<<"$values")" "$count" || return
	assert_equal "'$key' of two clones" "$(sort <<<"$values" | uniq -d)" ''
}

@test "K33: 20 clones, six with bash and python3, differ in every random number, id, name and address" {
	local i key
	debian_image
	cat >"$BATS_TEST_TMPDIR/facts" <<-'END'
		import os, random, uuid
		def line(path):
		    return open(path).read().strip()
		print("python_random=" + random.random().hex())
		print("uuid4=" + str(uuid.uuid4()))
		print("urandom=" + open("/dev/urandom", "rb").read(16).hex())
		print("getrandom=" + os.getrandom(16).hex())
		print("boot_id=" + line("/proc/sys/kernel/random/boot_id"))
		print("uuid=" + line("/proc/sys/kernel/random/uuid"))
		print("machine_id=" + line("/etc/machine-id"))
		print("hostname_file=" + line("/etc/hostname"))
		print("hostname=" + os.uname().nodename)
		print("mac=" + line("/sys/class/net/eth0/address"))
		print("connections=%d" % sum(len(open("/proc/net/" + kind).readlines()) - 1
		                             for kind in ("tcp", "tcp6", "udp", "udp6", "raw", "packet")))
		print("processes=%d" % sum(os.path.exists(f"/proc/{pid}/exe") for pid in os.listdir("/proc")
		                           if pid.isdigit() and int(pid) not in (1, os.getpid())))
	END
	for i in {1..14}; do
		box "clone-$i" --name "clone-$i" first /first
	done
	for i in {15..20}; do
		box "clone-$i" --name "clone-$i" debian python3 -c "$(<"$BATS_TEST_TMPDIR/facts")"
	done
	boxes
	for i in {1..20}; do
		assert_box "clone-$i" 0
		assert_equal "origin of clone $i" "$(origin "clone-$i")" template
	done
	for key in urandom getrandom boot_id uuid machine_id hostname_file hostname mac; do
		assert_different "$key" 20
	done
	assert_different at_random 14
	assert_different python_random 6
	assert_different uuid4 6
	# Nothing of the template goes on in them.
	run -0 cat "$BATS_TEST_TMPDIR"/clone-20.out
	assert_fact connections 0
	assert_fact processes 0
	# The names are the box's own, not the template's.
	assert_equal hostname "$(sed -n 's/^hostname=//p' "$BATS_TEST_TMPDIR/clone-1.out")" \
		"$(holt inspect clone-1 | jq -r '.[0].hostname')"
}

# ---- K32 ----

# clock LEAST MOST FIGURE...: what clockcheck said of each figure.
assert_clock() {
	local least=$1 most=$2 figure
	for figure in "${@:3}"; do
		assert_between "'$figure' in '${output//$'\n'/, }'" \
			"$(sed -n "s/^$figure //p" <<<"$output")" "$least" "$most" || return
	done
}

clockcheck() {
	run -0 --separate-stderr timeout 120 "$ROOT/tests/vm/clockcheck" "$@"
	sed 's/^/# clock: /' <<<"${output//$'\n'/, }" >&3
	assert_clock 0 0 back
}

# stand_in NAME LINE...: a program that does as these lines say and then becomes what it stands for.
stand_in() {
	local path=$TEST_DIR/odd/$1
	[[ -e $path ]] || install -m 755 "$HOLT_BUILD/tests/vm/standin" "$path" || return
	printf '%s\n' "${@:2}" >"$path.conf"
	chmod 644 "$path.conf"
}

@test "K32: a template that is an hour old, made by a keeper and a QEMU with a wrong clock: the clone's is right" {
	local shift=LD_PRELOAD=$TEST_DIR/odd/shiftclock.so age
	stand_in qemu "run $(command -v qemu-system-x86_64)" "freeze env $shift"
	stand_in keeper "run $HOLT_BUILD/holt-keeper" "env $shift" "env ASAN_OPTIONS=verify_asan_link_order=0"
	export HOLT_QEMU=$TEST_DIR/odd/qemu
	HOLT_KEEPER=$TEST_DIR/odd/keeper run -0 holt template build -q first
	clockcheck -- "$HOLT" run -i --name old first /first talk
	assert_equal origin "$(origin old)" template
	assert_clock -50 50 first
	# It is as old as that: what the guest's kernel made when it booted has the time of then.
	run -0 holt run --name dev first stat -c %Y /dev/null
	age=$(($(date +%s) - output))
	assert_between "age of the template" "$age" 3590 3900
}

# Whether "b" has run /first so often.
said_times() {
	[[ $(holt logs b | grep -c ^mac=) == "$1" ]]
}

# bats test_tags=user
@test "K32: the first instruction in a bare start, after a pause and after QEMU stood still sees the right time" {
	local pid
	stand_in qemu "run $(command -v qemu-system-x86_64)"
	export HOLT_QEMU=$TEST_DIR/odd/qemu
	run -0 holt run -d --name b first sh -c '/first; exec sleep 1000'
	wait_for 20 said_times 1
	run -0 holt stop -t 0 b
	run -0 holt start b
	assert_equal origin "$(origin b)" bare
	wait_for 20 said_times 2
	holt logs b | sed '1,/^mac=/d' >"$BATS_TEST_TMPDIR/begin"
	pid=$(jq .vmm_pid "$HOLT_HOME/boxes/$(holt inspect b | jq -r '.[0].id')/state.json")
	clockcheck --begin "$BATS_TEST_TMPDIR/begin" --then "$HOLT pause b" --then "sleep 3" \
		--then "$HOLT unpause b" -- "$HOLT" exec -i b /first talk
	assert_clock -50 50 first jump now
	# Nobody went on with the time of before: the last look at it is older than the pause.
	assert_clock -60000 0 late
	clockcheck --then "kill -STOP $pid" --then "sleep 3" --then "kill -CONT $pid" -- \
		"$HOLT" exec -i b /first talk
	assert_clock -50 50 now
}

@test "K32: the first instruction in a spare that waited for three seconds sees the right time" {
	export HOLT_QEMU=$TEST_DIR/odd/qemu
	run -0 holt template spares first 1
	sleep 3
	clockcheck -- "$HOLT" run -i --name s first /first talk
	assert_equal origin "$(origin s)" spare
	assert_clock -50 50 first
	run -0 holt template spares first 0
}

# ---- memory and disk ----

# Of all that the template consists of, holes and all.
template_sums() {
	tar -C "$1" -Sc memory state disk.raw | sha256sum
}

# The descriptors of a process that are this file, as "NUMBER FLAGS".
descriptors_of() {
	local fd want
	want=$(stat -c %d:%i "$2")
	for fd in "/proc/$1/fd"/*; do
		if [[ $(stat -Lc %d:%i "$fd" 2>/dev/null) == "$want" ]]; then
			echo "${fd##*/} $(sed -n 's/^flags:\t*//p' "/proc/$1/fdinfo/${fd##*/}")"
		fi
	done
}

# bats test_tags=user
@test "K33: a clone has its template's memory and state for reading only, its disk not at all, and cannot change any" {
	local dir pid sums found file inode id
	stand_in qemu "run $(command -v qemu-system-x86_64)"
	export HOLT_QEMU=$TEST_DIR/odd/qemu
	run -0 holt template build -q first
	dir=$(template_dir)
	sums=$(template_sums "$dir")
	stand_in qemu "run $(command -v qemu-system-x86_64)" "clone attack $BATS_TEST_TMPDIR/report $dir"
	# It looks for what its descriptors are, and reports; they are the same in every jail.
	HOLT_KEEPER=$(weak_keeper uid mountns landlock) run -0 holt run -d --name a first sleep 1000
	stand_in qemu "run $(command -v qemu-system-x86_64)"
	run -0 holt run -d --name c first sleep 1000
	assert_equal origins "$(origin a) $(origin c)" 'template template'

	# What the stand-in could do with exactly the descriptors of a clone's QEMU.
	run -0 cat "$BATS_TEST_TMPDIR/report"
	assert_equal "files that were tried" "$(cut -d ' ' -f 2 <<<"$output" | sort | uniq -c | xargs)" '11 memory 11 state'
	run -0 awk '$4 !~ /^(EBADF|EINVAL|EACCES|EIO)$/' "$BATS_TEST_TMPDIR/report"
	assert_output ''

	# What QEMU holds while the clone runs, whichever way it came by it.
	for id in a c; do
		pid=$(jq .vmm_pid "$HOLT_HOME/boxes/$(holt inspect "$id" | jq -r '.[0].id')/state.json")
		assert_match "$(tr '\0' ' ' <"/proc/$pid/cmdline")" ' -incoming defer '
		found=0
		for file in memory state; do
			while read -r _ flags; do
				found=$((found + 1))
				assert_equal "mode of a descriptor of '$file'" $((8#$flags & 3)) 0
			done < <(descriptors_of "$pid" "$dir/$file")
		done
		assert_between "descriptors of memory and state" "$found" 2 4
		assert_equal "descriptors of the disk" "$(descriptors_of "$pid" "$dir/disk.raw")" ''
		inode=$(stat -c %i "$dir/memory")
		run -0 awk -v i="$inode" '$5 == i { print $2 }' "/proc/$pid/maps"
		assert_match "$output" '^r.-p'
		[[ $output != *s* ]] || fail "a shared mapping: $output"
	done

	# Memory and disk of one are not the other's, nor the template's.
	write_much a 'A' &
	write_much c 'C'
	wait $!
	assert_much a A
	assert_much c C
	kill -9 "$pid"
	wait_for 5 sh -c '"$0" inspect c | grep -q crashed' "$HOLT"
	assert_much a A
	assert_equal "the template" "$(template_sums "$dir")" "$sums"
	run -0 --separate-stderr holt run --name n first sh -c 'ls /big /dev/shm; find / -xdev -name big'
	assert_equal "origin of the next" "$(origin n)" template
	assert_output '/dev/shm:'
}

# 16 MiB of one letter in memory and on the disk.
write_much() {
	holt exec "$1" sh -c "tr '\\0' $2 </dev/zero | head -c 16777216 | tee /dev/shm/big >/big; sync"
}

assert_much() {
	local sum
	sum=$(tr '\0' "$2" </dev/zero | head -c 16777216 | md5sum)
	run -0 holt exec "$1" sh -c 'echo 3 >/proc/sys/vm/drop_caches; md5sum </big; md5sum </dev/shm/big'
	assert_output "$sum"$'\n'"$sum"
}
