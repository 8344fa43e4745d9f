/* SPDX-License-Identifier: Apache-2.0 */
/* A filter, its clock, frames of the guest in a line each, and what was told of refusals. */
#ifndef TEST_FILTER_FIXTURE_H
#define TEST_FILTER_FIXTURE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "frames.h"
#include "net/filter.h"
#include "net/flows.h"
#include "net/frame.h"
#include "net/pins.h"
#include "net/reach.h"
#include "net/refusals.h"

#define G4 NET_GUEST4
#define G6 NET_GUEST6

#define SYN 2
#define ACK 16

static struct filter *f;
static uint64_t now;
static struct filter_part part;

static struct {
	unsigned n;
	char name[256];
	char address[NET_ADDR_TEXT];
	uint16_t port;
	char proto[8];
	uint32_t count;
} told;

__attribute__((unused)) static void tell(const struct refusal *r, void *user)
{
	ck_assert_ptr_eq(user, &told);
	told.n++;
	(void)snprintf(told.name, sizeof told.name, "%s", r->name);
	net_addr_text(&r->address, told.address);
	told.port = r->port;
	(void)snprintf(told.proto, sizeof told.proto, "%s", r->proto);
	told.count = r->count;
}

__attribute__((unused)) static void filter_begin(
	enum net_mode mode, const char *const *allow, const char *const *publish)
{
	const struct net_spec spec = {.mode = mode,
		.allow = (char **)(uintptr_t)allow,
		.publish = (char **)(uintptr_t)publish};
	auto_error error = NULL;

	filter_free(f);
	f = NULL;
	ck_assert_int_eq(filter_new(&spec, tell, &told, &f, &error), 0);
	memset(&told, 0, sizeof told);
	now = 1000000;
}

#define LIST(...)  ((const char *const[]){__VA_ARGS__, NULL})
#define OPEN()     filter_begin(NET_OPEN, NULL, NULL)
#define ALLOW(...) filter_begin(NET_ALLOWLIST, LIST(__VA_ARGS__), NULL)

__attribute__((unused)) static void teardown(void)
{
	filter_free(f);
	f = NULL;
}

__attribute__((unused)) static struct net_addr addr(const char *text)
{
	struct net_addr a;

	ck_assert_msg(net_addr_parse(text, &a), "'%s'", text);
	return a;
}

__attribute__((unused)) static enum filter_verdict out(struct built b)
{
	/* Of just this length, so that a sanitizer sees its end. */
	uint8_t *const exact = malloc(b.len);

	memcpy(exact, b.bytes, b.len);
	const enum filter_verdict v = filter_out(f, exact, b.len, now, &part);
	free(exact);
	return v;
}

__attribute__((unused)) static void in(struct built b)
{
	filter_in(f, b.bytes, b.len, now);
}

__attribute__((unused)) static bool is6(const char *address)
{
	return strchr(address, ':');
}

__attribute__((unused)) static enum filter_verdict tcp(const char *to, unsigned port)
{
	return out(frame_tcp(is6(to) ? G6 : G4, 40000, to, port, SYN));
}

__attribute__((unused)) static enum filter_verdict udp(const char *to, unsigned port)
{
	return out(frame_udp(is6(to) ? G6 : G4, 40000, to, port, 4));
}

__attribute__((unused)) static enum filter_verdict ping(const char *to)
{
	return out(frame_icmp(is6(to) ? G6 : G4, to, is6(to) ? 128 : 8, 0, 8));
}

__attribute__((unused)) static bool learn(const char *name, const char *address, uint32_t ttl_s)
{
	const struct net_addr a = addr(address);

	return filter_learn(f, name, &a, ttl_s, now);
}

static inline int run(Suite *suite)
{
	SRunner *const runner = srunner_create(suite);

	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
