#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2154,SC2317 # text for the box's shell; set by bats' run; called by bats
# holt sandbox on real boxes. One box of busybox for the whole file, and one of Debian for the tests
# that want bash or python3: what is left is looked for at the file's end.

load ../lib/common
load ../lib/vm

setup_file() {
	common_setup_file
	demo_image
	holt run -d --no-template --name b demo sleep 100000 >/dev/null
}

teardown_file() {
	remove_boxes
	common_teardown_file
}

# The boxes live on.
teardown() { :; }

setup() {
	common_setup
	DIR=$BATS_TEST_TMPDIR
}

debian_box() {
	debian_image
	[[ -e $TEST_DIR/d ]] || holt run -d --no-template --name d debian sleep 100000 >/dev/null
	: >"$TEST_DIR/d"
}

sandbox() {
	holt sandbox "$@"
}

# fails CODE TEXT ARGUMENT...: holt itself fails: no output, one line with the text, and a hint (K48).
fails() {
	local code=$1 text=$2
	shift 2
	run --separate-stderr holt sandbox "$@" </dev/null
	[[ $status == "$code" && -z $output ]] || fail "'$*' ends with $status and says: $output$stderr"
	[[ $stderr == 'holt: '*"$text"*$'\nhint: '?* ]] || fail "'$*': not the error '$text':" "$stderr"
}

# The paths of a JSON document, each ended by NUL: what the manual says of bytes that are no UTF-8.
paths_of() {
	python3 -c '
import json, re, sys
for e in json.load(sys.stdin)[sys.argv[1]]:
    p = e if isinstance(e, str) else e["path"]
    sys.stdout.buffer.write(re.sub(rb"\0(..)",
        lambda m: bytes.fromhex(m[1].decode()), p.encode()) + b"\0")' "$1"
}

# same_paths WHAT FILE: NUL-terminated paths, in any order, are those of $DIR/want.
same_paths() {
	cmp <(sort -z "$2") <(sort -z "$DIR/want") || fail "$1 gives other paths:" "$(tr '\0' '\n' <"$2" | cat -A)"
}

# bats test_tags=user
@test "K01: 13 odd names, written, listed, found, searched, read, moved and copied out, byte for byte" {
	local name euros
	euros=$(printf '€%.0s' {1..85})
	local names=($'line\nfeed' $'tab\tstop' 'x:9:y.txt' '-rf' '*' '[a-z]?' "$euros" $'caf\xe9\xff' $'\xed\xa0\x80'
		' blank ' 'back\slash "quote" '"'" '$(touch no)' $'\x01\x1b[31m\x7f')
	assert_equal "bytes of the longest" "$(printf %s "$euros" | wc -c)" 255
	mkdir "$DIR/n"
	for name in "${names[@]}"; do
		printf 'needle of %s\n' "$name" >"$DIR/n/$name"
		sandbox write b -- "/tmp/n/$name" <"$DIR/n/$name"
		sandbox read -w /tmp/n b -- "$name" >"$DIR/read"
		cmp "$DIR/n/$name" "$DIR/read"
		printf '/tmp/n/%s\0' "$name" >>"$DIR/want"
	done
	sandbox glob -0 b /tmp/n '*' >"$DIR/got"
	same_paths glob "$DIR/got"
	sandbox glob --json b /tmp/n '**/*' | paths_of paths >"$DIR/got"
	same_paths 'glob --json' "$DIR/got"
	sandbox grep --json b /tmp/n needle | paths_of matches >"$DIR/got"
	same_paths 'grep --json' "$DIR/got"
	# Path, NUL, number and line, which may be in the way: the name's own line feed adds one.
	assert_equal "lines of grep -0" "$(sandbox grep -0 b /tmp/n '^needle' | tr '\0' '@' | grep -c '@1:needle')" 13
	printf '/tmp/n\0' >>"$DIR/want"
	sandbox ls -0 b /tmp/n >"$DIR/got"
	same_paths ls "$DIR/got"
	sandbox ls --json b /tmp/n | paths_of entries >"$DIR/got"
	same_paths 'ls --json' "$DIR/got"
	sandbox mv -w /tmp/n b -- -rf ../m 2>/dev/null && fail "a path with '..' is taken"
	sandbox mv -w /tmp/n b -- -rf $'-\xff' && sandbox stat -w /tmp/n b -- $'-\xff' >/dev/null
	sandbox mv -w /tmp/n b -- $'-\xff' -rf
	holt cp b:/tmp/n "$DIR/out"
	diff -r "$DIR/n" "$DIR/out"
	assert_equal "files" "$(find "$DIR/out" -type f -printf x | wc -c)" 13
	fails 1 "'no'" stat b no
}

# bats test_tags=user
@test "K06, K07: exec ends with its shell, and a fork bomb at its time-out: 124 in time, the box usable" {
	local start took
	sandbox exec b true
	start=$(now_ms)
	run -3 --separate-stderr holt sandbox exec b 'sleep 1234 & echo $!; exit 3'
	took=$(($(now_ms) - start))
	assert_match "$output" '^[0-9]+$'
	assert_between "the time with a child that holds the output (ms)" "$took" 0 1500
	# It lives on.
	run -0 holt sandbox exec b "tr '\0' ' ' </proc/$output/cmdline; kill $output"
	assert_output 'sleep 1234 '
	start=$(now_ms)
	run -124 --separate-stderr holt sandbox exec --timeout 1s b \
		': marked; bomb() { while :; do (bomb) & done; }; bomb 2>/dev/null & echo lit; exec sleep 1000'
	took=$(($(now_ms) - start))
	assert_output lit
	assert_match "$stderr" 'time-out of 1000 ms'
	assert_between "the time of the bomb (ms)" "$took" 1000 2500
	run -0 holt sandbox exec b 'ps -o args | grep -c "[:] marked"; cat /sys/fs/cgroup/holt/pids.current'
	assert_equal "what is left of it" "${lines[0]}" 0
	assert_between "processes in the box" "${lines[1]}" 1 8
}

@test "exec: streams, exit codes, variables, user, directory; nothing but files is left for the next one" {
	run -7 --separate-stderr holt sandbox exec b -- 'echo out; echo err >&2; cd /tmp; export LEFT=1; exit 7'
	assert_output out
	assert_equal stderr "$stderr" err
	run -0 holt sandbox exec -e A=1 -e 'B=x y' -u 1000 -w /tmp b 'echo "$A $B <$LEFT> $PWD $(id -u)"'
	assert_output '1 x y <> /tmp 1000'
	printf 'A=2\nC=3\n' >"$DIR/env"
	run -0 holt sandbox exec --env-file "$DIR/env" -e A=1 b 'echo $A$C; pwd'
	assert_output $'13\n/'
	run -127 --separate-stderr holt sandbox exec b no-such-program
	run -137 --separate-stderr holt sandbox exec b 'kill -9 $$'
	fails 125 'POSIX' exec -e 'BAD KEY=1' b true
	head -c 300000 /dev/urandom >"$DIR/in"
	sandbox write b /tmp/bytes <"$DIR/in"
	sandbox exec b 'cat /tmp/bytes; cat /tmp/bytes >&2' >"$DIR/out" 2>"$DIR/err"
	cmp "$DIR/in" "$DIR/out"
	cmp "$DIR/in" "$DIR/err"
}

@test "exec --text and --json: 0 where there is a result" {
	run -0 --separate-stderr holt sandbox exec --text b 'echo out; echo err >&2; exit 3'
	assert_output $'out\n\nerr\n\nExit Code: 3'
	run -0 holt sandbox exec --text b true
	assert_output '(no output)'
	run -0 holt sandbox exec --text b 'exit 9'
	assert_output 'Command exited with code 9'
	run -0 --separate-stderr holt sandbox exec --text --timeout 500ms b 'echo so far; sleep 60'
	assert_match "$output" $'^so far\n.*timed out after 0.5 seconds'
	run -0 --separate-stderr holt sandbox exec --json b 'printf "a\351\n\0"; echo err >&2; exit 3'
	assert_equal "the object" "$(jq -cS 'del(.duration_us)' <<<"$output")" \
		'{"exit_code":3,"oom":false,"signal":0,"stderr":"err\n","stderr_bytes":4,"stdout":"a�\n\u0000","stdout_bytes":4,"timed_out":false,"truncated":false}'
	run -0 --separate-stderr holt sandbox exec --json --timeout 1 b 'echo so far; sleep 60'
	assert_equal "the end" "$(jq -c '[.exit_code, .timed_out, .stdout]' <<<"$output")" '[124,true,"so far\n"]'
	# 11 MiB: what is kept and what there was.
	head -c 11534336 /dev/zero | tr '\0' x | sandbox write b /tmp/11m
	run -0 --separate-stderr bash -c '"$HOLT" sandbox exec --json b "cat /tmp/11m" |
		jq -c "[(.stdout | length), .stdout_bytes, .truncated]"'
	assert_output '[10485760,11534336,true]'
	run -125 --separate-stderr holt sandbox exec --json no-such-box true
	assert_output ''
}

# bats test_tags=user
@test "K21: stdin: none for exec; all byte values, 8 MiB (1 GiB with HOLT_LONG=1), nothing, too late and unreadable for write" {
	run -0 --separate-stderr bash -c 'echo mine | { "$HOLT" sandbox exec b cat; cat; }'
	assert_output mine
	python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 99 + b"\x04\0\r\n\xff")' >"$DIR/in"
	local verb
	for verb in write update append; do
		sandbox "$verb" b "/tmp/$verb/deep/f" <"$DIR/in"
		sandbox read b "/tmp/$verb/deep/f" >"$DIR/out"
		cmp "$DIR/in" "$DIR/out"
	done
	echo more | sandbox append b /tmp/append/deep/f
	run -0 --separate-stderr bash -c '"$HOLT" sandbox read b /tmp/append/deep/f | tail -c 5'
	assert_output more
	# No file of the host holds it all.
	local bytes=$((HOLT_LONG ? 1 << 30 : 8 << 20))
	content() { openssl enc -aes-128-ctr -K 00 -iv 00 -in /dev/zero 2>/dev/null | head -c "$bytes"; }
	content | sandbox write b /tmp/big
	assert_equal "digest" "$(sandbox read b /tmp/big | sha256sum)" "$(content | sha256sum)"
	sandbox write b /tmp/big </dev/null
	assert_match "$(sandbox stat b /tmp/big)" '^file 0644 [0-9]+ [0-9]+ 0 20'
	# The old content stays.
	echo old >"$DIR/old"
	sandbox write b /tmp/kept <"$DIR/old"
	run -1 --separate-stderr bash -c '{ echo new; sleep 2; } | "$HOLT" sandbox write --timeout 500ms b /tmp/kept'
	assert_match "$stderr" 'before the end of stdin'
	run -1 --separate-stderr bash -c '"$HOLT" sandbox write b /tmp/kept <"$TEST_DIR"'
	assert_match "$stderr" 'cannot read stdin'
	run -0 holt sandbox read b /tmp/kept
	assert_output old
	fails 1 '/tmp/kept' write --exclusive b /tmp/kept
}

@test "read --lines: from 1, both ends in, LF alone ends a line" {
	printf 'progress 10%%\rprogress 100%%\npage one\fpage two\nhead\xe2\x80\xa8tail\r\nnext\xc2\x85line\n' >"$DIR/golden"
	sandbox write b /tmp/golden <"$DIR/golden"
	local lines want
	while IFS='|' read -r lines want; do
		assert_equal "--lines $lines" "$(sandbox read --lines "$lines" b /tmp/golden | od -An -tx1)" \
			"$(printf "$want" | od -An -tx1)"
	done <<-'END'
		3:3|head\xe2\x80\xa8tail
		2:3|page one\fpage two\nhead\xe2\x80\xa8tail
		4|next\xc2\x85line
		:1|progress 10%%\rprogress 100%%
		3:|head\xe2\x80\xa8tail\nnext\xc2\x85line
		-3:1|progress 10%%\rprogress 100%%
		5:|
		3:2|
		1:0|
	END
	sandbox read b /tmp/golden >"$DIR/all"
	cmp "$DIR/golden" "$DIR/all"
}

@test "ls, glob and grep: limits, depth, ignored names, JSON, and that there is more" {
	sandbox exec b 'mkdir -p /tmp/t/src/deep /tmp/t/.git /tmp/t/empty && cd /tmp/t &&
		for f in a.js src/b.js src/deep/c.js a.log .git/x.js; do echo "Find Me (here)" >$f; done &&
		ln -s src link && printf "find me\0" >binary'
	run -0 --separate-stderr holt sandbox ls b /tmp/t
	assert_equal "default depth" "$(sort <<<"$output" | tr '\n' ' ')" \
		'/tmp/t /tmp/t/a.js /tmp/t/binary /tmp/t/empty /tmp/t/src /tmp/t/src/b.js /tmp/t/src/deep '
	run -0 holt sandbox ls --depth 0 b /tmp/t/
	assert_output /tmp/t/
	run -0 --separate-stderr holt sandbox ls --max-entries 2 --json b /tmp/t
	assert_equal "of two" "$(jq -c '[(.entries | length), .entries[0], .truncated]' <<<"$output")" \
		'[2,{"path":"/tmp/t","type":"directory"},true]'
	run -0 --separate-stderr holt sandbox glob b /tmp/t 'src/**/*.js'
	assert_equal "two stars" "$(sort <<<"$output" | tr '\n' ' ')" '/tmp/t/src/b.js /tmp/t/src/deep/c.js '
	[[ -z $stderr ]]
	run -0 --separate-stderr holt sandbox glob --max-results 2 b /tmp/t '*.js'
	assert_equal "lines" "${#lines[@]}" 2
	assert_match "$stderr" '^holt: there is more; --max-results shows it$'
	run -0 --separate-stderr holt sandbox glob --max-results 3 --json b /tmp/t '*.js'
	assert_equal "exactly three" "$(jq -c '[(.paths | length), .truncated]' <<<"$output")" '[3,false]'
	run -0 holt sandbox glob --max-results 0 --json b /tmp/t '*.js'
	assert_output '{"paths":[],"truncated":true}'
	run -0 holt sandbox glob --dirs b /tmp/t 'sr?'
	assert_output /tmp/t/src
	run -0 --separate-stderr holt sandbox grep b /tmp/t/src 'find.me \(h'
	assert_equal "matches" "$(sort <<<"$output")" $'/tmp/t/src/b.js:1:Find Me (here)\n/tmp/t/src/deep/c.js:1:Find Me (here)'
	run -0 --separate-stderr holt sandbox grep --json --glob 'src/*.js' --literal b /tmp/t '(HERE)'
	assert_output '{"matches":[{"path":"/tmp/t/src/b.js","line_number":1,"line":"Find Me (here)"}],"truncated":false,"searched":1,"skipped":0}'
	run -0 --separate-stderr holt sandbox grep --json --case-sensitive b /tmp/t 'find'
	assert_output '{"matches":[],"truncated":false,"searched":3,"skipped":1}'
	# All names, where that is asked for; the short option does the same.
	run -0 --separate-stderr holt sandbox ls --all b /tmp/t
	assert_equal "all of it" "$(sort <<<"$output" | tr '\n' ' ')" \
		'/tmp/t /tmp/t/.git /tmp/t/.git/x.js /tmp/t/a.js /tmp/t/a.log /tmp/t/binary /tmp/t/empty /tmp/t/src /tmp/t/src/b.js /tmp/t/src/deep '
	run -0 holt sandbox glob -a --json b /tmp/t '.git/*'
	assert_output '{"paths":["/tmp/t/.git/x.js"],"truncated":false}'
	run -0 holt sandbox grep -a --glob '*.log' b /tmp/t 'find'
	assert_output '/tmp/t/a.log:1:Find Me (here)'
	# A root that is named is looked at, whatever its name.
	run -0 holt sandbox grep b /tmp/t/a.log find
	assert_output '/tmp/t/a.log:1:Find Me (here)'
}

@test "stat, mkdir, mv and rm; the mode stays when content is replaced" {
	sandbox mkdir -p b /tmp/s/a/b
	sandbox mkdir -p b /tmp/s/a/b
	fails 1 '/tmp/s/a' mkdir b /tmp/s/a
	fails 1 '/tmp/s/x/y' mkdir b /tmp/s/x/y
	assert_match "$stderr" 'hint: .*parents'
	echo 12345 | sandbox write -u 1000:1000 b /tmp/s1000
	sandbox exec b 'chmod 4750 /tmp/s1000; touch -d @1000000000 /tmp/s1000; ln -s /tmp/s1000 /tmp/s/link; mkfifo /tmp/s/fifo'
	run -0 holt sandbox stat b /tmp/s1000
	assert_output 'file 4750 1000 1000 6 2001-09-09T01:46:40.000000000Z'
	run -0 holt sandbox stat --json b /tmp/s/link
	assert_output '{"type":"file","mode":"4750","uid":1000,"gid":1000,"size":6,"mtime":"2001-09-09T01:46:40.000000000Z"}'
	assert_match "$(sandbox stat -P b /tmp/s/link)" '^symlink 0777 0 0 10 '
	assert_match "$(sandbox stat b /tmp/s/fifo)" '^fifo 0'
	echo 1234567 | sandbox write b /tmp/s/link
	assert_match "$(sandbox stat b /tmp/s1000)" '^file 4?0?750 1000 1000 8 '
	fails 1 'File exists' mv -n b /tmp/s1000 /tmp/s/a
	fails 1 "'/tmp/s/a'" mv b /tmp/s1000 /tmp/s/a
	assert_match "$stderr" 'hint: .*whole target'
	sandbox mv b /tmp/s1000 /tmp/s/moved
	fails 1 "'/tmp/s1000'" stat b /tmp/s1000
	fails 1 'not empty' rm b /tmp/s
	assert_match "$stderr" 'hint: .*recursively'
	sandbox rm -r b /tmp/s
	fails 1 "'/tmp/s'" rm b /tmp/s
	sandbox rm -f b /tmp/s
	# A directory that knows no new names.
	printf 0 | sandbox write b /proc/sysrq-trigger
}

# bats test_tags=user
@test "a user's hands: files are read, written, listed, searched and removed with his uid, gid and groups" {
	local verb
	sandbox exec b 'mkdir -p /own/closed && cd /own && echo secret >root && echo team >team && chmod 600 root && chmod 640 team &&
		chown 0:2000 team && chmod 700 closed && echo "agent:x:1000:1000::/:/bin/sh" >>/etc/passwd && echo "team:x:2000:agent" >>/etc/group'
	# The groups of /etc/group, unless one is named.
	run -0 holt sandbox read -u agent b /own/team
	assert_output team
	fails 1 Permission read -u agent:1000 b /own/team
	fails 1 Permission read -u agent b /own/root
	for verb in write append update rm; do
		fails 1 Permission "$verb" -u agent b /own/root
	done
	for verb in write append update mkdir; do
		fails 1 Permission "$verb" -u agent b /own/new
	done
	fails 1 Permission mv -u agent b /own/team /tmp/team
	# What cannot be read is told, never left out.
	run -1 --separate-stderr holt sandbox ls -u agent b /own
	assert_match "$stderr" "cannot read the directory '/own/closed': Permission denied"
	fails 1 "'/own/closed'" glob -u agent b /own '*.x'
	fails 1 Permission grep -u agent b /own secret
	# But what the kernel makes up is only searched where it was asked for.
	run -0 holt sandbox grep --glob passwd b / '^root:'
	assert_output '/etc/passwd:1:root:x:0:0:root:/root:/bin/sh'
	run -0 holt sandbox grep --glob status b /proc/self '^Pid:'
	assert_match "$output" '/proc/self/status:[0-9]+:Pid:'
	echo mine | sandbox write -u agent b /tmp/mine/file
	assert_match "$(sandbox stat b /tmp/mine)" '^directory 0755 1000 1000 '
	assert_match "$(sandbox stat b /tmp/mine/file)" '^file 0644 1000 1000 5 '
	sandbox rm -r b /own
	sandbox rm -r b /tmp/mine
}

# bats test_tags=user
@test "failures: 1, nothing on stdout, one line, a hint (K48); a stdout that fails; signals end the command" {
	local verb
	for verb in read stat ls; do
		fails 1 "'/no/such'" "$verb" b /no/such
	done
	fails 1 "'/no/such'" glob b /no/such '*'
	fails 1 "'/no/such'" grep --json b /no/such x
	fails 1 'pattern' grep b /etc '('
	assert_match "$stderr" 'hint: .*literally'
	fails 1 'timed out after 0.001 seconds: ' grep --timeout 1ms b / x
	[[ $stderr != *' 0 ms'* ]]
	fails 1 'path traversal' read b /tmp/../etc/passwd
	fails 1 '/mnt/user-data' download b /etc/passwd
	fails 1 'directory' read b /tmp
	fails 1 "'/root/x'" read -u 1000 b /root/x
	# A directory that the call names is not made.
	fails 1 "'/no/such'" stat -w /no/such b .
	fails 1 "'/no/such'" stat b /no/such
	echo out | sandbox write b /mnt/user-data/out/f
	run -0 holt sandbox download b mnt/user-data/out/f
	assert_output out
	run -0 holt sandbox download --user-data /etc b /etc/hostname
	for verb in 'read b /etc/passwd' 'ls b /' 'glob b /etc *' 'grep --json b /etc root'; do
		run -1 bash -fc '"$HOLT" sandbox '"$verb"' >/dev/full'
		assert_match "$output" '^holt: cannot write to stdout: No space'
	done
	run -125 bash -c '"$HOLT" sandbox exec b "echo x" >/dev/full'
	run -0 bash -c '"$HOLT" sandbox exec b yes | head -n 1; exit $((PIPESTATUS[0] != 141))'
	assert_output y
	run -143 timeout -s TERM --preserve-status 1 "$HOLT" sandbox exec b 'echo $$; exec sleep 4321'
	assert_match "$output" '^[0-9]+$'
	wait_for 5 sandbox exec b "! test -e /proc/$output"
}

@test "what a box names or wrote cannot command a terminal" {
	local pty=("$ROOT/tests/vm/ptytool" 24x80 -- "$HOLT" sandbox)
	printf 'a\e[31mred\n' | sandbox write b $'/tmp/e/\e]0;x\a'
	run -0 "${pty[@]}" glob b /tmp/e '*'
	assert_match "$output" '/tmp/e/\\x1b\]0;x\\x07'
	run -0 "${pty[@]}" glob --json b /tmp/e '*'
	assert_match "$output" '/tmp/e/\\u001b\]0;x\\u0007"'
	run -0 "${pty[@]}" grep b /tmp/e red
	assert_match "$output" '/tmp/e/\\x1b\]0;x\\x07:1:a\\x1b\[31mred'
	run -0 "${pty[@]}" read b $'/tmp/e/\e]0;x\a'
	assert_match "$output" 'a\\x1b\[31mred'
	run -0 "${pty[@]}" exec --text b 'cat /tmp/e/*'
	assert_match "$output" 'a\\x1b\[31mred'
	run -1 "${pty[@]}" read b $'/tmp/e/\e'
	assert_match "$output" '/tmp/e/\\x1b'
	[[ $output != *$'\e'* ]]
}

@test "debian: bash is the shell; a program is written, run as its user, and what it made is fetched" {
	debian_box
	run -0 holt sandbox exec d 'shopt -q login_shell && echo "${BASH_VERSION:+bash}"'
	assert_output bash
	cat >"$DIR/plot.py" <<-'END'
		import os
		os.makedirs("/tmp/out", exist_ok=True)
		with open("/tmp/out/plot", "wb") as f:
		    f.write(bytes(range(256)))
		print(os.getuid(), os.getcwd())
	END
	sandbox write -u agent -w /home/agent d src/plot.py <"$DIR/plot.py"
	run -0 holt sandbox exec -u agent -w /home/agent/src --timeout 30s d 'python3 plot.py'
	assert_output '1000 /home/agent/src'
	sandbox download --user-data /tmp/out d /tmp/out/plot >"$DIR/plot"
	assert_equal "bytes" "$(od -An -v -tu1 "$DIR/plot" | tr -s ' \n' ' ')" " $(echo {0..255}) "
	run -0 holt sandbox grep --glob '*.py' -w /home/agent d . 'os\.(getuid|getcwd)\(\)'
	assert_output './src/plot.py:5:print(os.getuid(), os.getcwd())'
	# A user's own bounds, with bash.
	run -124 --separate-stderr holt sandbox exec -u agent --timeout 1s d 'ulimit -u 64; bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 60'
	run -0 holt sandbox exec d 'pgrep -u agent | wc -l'
	assert_output 0
}
