/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_NAMES_MESSAGE_H
#define NET_NAMES_MESSAGE_H

#include "base/egress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * DNS messages, of guests and of the host's upstreams, as far as the resolver looks into them. What
 * parses names and records is the C library (libresolv), with the length of the message. No I/O.
 */
#define NAMES_QUESTION_MAX 1232u /* of a question; more than one name and options never need */
#define NAMES_ANSWER_MAX   65535u
#define NAMES_HEADER       12u
#define NAMES_UDP_MAX      512u /* of an answer to a question that does not say */
#define NAMES_RECORDS_MAX  1024u /* of one answer that are looked at; it is refused beyond */
#define NAMES_TEXT_MAX     1025u

enum names_type {
	NAMES_A = 1,
	NAMES_CNAME = 5,
	NAMES_AAAA = 28,
	NAMES_OPT = 41,
	NAMES_SVCB = 64,
	NAMES_HTTPS = 65,
	NAMES_IXFR = 251,
	NAMES_AXFR = 252,
};

enum names_code {
	NAMES_OK = 0,
	NAMES_FORMERR = 1,
	NAMES_SERVFAIL = 2,
	NAMES_NXDOMAIN = 3,
	NAMES_NOTIMP = 4,
	NAMES_REFUSED = 5,
};

struct names_question {
	uint16_t id;
	uint16_t type;
	uint16_t class;
	uint16_t udp_max; /* how large an answer by UDP may be */
	size_t end; /* of the question section */
	char name[NAMES_TEXT_MAX]; /* as text, in the case it came in, no trailing dot */
};

/* Exactly one question, and nothing but it: otherwise false. */
bool names_parse_question(const uint8_t *data, size_t len, struct names_question *ret);

/* Does @data answer that question? Not whether it says anything. */
bool names_is_answer(const uint8_t *data, size_t len, const struct names_question *q, uint16_t id);
bool names_is_cut(const uint8_t *data);
enum names_code names_code(const uint8_t *data);

/* Ask @learn about each address of the answer, and @check about those elsewhere in the message
 * (records besides the answer, hints of services). What is denied in the answer is left out: the
 * message is then written anew, with aliases and addresses only. Where something is denied besides
 * it, nothing but the answer is left. Returns the length, 0 where the message is broken. @data has
 * room for NAMES_ANSWER_MAX. */
typedef bool (*names_learn_fn)(const struct net_addr *address, uint32_t ttl_s, void *user);
typedef bool (*names_check_fn)(const struct net_addr *address, void *user);
size_t names_filter(uint8_t *data, size_t len, const struct names_question *q, names_learn_fn learn,
	names_check_fn check, void *user);

/* An answer with @code and the given addresses (of the type that was asked for). @ret has room for
 * NAMES_QUESTION_MAX and 32 bytes for each of them. Returns its length. */
size_t names_make(const uint8_t *question, const struct names_question *q, enum names_code code,
	const struct net_addr *addresses, size_t n, uint32_t ttl_s, uint8_t *ret);

/* What of an answer goes into @max bytes of UDP: all of it, or its question and "there is more". */
size_t names_cut(uint8_t *data, size_t len, const struct names_question *q, size_t max);

#endif
