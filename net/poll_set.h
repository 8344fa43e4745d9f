/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_POLL_SET_H
#define NET_POLL_SET_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the helper waits for, made anew before each wait. poll(2) and no event loop: libslirp tells
 * its descriptors before every wait only, so that any loop would have to register and forget all of
 * them each time.
 */
#define POLL_SET_MAX 8192u /* more than the helper may have open, see helper_jail.h */

struct poll_set {
	struct pollfd *fds;
	size_t n;
	size_t cap;
	uint64_t wake_ms; /* when to go on at the latest, on clock_mono_ms() */
};

/* Nothing to wait for, and no end. */
void poll_set_clear(struct poll_set *p);
/* Returns the place to ask for later, or -1 (which poll_set_got answers with 0). */
int poll_set_add(struct poll_set *p, int fd, short events);
void poll_set_wake(struct poll_set *p, uint64_t at_ms);
/* 0, or -errno; a signal counts as nothing that happened. */
int poll_set_wait(struct poll_set *p);
short poll_set_got(const struct poll_set *p, int place);
void poll_set_done(struct poll_set *p);

#endif
