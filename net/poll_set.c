/* SPDX-License-Identifier: Apache-2.0 */
#include "net/poll_set.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/banned.h"

#define POLL_SET_STEP 64u

void poll_set_clear(struct poll_set *p)
{
	p->n = 0;
	p->wake_ms = UINT64_MAX;
}

int poll_set_add(struct poll_set *p, int fd, short events)
{
	if (p->n == p->cap) {
		const size_t cap = p->cap + POLL_SET_STEP;
		struct pollfd *fds = cap > POLL_SET_MAX ? NULL
							: mem_resize(p->fds, cap, sizeof *fds);
		if (!fds)
			return -1;
		p->fds = fds;
		p->cap = cap;
	}
	p->fds[p->n] = (struct pollfd){.fd = fd, .events = events};
	return (int)p->n++;
}

void poll_set_wake(struct poll_set *p, uint64_t at_ms)
{
	if (at_ms < p->wake_ms)
		p->wake_ms = at_ms;
}

int poll_set_wait(struct poll_set *p)
{
	const uint64_t now = clock_mono_ms();
	uint64_t left = p->wake_ms > now ? p->wake_ms - now : 0;

	if (left > 3600000)
		left = 3600000;
	if (poll(p->fds, p->n, p->wake_ms == UINT64_MAX ? -1 : (int)left) >= 0)
		return 0;
	const int errnum = errno;
	for (size_t i = 0; i < p->n; i++)
		p->fds[i].revents = 0;
	return errnum == EINTR ? 0 : -errnum;
}

short poll_set_got(const struct poll_set *p, int place)
{
	return place < 0 || (size_t)place >= p->n ? 0 : p->fds[place].revents;
}

void poll_set_done(struct poll_set *p)
{
	mem_free(p->fds);
	*p = (struct poll_set){0};
}
