/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of connections, for tests of holt-net and of the network as a whole. What is sent is a
 * pattern of its place, so that each byte is checked where it arrives.
 *
 *   peer serve ADDRESS              until it is killed; ports 7 (echo, TCP and UDP), 9 (takes until
 *                                   the end, answers with how many were right), 19 (told a number,
 *                                   gives that many and ends)
 *   peer post ADDRESS BYTES         to port 9, with a half-close; prints what the other end took
 *   peer get ADDRESS BYTES          from port 19
 *   peer many ADDRESS COUNT LANES   COUNT connections to port 7, LANES at a time: a few bytes, a
 *                                   half-close, and the same bytes back
 *   peer udp ADDRESS BYTES          one datagram to port 7 and back
 *   peer connect ADDRESS PORT       whether there is one: exit status 0, 3 refused, 4 after 2 s
 *   peer echo ADDRESS               an echo request, with the same statuses; the kernel's
 *                                   ping_group_range has to permit it
 *   peer times ADDRESS COUNT        round trips of one byte by TCP, in microseconds: the median
 *   peer hold ADDRESS PORT COUNT    COUNT connections, as many as there can be; prints how many
 *                                   there are, and keeps them until it is killed
 * PEER_PORT is another port for post, get, many, udp and times. Exit status 1: something arrived
 * wrong.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <netinet/tcp.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536

enum { PORT_ECHO = 7, PORT_SINK = 9, PORT_SOURCE = 19 };

static uint8_t chunk[CHUNK];

static void die(const char *what)
{
	(void)fprintf(stderr, "peer: %s: %s\n", what, strerror(errno));
	exit(errno == ETIMEDOUT || errno == EAGAIN || errno == EINPROGRESS ? 4 : 3);
}

static uint8_t pattern(uint64_t at)
{
	return (uint8_t)(at * 31 + (at >> 8) * 7 + (at >> 16));
}

static void fill(uint64_t at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		chunk[i] = pattern(at + i);
}

static uint64_t count_right(uint64_t at, size_t len)
{
	uint64_t right = 0;

	for (size_t i = 0; i < len; i++)
		right += chunk[i] == pattern(at + i);
	return right;
}

static socklen_t make_address(const char *text, int port, struct sockaddr_storage *ret)
{
	struct sockaddr_in *in = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof *ret);
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		return sizeof *in;
	}
	if (inet_pton(AF_INET6, text, &in6->sin6_addr) != 1) {
		(void)fprintf(stderr, "peer: no address: %s\n", text);
		exit(2);
	}
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons((uint16_t)port);
	return sizeof *in6;
}

static int bound(const char *address, int type, int port)
{
	struct sockaddr_storage sa;
	const socklen_t len = make_address(address, port, &sa);
	const int fd = socket(sa.ss_family, type | SOCK_CLOEXEC, 0);
	const int on = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, (struct sockaddr *)&sa, len) < 0)
		die("bind");
	if (type == SOCK_STREAM && listen(fd, 1024) < 0)
		die("listen");
	return fd;
}

static int connected_by(int proto, const char *address, int type, int port, unsigned patience_s)
{
	struct sockaddr_storage sa;
	const socklen_t len = make_address(address, port, &sa);
	const int fd = socket(sa.ss_family, type | SOCK_CLOEXEC, proto);
	const struct timeval patience = {.tv_sec = patience_s};

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (connect(fd, (struct sockaddr *)&sa, len) < 0)
		die("connect");
	return fd;
}

/* PEER_PORT, where a published port leads to it. */
static int port_of(int usual)
{
	const char *other = getenv("PEER_PORT");

	return other ? (int)strtol(other, NULL, 10) : usual;
}

static int connected(const char *address, int type, int port, unsigned patience_s)
{
	return connected_by(0, address, type, port, patience_s);
}

static void send_all(int fd, size_t len)
{
	for (size_t at = 0; at < len;) {
		const ssize_t n = send(fd, chunk + at, len - at, MSG_NOSIGNAL);

		if (n < 0)
			die("send");
		at += (size_t)n;
	}
}

/* All that comes until the end; how many bytes were right and how many there were. */
static uint64_t take_all(int fd, uint64_t *ret_right)
{
	uint64_t at = 0;
	ssize_t n;

	*ret_right = 0;
	while ((n = recv(fd, chunk, sizeof chunk, 0)) > 0) {
		*ret_right += count_right(at, (size_t)n);
		at += (uint64_t)n;
	}
	if (n < 0)
		die("recv");
	return at;
}

static void give_all(int fd, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes;) {
		const size_t n = bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK;

		fill(at, n);
		send_all(fd, n);
		at += n;
	}
}

static void serve_one(int fd, int port)
{
	char line[64];
	uint64_t right;
	ssize_t n;

	if (port == PORT_ECHO) {
		const int on = 1;

		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		while ((n = recv(fd, chunk, sizeof chunk, 0)) > 0)
			send_all(fd, (size_t)n);
	} else if (port == PORT_SINK) {
		const uint64_t all = take_all(fd, &right);

		n = snprintf(line, sizeof line, "%llu of %llu\n", (unsigned long long)right,
			(unsigned long long)all);
		(void)send(fd, line, (size_t)n, MSG_NOSIGNAL);
	} else {
		n = recv(fd, line, sizeof line - 1, 0);
		line[n > 0 ? n : 0] = 0;
		give_all(fd, strtoull(line, NULL, 10));
	}
	(void)shutdown(fd, SHUT_WR);
	_exit(0);
}

static void serve_datagram(int fd)
{
	struct sockaddr_storage from;
	socklen_t len = sizeof from;
	const ssize_t n = recvfrom(fd, chunk, sizeof chunk, 0, (struct sockaddr *)&from, &len);

	if (n >= 0)
		(void)sendto(fd, chunk, (size_t)n, 0, (struct sockaddr *)&from, len);
}

__attribute__((noreturn)) static void serve(const char *address)
{
	static const int ports[] = {PORT_ECHO, PORT_SINK, PORT_SOURCE};
	struct pollfd fds[4];

	(void)signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 3; i++)
		fds[i] = (struct pollfd){bound(address, SOCK_STREAM, ports[i]), POLLIN, 0};
	fds[3] = (struct pollfd){bound(address, SOCK_DGRAM, PORT_ECHO), POLLIN, 0};
	for (;;) {
		(void)poll(fds, 4, -1);
		for (int i = 0; i < 3; i++) {
			if (!fds[i].revents)
				continue;
			const int fd = accept(fds[i].fd, NULL, NULL);
			if (fork() == 0)
				serve_one(fd, ports[i]);
			(void)close(fd);
		}
		if (fds[3].revents)
			serve_datagram(fds[3].fd);
	}
}

static int post(const char *address, uint64_t bytes)
{
	const int fd = connected(address, SOCK_STREAM, port_of(PORT_SINK), 60);
	char line[64] = "";
	char want[64];

	give_all(fd, bytes);
	(void)shutdown(fd, SHUT_WR);
	if (recv(fd, line, sizeof line - 1, 0) < 0)
		die("recv");
	(void)printf("%s", line);
	(void)snprintf(want, sizeof want, "%llu of %llu\n", (unsigned long long)bytes,
		(unsigned long long)bytes);
	return strcmp(line, want) != 0;
}

static int get(const char *address, uint64_t bytes)
{
	const int fd = connected(address, SOCK_STREAM, port_of(PORT_SOURCE), 60);
	char line[32];
	uint64_t right;

	if (send(fd, line, (size_t)snprintf(line, sizeof line, "%llu\n", (unsigned long long)bytes),
		    MSG_NOSIGNAL) < 0)
		die("send");
	const uint64_t all = take_all(fd, &right);
	(void)printf("%llu of %llu\n", (unsigned long long)right, (unsigned long long)all);
	return right != bytes || all != bytes;
}

static int one_of_many(const char *address, unsigned number)
{
	const int fd = connected(address, SOCK_STREAM, port_of(PORT_ECHO), 20);
	const size_t len = 1 + number % 200;
	uint64_t right;

	fill(0, len);
	send_all(fd, len);
	(void)shutdown(fd, SHUT_WR);
	const uint64_t all = take_all(fd, &right);
	(void)close(fd);
	return all != len || right != len;
}

static int many(const char *address, unsigned count, unsigned lanes)
{
	int wrong = 0;
	int status;

	for (unsigned lane = 0; lane < lanes; lane++) {
		if (fork() != 0)
			continue;
		for (unsigned i = lane; i < count && !wrong; i += lanes)
			wrong = one_of_many(address, i);
		_exit(wrong);
	}
	while (wait(&status) > 0)
		wrong |= status;
	return wrong != 0;
}

static int datagram(const char *address, size_t len)
{
	const int fd = connected(address, SOCK_DGRAM, port_of(PORT_ECHO), 2);

	fill(0, len);
	if (send(fd, chunk, len, 0) < 0)
		die("send");
	memset(chunk, 0, sizeof chunk);
	const ssize_t n = recv(fd, chunk, sizeof chunk, 0);
	if (n < 0)
		die("recv");
	return (size_t)n != len || count_right(0, len) != len;
}

/* Without waiting for any of them. */
__attribute__((noreturn)) static void hold(const char *address, int port, unsigned count)
{
	struct sockaddr_storage sa;
	const socklen_t len = make_address(address, port, &sa);
	unsigned there = 0;
	struct rlimit most;

	(void)getrlimit(RLIMIT_NOFILE, &most);
	most.rlim_cur = most.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &most);
	int *const fds = calloc(count, sizeof *fds);
	for (unsigned i = 0; i < count; i++) {
		fds[i] = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (connect(fds[i], (struct sockaddr *)&sa, len) < 0 && errno != EINPROGRESS)
			die("connect");
		(void)usleep(200);
	}
	(void)sleep(1);
	for (unsigned i = 0; i < count; i++) {
		struct pollfd p = {.fd = fds[i], .events = POLLOUT};

		there += poll(&p, 1, 0) == 1 && !(p.revents & (POLLERR | POLLHUP));
	}
	(void)printf("%u\n", there);
	(void)fflush(stdout);
	for (;;)
		(void)pause();
}

static int echo(const char *address)
{
	const bool six = strchr(address, ':');
	const int fd = connected_by(six ? IPPROTO_ICMPV6 : IPPROTO_ICMP, address, SOCK_DGRAM, 0, 2);
	uint8_t packet[16] = {six ? 128 : 8, [15] = 'x'};

	if (send(fd, packet, sizeof packet, 0) < 0)
		die("send");
	const ssize_t n = recv(fd, packet, sizeof packet, 0);
	if (n < 0)
		die("recv");
	return n != sizeof packet || packet[0] != (six ? 129 : 0) || packet[15] != 'x';
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int times(const char *address, unsigned count)
{
	const int fd = connected(address, SOCK_STREAM, port_of(PORT_ECHO), 5);
	uint64_t *took = calloc(count, sizeof *took);
	const int on = 1;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	for (unsigned i = 0; i < count; i++) {
		struct timespec a, b;

		(void)clock_gettime(CLOCK_MONOTONIC, &a);
		send_all(fd, 1);
		if (recv(fd, chunk, 1, 0) != 1)
			die("recv");
		(void)clock_gettime(CLOCK_MONOTONIC, &b);
		took[i] = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000 + (uint64_t)(b.tv_nsec / 1000) -
			  (uint64_t)(a.tv_nsec / 1000);
	}
	qsort(took, count, sizeof *took, by_size);
	(void)printf("%llu\n", (unsigned long long)took[count / 2]);
	free(took);
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";
	const uint64_t number = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;

	if (!strcmp(verb, "serve"))
		serve(argv[2]);
	if (argc > 3 && !strcmp(verb, "post"))
		return post(argv[2], number);
	if (argc > 3 && !strcmp(verb, "get"))
		return get(argv[2], number);
	if (argc > 4 && !strcmp(verb, "many"))
		return many(argv[2], (unsigned)number, (unsigned)strtoul(argv[4], NULL, 10));
	if (argc > 3 && !strcmp(verb, "udp") && number <= CHUNK)
		return datagram(argv[2], (size_t)number);
	if (argc > 3 && !strcmp(verb, "connect"))
		return close(connected(argv[2], SOCK_STREAM, (int)number, 2));
	if (!strcmp(verb, "echo"))
		return echo(argv[2]);
	if (argc > 3 && !strcmp(verb, "times") && number > 0)
		return times(argv[2], (unsigned)number);
	if (argc > 4 && !strcmp(verb, "hold"))
		hold(argv[2], (int)number, (unsigned)strtoul(argv[4], NULL, 10));
	(void)fputs("usage: peer serve|post|get|many|udp|connect|echo|times|hold ADDRESS ...\n",
		stderr);
	return 2;
}
