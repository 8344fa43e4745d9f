/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a box's network costs: frames of QEMU, the helper with its filter and its NAT, sockets of
 * the host.
 *
 *   network_connect       connect() to a neighbour of the host, until it has accepted and its first
 *                         byte is there; baseline guest_connect, the same to a process of the guest
 *                         over its loopback
 *   network_round_trip    a byte there and back on a connection that is open; baseline
 *                         guest_round_trip, likewise
 *   network_to_world      bytes of one connection to the neighbour, until it has said that it has
 *                         all; baseline exec_from_guest, as many by a program's stdout
 *   network_from_world    likewise from the neighbour; baseline exec_to_guest, by a program's stdin
 *
 *   this process, the box and its helper          neighbour, a child of this process
 *   network namespace, 198.18.0.1  ---- veth ----  network namespace, 198.18.0.2
 *
 * Nothing of it touches the host's own network. The guest's half is a Python program, which
 * measures by the guest's clock; the exec streams are measured here, right after it.
 */
#include "network.h"

#include "baseline.h"
#include "lanes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HERE         "198.18.0.1"
#define THERE        "198.18.0.2"
#define PORT         7000
#define PORT_TEXT    "7000"
#define CHUNK        65536
#define TIMEOUT_MS   300000
#define OUTPUT_MAX   65536
#define CONNECTS     "20" /* a round */
#define TRANSFER_MIB "64" /* as of lanes_to_guest */

/* ---- the neighbour ---- */

/* What a connection is for is in its first byte: 'e' sends back what comes, 's' takes everything
 * and says when it has it, 'g' gives so many MiB as the next byte says. It greets with a byte. */
static void serve(int fd)
{
	static char data[CHUNK];
	const int on = 1;
	char kind[2];
	ssize_t n = 0;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (write(fd, "!", 1) != 1 || recv(fd, kind, sizeof kind, MSG_WAITALL) != sizeof kind)
		return;
	if (kind[0] == 'g') {
		for (int i = 0; i < kind[1] * (1 << 20) / CHUNK; i++)
			if (send(fd, data, CHUNK, MSG_NOSIGNAL) != CHUNK)
				return;
		return;
	}
	while ((n = read(fd, data, sizeof data)) > 0)
		if (kind[0] == 'e' && send(fd, data, (size_t)n, MSG_NOSIGNAL) != n)
			return;
	(void)send(fd, "!", 1, MSG_NOSIGNAL);
}

static int listen_there(void)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	const int on = 1;

	(void)inet_pton(AF_INET, THERE, &a.sin_addr);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	return bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 16) < 0 ? -1 : fd;
}

static int command(const char *line)
{
	const char *const argv[] = {"sh", "-c", line, NULL};
	double unused = 0;

	return program_run(argv, NULL, &unused);
}

static void neighbour(int in, int out) __attribute__((noreturn));
static void neighbour(int in, int out)
{
	char byte = 0;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGCHLD, SIG_DFL);
	if (unshare(CLONE_NEWNET) < 0 || write(out, "n", 1) != 1 || read(in, &byte, 1) != 1 ||
		command("ip address add " THERE
			"/30 dev holt-there && ip link set holt-there up") != 0)
		_exit(1);
	const int fd = listen_there();
	/* From here on it has no children that it waits for. */
	(void)signal(SIGCHLD, SIG_IGN);
	if (fd < 0 || write(out, "l", 1) != 1)
		_exit(1);
	for (;;) {
		const int client = accept(fd, NULL, NULL);

		if (client >= 0 && fork() == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			serve(client);
			_exit(0);
		}
		(void)close(client);
	}
}

static int lay_cable(pid_t pid)
{
	char line[256];

	(void)snprintf(line, sizeof line,
		"ip link set lo up && ip link add holt-here type veth peer name holt-there netns "
		"%d && "
		"ip address add " HERE "/30 dev holt-here && ip link set holt-here up && "
		"ip route add default via " THERE,
		(int)pid);
	return command(line);
}

static int network_absent(const char *why)
{
	record_absent("network", why);
	return -1;
}

int network_make(void)
{
	int to[2];
	int from[2];
	char byte = 0;

	if (geteuid() != 0)
		return network_absent("only root can have a network of its own here");
	if (pipe(to) < 0 || pipe(from) < 0)
		return network_absent(strerror(errno));
	const pid_t pid = fork();
	if (pid == 0) {
		/* Only who measures has the other ends, so their end is seen. */
		(void)close(to[1]);
		(void)close(from[0]);
		neighbour(to[0], from[1]);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	const int ok = pid > 0 && read(from[0], &byte, 1) == 1 && unshare(CLONE_NEWNET) == 0 &&
		       lay_cable(pid) == 0 && write(to[1], "c", 1) == 1 &&
		       read(from[0], &byte, 1) == 1;
	(void)close(to[1]);
	(void)close(from[0]);
	return ok ? 0 : network_absent("no network namespace, or no veth, to be had here");
}

/* ---- the guest's half ---- */

/* Prints pairs: connect and trip of the neighbour and of the loopback, in ms; then MB/s to the
 * neighbour and from it. */
static const char program[] =
	"import os, socket, threading, time\n"
	"THERE, LOOP, MIB = ('" THERE "', " PORT_TEXT "), ('127.0.0.1', " PORT_TEXT
	"), " TRANSFER_MIB "\n"
	"def echo(c):\n"
	"    c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
	"    c.recv(2)\n"
	"    while (d := c.recv(65536)): c.send(d)\n"
	"    c.close()\n"
	"def serve():\n"
	"    s = socket.create_server(LOOP)\n"
	"    pid = os.fork()\n"
	"    if pid: return pid\n"
	"    while True:\n"
	"        c, _ = s.accept()\n"
	"        c.send(b'!')\n"
	"        threading.Thread(target=echo, args=(c,), daemon=True).start()\n"
	"def ms(t): return (time.perf_counter() - t) * 1000\n"
	"def full(s, n):\n"
	"    while n > 0:\n"
	"        d = s.recv(min(n, 1 << 18))\n"
	"        if not d: raise EOFError\n"
	"        n -= len(d)\n"
	"def dial(where):\n"
	"    s = socket.create_connection(where, 20)\n"
	"    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n"
	"    full(s, 1)\n"
	"    return s\n"
	"def connect(where):\n"
	"    t = time.perf_counter(); s = dial(where); t = ms(t)\n"
	"    s.send(b'e '); s.close()\n"
	"    return t\n"
	"def trip(s):\n"
	"    t = time.perf_counter(); s.send(b'x'); full(s, 1)\n"
	"    return ms(t)\n"
	"def measure():\n"
	"    connect(THERE), connect(LOOP)\n"
	"    a, b = dial(THERE), dial(LOOP)\n"
	"    a.send(b'e '); b.send(b'e '); trip(a), trip(b)\n"
	"    for i in range(" CONNECTS "):\n"
	"        print('connect', connect(THERE), connect(LOOP))\n"
	"        print('trip', trip(a), trip(b))\n"
	"    data = bytes(1 << 18)\n"
	"    s = dial(THERE); s.send(b's '); t = time.perf_counter()\n"
	"    for i in range(MIB * 4): s.sendall(data)\n"
	"    s.shutdown(socket.SHUT_WR); full(s, 1)\n"
	"    rate = MIB * 1048.576 / ms(t)\n"
	"    s = dial(THERE); t = time.perf_counter(); s.send(b'g' + bytes([MIB]))\n"
	"    full(s, MIB << 20)\n"
	"    print('rate', rate, MIB * 1048.576 / ms(t))\n"
	"server = serve()\n"
	"try: measure()\n"
	"finally: os.kill(server, 9)\n";

static void network_die(const char *what, const char *why)
{
	(void)fprintf(stderr, "bench: %s: %s\n", what, why ? why : "");
	exit(1);
}

/* Its output, and what it says where it fails. */
static const char *run_program(holt_box *box)
{
	static const char *const argv[] = {"python3", "-c", program, NULL};
	static char out[OUTPUT_MAX + 1];
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;
	size_t total = 0;
	size_t len = 0;

	options.argv = argv;
	if (holt_exec_start(box, &options, &exec, &error) < 0)
		network_die("cannot run python3", holt_error_message(error));
	do {
		if (holt_exec_read(exec, HOLT_STDOUT, out + total, OUTPUT_MAX - total, TIMEOUT_MS,
			    &len, &error) < 0)
			network_die("cannot read from the box", holt_error_message(error));
		total += len;
	} while (len > 0 && total < OUTPUT_MAX);
	out[total] = 0;
	if (holt_exec_wait(exec, TIMEOUT_MS, &result, &error) < 0 || result.code != 0) {
		if (holt_exec_read(exec, HOLT_STDERR, out, OUTPUT_MAX, 0, &len, NULL) == 0)
			out[len] = 0;
		network_die("the network of a box failed", out);
	}
	holt_exec_free(exec);
	return out;
}

/* ---- figures ---- */

enum figure { CONNECT, TRIP, TO_WORLD, FROM_WORLD, N_FIGURES };

static void take_lines(holt_box *box, struct record *const f[N_FIGURES])
{
	const char *line = run_program(box);

	for (; *line; line = strchr(line, '\n') + 1) {
		char name[16];
		double a = 0;
		double b = 0;

		if (!strchr(line, '\n') || sscanf(line, "%15s %lf %lf", name, &a, &b) != 3)
			network_die("not a line of the guest's program", line);
		if (strcmp(name, "connect") == 0) {
			record_pair(f[CONNECT], a, b);
		} else if (strcmp(name, "trip") == 0) {
			record_pair(f[TRIP], a, b);
		} else {
			record_pair(f[TO_WORLD], a, lanes_from_guest(box));
			record_pair(f[FROM_WORLD], b, lanes_to_guest(box));
		}
	}
}

void bench_network(
	holt_home *home, const char *image, unsigned rounds, const struct record_host *host)
{
	struct record *const f[N_FIGURES] = {record_new("network_connect", "ms", "guest_connect"),
		record_new("network_round_trip", "ms", "guest_round_trip"),
		record_new("network_to_world", "MB/s", "exec_from_guest"),
		record_new("network_from_world", "MB/s", "exec_to_guest")};
	holt_box_options options = HOLT_BOX_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_box *box = NULL;

	options.network = "open";
	f[TO_WORLD]->is_rate = f[FROM_WORLD]->is_rate = 1;
	if (holt_box_create(home, image, &options, &box, &error) < 0 ||
		holt_box_start(box, NULL, NULL, &error) < 0)
		network_die("cannot start a box with a network", holt_error_message(error));
	for (unsigned i = 0; i < (rounds + 2) / 3; i++)
		take_lines(box, f);
	holt_box_close(box);
	for (int i = 0; i < N_FIGURES; i++) {
		record_print(f[i], host);
		record_free(f[i]);
	}
}
