#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# holt run: what goes in, what comes out, and with which code.

load ../lib/common
load ../lib/vm

@test "exit codes are the program's own" {
	local code
	for code in 0 1 7 124 125 126 127 128 255; do
		box "$code" demo sh -c "echo out; exit $code"
	done
	boxes
	for code in 0 1 7 124 125 126 127 128 255; do
		assert_box "$code" "$code" out
		[[ -z $stderr ]] || fail "code $code: holt adds to stderr: $stderr"
	done
}

@test "a program killed by signal N: 128+N" {
	# Programs without a shell in between: the signal is the leader's own.
	box term demo sh -c 'kill -TERM $$'
	box kill demo sh -c 'kill -KILL $$'
	box segv demo sh -c 'kill -SEGV $$'
	boxes
	assert_box term 143 ''
	assert_box kill 137 ''
	assert_box segv 139 ''
}

@test "stdout and stderr are two streams, and bytes (all 256, NUL, no newline at the end)" {
	local all='i=0; while [ $i -lt 256 ]; do printf "\\$(printf %03o $i)"; i=$((i + 1)); done'
	local dir=$BATS_TEST_TMPDIR
	holt run demo sh -c "$all; { printf 'e\\0e'; $all; } >&2; $all" >"$dir/out" 2>"$dir/err"
	python3 - "$dir" <<-'PY'
		import sys
		every = bytes(range(256))
		open(sys.argv[1] + "/out.want", "wb").write(every * 2)
		open(sys.argv[1] + "/err.want", "wb").write(b"e\0e" + every)
	PY
	cmp "$dir/out" "$dir/out.want"
	cmp "$dir/err" "$dir/err.want"
}

@test "output without an end of line, and none at all" {
	holt run demo printf abc >"$BATS_TEST_TMPDIR/out"
	[[ $(od -An -c <"$BATS_TEST_TMPDIR/out") == '   a   b   c' ]]
	holt run demo true >"$BATS_TEST_TMPDIR/out"
	[[ ! -s $BATS_TEST_TMPDIR/out ]]
}

@test "arguments arrive as they are" {
	local args=('' ' ' 'a b' $'new\nline' $'\t' '*' '$HOME' '"' "'" '\' '--help' '-e' 'ünïcödé' $'\xff\xfe')
	holt run demo sh -c 'for a; do printf "%s\0" "$a"; done' name "${args[@]}" >"$BATS_TEST_TMPDIR/out"
	printf '%s\0' "${args[@]}" | cmp - "$BATS_TEST_TMPDIR/out"
}

@test "environment: image, -e K=V, -e K from holt's own, PATH, HOME, HOSTNAME" {
	image env --busybox --env KEPT=by-image --env CHANGED=by-image --env DROPPED=by-image \
		--env EMPTY=
	unset DROPPED NEVER
	export FROM_HOST='from the host'
	run -0 --separate-stderr holt run -e CHANGED=by-user -e 'SPACES= a  b ' -e FROM_HOST -e NEVER \
		-e DROPPED -e TWICE=1 -e TWICE=2 -e NOTHING= env env
	assert_fact KEPT by-image
	assert_fact CHANGED by-user
	assert_fact SPACES ' a  b '
	assert_fact FROM_HOST 'from the host'
	assert_fact TWICE 2
	assert_fact PATH /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
	assert_fact HOME /root
	assert_match "$(fact HOSTNAME)" '^[0-9a-f]+$'
	grep -qx 'EMPTY=' <<<"$output"
	grep -qx 'NOTHING=' <<<"$output"
	assert_equal "number of TWICE" "$(grep -c ^TWICE= <<<"$output")" 1
	# Docker: a name without a value that holt does not have either takes the image's away.
	! grep -E '^(NEVER|DROPPED)' <<<"$output" || fail "not dropped: $output"
	# Nothing of the caller's environment comes along unasked.
	! grep -E '^(HOLT_|TEST_DIR|BATS)' <<<"$output" || fail "unasked: $output"
}

@test "PATH and HOME by -e win over holt's" {
	run -0 --separate-stderr holt run -e PATH=/bin -e HOME=/elsewhere -e HOSTNAME=mine demo /usr/bin/env
	assert_fact PATH /bin
	assert_fact HOME /elsewhere
	assert_fact HOSTNAME mine
}

# bats test_tags=user
@test "K18: the working directory" {
	mkdir -p "$TEST_DIR/cwd/srv/real"
	ln -sfn /srv/real "$TEST_DIR/cwd/srv/link"
	echo plain >"$TEST_DIR/cwd/srv/file"
	image cwd --busybox --layer "$TEST_DIR/cwd" --workdir /not/there/yet
	image cwd-file --busybox --layer "$TEST_DIR/cwd" --workdir /srv/file

	box default demo pwd
	box image cwd sh -c 'pwd; stat -c "%a %u:%g" . ..'
	box made -w /brand/new cwd sh -c 'pwd; touch x && echo writable'
	box link -w /srv/link cwd sh -c 'pwd -P; pwd'
	box user -u agent -w /var/newly/made cwd sh -c 'pwd; id -u'
	box file -w /srv/file cwd true
	box below -w /srv/file/sub cwd true
	box image-file cwd-file true
	boxes
	assert_box default 0 /
	assert_box image 0 $'/not/there/yet\n755 0:0\n755 0:0'
	assert_box made 0 $'/brand/new\nwritable'
	assert_box link 0
	assert_equal "where the link leads" "${output%%$'\n'*}" /srv/real
	assert_box user 0 $'/var/newly/made\n1000'
	assert_error file 125 "'/srv/file'" 'Not a directory'
	assert_error below 125 "'/srv/file/sub'" 'Not a directory'
	assert_error image-file 125 "'/srv/file'" 'Not a directory'
}

# bats test_tags=user
@test "K17: users and groups of the image's files" {
	local facts='echo "$(id -u) $(id -g) $(id -G) $HOME"'
	image user --busybox --user agent
	box root demo sh -c "$facts"
	box name -u agent demo sh -c "$facts"
	box number -u 1000 demo sh -c "$facts"
	box unlisted -u 4242 demo sh -c "$facts"
	box both -u 4242:4343 demo sh -c "$facts"
	box group -u agent:wheel demo sh -c "$facts"
	box number-group -u 1000:2000 demo sh -c "$facts"
	box image user sh -c "$facts"
	box override -u root user sh -c "$facts"
	box no-user -u nosuch demo true
	box no-group -u agent:nosuch demo true
	boxes
	assert_box root 0 '0 0 0 /root'
	assert_box name 0 '1000 1000 1000 2000 /home/agent'
	assert_box number 0 '1000 1000 1000 2000 /home/agent'
	assert_box unlisted 0 '4242 0 0 /'
	assert_box both 0 '4242 4343 4343 /'
	assert_box group 0 '1000 2000 2000 /home/agent'
	assert_box number-group 0 '1000 2000 2000 /home/agent'
	assert_box image 0 '1000 1000 1000 2000 /home/agent'
	assert_box override 0 '0 0 0 /root'
	assert_error no-user 125 "'nosuch'" user
	assert_error no-group 125 "'nosuch'" group
}

@test "K17: a user other than root has no more rights than it should" {
	run -0 --separate-stderr holt run -u agent demo sh -c '
		grep -E "^Cap(Eff|Prm|Amb)" /proc/self/status
		touch /root/x 2>/dev/null && echo root is open
		kill -9 1 2>/dev/null && echo may kill init
		touch "$HOME/x" && echo home is writable
		echo to-stdout >/dev/stdout'
	assert_output $'CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000
home is writable\nto-stdout'
}

@test "K17: an image without /etc/passwd and /etc/group" {
	mkdir -p "$TEST_DIR/bare/bin"
	cp "$(command -v busybox)" "$TEST_DIR/bare/bin/busybox"
	ln -sf busybox "$TEST_DIR/bare/bin/sh"
	image bare --layer "$TEST_DIR/bare"
	local facts='echo "$(busybox id -u) $(busybox id -g) $(busybox id -G) $HOME"'
	box default bare sh -c "$facts"
	box number -u 1000 bare sh -c "$facts"
	box numbers -u 1000:1001 bare sh -c "$facts"
	box root -u root bare sh -c "$facts"
	box name -u agent bare true
	boxes
	assert_box default 0 '0 0 0 /'
	assert_box number 0 '1000 0 0 /'
	assert_box numbers 0 '1000 1001 1001 /'
	# Whether or not it knows the name, it is no other user than root.
	if [[ $(<"$BATS_TEST_TMPDIR/root.code") == 0 ]]; then
		assert_box root 0 '0 0 0 /'
	else
		assert_error root 125 "'root'" /etc/passwd
	fi
	assert_error name 125 "'agent'" /etc/passwd
}

# bats test_tags=user
@test "K19: Entrypoint, Cmd, --entrypoint and arguments, as docker combines them" {
	local say='["/bin/busybox","echo","E"]' shell='["/bin/sh","-c","echo \"E $0 $*\""]'
	image c --busybox --cmd '["/bin/busybox","echo","C"]'
	image c-shell --busybox --cmd '["/bin/sh","-c","echo C $((1+1))"]'
	image e --busybox --entrypoint "$say"
	image e-shell --busybox --entrypoint "$shell"
	image ec --busybox --entrypoint "$say" --cmd '["c1","c 2"]'
	image none --busybox --entrypoint '[]' --cmd '[]'
	local nulls
	nulls=$(layout --busybox)
	layout_config "$nulls" '.config.Entrypoint = null | .config.Cmd = ["/bin/echo", "null is none"]'
	holt image import "$nulls" --name nulls

	box c c
	box c-arg c echo arg
	box c-shell c-shell
	box e e
	box e-arg e a 'b  c'
	box e-shell e-shell x y
	box ec ec
	box ec-arg ec arg
	box own --entrypoint /bin/echo ec
	box own-arg --entrypoint /bin/echo ec arg
	box own-none-arg --entrypoint '' ec echo arg
	box own-none --entrypoint '' ec
	box none none
	box nulls nulls
	boxes
	assert_box c 0 C
	assert_box c-arg 0 arg
	assert_box c-shell 0 'C 2'
	assert_box e 0 E
	assert_box e-arg 0 'E a b  c'
	assert_box e-shell 0 'E x y'
	assert_box ec 0 'E c1 c 2'
	assert_box ec-arg 0 'E arg'
	assert_box own 0 ''
	assert_box own-arg 0 arg
	assert_box own-none-arg 0 arg
	assert_error own-none 125 command
	assert_error none 125 command
	assert_box nulls 0 'null is none'
}

@test "--memory, --cpus and --hostname are what the guest sees; defaults without" {
	local facts='
		echo "mem=$(sed -n "s/^MemTotal: *\([0-9]*\) kB/\1/p" /proc/meminfo)"
		echo "cpus=$(nproc)"; echo "name=$(hostname)"; echo "env=$HOSTNAME"'
	box default demo sh -c "$facts"
	box chosen --memory 1g --cpus 2 --hostname Box-7 demo sh -c "$facts"
	box small -m 128m demo sh -c "$facts"
	boxes
	assert_box default 0
	# The kernel keeps some for itself.
	assert_between "default memory" "$(fact mem)" $((440 * 1024)) $((512 * 1024))
	assert_fact cpus 1
	assert_fact name "$(fact env)"
	assert_box chosen 0
	assert_between "chosen memory" "$(fact mem)" $((900 * 1024)) $((1024 * 1024))
	assert_fact cpus 2
	assert_fact name Box-7
	assert_fact env Box-7
	assert_box small 0
	assert_between "least memory" "$(fact mem)" $((64 * 1024)) $((128 * 1024))
}

@test "values out of range: 125, and the text says the range" {
	run --separate-stderr holt run --memory 64m demo true
	assert_status 125
	assert_match "$stderr" '64.*128'
	run --separate-stderr holt run --cpus 1000 demo true
	assert_status 125
	assert_match "$stderr" '1000.*64'
	run --separate-stderr holt run --hostname a_b demo true
	assert_status 125
	assert_match "$stderr" hostname
}

@test "--timeout counts from the start of the command, not of the box" {
	# The machine is held up for longer than the time-out before the command can start; a clone might
	# have started it before we see the machine.
	begin_box --no-template --timeout 3 demo sh -c 'sleep 1; echo in-time'
	await_vmm
	kill -STOP "$VMM"
	sleep 4
	kill -CONT "$VMM"
	end_box 0
	assert_equal output "$(<"$OUT")" in-time
}

@test "--timeout kills the command: 124, its output so far, and a text" {
	box plain --timeout 1 demo sh -c 'echo before; sleep 1000; echo after'
	box deaf --timeout 1 demo sh -c 'trap "" TERM INT HUP; echo before; while :; do sleep 1; done'
	boxes
	assert_box plain 124 before
	assert_match "$stderr" '^holt: .*time-out of 1000 ms$'
	assert_box deaf 124 before
	# Not in time: its own code.
	run -9 --separate-stderr holt run --timeout 30 demo sh -c 'exit 9'
	assert_output ''
}

@test "a time-out kills grandchildren in sessions of their own, is on time, and leaves the box usable" {
	run -0 --separate-stderr boxtool demo \
		-t 1000 'setsid sh -c "trap \"\" TERM; while :; do sleep 1; done" & (sleep 777 &) ; echo up; sleep 888' \
		'echo "left=$(ps -o comm,args | grep -cE "sleep|setsid|trap" | cat)"; ps >&2; echo "next=works"'
	assert_match "$output" '^up'
	local -a ends
	mapfile -t ends < <(grep '^exit ' <<<"$stderr")
	assert_match "${ends[0]}" 'code=124 '
	local took=${ends[0]##*took_ms=}
	assert_between "the time" "$took" 1000 2000
	assert_match "${ends[1]}" 'code=0 '
	assert_fact next works
	! grep -E 'sleep (1|777|888)$|while :' <<<"$stderr" || fail "alive after the time-out: $stderr"
}
