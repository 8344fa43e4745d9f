/* SPDX-License-Identifier: Apache-2.0 */
/* DNS messages for tests: a question, then records section by section. */
#ifndef TEST_NAMES_FIXTURE_H
#define TEST_NAMES_FIXTURE_H

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <check.h>
#include <resolv.h>
#include <stdlib.h>
#include <string.h>

#include "net/inet_sum.h"
#include "net/names_message.h"

struct message {
	size_t len;
	uint8_t bytes[NAMES_ANSWER_MAX + 1];
};

/* Where its count is in the header. */
enum section { ANSWER = 6, AUTHORITY = 8, ADDITIONAL = 10 };

static inline void message_name(struct message *m, const char *name)
{
	const int n = dn_comp(name, m->bytes + m->len, (int)(sizeof m->bytes - m->len), NULL, NULL);

	ck_assert_int_gt(n, 0);
	m->len += (size_t)n;
}

static inline void message_begin(struct message *m, uint16_t id, const char *name, unsigned type)
{
	memset(m->bytes, 0, NAMES_HEADER);
	put16(m->bytes, id);
	put16(m->bytes + 2, 0x100);
	put16(m->bytes + 4, 1);
	m->len = NAMES_HEADER;
	message_name(m, name);
	put16(m->bytes + m->len, (uint16_t)type);
	put16(m->bytes + m->len + 2, ns_c_in);
	m->len += 4;
}

/* The question becomes an answer. */
static inline void message_turn(struct message *m, unsigned code)
{
	put16(m->bytes + 2, (uint16_t)(0x8180 | code));
}

static inline void message_add(struct message *m, enum section section, const char *name,
	unsigned type, unsigned class, const void *data, size_t len)
{
	message_name(m, name);
	uint8_t *const p = m->bytes + m->len;
	put16(p, (uint16_t)type);
	put16(p + 2, (uint16_t) class);
	put32(p + 4, 60);
	put16(p + 8, (uint16_t)len);
	memcpy(p + 10, data, len);
	m->len += 10 + len;
	put16(m->bytes + section, (uint16_t)(get16(m->bytes + section) + 1));
}

static inline void message_address(
	struct message *m, enum section section, const char *name, const char *address)
{
	const int family = strchr(address, ':') ? AF_INET6 : AF_INET;
	uint8_t data[16];

	ck_assert_int_eq(inet_pton(family, address, data), 1);
	message_add(m, section, name, family == AF_INET ? ns_t_a : ns_t_aaaa, ns_c_in, data,
		family == AF_INET ? 4 : 16);
}

/* Addresses of a section in a row: "192.0.2.1 ::1", and how many records it has at all. */
static inline int message_texts(
	const uint8_t *data, size_t len, ns_sect section, char *ret, size_t size)
{
	ns_msg m;
	ns_rr rr;

	*ret = 0;
	ck_assert_int_eq(ns_initparse(data, (int)len, &m), 0);
	for (int i = 0; i < ns_msg_count(m, section); i++) {
		char text[INET6_ADDRSTRLEN];

		ck_assert_int_eq(ns_parserr(&m, section, i, &rr), 0);
		if (ns_rr_type(rr) != ns_t_a && ns_rr_type(rr) != ns_t_aaaa)
			continue;
		(void)inet_ntop(ns_rr_type(rr) == ns_t_a ? AF_INET : AF_INET6, ns_rr_rdata(rr),
			text, sizeof text);
		ck_assert_uint_lt(strlen(ret) + strlen(text) + 2, size);
		if (*ret)
			memcpy(ret + strlen(ret), " ", 2);
		memcpy(ret + strlen(ret), text, strlen(text) + 1);
	}
	return ns_msg_count(m, section);
}

#endif
