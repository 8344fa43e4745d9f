/* SPDX-License-Identifier: Apache-2.0 */
#include "net/names_message.h"

#include <arpa/nameser.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>

/*
 * Two bytes of length, a question of a guest, and what an upstream answers (its id is made right).
 * What is left of the answer is read once more here: in none of its sections is an address that was
 * denied, and neither is one among the hints of services.
 */

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool bad(const struct net_addr *a)
{
	return net_addr_is4(a) ? a->bytes[12] == 10 : a->bytes[0] == 0xfd;
}

static bool learn(const struct net_addr *a, uint32_t ttl_s, void *user)
{
	(void)ttl_s;
	(void)user;
	return !bad(a);
}

static bool check(const struct net_addr *a, void *user)
{
	(void)user;
	return !bad(a);
}

static void check_record(const ns_rr *rr)
{
	const uint8_t *const data = ns_rr_rdata(*rr);
	const size_t len = ns_rr_rdlen(*rr);
	const unsigned type = ns_rr_type(*rr);

	if (type == NAMES_A)
		REQUIRE(len == 4 && data[0] != 10);
	if (type == NAMES_AAAA && len > 0 && data[0] == 0xfd)
		abort();
	/* The simplest form of a hint: no target, and it is the first parameter. */
	static const uint8_t head[] = {0, 0, 4, 0, 4, 10};
	if ((type == NAMES_SVCB || type == NAMES_HTTPS) && len >= 11)
		REQUIRE(memcmp(data + 2, head, sizeof head) != 0);
}

static void check_left(const uint8_t *answer, size_t len)
{
	ns_msg m;
	ns_rr rr;

	REQUIRE(ns_initparse(answer, (int)len, &m) == 0);
	for (int section = ns_s_an; section <= ns_s_ar; section++) {
		for (int i = 0; i < ns_msg_count(m, (ns_sect)section); i++) {
			/* A guest that cannot read it has no address either. */
			if (ns_parserr(&m, (ns_sect)section, i, &rr) < 0)
				break;
			check_record(&rr);
		}
	}
}

static void check_made(const uint8_t *question, const struct names_question *q)
{
	uint8_t made[NAMES_QUESTION_MAX + 64];
	struct net_addr two[2] = {{{0}}, {{0}}};

	const size_t len = names_make(question, q, NAMES_OK, two, 2, 60, made);
	REQUIRE(len <= sizeof made && names_is_answer(made, len, q, q->id));
	REQUIRE(names_cut(made, len, q, len - 1) == q->end && names_is_cut(made));
}

/* In memory of just this length, and with room for what it may become. */
static void one_answer(const uint8_t *data, size_t len, const struct names_question *q)
{
	uint8_t *const exact = malloc(len ? len : 1);
	uint8_t *const room = malloc(NAMES_ANSWER_MAX);

	REQUIRE(exact && room);
	memcpy(exact, data, len);
	if (len >= 2)
		memcpy(exact, (uint8_t[]){(uint8_t)(q->id >> 8), (uint8_t)q->id}, 2);
	if (names_is_answer(exact, len, q, q->id)) {
		memcpy(room, exact, len);
		size_t n = names_filter(room, len, q, learn, check, NULL);

		REQUIRE(n <= NAMES_ANSWER_MAX);
		if (n > 0)
			check_left(room, n);
		if (n > 0)
			n = names_cut(room, n, q, NAMES_UDP_MAX);
		REQUIRE(n <= NAMES_UDP_MAX || n == q->end);
	}
	free(room);
	free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct names_question q;

	if (size < 2 || size > 70000)
		return 0;
	size_t len = (size_t)data[0] << 8 | data[1];
	if (len > size - 2)
		len = size - 2;
	uint8_t *const question = malloc(len ? len : 1);
	REQUIRE(question);
	memcpy(question, data + 2, len);
	if (names_parse_question(question, len, &q)) {
		REQUIRE(q.end <= len && strlen(q.name) < sizeof q.name);
		check_made(question, &q);
		if (size - 2 - len <= NAMES_ANSWER_MAX)
			one_answer(data + 2 + len, size - 2 - len, &q);
	}
	free(question);
	return 0;
}
