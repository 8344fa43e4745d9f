/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_KEEPER_LINK_H
#define NET_KEEPER_LINK_H

#include "base/net_link.h"
#include "net/filter.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The helper's end of the messages that base/net_link.h describes. Refusals of the same kind become
 * one message, at most LINK_REFUSALS kinds a second; what is more is not told.
 */
#define LINK_REFUSALS    64u
#define LINK_REFUSALS_MS 1000u
#define LINK_ASK_MS      1000u

struct link_refusal {
	char name[EGRESS_HOST_MAX + 1];
	struct net_addr address;
	uint16_t port;
	char proto[8];
	uint32_t count;
};

struct keeper_link {
	int fd; /* borrowed */
	uint64_t asked_ms; /* 0: never */
	uint64_t told_ms; /* refusals */
	size_t n_refusals;
	struct link_refusal refusals[LINK_REFUSALS];
};

/* The first message, for which it waits. HOLT_ECLOSED where the keeper is gone. */
int link_read_spec(struct keeper_link *l, struct net_spec *ret, holt_error **reterr);

struct link_names {
	char *resolv; /* fresh memory, never NULL after success */
	char *hosts;
};
void link_names_done(struct link_names *n);

/* A message that is there: 1 with names, 0 where none waits, HOLT_ECLOSED at the end. */
int link_read_names(struct keeper_link *l, struct link_names *ret, holt_error **reterr);

/* 0, or HOLT_ECLOSED where there is nobody any more. */
int link_say_up(struct keeper_link *l, bool ipv6, unsigned mtu, char **ports, holt_error **reterr);
void link_say_failed(struct keeper_link *l, const holt_error *error);
/* Not more often than agreed. */
void link_ask(struct keeper_link *l, uint64_t now_ms);
/* filter_refused_fn; the message goes out with link_tell. */
void link_refused(const struct refusal *r, void *user);
/* Returns when it wants to be called again, UINT64_MAX where nothing waits. */
uint64_t link_tell(struct keeper_link *l, uint64_t now_ms);

#endif
