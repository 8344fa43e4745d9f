/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/qmp.h"

#include <stdlib.h>
#include <string.h>

/*
 * Bytes from a hostile QEMU, in pieces of three sizes. Whatever they are: a command goes out only
 * when the one before is answered, each ends exactly once, no more than a line is kept, and after
 * an error nothing is heard any more. All three ways of cutting hear the same.
 */

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

#define COMMANDS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct heard {
	unsigned writes;
	unsigned replies; /* of our commands, while the connection lived */
	unsigned ends[COMMANDS];
	unsigned events;
	unsigned names; /* a sum over the names of the events */
	int result;
	bool over;
};

struct owner {
	struct heard *h;
	unsigned nr;
};

static int on_write(const void *data, size_t len, int fd, void *user)
{
	struct heard *h = user;

	REQUIRE(!h->over && len > 0 && len <= QMP_COMMAND_MAX);
	REQUIRE(((const char *)data)[len - 1] == '\n');
	h->writes++;
	/* Only the last one has a descriptor. */
	REQUIRE((fd >= 0) == (h->writes == COMMANDS + 1));
	/* The first is not one of ours. */
	REQUIRE(h->writes <= h->replies + 2 && h->writes <= COMMANDS + 1);
	return 0;
}

static void on_event(const char *name, const json_t *data, void *user)
{
	struct heard *h = user;

	REQUIRE(!h->over && *name && (!data || json_is_object(data)));
	h->events++;
	for (const char *at = name; *at; at++) {
		REQUIRE(*at == '_' || (*at >= '0' && *at <= '9') || (*at >= 'A' && *at <= 'Z'));
		h->names = h->names * 31 + (unsigned char)*at;
	}
}

static void on_reply(const json_t *data, const holt_error *error, void *user)
{
	const struct owner *o = user;

	REQUIRE((data == NULL) == (error != NULL));
	REQUIRE(!error || strlen(holt_error_message(error)) < 1024);
	REQUIRE(++o->h->ends[o->nr] == 1);
	REQUIRE(o->nr == 0 || o->h->ends[o->nr - 1] == 1); /* in order */
	if (!o->h->over)
		o->h->replies++;
}

static struct heard talk(const uint8_t *data, size_t size, size_t piece)
{
	static const struct qmp_ops ops = {.write = on_write, .on_event = on_event};
	struct heard h = {0};
	struct owner owners[COMMANDS];
	struct qmp q = QMP_INIT;

	REQUIRE(qmp_init(&q, &ops, &h, NULL) == 0);
	for (unsigned i = 0; i < COMMANDS; i++) {
		owners[i] = (struct owner){.h = &h, .nr = i};
		REQUIRE(qmp_command_fd(&q, "stop", NULL, i + 1 < COMMANDS ? -1 : 0, on_reply,
				&owners[i], NULL) == 0);
	}
	for (size_t at = 0; at < size && h.result == 0; at += piece) {
		auto_error error = NULL;

		h.result = qmp_feed(&q, data + at, size - at < piece ? size - at : piece, &error);
		REQUIRE((h.result < 0) == (error != NULL));
		REQUIRE(q.line.len <= QMP_LINE_MAX);
	}
	h.over = true;
	if (h.result < 0)
		REQUIRE(qmp_feed(&q, "\n", 1, NULL) == -HOLT_ECLOSED);
	qmp_done(&q);
	for (unsigned i = 0; i < COMMANDS; i++)
		REQUIRE(h.ends[i] == 1);
	return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of just this length, so that a sanitizer sees its end. */
	uint8_t *copy = malloc(size ? size : 1);

	REQUIRE(copy);
	if (size)
		memcpy(copy, data, size);
	const struct heard whole = talk(copy, size, size ? size : 1);
	const struct heard parts = talk(copy, size, 7);
	const struct heard bytes = talk(copy, size, 1);
	REQUIRE(memcmp(&whole, &parts, sizeof whole) == 0);
	REQUIRE(memcmp(&whole, &bytes, sizeof whole) == 0);
	free(copy);
	return 0;
}
