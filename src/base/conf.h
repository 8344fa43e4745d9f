/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The only door to libyaml: the text of a configuration file as a small tree. One document of maps,
 * lists and scalars; keys are texts and none is there twice in a map; aliases are copies, and
 * count;
 * "<<" is a key like any other. What scalars mean is up to who reads them, by the rules of
 * YAML 1.1.
 */
#define CONF_BYTES_MAX   1048576u
#define CONF_DEPTH_MAX   32u /* of maps and lists in each other */
#define CONF_NODES_MAX   16384u /* with those that aliases add; a large file has some hundred */
#define CONF_ANCHORS_MAX 256u

enum conf_type { CONF_SCALAR, CONF_LIST, CONF_MAP };

/* What YAML takes a scalar for. */
enum conf_kind { CONF_TEXT, CONF_NULL, CONF_BOOL, CONF_INT, CONF_FLOAT };

struct conf_node {
	enum conf_type type;
	unsigned line; /* from 1; where its key is, if it has one */
	bool plain; /* a scalar without quotes, which may be something else than text */
	const char *text; /* of a scalar, without NUL inside */
	const char *key; /* of a map's member */
	struct conf_node *parent;
	struct conf_node *first; /* members of a list or map, in order */
	struct conf_node *last;
	struct conf_node *next;
};

struct conf;

/* @name is what errors call the text. HOLT_EINVALID for what is no YAML or not as above,
 * HOLT_ELIMIT for more than one of the limits. */
int conf_parse(
	const char *text, size_t len, const char *name, struct conf **ret, holt_error **reterr);
void conf_free(struct conf *c);

/* NULL where the text has no document. */
const struct conf_node *conf_root(const struct conf *c);
/* A member of a map, or NULL, also where @map is NULL or none. */
const struct conf_node *conf_get(const struct conf_node *map, const char *key);
/* The one behind @node in the order of the text, within @top; NULL at the end. */
const struct conf_node *conf_walk(const struct conf_node *node, const struct conf_node *top);
enum conf_kind conf_kind(const struct conf_node *scalar);
/* Whether a text says yes or no. */
bool conf_text_bool(const char *text, bool *ret);

/* An error of a line: "MESSAGE, in line LINE of 'NAME'", with @name as its object. */
int conf_error(holt_error **reterr, int code, const char *name, unsigned line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

static inline void conf_freep(struct conf **c)
{
	conf_free(*c);
}
#define auto_conf __attribute__((cleanup(conf_freep))) struct conf *

#endif
