# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# bash completion for holt

_holt_images() {
	"${COMP_WORDS[0]}" image ls 2>/dev/null | awk 'NR > 1 && $1 != "<none>" { print $1 }'
}

_holt_words() {
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_holt_run() {
	local current=$1 previous=$2 i
	# Behind the image comes the command, about which the host knows nothing.
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		-e | --env | -m | --memory | -u | --user | -w | --workdir | --cpus | --entrypoint | \
			--hostname | --timeout)
			((++i))
			;;
		-*) ;;
		*) return ;;
		esac
	done
	case $previous in
	-e | --env) mapfile -t COMPREPLY < <(compgen -v -- "$current") ;;
	-m | --memory) _holt_words "256m 512m 1g 2g 4g" "$current" ;;
	-u | --user | -w | --workdir | --cpus | --entrypoint | --hostname | --timeout) ;;
	*)
		case $current in
		-*)
			_holt_words "-e --env -h --help -i --interactive -m --memory -u --user -w \
				--workdir --cpus --entrypoint --hostname --rm --timeout" "$current"
			;;
		*) _holt_words "$(_holt_images)" "$current" ;;
		esac
		;;
	esac
}

_holt_image() {
	local current=$1 previous=$2
	if ((COMP_CWORD == 2)); then
		_holt_words "import inspect ls rm --help" "$current"
		return
	fi
	case ${COMP_WORDS[2]}:$previous:$current in
	import:-n:* | import:--name:*) ;;
	import:*:-*) _holt_words "-n --name --json -q --quiet --help" "$current" ;;
	import:*) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
	ls:*:-*) _holt_words "--json -q --quiet --help" "$current" ;;
	inspect:* | rm:*) _holt_words "$(_holt_images)" "$current" ;;
	esac
}

_holt() {
	local current=$2 previous=$3
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_holt_words "doctor help image run version --help --version" "$current"
		return
	fi
	case ${COMP_WORDS[1]} in
	run) _holt_run "$current" "$previous" ;;
	image) _holt_image "$current" "$previous" ;;
	doctor) _holt_words "--json --help" "$current" ;;
	help) _holt_words "doctor image run version" "$current" ;;
	esac
}

complete -o filenames -F _holt holt
