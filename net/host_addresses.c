/* SPDX-License-Identifier: Apache-2.0 */
#include "net/host_addresses.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"
#include "net/filter.h"
#include "base/banned.h"

static bool take_address(const struct sockaddr *sa, struct net_addr *ret)
{
	if (sa && sa->sa_family == AF_INET) {
		struct sockaddr_in in;

		memcpy(&in, sa, sizeof in);
		*ret = (struct net_addr){.bytes = {[10] = 0xff, [11] = 0xff}};
		memcpy(ret->bytes + 12, &in.sin_addr, 4);
		return true;
	}
	if (sa && sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, sa, sizeof in6);
		memcpy(ret->bytes, &in6.sin6_addr, 16);
		return true;
	}
	return false;
}

static int collect(
	const struct ifaddrs *all, struct net_addr **ret, size_t *ret_n, holt_error **reterr)
{
	size_t n = 0;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		n++;
	if (n > HOST_ADDRESSES_MAX)
		return err_make(reterr, HOLT_ELIMIT, "this host has more than %u addresses",
			HOST_ADDRESSES_MAX);
	struct net_addr *list = mem_array(n + 1, sizeof *list);
	if (!list)
		return err_nomem(reterr);
	n = 0;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		n += take_address(i->ifa_addr, &list[n]);
	*ret = list;
	*ret_n = n;
	return 0;
}

/* With the descriptor that is kept for it: a guest may have used up all others. */
static int read_all(
	struct host_addresses *h, struct net_addr **ret, size_t *ret_n, holt_error **reterr)
{
	struct ifaddrs *all;
	int r;

	h->spare = fd_close(h->spare);
	if (getifaddrs(&all) < 0) {
		r = err_errno(reterr, errno, "cannot read the addresses of this host");
	} else {
		r = collect(all, ret, ret_n, reterr);
		freeifaddrs(all);
	}
	h->spare = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return r;
}

int host_addresses_refresh(
	struct host_addresses *h, struct filter *filter, uint64_t now_ms, holt_error **reterr)
{
	struct net_addr *list = NULL;
	auto_error error = NULL;
	size_t n = 0;

	if (h->read_ms && now_ms - h->read_ms < HOST_ADDRESSES_MS)
		return 0;
	const int r = read_all(h, &list, &n, h->read_ms ? &error : reterr);
	if (r < 0) {
		if (!h->read_ms)
			return r;
		h->read_ms = now_ms;
		mem_free(take_ptr(h->list));
		filter_set_host(filter, NULL, FILTER_HOST_MAX + 1);
		return 0;
	}
	h->read_ms = now_ms;
	if (n == h->n && h->list && !memcmp(list, h->list, n * sizeof *list)) {
		mem_free(list);
		return 0;
	}
	mem_free(h->list);
	h->list = list;
	h->n = n;
	filter_set_host(filter, list, n);
	return 0;
}

void host_addresses_done(struct host_addresses *h)
{
	mem_free(h->list);
	(void)fd_close(h->spare);
	*h = (struct host_addresses){.spare = FD_NONE};
}
