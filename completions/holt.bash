# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bash completion for holt

_holt_images() {
	"${COMP_WORDS[0]}" image ls 2>/dev/null | awk 'NR > 1 && $1 != "<none>" { print $1 }'
}

_holt_templates() {
	"${COMP_WORDS[0]}" template ls -q 2>/dev/null
}

# Names of boxes, ids of those without; -a for all of them.
_holt_boxes() {
	"${COMP_WORDS[0]}" ps --names "$@" 2>/dev/null
}

_holt_words() {
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

# _holt_flags VERB: its options without a value, then, behind a '|', those with one.
_holt_flags() {
	case $1 in
	cp) echo "-a --archive -L --follow-link |" ;;
	doctor) echo "--json |" ;;
	events) echo "--json | --since --until" ;;
	exec)
		echo "-d --detach -i --interactive -t --tty | --attach -e --env --env-file \
			--pids-limit --replay-size --timeout -u --user -w --workdir"
		;;
	kill) echo "| -s --signal" ;;
	logs) echo "-f --follow -t --timestamps | -n --tail" ;;
	prune | rm) echo "-f --force |" ;;
	pull) echo "--insecure --json --password-stdin -q --quiet | --ca-file --creds --platform" ;;
	ps) echo "-a --all --json --names --no-trunc -q --quiet |" ;;
	restart) echo "--no-template | -t --timeout" ;;
	run)
		echo "-d --detach -i --interactive --no-template -q --quiet --rm -t --tty | --allow --cpus --disk --entrypoint -e --env \
			--env-file --hostname --log-size -m --memory --name --network -p --publish \
			--pids-limit --pull --replay-size --stop-signal --stop-timeout --timeout -u --user -w --workdir"
		;;
	start) echo "--no-template |" ;;
	stats) echo "--json --no-stream |" ;;
	stop) echo "| -t --timeout" ;;
	*) echo "|" ;;
	esac
}

# Whether a word is in a list of words.
_holt_in() {
	[[ " ${2//[$'\t\n']/ } " == *" $1 "* ]]
}

# The value of an option.
_holt_value() {
	case $1 in
	--ca-file | --config) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
	-e | --env) mapfile -t COMPREPLY < <(compgen -v -- "$2") ;;
	--env-file) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
	--image) _holt_words "$(_holt_images)" "$2" ;;
	-m | --memory) _holt_words "256m 512m 1g 2g 4g" "$2" ;;
	--network) _holt_words "allowlist isolated none open" "$2" ;;
	--platform) _holt_words "linux/amd64" "$2" ;;
	--pull) _holt_words "always missing never" "$2" ;;
	-s | --signal | --stop-signal) _holt_words "HUP INT QUIT KILL USR1 USR2 TERM" "$2" ;;
	esac
}

# How many words are neither options nor values, between the verb and the current one.
_holt_plain_words() {
	local with_value=$1 i n=0
	for ((i = 2; i < COMP_CWORD; i++)); do
		if _holt_in "${COMP_WORDS[i]}" "$with_value"; then
			((++i))
		elif [[ ${COMP_WORDS[i]} != -* ]]; then
			((++n))
		fi
	done
	echo "$n"
}

# The place of a copy: a path of the host or BOX:PATH, where the path is the box's own business.
_holt_place() {
	[[ $1 != *:* && $2 != : ]] || return
	mapfile -t COMPREPLY < <(compgen -f -- "$1"
		compgen -S : -W "$(_holt_boxes)" -- "$1")
	[[ ${COMPREPLY[0]-} != *: ]] || compopt -o nospace 2>/dev/null
}

_holt_verb() {
	local verb=$1 current=$2 previous=$3 flags n
	flags=$(_holt_flags "$verb")
	n=$(_holt_plain_words "${flags#*|}")
	# Behind the image or the box comes the command, about which the host knows nothing.
	case $verb in
	run | exec) ((n == 0)) || return ;;
	esac
	if _holt_in "$previous" "${flags#*|}"; then
		_holt_value "$previous" "$current"
		return
	fi
	case $verb:$current in
	*:-*) _holt_words "${flags/|/} -h --help" "$current" ;;
	pull:*) ((n > 0)) || _holt_words "$(_holt_images)" "$current" ;;
	run:*) _holt_words "$(_holt_images)" "$current" ;;
	exec:* | kill:* | pause:* | stats:* | stop:* | unpause:*)
		_holt_words "$(_holt_boxes)" "$current"
		;;
	inspect:* | restart:* | rm:* | start:* | wait:*)
		_holt_words "$(_holt_boxes -a)" "$current"
		;;
	port:*) ((n > 0)) || _holt_words "$(_holt_boxes)" "$current" ;;
	logs:* | rename:*) ((n > 0)) || _holt_words "$(_holt_boxes -a)" "$current" ;;
	cp:*) _holt_place "$current" "$previous" ;;
	esac
}

# The verbs of a verb.
_holt_subverbs() {
	case $1 in
	config) echo "check" ;;
	image) echo "export history import inspect ls prune pull rm tag" ;;
	sandbox)
		echo "acquire append download exec glob grep ls mkdir mv ps read release rm stat stats \
			update write"
		;;
	system) echo "df" ;;
	template) echo "build ls prune rm spares" ;;
	esac
}

_holt_system() {
	if ((COMP_CWORD == 2)); then
		_holt_words "$(_holt_subverbs system) --help" "$1"
	elif [[ $1 == -* ]]; then
		_holt_words "--json --help" "$1"
	fi
}

_holt_config() {
	local current=$1
	if ((COMP_CWORD == 2)); then
		_holt_words "$(_holt_subverbs config) --help" "$current"
	elif [[ $current == -* ]]; then
		_holt_words "--json --help" "$current"
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
	fi
}

_holt_image() {
	local current=$1 previous=$2 flags
	if ((COMP_CWORD == 2)); then
		_holt_words "$(_holt_subverbs image) --help" "$current"
		return
	fi
	case ${COMP_WORDS[2]}:$previous:$current in
	export:-o:* | export:--output:*) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
	export:*:-*) _holt_words "-o --output --help" "$current" ;;
	history:*:-*) _holt_words "--json --no-trunc --help" "$current" ;;
	import:-n:* | import:--name:*) ;;
	import:*:-*) _holt_words "-n --name --json -q --quiet --help" "$current" ;;
	import:*) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
	ls:*:-*) _holt_words "--json -q --quiet --help" "$current" ;;
	pull:--ca-file:* | pull:--platform:*) _holt_value "$previous" "$current" ;;
	pull:--creds:*) ;;
	pull:*:-*)
		flags=$(_holt_flags pull)
		_holt_words "${flags/|/} --help" "$current"
		;;
	prune:--max:*) ;;
	prune:*:-*) _holt_words "-a --all --dry-run -f --force --json --max --help" "$current" ;;
	export:* | history:* | inspect:* | pull:* | rm:* | tag:*) _holt_words "$(_holt_images)" "$current" ;;
	esac
}

_holt_template() {
	local current=$1 previous=$2
	if ((COMP_CWORD == 2)); then
		_holt_words "$(_holt_subverbs template) --help" "$current"
		return
	fi
	case ${COMP_WORDS[2]}:$previous:$current in
	build:-m:* | build:--memory:*) _holt_value -m "$current" ;;
	build:--pull:* | spares:--pull:*) _holt_value --pull "$current" ;;
	build:--cpus:* | build:--disk:* | prune:--max:*) ;;
	build:*:-*) _holt_words "--bare --cpus --disk -m --memory --pull -q --quiet --help" "$current" ;;
	build:*) _holt_words "$(_holt_images)" "$current" ;;
	ls:*:-*) _holt_words "--json -q --quiet --help" "$current" ;;
	prune:*:-*) _holt_words "--max --help" "$current" ;;
	rm:*) _holt_words "$(_holt_images) $(_holt_templates)" "$current" ;;
	spares:*:-*) _holt_words "--pull -q --quiet --help" "$current" ;;
	spares:*) ((COMP_CWORD > 3)) || _holt_words "$(_holt_images)" "$current" ;;
	esac
}

# Its options without a value, then, behind a '|', those with one.
_holt_sandbox_flags() {
	local pool="--config --pool" scope="--config --for --image --pool --pull --thread"
	local all="--timeout -u --user -w --workdir $scope"
	case $1 in
	acquire) echo "--json | --timeout --ttl $scope" ;;
	append | update | write) echo "--exclusive | $all" ;;
	download) echo "| --user-data $all" ;;
	exec) echo "--json --text | -e --env --env-file $all" ;;
	glob) echo "-a --all --dirs --json -0 --null | --max-results $all" ;;
	grep) echo "-a --all --case-sensitive --json --literal -0 --null | --glob --max-results $all" ;;
	ls) echo "-a --all --json -0 --null | --depth --max-entries $all" ;;
	mkdir) echo "-p --parents | $all" ;;
	mv) echo "-n --no-clobber | $all" ;;
	ps) echo "--json -q --quiet | $pool" ;;
	read) echo "| --lines $all" ;;
	release) echo "| --for --thread $pool" ;;
	rm) echo "-f --force -r --recursive | $all" ;;
	stat) echo "--json -P --no-follow | $all" ;;
	stats) echo "--json | $pool" ;;
	*) echo "|" ;;
	esac
}

# Paths are the box's own business, and where the thread's sandbox is meant there is no box.
_holt_sandbox() {
	local current=$1 previous=$2 flags n
	if ((COMP_CWORD == 2)); then
		_holt_words "$(_holt_subverbs sandbox) --help" "$current"
		return
	fi
	flags=$(_holt_sandbox_flags "${COMP_WORDS[2]}")
	# The verb is one of them.
	n=$(($(_holt_plain_words "${flags#*|}") - 1))
	[[ ${COMP_WORDS[2]} != exec ]] || ((n == 0)) || return
	if _holt_in "$previous" "${flags#*|}"; then
		_holt_value "$previous" "$current"
	elif [[ $current == -* ]]; then
		_holt_words "${flags/|/} -h --help" "$current"
	elif ((n == 0)) && [[ " ${COMP_WORDS[*]} " != *" --for "* ]]; then
		case ${COMP_WORDS[2]} in
		acquire | ps | stats) ;;
		release) _holt_words "$("${COMP_WORDS[0]}" sandbox ps -q 2>/dev/null)" "$current" ;;
		*) _holt_words "$(_holt_boxes)" "$current" ;;
		esac
	fi
}

_holt() {
	local current=$2 previous=$3
	local verbs="config cp doctor events exec help image inspect kill logs pause port prune ps pull rename \
		restart rm run sandbox start stats stop system template unpause version wait"
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_holt_words "$verbs --help --version" "$current"
		return
	fi
	case ${COMP_WORDS[1]} in
	config) _holt_config "$current" ;;
	image) _holt_image "$current" "$previous" ;;
	sandbox) _holt_sandbox "$current" "$previous" ;;
	system) _holt_system "$current" ;;
	template) _holt_template "$current" "$previous" ;;
	help)
		case $COMP_CWORD in
		2) _holt_words "$verbs" "$current" ;;
		3) _holt_words "$(_holt_subverbs "$previous")" "$current" ;;
		esac
		;;
	*) _holt_verb "${COMP_WORDS[1]}" "$current" "$previous" ;;
	esac
}

complete -o filenames -F _holt holt
