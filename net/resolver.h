/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_RESOLVER_H
#define NET_RESOLVER_H

#include "base/err.h"
#include "net/poll_set.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Who answers a guest's questions of names. Questions of any type go to the host's upstreams as
 * they are (names_message.h says what is looked at), and answers come back without the addresses
 * that nobody may reach.
 *
 *   ask -> localhost, refused name, name of the host's list: answered at once
 *       '-> upstream by UDP -> answer -> learn -> guest
 *             |  time-out, refusal: the next one, which is the first from then on
 *             '- cut, and the guest asks by TCP: once more by TCP
 *
 * Each question under way has a socket of its own, connected, so that the kernel drops what others
 * send and gives each a random port. At most RESOLVER_QUESTIONS_MAX of them; what is more is
 * dropped, and the guest asks again.
 */
#define RESOLVER_QUESTIONS_MAX 256u
#define RESOLVER_DEADLINE_MS   9000u /* of one question, over all upstreams */
#define RESOLVER_TCP_MS        4000u
#define RESOLVER_NAMES_MS      2000u /* the first questions wait for the host's files */
#define RESOLVER_OLD_MS        5000u /* the host's files are asked for anew */
#define RESOLVER_LOCAL_TTL_S   10u

struct filter;
struct filter_part;
struct resolver;

struct resolver_options {
	struct filter *filter; /* borrowed */
	bool allowlist; /* only listed names have addresses */
	/* A frame for the guest, by UDP. */
	void (*send)(const void *frame, size_t len, void *user);
	/* An answer to resolver_ask_stream; @len 0: there is none. */
	void (*answer)(uint32_t stream, const void *data, size_t len, void *user);
	/* The host's files are wanted. */
	void (*want_names)(void *user);
	void *user;
};

int resolver_new(
	const struct resolver_options *options, struct resolver **ret, holt_error **reterr);
void resolver_free(struct resolver *r);

/* The host's resolv.conf and hosts, whose memory it takes over. */
void resolver_set_names(struct resolver *r, char *resolv, char *hosts);

/* A frame that the filter took for a question. */
void resolver_ask(
	struct resolver *r, const uint8_t *frame, size_t len, const struct filter_part *part);
/* A question that came by TCP. Its answer may come before the call returns. */
void resolver_ask_stream(struct resolver *r, uint32_t stream, const uint8_t *data, size_t len);
/* Nobody waits for it any more. */
void resolver_forget_stream(struct resolver *r, uint32_t stream);

/* Around a wait. */
void resolver_wait(struct resolver *r, struct poll_set *set);
void resolver_ready(struct resolver *r, const struct poll_set *set);

/* How many questions are under way. */
size_t resolver_pending(const struct resolver *r);

#endif
