#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What a stranger has after `meson install`: headers, a library with its keeper beside it, a program.
# Nothing here looks into the source or build directory but to install from it and for the example.

load ../lib/common

setup_file() {
	common_setup_file
	export STAGE=$TEST_DIR/stage
	DESTDIR=$STAGE meson install -C "$HOLT_BUILD" --no-rebuild --quiet >"$TEST_DIR/install.log" 2>&1 ||
		fail "$(cat "$TEST_DIR/install.log")"
	local pc
	pc=$(find "$STAGE" -name holt.pc)
	[[ -n $pc ]] || fail "no holt.pc was installed"
	export PKG_CONFIG_PATH=${pc%/*}
	# Paths of the .pc file are those of the final place; until then they lie below the stage.
	export PKG_CONFIG_SYSROOT_DIR=$STAGE
	export LIBDIR=${pc%/pkgconfig/holt.pc}
	INCLUDES=$(dirname "$(find "$STAGE" -name holt.h)")
	BINDIR=$(dirname "$(find "$STAGE" -path '*/bin/holt' -type f)")
	export INCLUDES BINDIR
	# What is tested must not find anything of the build by accident. The guest kernel is the
	# host's where none is unpacked, and else the one that was installed.
	[[ ! -s $ROOT/.kernel/complete ]] || unset HOLT_KERNEL
	unset HOLT_KEEPER HOLT_AGENT
	# A sanitized library wants its run-time first, which a stranger's compiler does not link.
	SANITIZER=$(sanitizer_of_build)
	export SANITIZER
	export OUTSIDE=$TEST_DIR/outside
	mkdir "$OUTSIDE"
	cp "$ROOT/examples/turn.c" "$ROOT/examples/run.c" "$ROOT/examples/sandbox.c" "$OUTSIDE/"
}

sanitizer_of_build() {
	meson introspect --buildoptions "$HOLT_BUILD" | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "b_sanitize"))'
}

setup() {
	common_setup
	[[ $SANITIZER == none ]] || skip "the library was built for the $SANITIZER sanitizer"
}

# build_example NAME: build an outside program the way its author would.
build_example() {
	local name=$1 flags
	flags=$(pkg-config --cflags --libs holt) || fail "pkg-config does not know holt" || return
	# shellcheck disable=SC2086 # several words
	(cd "$OUTSIDE" && cc -std=c99 -Wall -Wextra -Wpedantic -Werror "$name.c" -o "$name" $flags)
}

example() {
	LD_LIBRARY_PATH=$LIBDIR "$OUTSIDE/run" "$@"
}

@test "an outside program builds with pkg-config and strict C99" {
	run -0 build_example run
	assert_output ""
	run -0 readelf -d "$OUTSIDE/run"
	assert_match "$output" "NEEDED.*libholt\.so\.[0-9]+\.[0-9]+\]"
}

@test "every public header stands alone, in C99 and in C++17" {
	local flags header
	flags=$(pkg-config --cflags holt)
	skip_unless "no g++ here" command -v g++
	for header in "$INCLUDES"/holt.h "$INCLUDES"/holt/*.h; do
		header=${header#"$INCLUDES"/}
		printf '#include <%s>\nint main(void) { return 0; }\n' "$header" >"$OUTSIDE/alone.c"
		# shellcheck disable=SC2086
		cc -std=c99 -Wall -Wextra -Wpedantic -Werror $flags -fsyntax-only "$OUTSIDE/alone.c"
		# shellcheck disable=SC2086
		g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror $flags -x c++ -fsyntax-only \
			"$OUTSIDE/alone.c"
	done
}

@test "a C++17 program links and finds the library's version" {
	skip_unless "no g++ here" command -v g++
	local flags
	flags=$(pkg-config --cflags --libs holt)
	cat >"$OUTSIDE/version.cpp" <<-'END'
		#include <holt.h>
		#include <cstdio>
		int main()
		{
			holt_box_options box = HOLT_BOX_OPTIONS_INIT;
			holt_exec_options exec = HOLT_EXEC_OPTIONS_INIT;
			std::printf("%s %d\n", holt_version(),
				box.struct_size == sizeof box && exec.struct_size == sizeof exec);
		}
	END
	# shellcheck disable=SC2086
	g++ -std=c++17 -Wall -Wextra -Werror "$OUTSIDE/version.cpp" -o "$OUTSIDE/version" $flags
	LD_LIBRARY_PATH=$LIBDIR run -0 "$OUTSIDE/version"
	assert_output "$(pkg-config --modversion holt) 1"
}

@test "the library exports holt_ names and nothing else, all of them versioned" {
	local lib=$LIBDIR/libholt.so
	run -0 nm -D --defined-only --with-symbol-versions "$lib"
	# The version itself is an absolute symbol.
	local others
	others=$(grep -vE '^[0-9a-f]+ (T holt_[a-z0-9_]+@@HOLT_[0-9.]+|A HOLT_[0-9.]+(@@HOLT_[0-9.]+)?)$' \
		<<<"$output" || true)
	[[ -z $others ]] || fail "exported too:" "$others"
	# What the headers declare is there, and the other way round.
	local declared exported
	declared=$(cc -E -P "$INCLUDES/holt.h" | grep -oE '\bholt_[a-z0-9_]+ ?\(' | tr -d ' (' | sort -u)
	exported=$(grep -oE ' T holt_[a-z0-9_]+' <<<"$output" | cut -c4- | sort -u)
	[[ $declared == "$exported" ]] ||
		fail "headers and library differ:" "$(diff <(echo "$declared") <(echo "$exported"))"
}

@test "the keeper lies beside the library, and nothing else of ours is outside the known places" {
	[[ -x $LIBDIR/holt/holt-keeper ]]
	[[ -f $LIBDIR/holt/holt-open.so ]]
	[[ -x $BINDIR/holt ]]
	run -0 readelf -d "$BINDIR/holt"
	if [[ $output =~ $HOLT_BUILD ]]; then
		fail "the installed program refers to the build directory" "$output"
	fi
}

@test "the example runs a command in a machine: output, both streams, exit code" {
	build_example run
	demo_image
	run --separate-stderr example demo 60 sh -c 'echo out; echo err >&2; exit 7'
	assert_status 7
	assert_output out
	# shellcheck disable=SC2154 # set by bats' run
	[[ $stderr == err ]] || fail "stderr is not the expected: $stderr"
	# Its standard input is the caller's.
	run --separate-stderr example demo 60 tr a-z A-Z <<<"hello"
	assert_status 0
	assert_output HELLO
}

@test "the example's deadline ends a command: 124" {
	build_example run
	demo_image
	run --separate-stderr example demo 1 sleep 60
	assert_status 124
	assert_match "$stderr" "killed after 1 s"
}

@test "the example prints typed errors (K48)" {
	build_example run
	run --separate-stderr example no-such-image 10 true
	assert_status 125
	assert_match "$stderr" "^run: NOT_FOUND: .*no-such-image"
	demo_image
	run -127 --separate-stderr example demo 10 no-such-program
	assert_match "$stderr" "^run: NOT_FOUND: .*no-such-program"
}

@test "the example of a sandbox writes, runs, searches and reads in a box, and prints an error (K48)" {
	run -0 build_example sandbox
	assert_output ""
	demo_image
	LD_LIBRARY_PATH=$LIBDIR run -1 --separate-stderr "$OUTSIDE/sandbox" no-such-box
	assert_output ""
	assert_match "$stderr" '^sandbox: .*no-such-box'
	"$BINDIR/holt" run -d --name agent demo sleep 1000000 >/dev/null
	LD_LIBRARY_PATH=$LIBDIR run -0 --separate-stderr "$OUTSIDE/sandbox" agent
	"$BINDIR/holt" rm -f agent
	assert_output $'done\nwork/out.txt:2: line 2\nwork/out.txt:3: line 3\nline 1\nline 2\nline 3'
	assert_equal stderr "$stderr" ""
}

@test "the example of a turn: the second turn finds what the first one wrote; an error has advice (K48)" {
	run -0 build_example turn
	assert_output ""
	demo_image
	LD_LIBRARY_PATH=$LIBDIR run -1 --separate-stderr "$OUTSIDE/turn" 0123abcd ann 7 true
	assert_output ""
	assert_match "$stderr" '^turn: .*0123abcd.*'$'\nhint: import the image'
	LD_LIBRARY_PATH=$LIBDIR run -0 --separate-stderr "$OUTSIDE/turn" demo ann 7 'echo one >>f; cat f'
	assert_output one
	LD_LIBRARY_PATH=$LIBDIR run -0 --separate-stderr "$OUTSIDE/turn" demo ann 7 'echo two >>f; cat f'
	assert_equal stderr "$stderr" ""
	local found=$output
	"$BINDIR/holt" rm -f "$("$BINDIR/holt" sandbox ps --json | jq -r .box)"
	assert_equal output "$found" $'one\ntwo'
}

@test "the installed program runs, with its own keeper" {
	demo_image
	# The library is found beside the program, without help.
	run -0 env -u LD_LIBRARY_PATH "$BINDIR/holt" version
	assert_output "holt $(pkg-config --modversion holt)"
	run -0 --separate-stderr "$BINDIR/holt" run demo sh -c 'echo from inside'
	assert_output "from inside"
	run -0 "$BINDIR/holt" doctor
	assert_match "$output" "$LIBDIR/holt/holt-keeper"
}

@test "the kernel that was unpacked is installed, and found without being named; without any, what to do" {
	[[ -s $ROOT/.kernel/complete ]] || skip_unless "no unpacked kernel directory here" false
	diff -r -x complete "$ROOT/.kernel/" "$LIBDIR/holt/kernel"
	[[ ! -e $LIBDIR/holt/kernel.new ]]
	run -0 "$BINDIR/holt" doctor
	assert_match "$output" "$LIBDIR/holt/kernel/"
	mv "$LIBDIR/holt/kernel" "$LIBDIR/holt/away"
	run "$BINDIR/holt" doctor
	mv "$LIBDIR/holt/away" "$LIBDIR/holt/kernel"
	# The host may have one.
	[[ $output == */boot/vmlinuz-* && $status == 0 ]] ||
		assert_match "$output" "$LIBDIR/holt/kernel/boot.*make install"
}
