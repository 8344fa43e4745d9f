# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Loaded after lib/common by tests that pull: registries and what stands beside them, on loopback, on
# ports that the kernel picks. Nothing leaves this machine, and nothing outlives the file: whatever is
# started here ends with the shell that started it, and peers_stop tells when it did not.
#
#   peers_setup                  in setup_file, before all others; peers_stop in teardown_file
#   registry_start NAME [KIND]   docker-registry, at $LISTEN_AT (127.0.0.1); KIND: plain, basic, tls or token. $NAME is host:port.
#                                basic and token know $PEER_USER with $PEER_PASSWORD, tls has $PEER_CA
#   faults_start [TLS]           tests/registry/faults: $FAULTS, $FAULTS_PORT (another port), $FAULTS_HOST
#                                (another host); serves the layouts in $FAULTS_ROOT
#   faults [RULE...]             it behaves so from now on, and its log is empty; faults_config for the rest
#   requests [JQ-FILTER]         the log as JSON lines
#   push LAYOUT REF [OPTION...]  by skopeo

export PEER_USER=agent PEER_PASSWORD='correct horse'
# Of that password, by bcrypt with the smallest cost.
# shellcheck disable=SC2016 # dollars of its own
PEER_HTPASSWD='agent:$2b$04$eZm5uGvUDjXnrC5XyLX2z.0SPc/.eGTNaW5eka/V6nBrMZIV5zz7e'

peers_setup() {
	# Outside of $TEST_DIR, where whatever runs after a test is a left-over.
	export PEERS=$BATS_FILE_TMPDIR/peers
	mkdir -p "$PEERS"
	: >"$PEERS/pids"
	# Whoever runs this has a configuration of docker's, maybe, and it is not meant.
	export DOCKER_CONFIG=$PEERS/docker HOME=$PEERS/user
	mkdir -p "$DOCKER_CONFIG" "$HOME"
	export REGISTRY_AUTH_FILE=$PEERS/skopeo-auth.json
}

# peer_start NAME COMMAND...: in the background, with its output in $PEERS/NAME.log. PEER_ENTER is an array
# of words before the command, which become it.
peer_start() {
	local name=$1
	shift
	(cd "$PEERS" && exec "${PEER_ENTER[@]}" setpriv --pdeathsig KILL -- "$@" >"$PEERS/$name.log" 2>&1 </dev/null 3>&-) &
	echo $! >>"$PEERS/pids"
	echo $! >"$PEERS/$name.pid"
}

peer_stop() {
	local pid
	pid=$(<"$PEERS/$1.pid")
	kill "$pid" 2>/dev/null || true
	wait_for 5 peer_is_gone "$pid"
}

peer_is_gone() {
	[[ ! -e /proc/$1 || $(sed -n 's/^State:\t//p' "/proc/$1/status" 2>/dev/null) == Z* ]]
}

peers_stop() {
	local pid status=0
	while read -r pid; do
		kill "$pid" 2>/dev/null || true
	done <"$PEERS/pids"
	while read -r pid; do
		wait_for 5 peer_is_gone "$pid" && continue
		kill -9 "$pid" 2>/dev/null || true
		status=1
	done <"$PEERS/pids"
	return $status
}

# peer_certificates: a CA, $PEER_CA, and a certificate by it for what the peers are called.
peer_certificates() {
	export PEER_CA=$PEERS/ca.pem
	[[ ! -s $PEER_CA ]] || return 0
	(
		cd "$PEERS" || exit
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
			-subj '/CN=CA of the tests' -keyout ca.key -out ca.new
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=registry \
			-keyout tls.key -out tls.csr
		openssl x509 -req -in tls.csr -CA ca.new -CAkey ca.key -CAcreateserial -days 2 -out tls.pem \
			-extfile <(echo 'subjectAltName=IP:127.0.0.1,IP:127.0.0.2,IP:192.0.2.2,DNS:localhost')
		mv ca.new ca.pem
	) >"$PEERS/openssl.log" 2>&1 || fail "$(cat "$PEERS/openssl.log")"
}

# peer_tokens: the token server, whose tokens docker-registry takes; $TOKENS is its host:port.
peer_tokens() {
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj '/CN=tokens' \
		-keyout "$PEERS/token.key" -out "$PEERS/token.pem" 2>"$PEERS/openssl.log" || return
	peer_start tokens "$ROOT/tests/registry/tokens" "$PEERS/token.key" "$PEERS/token.pem" "$PEER_USER" \
		"$PEER_PASSWORD" "$PEERS/tokens.jsonl" "$PEERS/tokens.port"
	wait_for 10 test -s "$PEERS/tokens.port" || return
	export TOKENS
	TOKENS=127.0.0.1:$(<"$PEERS/tokens.port")
}

registry_start() {
	local name=$1 kind=${2:-plain} dir=$PEERS/$1 more='' port
	mkdir -p "$dir"
	case $kind in
	plain) ;;
	basic)
		echo "$PEER_HTPASSWD" >"$dir/htpasswd"
		more="auth: {htpasswd: {realm: tests, path: $dir/htpasswd}}"
		;;
	tls)
		peer_certificates || return
		more="  tls: {certificate: $PEERS/tls.pem, key: $PEERS/tls.key}"
		;;
	token)
		peer_tokens || return
		more="auth: {token: {realm: 'http://$TOKENS/token', service: tests,
  issuer: holt-tests, rootcertbundle: $PEERS/token.pem}}"
		;;
	esac
	cat >"$dir/config.yml" <<-END
		version: 0.1
		log: {level: info, formatter: json}
		storage: {filesystem: {rootdirectory: $dir/storage}}
		http:
		  addr: ${LISTEN_AT:-127.0.0.1}:0
		  secret: of-the-tests
		$more
	END
	# It takes what is called REGISTRY_... for its own configuration.
	peer_start "$name" env -u REGISTRY_AUTH_FILE docker-registry serve "$dir/config.yml"
	wait_for 10 grep -q '"listening on ' "$PEERS/$name.log" || fail "$(cat "$PEERS/$name.log")" || return
	port=$(sed -n 's/.*"listening on [^"]*:\([0-9]*\)[,"].*/\1/p' "$PEERS/$name.log" | head -n 1)
	export "$name=${LISTEN_AT:-127.0.0.1}:$port"
}

faults_start() {
	local ports tls=()
	export FAULTS FAULTS_PORT FAULTS_HOST FAULTS_ROOT=$PEERS/layouts
	mkdir -p "$FAULTS_ROOT"
	if [[ -n ${1:-} ]]; then
		peer_certificates || return
		tls=(--tls "$PEERS/tls.pem" "$PEERS/tls.key")
	fi
	faults_config "{}"
	peer_start faults "$ROOT/tests/registry/faults" "$FAULTS_ROOT" "$PEERS/faults.json" \
		"$PEERS/requests.jsonl" "$PEERS/faults.ports" "${tls[@]}"
	wait_for 10 test -s "$PEERS/faults.ports" || fail "$(cat "$PEERS/faults.log")" || return
	mapfile -t ports <"$PEERS/faults.ports"
	FAULTS=127.0.0.1:${ports[0]} FAULTS_PORT=127.0.0.1:${ports[1]} FAULTS_HOST=127.0.0.2:${ports[2]}
}

# faults_config JSON: the whole configuration.
faults_config() {
	# Never half of it, and never the same as before: what was counted begins anew.
	jq -c --arg now "$EPOCHREALTIME" '. + {now: $now}' <<<"$1" >"$PEERS/faults.new" || return
	mv "$PEERS/faults.new" "$PEERS/faults.json"
	: >"$PEERS/requests.jsonl"
}

faults() {
	local IFS=,
	faults_config "{\"rules\": [$*]}"
}

requests() {
	jq -c "select(${1:-true})" "$PEERS/requests.jsonl"
}

# count JQ-FILTER: number of those requests.
count() {
	requests "$1" | wc -l
}

push() {
	skopeo copy -q "${@:3}" --dest-tls-verify=false "oci:$1" "docker://$2"
}

digest_of() {
	jq -r '.manifests[0].digest' "$1/index.json"
}

# layer_of LAYOUT N: the digest of its layer N, the first being 0.
layer_of() {
	jq -r ".layers[$2].digest" "$1/blobs/sha256/$(jq -r '.manifests[0].digest[7:]' "$1/index.json")"
}
