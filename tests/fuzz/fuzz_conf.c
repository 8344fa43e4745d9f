/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <stdlib.h>
#include <string.h>

/*
 * A configuration file from anywhere. What is accepted is a tree within its limits, each node of
 * which a walk meets once, under its parent, with texts that end where they say and keys that a map
 * has once. What is refused leaves an error and nothing else.
 */

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned depth_of(const struct conf_node *n)
{
	unsigned depth = 0;

	for (; n; n = n->parent)
		depth += n->type != CONF_SCALAR;
	return depth;
}

static void check_node(const struct conf_node *n, const struct conf_node *root)
{
	REQUIRE(n->line > 0);
	REQUIRE((n->type == CONF_SCALAR) == (n->text != NULL));
	REQUIRE(n->type != CONF_SCALAR || !n->first);
	REQUIRE((n->first == NULL) == (n->last == NULL));
	REQUIRE(n == root ? !n->parent : n->parent && n->parent->type != CONF_SCALAR);
	REQUIRE((n->parent && n->parent->type == CONF_MAP) == (n->key != NULL));
	REQUIRE(depth_of(n) <= CONF_DEPTH_MAX);
	if (n->key)
		REQUIRE(conf_get(n->parent, n->key) == n);
	if (n->type == CONF_SCALAR)
		REQUIRE(n->plain || conf_kind(n) == CONF_TEXT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf *c = NULL;
	auto_error error = NULL;
	/* A copy of just this length, so that a sanitizer sees its end. */
	char *copy = malloc(size ? size : 1);

	REQUIRE(copy);
	if (size)
		memcpy(copy, data, size);
	const int r = conf_parse(copy, size, "fuzz", &c, &error);
	free(copy);
	REQUIRE((r == 0) == (c != NULL) && (r < 0) == (error != NULL));
	if (c && conf_root(c)) {
		const struct conf_node *const root = conf_root(c);
		size_t n = 0;

		for (const struct conf_node *at = root; at; at = conf_walk(at, root), n++)
			check_node(at, root);
		REQUIRE(n <= CONF_NODES_MAX);
	}
	conf_free(c);
	return 0;
}
