#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154,SC2016 # variables shared with bats and tests/lib; text for the box's shell
# holt cp: docker's rules, bytes as they are, and nothing beside the target. One box per test, many
# checks in it.

load ../lib/common
load ../lib/vm

setup() {
	common_setup
	DIR=$BATS_TEST_TMPDIR
	holt run -d --disk 640m --name b demo sleep 1000 >/dev/null
}

teardown() {
	holt rm -f b >/dev/null 2>&1 || true
	common_teardown
}

# in_box SCRIPT [ARGUMENT...]: run a shell script in the box.
in_box() {
	holt exec b sh -c "$1" sh "${@:2}"
}

# cp_ok ARGUMENT...: a copy that works and says nothing.
cp_ok() {
	run -0 --separate-stderr holt cp "$@"
	[[ -z $output$stderr ]] || fail "holt cp $* says:" "$output" "$stderr"
}

# cp_fails TEXT ARGUMENT...: one that fails with 1, an error with this text, and a hint (K48).
cp_fails() {
	local text=$1
	shift
	run -1 --separate-stderr holt cp "$@"
	[[ $stderr == 'holt: '*"$text"*$'\nhint: '?* ]] || fail "holt cp $*: not the error '$text':" "$stderr"
}

# Both sides of the table, made by the same script.
SOURCE='mkdir -p src/tree/in && echo f >src/file && echo t >src/tree/t && echo i >src/tree/in/i &&
	ln -s /etc src/tree/x && ln -s tree src/link'
TARGET='rm -rf dst && mkdir -p dst/dir && echo old >dst/file && ln -s dir dst/to-dir &&
	ln -s file dst/to-file && ln -s gone dst/dangling'
LISTING='find dst | sort | while read -r f; do
	if [ -L "$f" ]; then echo "$f -> $(readlink "$f")"
	elif [ -d "$f" ]; then echo "$f/"
	else echo "$f: $(cat "$f")"; fi; done'

# both_ways SOURCE TARGET SCRIPT [OPTION]: copy in and out; afterwards the target is what the script
# makes of it on the host. Without a script the copy must fail and change nothing.
both_ways() {
	local source=$1 target=$2 script=$3 options=("${@:4}") want got way
	(cd "$DIR/want" && sh -c "$TARGET" && sh -c "$script")
	want=$(cd "$DIR/want" && sh -c "$LISTING")
	for way in in out; do
		if [[ $way == in ]]; then
			in_box "cd /w && $TARGET"
			set -- "$DIR/w/$source" "b:/w/$target"
		else
			(cd "$DIR/w" && sh -c "$TARGET")
			set -- "b:/w/$source" "$DIR/w/$target"
		fi
		if [[ -n $script ]]; then
			cp_ok "${options[@]}" "$@" || return
		else
			cp_fails "'" "${options[@]}" "$@" || return
		fi
		if [[ $way == in ]]; then
			got=$(in_box "cd /w && $LISTING")
		else
			got=$(cd "$DIR/w" && sh -c "$LISTING")
		fi
		assert_equal "copy $way of $source to $target" "$got" "$want" || return
	done
}

# bats test_tags=user
@test "K09: docker's table, both ways" {
	mkdir "$DIR/w" "$DIR/want"
	(cd "$DIR/w" && sh -c "$SOURCE")
	(cd "$DIR/want" && sh -c "$SOURCE")
	in_box "mkdir /w && cd /w && $SOURCE"

	both_ways src/file dst/new 'cp src/file dst/new'
	both_ways src/file dst/dir 'cp src/file dst/dir'
	both_ways src/file dst/dir/ 'cp src/file dst/dir'
	both_ways src/file dst/file 'cp src/file dst/file'
	both_ways src/file dst/to-dir 'cp src/file dst/dir'
	both_ways src/file dst/to-file 'cp src/file dst/file'
	both_ways src/file dst/dangling 'cp src/file dst/gone'
	both_ways src/tree dst/new 'cp -R src/tree dst/new'
	both_ways src/tree dst/new/ 'cp -R src/tree dst/new'
	both_ways src/tree dst/dir 'cp -R src/tree dst/dir'
	both_ways src/tree/ dst/dir 'cp -R src/tree dst/dir'
	both_ways src/tree/. dst/dir 'cp -R src/tree/. dst/dir'
	both_ways src/tree/. dst/new 'cp -R src/tree dst/new'
	both_ways src/tree dst/to-dir 'cp -R src/tree dst/dir'
	both_ways src/link dst/new 'cp -P src/link dst/new'
	both_ways src/link/. dst/new 'cp -R src/tree dst/new'
	both_ways src/link dst/new 'cp -R src/tree dst/new' -L
	both_ways src/link dst/dir 'cp -R src/tree dst/dir/link' -L

	both_ways src/none dst/new ''
	both_ways src/file dst/none/ ''
	both_ways src/file dst/none/new ''
	both_ways src/file dst/file/ ''
	both_ways src/file/ dst/new ''
	both_ways src/tree dst/file ''
	both_ways src/tree dst/to-file ''
}

@test "cp: what is missing or wrong, on either side" {
	: >"$DIR/file"
	cp_fails "'/none'" b:/none "$DIR/x"
	cp_fails "$DIR/none" "$DIR/none" b:/
	cp_fails nosuch nosuch:/etc/passwd "$DIR/x"
	cp_fails "'/dev/null'" b:/dev/null "$DIR/x"
	cp_fails "'/dev/null'" "$DIR/file" b:/dev/null
	[[ ! -e $DIR/x ]] || fail "a failed copy left something"
	# On two boxes or none: how it is to be called.
	run -2 holt cp "$DIR/file" "$DIR/other"
	run -2 holt cp b:/etc/passwd b:/tmp
	run -2 holt cp "$DIR/file"
	# A directory where a file is, and the other way round.
	in_box 'mkdir -p /t/file /t/dir && echo x >/t/file/x'
	mkdir -p "$DIR/t/dir"
	: >"$DIR/t/file"
	cp_fails "'t/file' is a directory in the box" b:/t "$DIR"
	run -0 in_box 'rm -r /t && mkdir /t && : >/t/dir && echo usable'
	assert_output usable
	cp_fails "'t/dir' is a file in the box" b:/t "$DIR"
}

# bats test_tags=user
@test "cp: modes, times, links and owners" {
	mkdir -p "$DIR/t/closed"
	echo x >"$DIR/t/file"
	ln "$DIR/t/file" "$DIR/t/hard"
	ln -s /etc "$DIR/t/link"
	chmod 751 "$DIR/t/file"
	touch -d '2001-02-03 04:05:06.5' "$DIR/t/file"
	echo y >"$DIR/t/closed/y"
	chmod 500 "$DIR/t/closed"
	cp_ok "$DIR/t" b:/t
	run -0 in_box 'cd /t && stat -c "%a %u:%g %h %Y" file && stat -c "%a %u:%g" closed && readlink link'
	assert_output "751 0:0 2 $(stat -c %Y "$DIR/t/file")"$'\n500 0:0\n/etc'
	in_box 'chown -R 12:34 /t && chmod 4755 /t/hard'
	cp_ok b:/t "$DIR/back"
	run -0 stat -c '%a %u:%g %h %Y' "$DIR/back/file"
	assert_output "755 $(id -u):$(id -g) 2 $(stat -c %Y "$DIR/t/file")"
	assert_equal "the link" "$(readlink "$DIR/back/link")" /etc
	chmod 700 "$DIR/t/closed" "$DIR/back/closed"
	if [[ $(id -u) != 0 ]]; then
		cp_fails 'only root' -a b:/t "$DIR/owned"
		return
	fi
	cp_ok -a b:/t "$DIR/owned"
	run -0 stat -c '%a %u:%g' "$DIR/owned/file"
	assert_output '4755 12:34'
	cp_ok -a "$DIR/owned" b:/owned
	run -0 in_box 'stat -c "%a %u:%g" /owned/file'
	assert_output '4755 12:34'
}

@test "K01: names are bytes, in and out; leading dashes; a thousand files" {
	python3 - "$DIR/names" <<-'PY'
		import os, sys
		top = os.fsencode(sys.argv[1])
		names = [b"new\nline", b"\ttab", b"a:b", b"-rf", b"--", b"*", b"\xff\xfe\x80", b"\x1b[31m",
		         b" ", b"back\\slash", "ü".encode() * 127, b"n" * 255, b"...", b"\x01"]
		os.makedirs(top + b"/many")
		for i, name in enumerate(names):
		    open(top + b"/" + name, "wb").write(name + b"\0%d" % i)
		    os.mkdir(top + b"/many/" + name)
		for i in range(1000):
		    open(top + b"/many/%d" % i, "wb").write(b"%d\n" % i * i)
	PY
	cp_ok "$DIR/names" b:/names
	cp_ok b:/names "$DIR/back"
	diff -r --no-dereference "$DIR/names" "$DIR/back"
	run -0 in_box 'find /names | tr -d -c "\n" | wc -c'
	assert_output "$(find "$DIR/names" | tr -d -c '\n' | wc -c)"
	# One by one, also where the name stands first.
	(cd "$DIR/names" && cp_ok ./-rf b:/one && cp_ok b:/names/-rf "$DIR/one")
	cmp "$DIR/one" "$DIR/names/-rf"
	cp_ok "$DIR/names/"$'new\nline' b:/
	run -0 in_box 'cmp "/names/$1" "/$1" && echo same' $'new\nline'
	assert_output same
}

@test "cp: 256 MiB byte by byte, and holes" {
	openssl enc -aes-128-ctr -K 00 -iv 00 -in /dev/zero 2>/dev/null | head -c 268435457 >"$DIR/big"
	truncate -s 64M "$DIR/hole"
	echo end >>"$DIR/hole"
	cp_ok "$DIR/big" b:/big
	cp_ok b:/big "$DIR/back"
	cmp "$DIR/big" "$DIR/back"
	cp_ok "$DIR/hole" b:/hole
	cp_ok b:/hole "$DIR/hole-back"
	cmp "$DIR/hole" "$DIR/hole-back"
	assert_between "KiB on disk of a file with a hole" "$(du -k "$DIR/hole-back" | cut -f1)" 0 4096
}

@test "cp: '-' is a tar archive, with GNU tar on the other end" {
	mkdir -p "$DIR/t/sub"
	echo x >"$DIR/t/"$'odd\n\xff'
	echo y >"$DIR/t/sub/y"
	ln -s y "$DIR/t/sub/link"
	local long
	printf -v long '%0200d' 0
	mkdir "$DIR/t/$long"
	echo z >"$DIR/t/$long/$long"
	local format
	for format in pax gnu; do
		in_box 'rm -rf /t'
		tar -C "$DIR" --format=$format -cf - t | holt cp - b:/
		rm -rf "$DIR/out"
		mkdir "$DIR/out"
		holt cp b:/t - | tar -C "$DIR/out" -xf -
		diff -r --no-dereference "$DIR/t" "$DIR/out/t"
	done
	# What is inside only.
	rm -rf "$DIR/out"
	mkdir "$DIR/out"
	holt cp b:/t/. - | tar -C "$DIR/out" -xf -
	diff -r --no-dereference "$DIR/t" "$DIR/out"
	# Owners as they are in the box.
	in_box 'echo o >/o && chown 12:34 /o'
	run -0 bash -c '"$HOLT" cp b:/o - | tar --numeric-owner -tvf -'
	assert_match "$output" ' 12/34 '
	# No archive, half an archive, nobody who reads, a full disk.
	run -1 --separate-stderr holt cp - b:/ <"$DIR/t/sub/y"
	assert_match "$stderr" '^holt: .*tar'
	run -1 --separate-stderr bash -c 'tar -C "$1" -cf - t | head -c 2000 | "$HOLT" cp - b:/' bash "$DIR"
	assert_match "$stderr" '^holt: '
	run -1 --separate-stderr bash -c '"$HOLT" cp b:/bin - >/dev/full'
	assert_match "$stderr" 'No space left'
	run -1 --separate-stderr holt cp - b:/none/x </dev/null
	run -1 --separate-stderr holt cp - b:/t/sub/y </dev/null
	assert_match "$stderr" 'not a directory'
	run -0 in_box 'echo usable'
}

# bats test_tags=user
@test "K08: a symlink in the box leads nowhere on the host" {
	in_box 'mkdir -p /t/d && ln -s /etc /t/x && ln -s ../../outside /t/d/up && echo f >/t/f'
	mkdir "$DIR/outside" "$DIR/dst"
	cp_ok b:/t "$DIR/dst"
	assert_equal "link" "$(readlink "$DIR/dst/t/x")" /etc
	# Over what the first copy left: where links stand now, the box has a directory and a file.
	in_box 'cd /t && rm x d/up && mkdir x && echo evil >x/passwd && echo evil >d/up'
	cp_fails "'t/x' is a directory in the box and a link here" b:/t "$DIR/dst"
	rm "$DIR/dst/t/x"
	cp_ok b:/t "$DIR/dst"
	assert_equal "file in the place of a link" "$(<"$DIR/dst/t/d/up")" evil
	[[ ! -L $DIR/dst/t/d/up ]] || fail "written through a link"
	[[ -z $(ls -A "$DIR/outside") ]] || fail "something got outside: $(ls -A "$DIR/outside")"
}

# The 10,000 swaps are in the unit tests, where a swap takes microseconds; here it is real files in
# a real box for 20 s.
# bats test_tags=user
@test "K08: a box that swaps directories and symlinks while they are copied out" {
	local end copies=0 whole=0
	mkdir "$DIR/dst" "$DIR/outside"
	in_box 'mkdir -p /t/d && for i in 1 2 3 4 5 6 7 8; do echo in >/t/d/$i; done'
	holt exec -d b sh -c 'cd /t; while :; do mv d e; ln -s ../../outside d; rm d; mv e d; done'
	end=$((SECONDS + 20))
	while ((SECONDS < end)); do
		rm -rf "$DIR/dst/t"
		if holt cp b:/t "$DIR/dst" 2>"$DIR/err"; then
			whole=$((whole + 1))
		else
			grep -q '^holt: ' "$DIR/err" || fail "not an error of holt: $(<"$DIR/err")"
		fi
		copies=$((copies + 1))
		[[ -z $(ls -A "$DIR/outside") ]] || fail "something got outside"
		! grep -rqv '^in$' "$DIR/dst" 2>/dev/null || fail "what is not in the box's tree"
	done
	assert_between "copies that went through, of $copies" "$whole" 1 "$copies"
}

@test "K30: a full disk in the box, and room again" {
	in_box 'dd if=/dev/zero of=/fill bs=1M 2>/dev/null; dd if=/dev/zero of=/fill2 bs=1k 2>/dev/null; true'
	head -c 1000000 /dev/urandom >"$DIR/file"
	cp_fails 'No space left' "$DIR/file" b:/file
	run -0 in_box 'rm /fill /fill2 && echo usable'
	cp_ok "$DIR/file" b:/file
	cp_ok b:/file "$DIR/back"
	cmp "$DIR/file" "$DIR/back"
}

@test "K30: a full disk on the host" {
	local how=-m
	[[ $(id -u) == 0 ]] || how=-rm
	skip_unless 'no mount namespace may be made here' unshare $how true
	mkdir "$DIR/small"
	in_box 'dd if=/dev/urandom of=/file bs=1k count=4000 2>/dev/null'
	run -0 --separate-stderr unshare $how bash -c '
		mount -t tmpfs -o size=1m none "$1" || exit
		! "$HOLT" cp b:/file "$1" || exit
		[[ ! -e $1/file ]] || echo "half a file stays"' bash "$DIR/small"
	assert_output ''
	assert_match "$stderr" 'No space left'
	assert_match "$stderr" 'hint: '
	cp_ok b:/file "$DIR/file"
}

# interrupt PID: it must end within 2 s, and not with success.
interrupt() {
	local code=0 start
	kill -0 "$1" || fail "it has ended before" || return
	start=$(now_ms)
	kill -INT "$1"
	wait "$1" || code=$?
	[[ $code != 0 ]] || fail "an interrupted copy ended with 0" || return
	assert_between "ms to end" $(($(now_ms) - start)) 0 2000
}

@test "cp: interrupted, and the box goes on" {
	# Processes that have arguments, so without the kernel's own; counted here, since a process that
	# counts in the box may or may not be seen there.
	local list='exec grep -l . /proc/[0-9]*/cmdline 2>/dev/null' before pid
	# A shell lets its background jobs ignore SIGINT.
	local cp=(env --default-signal=INT "$HOLT" cp)
	in_box 'dd if=/dev/zero of=/big bs=1M count=200 2>/dev/null'
	before=$(in_box "$list" | wc -l)
	mkfifo "$DIR/fifo"
	exec 7<>"$DIR/fifo"
	# Nobody reads, so the copy waits.
	"${cp[@]}" b:/big - >"$DIR/fifo" 2>"$DIR/err" 3>&- 7>&- &
	pid=$!
	sleep 2
	interrupt "$pid"
	exec 7>&-
	# Nobody writes.
	exec 7<>"$DIR/fifo"
	"${cp[@]}" - b:/ <"$DIR/fifo" 2>"$DIR/err" 3>&- 7>&- &
	pid=$!
	sleep 2
	interrupt "$pid"
	exec 7>&-
	# In the midst of a file, in either direction.
	truncate -s 100G "$DIR/endless"
	"${cp[@]}" "$DIR/endless" b:/endless 2>"$DIR/err" 3>&- &
	pid=$!
	sleep 2
	interrupt "$pid"
	rm -f "$DIR/endless"
	in_box 'rm -f /endless; truncate -s 100G /endless'
	"${cp[@]}" b:/endless "$DIR/endless" 2>"$DIR/err" 3>&- &
	pid=$!
	sleep 2
	interrupt "$pid"
	[[ ! -e $DIR/endless ]] || fail "half a file stays"
	processes_are() {
		[[ $(in_box "$list" | wc -l) == "$1" ]]
	}
	wait_for 5 processes_are "$before"
	cp_ok b:/etc/passwd "$DIR/passwd"
	in_box 'cat /etc/passwd' | cmp - "$DIR/passwd"
}
