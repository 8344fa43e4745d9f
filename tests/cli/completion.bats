#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Completion in bash; tools/check-docs compares the words themselves with the help texts.

load ../lib/common

# complete WORD...: the completions of the last word, one a line.
complete_words() {
	PATH=$HOLT_BUILD:$PATH bash -c '
		source "$1"
		shift
		COMP_WORDS=("$@")
		COMP_CWORD=$(($# - 1))
		_holt holt "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
		printf "%s\n" "${COMPREPLY[@]}"
	' - "$ROOT/completions/holt.bash" "$@"
}

@test "bash completes verbs, options and the words of image" {
	run -0 complete_words holt d
	assert_output doctor
	run -0 complete_words holt run --mem
	assert_output --memory
	run -0 complete_words holt image i
	assert_output $'import\ninspect'
	run -0 complete_words holt pu
	assert_output pull
	run -0 complete_words holt pull --pl
	assert_output --platform
	run -0 complete_words holt pull --platform ''
	assert_output linux/amd64
	run -0 complete_words holt image pull --ca
	assert_output --ca-file
	run -0 complete_words holt run --pull m
	assert_output missing
	run -0 complete_words holt template build --pull a
	assert_output always
	run -0 complete_words holt sandbox acquire --pu
	assert_output --pull
	run -0 complete_words holt image import --n
	assert_output --name
}

@test "bash completes nothing behind the image, or behind the box of exec" {
	run -0 complete_words holt run -e A=1 demo --mem
	assert_output ''
	run -0 complete_words holt exec -u root box --ti
	assert_output ''
}

@test "bash completes the options of each verb, and their values" {
	run -0 complete_words holt re
	assert_output $'rename\nrestart'
	run -0 complete_words holt exec --at
	assert_output --attach
	run -0 complete_words holt ps --na
	assert_output --names
	run -0 complete_words holt logs --ti
	assert_output --timestamps
	run -0 complete_words holt kill -s T
	assert_output TERM
	run -0 complete_words holt run --stop-signal QU
	assert_output QUIT
	run -0 complete_words holt help unp
	assert_output unpause
}

@test "bash completes the words of config" {
	run -0 complete_words holt conf
	assert_output config
	run -0 complete_words holt config ''
	assert_output $'check\n--help'
	run -0 complete_words holt config check --
	assert_output $'--json\n--help'
	run -0 complete_words holt help config ''
	assert_output check
}

@test "bash completes the words of template" {
	run -0 complete_words holt te
	assert_output template
	run -0 complete_words holt template ''
	assert_output $'build\nls\nprune\nrm\nspares\n--help'
	run -0 complete_words holt template build --m
	assert_output --memory
	run -0 complete_words holt template prune --
	assert_output $'--max\n--help'
	run -0 complete_words holt start --no
	assert_output --no-template
	run -0 complete_words holt restart --
	assert_output $'--no-template\n--timeout\n--help'
}

@test "bash completes the words and options of sandbox" {
	run -0 complete_words holt sandbox ''
	assert_output $'acquire\nappend\ndownload\nexec\nglob\ngrep\nls\nmkdir\nmv\nps\nread\nrelease\nrm\nstat\nstats\nupdate\nwrite\n--help'
	run -0 complete_words holt help sandbox g
	assert_output $'glob\ngrep'
	run -0 complete_words holt help template b
	assert_output build
	run -0 complete_words holt help run ''
	assert_output ''
	run -0 complete_words holt help sandbox grep ''
	assert_output ''
	run -0 complete_words holt sandbox grep --a
	assert_output --all
	run -0 complete_words holt sandbox acquire --tt
	assert_output --ttl
	run -0 complete_words holt sandbox read --for ann --thr
	assert_output --thread
	run -0 complete_words holt sandbox ls --max
	assert_output --max-entries
	run -0 complete_words holt sandbox grep --user root box --l
	assert_output --literal
	run -0 complete_words holt sandbox exec -e A=1 box --te
	assert_output ''
	run -0 complete_words holt sandbox read --lines 2:5 box /et
	assert_output ''
}

# Completion asks the program; here it finds another one.
@test "bash completes names of boxes: those that run, or all, as the verb wants" {
	mkdir -p "$TEST_DIR/bin"
	printf '#!/bin/sh\n[ "$1" = ps ] && echo web && [ "$3" = -a ] && echo old\n' >"$TEST_DIR/bin/holt"
	chmod +x "$TEST_DIR/bin/holt"
	HOLT_BUILD=$TEST_DIR/bin
	run -0 complete_words holt exec ''
	assert_output web
	run -0 complete_words holt sandbox stat --json ''
	assert_output web
	run -0 complete_words holt sandbox stat -u 0 web ''
	assert_output ''
	# No box where a thread's sandbox is meant, or a pool.
	run -0 complete_words holt sandbox read --for ann --thread 7 ''
	assert_output ''
	run -0 complete_words holt sandbox stats ''
	assert_output ''
	run -0 complete_words holt stop ''
	assert_output web
	run -0 complete_words holt rm ''
	assert_output $'web\nold'
	run -0 complete_words holt rename web ''
	assert_output ''
	run -0 complete_words holt cp we
	assert_output web:
	run -0 complete_words holt cp web:/et
	assert_output ''
}
