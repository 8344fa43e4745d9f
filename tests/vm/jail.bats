#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154 # expanded by another shell; variables of bats and tests/lib
# The jail of a machine on real hosts and on hosts that refuse parts of it (tests/vm/denied.c): what is
# on, what is missing and why, and what is refused. As root and as an ordinary user.

load ../lib/common
load ../lib/vm

teardown() {
	remove_boxes
	common_teardown
}

# jail NAME FILTER: of what inspect says.
jail() {
	holt inspect "$1" | jq -r ".[0].state.jail | $2"
}

layers() {
	jail "$1" '.layers | join(", ")'
}

vmm() {
	jq .vmm_pid "$HOLT_HOME/boxes/$(holt inspect "$1" | jq -r '.[0].id')/state.json"
}

keeper() {
	jq .keeper_pid "$HOLT_HOME/boxes/$(holt inspect "$1" | jq -r '.[0].id')/state.json"
}

origin() {
	holt inspect "$1" | jq -r '.[0].state.origin'
}

# status_of PID NAME: a line of its status.
status_of() {
	awk -v name="$2:" '$1 == name { print $2 }' "/proc/$1/status"
}

ALL='seccomp, user namespace, landlock, mount namespace, pid namespace, network namespace, ipc namespace'

whole_jail() {
	"$HOLT" doctor | grep -q "^ok    jail .*available: $ALL;"
}

# in_jail NAME: what the kernel says about its QEMU agrees with what the box says.
in_jail() {
	local pid ns
	pid=$(vmm "$1")
	assert_equal "layers of $1" "$(layers "$1")" "$ALL"
	assert_equal "no_new_privs, filters" "$(status_of "$pid" NoNewPrivs) $(status_of "$pid" Seccomp_filters)" '1 2'
	# The one that chroot needs, in its user namespace.
	assert_equal "capabilities" "$(status_of "$pid" CapPrm) $(status_of "$pid" CapBnd)" \
		'0000000000040000 0000000000040000'
	for ns in user mnt pid net ipc uts; do
		[[ $(readlink "/proc/$pid/ns/$ns") != "$(readlink "/proc/self/ns/$ns")" ]] ||
			fail "$1: its $ns namespace is the host's"
	done
	assert_equal "who it is inside" "$(xargs <"/proc/$pid/uid_map")" "65534 $(jail "$1" .uid) 1"
	assert_equal "its root directory" "$(ls "/proc/$pid/root/")" ''
	assert_equal "core files, files" "$(awk '/core file|open files/ { print $5 }' "/proc/$pid/limits" | xargs)" '0 512'
}

# bats test_tags=user
@test "the jail is on in boxes that boot, begin as clones, are spares or are started again; they work" {
	skip_unless 'the host does not offer the whole jail' whole_jail
	run -0 holt run -d --name cold --no-template demo sleep 1000
	in_jail cold
	run -0 holt run -d --name clone demo sleep 1000
	assert_equal origin "$(origin clone)" template
	in_jail clone
	run -0 holt template spares demo 1
	run -0 holt run -d --name spare demo sleep 1000
	assert_equal origin "$(origin spare)" spare
	run -0 holt template spares demo 0
	in_jail spare
	run -0 holt stop -t 0 clone
	run -0 holt start clone
	assert_equal origin "$(origin clone)" bare
	in_jail clone
	run -0 holt pause cold
	run -0 holt unpause cold
	for name in cold clone spare; do
		run -0 holt exec "$name" sh -c 'echo x >/file; sync; cat /file'
		assert_output x
	done
}

@test "as root each QEMU has a user of its own, which nobody is and no file belongs to" {
	local a b
	[[ $EUID == 0 ]] || skip "root only: other users have no second one"
	run -0 holt run -d --name a demo sleep 1000
	run -0 holt run -d --name b demo sleep 1000
	a=$(jail a .uid)
	b=$(jail b .uid)
	[[ $a != "$b" ]] || fail "both are user $a"
	for name in a b; do
		assert_between "the user" "$(jail "$name" .uid)" 2013265920 2030043135
		assert_equal "user and groups of QEMU" "$(awk '/^(Uid|Gid|Groups):/ { $1 = ""; print }' "/proc/$(vmm "$name")/status" | xargs -n 8 | sort -u | xargs)" \
			"$(for _ in 1 2 3 4 5 6 7 8; do jail "$name" .uid; done | xargs)"
	done
	run -0 find "$HOLT_HOME" /tmp -xdev '(' -uid "$a" -o -uid "$b" -o -gid "$a" -o -gid "$b" ')'
	assert_output ''
}

# bats test_tags=user
@test "the keeper of a box that runs has no capability but to end QEMU, and can still stop, start and remove it" {
	local pid caps=0000000000000000
	run -0 holt run -d --name a demo sleep 1000
	pid=$(keeper a)
	((EUID != 0)) || caps=0000000000000020
	assert_equal "its capabilities" "$(status_of "$pid" CapPrm) $(status_of "$pid" CapInh)" "$caps 0000000000000000"
	assert_equal "no_new_privs, filters" "$(status_of "$pid" NoNewPrivs) $(status_of "$pid" Seccomp)" '1 2'
	run -0 holt stop -t 0 a
	run -0 holt start a
	run -0 holt rm -f a
	assert_equal "what is left of it" "$(ls "$HOLT_HOME/boxes")" ''
}

denied() {
	"$HOLT_BUILD/tests/vm/denied" "$@"
}

# bats test_tags=user
@test "hosts without user namespaces, without Landlock, and containers: boxes run, and say what is missing and why" {
	local what
	for what in userns landlock container; do
		run -0 --separate-stderr denied "$what" "$HOLT" run -d --name "$what" demo sleep 1000
		assert_equal "stderr" "$stderr" ''
		run -0 holt exec "$what" echo works
		assert_equal "reduced" "$(jail "$what" .reduced)" false
	done
	assert_match "$(jail userns .missing)" 'user namespace \(the limit in /proc/sys/user is reached, or 0\)'
	assert_match "$(layers userns)" '^seccomp, landlock'
	assert_match "$(jail landlock .missing)" 'landlock \(not in this kernel, or refused: Function not implemented\)'
	assert_match "$(layers landlock)" '^seccomp, user namespace, mount namespace'
	assert_match "$(jail container .missing)" "user namespace \\(refused by this host's policy"
	assert_match "$(jail container .missing)" 'mount namespace \(needs a user namespace\)'
	assert_equal "layers in a container" "$(layers container)" 'seccomp, landlock'
}

# without KINDS COMMAND...: as root of a user namespace that allows no namespaces of these kinds; nobody but
# this root is mapped there.
without() {
	unshare -Ur sh -euc 'for kind in $1; do echo 0 >"/proc/sys/user/max_${kind}_namespaces"; done
		shift; exec "$@"' sh "$@"
}

# bats test_tags=user
@test "user namespaces switched off: holt starts with what is left, down to Landlock alone, and says so" {
	local name pid none='user mnt pid net ipc uts'
	skip_unless 'user namespaces are switched off for all' unshare -Ur true
	run -0 --separate-stderr without user "$HOLT" run -d --name user demo sleep 1000
	assert_equal "stderr" "$stderr" ''
	assert_equal "layers without user namespaces" "$(layers user)" \
		'seccomp, landlock, mount namespace, pid namespace, network namespace, ipc namespace'
	assert_match "$(jail user .missing)" '^user namespace \(the limit in /proc/sys/user is reached, or 0\)'
	run -0 --separate-stderr without "$none" "$HOLT" run -d --name none demo sleep 1000
	assert_equal "stderr" "$stderr" ''
	run -0 --separate-stderr without user setpriv --bounding-set=-all "$HOLT" run -d --name powerless demo sleep 1000
	assert_equal "stderr" "$stderr" ''
	for name in none powerless; do
		assert_equal "layers of $name" "$(layers "$name")" 'seccomp, landlock'
		assert_equal "layers of the helper of $name" "$(helper_jail "$name" '.layers | join(", ")')" 'seccomp, landlock'
		assert_match "$(jail "$name" .missing)" 'user namespace \(.*mount namespace \(.*pid namespace \(.*cgroup \(not used'
		assert_equal "reduced" "$(jail "$name" .reduced) $(helper_jail "$name" .reduced)" 'false false'
		pid=$(vmm "$name")
		assert_equal "no_new_privs, filters, capabilities" "$(status_of "$pid" NoNewPrivs) $(status_of "$pid" Seccomp_filters) $(status_of "$pid" CapEff)" \
			'1 2 0000000000000000'
	done
	for name in user none powerless; do
		run -0 holt exec "$name" echo works
	done
	run -0 without "$none" "$HOLT" doctor
	assert_match "$output" $'\nok    jail .*available: seccomp, landlock; missing: user namespace \\(the limit'
}

# helper_jail NAME FILTER: the same of the network helper.
helper_jail() {
	net_settled "$1"
	holt inspect "$1" | jq -r ".[0].network.jail | $2"
}

# helper_in_jail NAME: what the kernel says about it.
helper_in_jail() {
	local pid ns
	pid=$(helper_of "$1")
	assert_equal "no_new_privs, seccomp" "$(status_of "$pid" NoNewPrivs) $(status_of "$pid" Seccomp)" '1 2'
	for ns in CapInh CapPrm CapEff CapAmb; do
		assert_equal "$ns" "$(status_of "$pid" "$ns")" 0000000000000000
	done
	for ns in mnt pid ipc uts; do
		[[ $(readlink "/proc/$pid/ns/$ns") != "$(readlink "/proc/self/ns/$ns")" ]] ||
			fail "$1: the $ns namespace of its helper is the host's"
	done
	assert_equal "its network" "$(readlink "/proc/$pid/ns/net")" "$(readlink /proc/self/ns/net)"
	assert_equal "its root directory" "$(ls -A "/proc/$pid/root/")" ''
	assert_equal "its user" "$(status_of "$pid" Uid)" "$(helper_jail "$1" .uid)"
	assert_equal "reduced" "$(helper_jail "$1" .reduced)" false
}

# bats test_tags=user
@test "the network helper is in a jail of its own: no files, no capability, no other process; inspect says so" {
	skip_unless 'the host does not offer the whole jail' whole_jail
	local name user=', user namespace'
	((EUID != 0)) || user=
	run -0 holt run -d --name cold --no-template demo sleep 1000
	run -0 holt run -d --name clone demo sleep 1000
	for name in cold clone; do
		helper_in_jail "$name"
		assert_equal "layers of the helper" "$(helper_jail "$name" '.layers | join(", ")')" \
			"seccomp$user, landlock, mount namespace, pid namespace, ipc namespace"
		assert_match "$(helper_jail "$name" .missing)" "network namespace \\(it connects to the host's network\\)"
	done
	run -0 holt stop -t 0 clone
	assert_equal "the jail of what does not run" "$(helper_jail clone .)" null
	run -0 holt run -d --name iso --network none demo sleep 1000
	assert_equal "the jail of no helper" "$(helper_jail iso .)" null
}

@test "as root the network helper has a user of the box's own, and binds a port below 1024 nevertheless" {
	[[ $EUID == 0 ]] || skip "root only: other users bind no such ports"
	run -0 holt run -d --name web -p 127.66.77.88:911:80 demo sh -c 'mkdir /w; echo low >/w/a; httpd -f -p 80 -h /w'
	assert_between "the user" "$(helper_jail web .uid)" 2013265920 2030043135
	assert_equal "the user" "$(status_of "$(helper_of web)" Uid)" "$(helper_jail web .uid)"
	assert_match "$(helper_jail web .missing)" "^user namespace \\(its ports below 1024 need the host's own\\)"
	wait_for 10 busybox wget -q -O "$BATS_TEST_TMPDIR/a" http://127.66.77.88:911/a
	assert_equal "the page" "$(<"$BATS_TEST_TMPDIR/a")" low
}

# bats test_tags=user
@test "a kernel without Landlock and the newer calls for mounts: a user namespace holds QEMU and the network helper" {
	run -0 --separate-stderr denied old "$HOLT" run -d --name old demo sleep 1000
	assert_equal "stderr" "$stderr" ''
	assert_equal "layers of QEMU" "$(layers old)" \
		'seccomp, user namespace, pid namespace, network namespace, ipc namespace'
	assert_equal "layers of the helper" "$(helper_jail old '.layers | join(", ")')" \
		'seccomp, user namespace, pid namespace, ipc namespace'
	assert_equal "reduced" "$(jail old .reduced) $(helper_jail old .reduced)" 'false false'
	run -0 holt exec old echo works
}

# bats test_tags=user
@test "K48: neither of both: refused by type with both reasons; HOLT_JAIL=reduced starts, says so, and is remembered" {
	run -125 --separate-stderr denied all "$HOLT" run --name no demo true
	assert_match "$stderr" "no sufficient jail: no user namespace \\(refused by this host's policy.*\\), no landlock \\(not in this kernel"
	assert_match "$stderr" $'\nhint: .*max_user_namespaces.*lsm=landlock.*HOLT_JAIL=reduced'
	HOLT_JAIL=reduced run -0 --separate-stderr denied all "$HOLT" run -d --name a demo sleep 1000
	assert_match "$stderr" '^holt: warning: box a runs in a reduced jail \(HOLT_JAIL\); missing: user namespace '
	assert_equal "reduced" "$(jail a .reduced) $(layers a)" 'true seccomp'
	run -0 grep -c '"action":"start".*"jail":"reduced"' "$HOLT_HOME/events.jsonl"
	# Who does not ask for less gets the whole, and the wish alone takes nothing away.
	HOLT_JAIL=reduced run -0 --separate-stderr holt run -d --name b demo sleep 1000
	assert_equal "reduced" "$stderr$(jail b .reduced)" false
	run -125 --separate-stderr env HOLT_JAIL=none "$HOLT" run demo true
	assert_match "$stderr" $'unknown jail \'none\' \\(HOLT_JAIL\\)\nhint: use full or reduced'
}

# bats test_tags=user
@test "a spare that was made in a reduced jail is not for a box that did not ask for less" {
	HOLT_JAIL=reduced run -0 denied all "$HOLT" template spares demo 1
	run -0 holt run -d --name full demo sleep 1000
	assert_equal "reduced" "$(jail full .reduced)" false
	run -0 holt template spares demo 0
}

# bats test_tags=user
@test "doctor names the layers, what is missing and why, and what HOLT_JAIL says" {
	run denied all "$HOLT" doctor
	assert_match "$output" $'\nFAIL  jail .*available: seccomp; missing: user namespace \\(refused.*landlock \\(.*\n +-> .*HOLT_JAIL=reduced'
	HOLT_JAIL=reduced run -0 denied all "$HOLT" doctor
	assert_match "$output" $'\nwarn  jail .*HOLT_JAIL=reduced'
	run -0 denied userns "$HOLT" doctor
	assert_match "$output" $'\nok    jail .*missing: user namespace \\(the limit'
	run env HOLT_JAIL=some "$HOLT" doctor
	assert_match "$output" $'\nFAIL  jail '
}
