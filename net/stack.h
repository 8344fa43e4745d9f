/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_STACK_H
#define NET_STACK_H

#include "base/err.h"
#include "base/net_link.h"
#include "net/poll_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Frames between the guest's card and libslirp, which makes connections of the host of them. Each
 * frame of the guest goes through the filter first; questions of names go to the resolver, and what
 * is refused is answered here (reject.h).
 *
 * A frame for the guest that its socket does not take waits in a queue with an end; what finds it
 * full is lost, as on a wire.
 */
#define STACK_MTU            NET_MTU
#define STACK_FRAME_MAX      65562u /* the largest IP packet and an Ethernet header, and some */
#define STACK_QUEUE_MAX      1048576u /* bytes that wait for the guest; its TCP window is 64 KiB */
#define STACK_LISTENERS_END  1024 /* published ports are bound first, and have low descriptors */
#define STACK_PAUSE_MS       100u /* until it is tried again whether there is a free descriptor */
#define STACK_FRAMES_AT_ONCE 64u /* of the guest, before others have their turn */

struct filter;
struct names_streams;
struct resolver;
struct Slirp;
struct stack;

struct stack_options {
	int frames; /* borrowed */
	bool ipv6;
	unsigned mtu; /* 0: STACK_MTU */
	struct filter *filter; /* borrowed, as are the next */
	struct resolver *resolver;
	struct names_streams *streams;
};

int stack_new(const struct stack_options *options, struct stack **ret, holt_error **reterr);
void stack_free(struct stack *s);

/* For published ports. */
struct Slirp *stack_slirp(struct stack *s);
bool stack_ipv6(const struct stack *s);

/* @fd is libslirp's and waits for connections. While the helper has no free descriptor it is left
 * alone: libslirp could not accept, and the wait would end at once again and again. */
void stack_listens(struct stack *s, int fd);

/* Around a wait. stack_ready gives 0, or -errno where there is no card any more. */
void stack_wait(struct stack *s, struct poll_set *set);
int stack_ready(struct stack *s, const struct poll_set *set);

/* A frame for the guest. */
void stack_send(struct stack *s, const void *frame, size_t len);

/* When the guest was last heard of, on clock_mono_ms(); 0: never. */
uint64_t stack_heard_ms(const struct stack *s);
/* How many frames were lost since the guest takes too few. */
uint64_t stack_lost(const struct stack *s);

#endif
