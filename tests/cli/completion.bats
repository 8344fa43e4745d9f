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
	run -0 complete_words holt image import --n
	assert_output --name
}

@test "bash completes nothing behind the image" {
	run -0 complete_words holt run -e A=1 demo --mem
	assert_output ''
}
