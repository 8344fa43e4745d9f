/* SPDX-License-Identifier: Apache-2.0 */
#include "net/forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <slirp/libslirp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/publish.h"
#include "base/str.h"
#include "stack.h"
#include "base/banned.h"

/*
 * libslirp makes the socket and keeps it to itself: which port was chosen, how many may wait, and
 * whether a second process may bind the same UDP port can only be seen and set on the descriptor.
 * It is the lowest that is free (one thread), and it is believed only when its own address fits.
 */

static socklen_t socket_address(
	const struct net_addr *a, uint16_t port, struct sockaddr_storage *ret)
{
	*ret = (struct sockaddr_storage){0};
	if (net_addr_is4(a)) {
		struct sockaddr_in *const in = (struct sockaddr_in *)ret;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->bytes + 12, sizeof in->sin_addr);
		return sizeof *in;
	}
	struct sockaddr_in6 *const in6 = (struct sockaddr_in6 *)ret;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(port);
	memcpy(&in6->sin6_addr, a->bytes, sizeof in6->sin6_addr);
	return sizeof *in6;
}

static int refuse(const struct publish_rule *rule, int errnum, holt_error **reterr)
{
	char entry[PUBLISH_TEXT];
	int code = errnum == EADDRINUSE      ? HOLT_EBUSY
		   : errnum == EADDRNOTAVAIL ? HOLT_EINVALID
		   : errnum == EAFNOSUPPORT  ? HOLT_EUNSUPPORTED
					     : err_code_of_errno(errnum);

	publish_text(rule, entry);
	code = err_make(reterr, code, "cannot publish '%s': %s", entry, strerrordesc_np(errnum));
	err_set_errno(reterr, errnum);
	err_stage(reterr, "network");
	err_object(reterr, entry);
	if (errnum == EADDRINUSE)
		err_hint(reterr,
			"stop what listens on port %u, choose another one, or leave it out for any "
			"free one",
			rule->host_port);
	else if (errnum == EACCES || errnum == EPERM)
		err_hint(reterr, "ports below net.ipv4.ip_unprivileged_port_start belong to root; "
				 "choose a higher one");
	else if (errnum == EADDRNOTAVAIL)
		err_hint(
			reterr, "give an address that this host has, such as 127.0.0.1 or 0.0.0.0");
	else if (errnum == EAFNOSUPPORT)
		err_hint(reterr, "this host has no IPv6; publish on an IPv4 address");
	return code;
}

/* libslirp binds UDP so that another socket that does the same may have the port, too, and take its
 * datagrams. So whether it is free is asked with a socket of our own. */
static int udp_is_free(const struct sockaddr_storage *address, socklen_t len)
{
	const int one = 1;
	auto_fd fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (address->ss_family == AF_INET6 &&
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one) < 0)
		return -errno;
	return bind(fd, (const struct sockaddr *)address, len) < 0 ? -errno : 0;
}

static int lowest_free(void)
{
	auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return memcmp(&((const struct sockaddr_in *)a)->sin_addr,
			       &((const struct sockaddr_in *)b)->sin_addr,
			       sizeof(struct in_addr)) == 0;
	return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

/* What libslirp left as it is by default, and the port that it got. */
static int adopt(int fd, const struct sockaddr_storage *wanted, struct publish_rule *rule)
{
	struct sockaddr_storage got = {0};
	socklen_t len = sizeof got;
	const int zero = 0;
	int type = 0;
	socklen_t type_len = sizeof type;

	if (getsockname(fd, (struct sockaddr *)&got, &len) < 0 ||
		getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_len) < 0)
		return -errno;
	if (!same_address(&got, wanted) || type != (rule->udp ? SOCK_DGRAM : SOCK_STREAM))
		return -EBADF;
	rule->host_port = ntohs(got.ss_family == AF_INET
					? ((struct sockaddr_in *)&got)->sin_port
					: ((struct sockaddr_in6 *)&got)->sin6_port);
	if (rule->udp)
		return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &zero, sizeof zero) < 0 ? -errno
											: 0;
	return listen(fd, FORWARD_BACKLOG) < 0 ? -errno : 0;
}

static int open_one(struct stack *s, struct publish_rule *rule)
{
	const bool four = net_addr_is4(&rule->address);
	struct sockaddr_storage host, guest;
	struct net_addr guest_address;

	if (!four && !stack_ipv6(s))
		return -EAFNOSUPPORT;
	(void)net_addr_parse(four ? NET_GUEST4 : NET_GUEST6, &guest_address);
	const socklen_t host_len = socket_address(&rule->address, rule->host_port, &host);
	const socklen_t guest_len = socket_address(&guest_address, rule->guest_port, &guest);
	const int free = rule->udp ? udp_is_free(&host, host_len) : 0;
	if (free < 0)
		return free;
	const int fd = lowest_free();
	if (fd < 0)
		return fd;
	errno = 0;
	if (slirp_add_hostxfwd(stack_slirp(s), (struct sockaddr *)&host, host_len,
		    (struct sockaddr *)&guest, guest_len,
		    SLIRP_HOSTFWD_V6ONLY | (rule->udp ? SLIRP_HOSTFWD_UDP : 0)) < 0)
		return errno ? -errno : -EINVAL;
	const int r = adopt(fd, &host, rule);
	if (r == 0 && !rule->udp)
		stack_listens(s, fd);
	return r;
}

int forward_open(
	struct stack *s, const struct net_spec *spec, char ***ret_ports, holt_error **reterr)
{
	const size_t n = strv_len((const char *const *)spec->publish);
	char **ports = mem_array(n + 1, sizeof *ports);

	if (!ports)
		return err_nomem(reterr);
	for (size_t i = 0; i < n; i++) {
		struct publish_rule rule;
		char text[PUBLISH_TEXT];
		int r = publish_parse(spec->publish[i], &rule, reterr);

		if (r == 0) {
			r = open_one(s, &rule);
			if (r < 0)
				r = refuse(&rule, -r, reterr);
		}
		if (r == 0) {
			publish_text(&rule, text);
			ports[i] = str_dup(text);
			r = ports[i] ? 0 : err_nomem(reterr);
		}
		if (r < 0) {
			strv_free(ports);
			return r;
		}
	}
	*ret_ports = ports;
	return 0;
}
