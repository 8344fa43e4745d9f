/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A name server with a few names, and one who asks, for tests of holt-net.
 *
 *   namepeer serve ADDRESS                  UDP and TCP, port 53, until it is killed
 *   namepeer ask ADDRESS NAME TYPE [tcp]    prints the code, "cut" where it is, and each record's
 *                                           type and text; exit status 3 without an answer in 4 s
 *
 * Names, whatever stands in front: a.test and aaaa.test have an address each, alias.test leads to
 * a.test by two steps, mixed.test has an address of the peer, one of a loopback and
 * 169.254.169.254, local.test only the last two, big.test has 200 addresses, slow.test comes after
 * a second, fail.test is a failure, who.test has a TXT record with the server's address, hint.test
 * an HTTPS record that advises 192.0.2.3, and all else is not there.
 *
 * In front of all.test and turn.test labels are addresses, with - for . and :, and what is no
 * address means nothing. 192-0-2-2.127-0-0-1.all.test has both; 192-0-2-2.127-0-0-1.turn.test has
 * the first when it is asked for the first time, then the second, and so on, for no seconds each.
 */
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <poll.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BIG 200

/* What SVCB says in its own way: priority 1, the name itself, the key ipv4hint, one address. */
static const uint8_t hint[] = {0, 1, 0, 0, 4, 0, 4, 192, 0, 2, 3};

static const char *own; /* the server's address */
static uint8_t message[65536];

struct answer {
	size_t len;
	uint16_t records;
	int code;
	uint32_t ttl;
};

static void add(struct answer *a, const char *name, int type, const void *data, size_t len)
{
	uint8_t *p = message + a->len;
	const int n = dn_comp(name, p, 300, NULL, NULL);

	ns_put16((unsigned)type, p + n);
	ns_put16(ns_c_in, p + n + 2);
	ns_put32(a->ttl, p + n + 4);
	ns_put16((unsigned)len, p + n + 8);
	memcpy(p + n + 10, data, len);
	a->len += (size_t)n + 10 + len;
	a->records++;
}

static void add_a(struct answer *a, const char *name, const char *address)
{
	uint8_t data[4];

	(void)inet_pton(AF_INET, address, data);
	add(a, name, ns_t_a, data, sizeof data);
}

static void add_alias(struct answer *a, const char *name, const char *target)
{
	uint8_t data[300];

	add(a, name, ns_t_cname, data, (size_t)dn_comp(target, data, sizeof data, NULL, NULL));
}

static bool ends(const char *name, const char *end)
{
	const size_t n = strlen(name), m = strlen(end);

	return n >= m && !strcasecmp(name + n - m, end) && (n == m || name[n - m - 1] == '.');
}

/* Does this label say an address of the type? */
static bool label_address(const char *label, size_t len, int type, uint8_t *ret)
{
	char text[64];

	(void)snprintf(text, sizeof text, "%.*s", (int)len, label);
	for (char *p = text; *p; p++)
		*p = *p != '-' ? *p : type == ns_t_a ? '.' : ':';
	return inet_pton(type == ns_t_a ? AF_INET : AF_INET6, text, ret) == 1;
}

/* @only: which of them, or -1 for all. */
static void add_labels(struct answer *a, const char *name, int type, int only)
{
	const char *label = name;
	uint8_t data[16];

	for (int i = 0; *label && (type == ns_t_a || type == ns_t_aaaa);) {
		const size_t len = strcspn(label, ".");

		if (label_address(label, len, type, data) && (only < 0 || i++ == only))
			add(a, name, type, data, type == ns_t_a ? 4 : 16);
		label += len + (label[len] == '.');
	}
}

/* How often this name was asked for since another one was. */
static int turn_of(const char *name)
{
	static char last[NS_MAXDNAME];
	static int turn;

	turn = strcmp(last, name) ? 0 : turn + 1;
	(void)snprintf(last, sizeof last, "%s", name);
	return turn;
}

static void add_records(struct answer *a, const char *name, int type)
{
	char text[64];
	uint8_t six[16];

	if (ends(name, "all.test")) {
		add_labels(a, name, type, -1);
	} else if (ends(name, "turn.test")) {
		a->ttl = 0;
		add_labels(a, name, type, turn_of(name));
	} else if (ends(name, "hint.test")) {
		if (type == 65)
			add(a, name, type, hint, sizeof hint);
	} else if (ends(name, "fail.test")) {
		a->code = ns_r_servfail;
	} else if (ends(name, "who.test")) {
		text[0] = (char)snprintf(text + 1, sizeof text - 1, "%s", own);
		add(a, name, ns_t_txt, text, (size_t)text[0] + 1);
	} else if (ends(name, "aaaa.test")) {
		(void)inet_pton(AF_INET6, "2001:db8:1::2", six);
		if (type == ns_t_aaaa)
			add(a, name, type, six, 16);
	} else if (ends(name, "alias.test")) {
		add_alias(a, name, "middle.test");
		add_alias(a, "middle.test", "a.test");
		if (type == ns_t_a)
			add_a(a, "a.test", "192.0.2.2");
	} else if (ends(name, "mixed.test") || ends(name, "local.test")) {
		add_a(a, name, "127.0.0.1");
		if (ends(name, "mixed.test"))
			add_a(a, name, "192.0.2.2");
		add_a(a, name, "169.254.169.254");
	} else if (ends(name, "big.test")) {
		for (int i = 1; i <= BIG; i++) {
			(void)snprintf(text, sizeof text, "198.51.100.%d", i);
			add_a(a, name, text);
		}
	} else if (ends(name, "a.test") || ends(name, "slow.test")) {
		if (ends(name, "slow.test"))
			(void)sleep(1);
		if (type == ns_t_a)
			add_a(a, name, "192.0.2.2");
	} else {
		a->code = ns_r_nxdomain;
	}
}

/* Makes an answer of the question in "message"; its length, 0 for none. */
static size_t answer(size_t len, bool tcp)
{
	struct answer a = {.ttl = 60};
	ns_msg m;
	ns_rr rr;
	char name[NS_MAXDNAME];

	if (ns_initparse(message, (int)len, &m) < 0 || ns_parserr(&m, ns_s_qd, 0, &rr) < 0)
		return 0;
	(void)snprintf(name, sizeof name, "%s", ns_rr_name(rr));
	a.len = NS_HFIXEDSZ + (size_t)dn_skipname(message + NS_HFIXEDSZ, message + len) +
		NS_QFIXEDSZ;
	const size_t question = a.len;
	add_records(&a, name, ns_rr_type(rr));
	const bool cut = !tcp && a.len > 512;
	if (cut) {
		a.len = question;
		a.records = 0;
	}
	ns_put16(0x8180u | (cut ? 0x200u : 0) | (unsigned)a.code, message + 2);
	ns_put16(1, message + 4);
	ns_put16(a.records, message + 6);
	memset(message + 8, 0, 4);
	return a.len;
}

static void serve_stream(int fd)
{
	uint8_t head[2];

	while (recv(fd, head, 2, MSG_WAITALL) == 2 &&
		recv(fd, message, ns_get16(head), MSG_WAITALL) == (ssize_t)ns_get16(head)) {
		const size_t len = answer(ns_get16(head), true);

		ns_put16((unsigned)len, head);
		if (send(fd, head, 2, MSG_MORE | MSG_NOSIGNAL) < 0 ||
			send(fd, message, len, MSG_NOSIGNAL) < 0)
			break;
	}
	(void)close(fd);
}

static int bound(const char *address, int type)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(53)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
	const bool six = strchr(address, ':');
	const int fd = socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, 0);
	const int on = 1;

	(void)inet_pton(AF_INET, address, &in.sin_addr);
	(void)inet_pton(AF_INET6, address, &in6.sin6_addr);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(fd, six ? (void *)&in6 : (void *)&in, six ? sizeof in6 : sizeof in) < 0) {
		perror("namepeer: bind");
		exit(1);
	}
	return fd;
}

__attribute__((noreturn)) static void serve(const char *address)
{
	struct pollfd fds[2] = {{.fd = bound(address, SOCK_DGRAM), .events = POLLIN},
		{.fd = bound(address, SOCK_STREAM), .events = POLLIN}};

	own = address;
	(void)listen(fds[1].fd, 64);
	for (;;) {
		struct sockaddr_storage from;
		socklen_t from_len = sizeof from;

		(void)poll(fds, 2, -1);
		if (fds[1].revents)
			serve_stream(accept(fds[1].fd, NULL, NULL));
		if (!fds[0].revents)
			continue;
		const ssize_t n = recvfrom(
			fds[0].fd, message, sizeof message, 0, (struct sockaddr *)&from, &from_len);
		const size_t len = n > 0 ? answer((size_t)n, false) : 0;
		if (len > 0)
			(void)sendto(
				fds[0].fd, message, len, 0, (struct sockaddr *)&from, from_len);
	}
}

static void print_record(ns_msg *m, ns_rr *rr)
{
	char text[NS_MAXDNAME] = "?";
	const uint8_t *data = ns_rr_rdata(*rr);

	switch ((int)ns_rr_type(*rr)) {
	case ns_t_a:
		(void)inet_ntop(AF_INET, data, text, sizeof text);
		break;
	case ns_t_aaaa:
		(void)inet_ntop(AF_INET6, data, text, sizeof text);
		break;
	case ns_t_cname:
		(void)dn_expand(ns_msg_base(*m), ns_msg_end(*m), data, text, sizeof text);
		break;
	case ns_t_txt:
		(void)snprintf(text, sizeof text, "%.*s", data[0], (const char *)data + 1);
		break;
	default:
		break;
	}
	(void)printf("%d %s\n", ns_rr_type(*rr), text);
}

static ssize_t exchange(const char *address, bool tcp, size_t len)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(53)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
	const bool six = strchr(address, ':');
	const int fd = socket(six ? AF_INET6 : AF_INET, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
	const struct timeval patience = {.tv_sec = 4};
	uint8_t head[2];

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	(void)inet_pton(AF_INET, address, &in.sin_addr);
	(void)inet_pton(AF_INET6, address, &in6.sin6_addr);
	if (connect(fd, six ? (void *)&in6 : (void *)&in, six ? sizeof in6 : sizeof in) < 0) {
		perror("namepeer: connect");
		return -1;
	}
	ns_put16((unsigned)len, head);
	if ((tcp && send(fd, head, 2, MSG_NOSIGNAL) < 0) ||
		send(fd, message, len, MSG_NOSIGNAL) < 0)
		return -1;
	if (!tcp)
		return recv(fd, message, sizeof message, 0);
	if (recv(fd, head, 2, MSG_WAITALL) != 2)
		return -1;
	return recv(fd, message, ns_get16(head), MSG_WAITALL);
}

static int ask(const char *address, const char *name, int type, bool tcp)
{
	ns_msg m;
	ns_rr rr;
	const uint16_t id = (uint16_t)(getpid() ^ time(NULL));
	int n;

	ns_put16(id, message);
	ns_put16(0x100, message + 2);
	ns_put16(1, message + 4);
	n = dn_comp(name, message + NS_HFIXEDSZ, 300, NULL, NULL);
	ns_put16((unsigned)type, message + NS_HFIXEDSZ + n);
	ns_put16(ns_c_in, message + NS_HFIXEDSZ + n + 2);
	const ssize_t len = exchange(address, tcp, NS_HFIXEDSZ + (size_t)n + NS_QFIXEDSZ);
	if (len < 0)
		return 3;
	if (ns_initparse(message, (int)len, &m) < 0 || ns_msg_id(m) != id)
		return 4;
	(void)printf("code %d%s\n", ns_msg_getflag(m, ns_f_rcode),
		ns_msg_getflag(m, ns_f_tc) ? " cut" : "");
	for (int i = 0; i < ns_msg_count(m, ns_s_an); i++) {
		if (ns_parserr(&m, ns_s_an, i, &rr) == 0)
			print_record(&m, &rr);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(argv[2]);
	if (argc >= 5 && !strcmp(argv[1], "ask"))
		return ask(argv[2], argv[3], (int)strtol(argv[4], NULL, 10), argc > 5);
	(void)fputs(
		"usage: namepeer serve ADDRESS | namepeer ask ADDRESS NAME TYPE [tcp]\n", stderr);
	return 2;
}
