/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * A loop over libyaml's events builds the tree; nothing here recurses, since depth is the text's
 * choice. An alias copies what its anchor is at, so that every walk over the tree is as long as the
 * tree has nodes, and those are counted: a few lines of aliases of aliases would otherwise be
 * billions. Texts of copies are shared with the original.
 */

#define SHOWN_MAX   96u /* of a key in a message */
#define MESSAGE_MAX 512u
#define DEEP        "levels of maps and lists"

/* A node as this file sees it. */
struct item {
	struct conf_node node; /* the first, so that a node is its item */
	struct item *older; /* all of a conf, newest first */
	char *own_text; /* NULL in copies */
	char *own_key;
	bool open; /* its end is still to come */
};

struct anchor {
	char *name;
	const struct conf_node *node;
};

struct conf {
	char *name;
	struct item *items;
	struct conf_node *root;
};

struct builder {
	struct conf *conf;
	yaml_parser_t *parser;
	size_t n_nodes;
	unsigned depth;
	struct conf_node *in; /* the map or list that is open */
	char *key; /* of the next member of a map */
	unsigned key_line;
	bool ended; /* the document was there */
	struct anchor anchors[CONF_ANCHORS_MAX];
	size_t n_anchors;
};

int conf_error(holt_error **reterr, int code, const char *name, unsigned line, const char *fmt, ...)
{
	char message[MESSAGE_MAX], shown[MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	(void)str_escape(shown, sizeof shown, name, strlen(name), false);
	(void)err_make(reterr, code, "%s, in line %u of '%s'", message, line, shown);
	err_stage(reterr, "config");
	err_object(reterr, name);
	return -code;
}

static int fail(const struct builder *b, unsigned line, const char *what, holt_error **reterr)
{
	return conf_error(reterr, HOLT_EINVALID, b->conf->name, line, "%s", what);
}

static int fail_key(const struct builder *b, unsigned line, const char *key, const char *what,
	holt_error **reterr)
{
	char shown[SHOWN_MAX];

	(void)str_escape(shown, sizeof shown, key, strlen(key), false);
	return conf_error(reterr, HOLT_EINVALID, b->conf->name, line, "'%s' %s", shown, what);
}

static int fail_limit(
	const struct builder *b, unsigned line, unsigned max, const char *what, holt_error **reterr)
{
	return conf_error(reterr, HOLT_ELIMIT, b->conf->name, line, "more than %u %s", max, what);
}

static unsigned line_of(const yaml_event_t *e)
{
	return (unsigned)e->start_mark.line + 1;
}

/* ---- nodes ---- */

static bool is_twice(const struct conf_node *map, const char *key)
{
	return conf_get(map, key) != NULL;
}

/* Put @node where the text is; takes the key. */
static int attach(struct builder *b, struct item *item, holt_error **reterr)
{
	struct conf_node *const n = &item->node;

	if (!b->in) {
		b->conf->root = n;
		return 0;
	}
	if (b->in->type == CONF_MAP && b->key) {
		if (is_twice(b->in, b->key))
			return fail_key(b, b->key_line, b->key, "is there a second time", reterr);
		n->line = b->key_line;
		n->key = item->own_key = take_ptr(b->key);
	}
	n->parent = b->in;
	if (b->in->last)
		b->in->last->next = n;
	else
		b->in->first = n;
	b->in->last = n;
	return 0;
}

/* A new node, which the conf owns. */
static int new_item(struct builder *b, enum conf_type type, unsigned line, struct item **ret,
	holt_error **reterr)
{
	if (b->n_nodes >= CONF_NODES_MAX)
		return fail_limit(b, line, CONF_NODES_MAX, "values", reterr);
	struct item *const item = mem_zalloc(sizeof *item);
	if (!item)
		return err_nomem(reterr);
	item->node.type = type;
	item->node.line = line;
	item->older = b->conf->items;
	b->conf->items = item;
	b->n_nodes++;
	*ret = item;
	return 0;
}

static int take_text(
	const struct builder *b, const yaml_event_t *e, char **ret, holt_error **reterr)
{
	const char *const text = (const char *)e->data.scalar.value;

	if (memchr(text, 0, e->data.scalar.length))
		return fail(b, line_of(e), "a NUL character", reterr);
	*ret = str_ndup(text, e->data.scalar.length);
	return *ret ? 0 : err_nomem(reterr);
}

/* ---- anchors ---- */

static const struct conf_node *find_anchor(const struct builder *b, const char *name)
{
	for (size_t i = 0; i < b->n_anchors; i++) {
		if (strcmp(b->anchors[i].name, name) == 0)
			return b->anchors[i].node;
	}
	return NULL;
}

static int add_anchor(struct builder *b, const yaml_char_t *name, const struct conf_node *node,
	holt_error **reterr)
{
	const char *const text = (const char *)name;

	if (!text)
		return 0;
	if (find_anchor(b, text))
		return fail_key(b, node->line, text, "is an anchor a second time", reterr);
	if (b->n_anchors == CONF_ANCHORS_MAX)
		return fail_limit(b, node->line, CONF_ANCHORS_MAX, "anchors", reterr);
	char *const copy = str_dup(text);
	if (!copy)
		return err_nomem(reterr);
	b->anchors[b->n_anchors++] = (struct anchor){copy, node};
	return 0;
}

/* A copy of one node without its members, into the container that is open. */
static int copy_node(struct builder *b, const struct conf_node *from, struct conf_node **ret,
	holt_error **reterr)
{
	struct item *item = NULL;
	int r = 0;

	if (from->type != CONF_SCALAR && b->depth == CONF_DEPTH_MAX)
		return fail_limit(
			b, b->key ? b->key_line : from->line, CONF_DEPTH_MAX, DEEP, reterr);
	r = new_item(b, from->type, from->line, &item, reterr);
	if (r < 0 || !item)
		return r;
	item->node.plain = from->plain;
	item->node.text = from->text;
	r = attach(b, item, reterr);
	*ret = &item->node;
	return r;
}

/* Go to @from's next node within @top, and let the open container follow. NULL at the end. */
static const struct conf_node *copy_step(struct builder *b, const struct conf_node *from,
	const struct conf_node *top, struct conf_node *copy)
{
	if (from->first) {
		b->in = copy;
		b->depth++;
		return from->first;
	}
	while (from != top && !from->next) {
		from = from->parent;
		if (from != top) {
			b->in = b->in->parent;
			b->depth--;
		}
	}
	return from == top ? NULL : from->next;
}

static int copy_tree(struct builder *b, const struct conf_node *top, holt_error **reterr)
{
	struct conf_node *const in = b->in;
	const unsigned depth = b->depth;
	const struct conf_node *from = top;
	struct conf_node *copy = NULL;
	int r = copy_node(b, top, &copy, reterr);

	while (r == 0 && (from = copy_step(b, from, top, copy))) {
		if (from->key) {
			b->key = str_dup(from->key);
			b->key_line = from->line;
			r = b->key ? 0 : err_nomem(reterr);
		}
		if (r == 0)
			r = copy_node(b, from, &copy, reterr);
	}
	b->in = in;
	b->depth = depth;
	return r;
}

/* ---- events ---- */

static bool needs_key(const struct builder *b)
{
	return b->in && b->in->type == CONF_MAP && !b->key;
}

static int on_alias(struct builder *b, const yaml_event_t *e, holt_error **reterr)
{
	const char *const name = (const char *)e->data.alias.anchor;
	const struct conf_node *const node = find_anchor(b, name);

	if (needs_key(b))
		return fail(b, line_of(e), "an alias in place of a key", reterr);
	if (!node)
		return fail_key(b, line_of(e), name, "is an alias of nothing", reterr);
	if (((const struct item *)(const void *)node)->open)
		return fail_key(b, line_of(e), name, "is an alias of what it is in", reterr);
	return copy_tree(b, node, reterr);
}

/* Tags may only say what is there anyway: a program that makes objects of them is a danger. */
static int check_tag(const struct builder *b, const yaml_event_t *e, const yaml_char_t *tag,
	bool *ret_text, holt_error **reterr)
{
	static const char *const known[] = {YAML_NULL_TAG, YAML_BOOL_TAG, YAML_INT_TAG,
		YAML_FLOAT_TAG, YAML_SEQ_TAG, YAML_MAP_TAG};
	const char *const text = (const char *)tag;

	*ret_text = text && (strcmp(text, "!") == 0 || strcmp(text, YAML_STR_TAG) == 0);
	if (!text || *ret_text)
		return 0;
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (strcmp(text, known[i]) == 0)
			return 0;
	}
	return fail_key(b, line_of(e), text, "is a tag without meaning", reterr);
}

static int on_key(struct builder *b, const yaml_event_t *e, holt_error **reterr)
{
	if (e->data.scalar.anchor)
		return fail(b, line_of(e), "an anchor at a key", reterr);
	b->key_line = line_of(e);
	return take_text(b, e, &b->key, reterr);
}

static int on_scalar(struct builder *b, const yaml_event_t *e, holt_error **reterr)
{
	struct item *item = NULL;
	bool text = false;
	int r = check_tag(b, e, e->data.scalar.tag, &text, reterr);

	if (r < 0)
		return r;
	if (needs_key(b))
		return on_key(b, e, reterr);
	if ((r = new_item(b, CONF_SCALAR, line_of(e), &item, reterr)) < 0 ||
		(r = take_text(b, e, &item->own_text, reterr)) < 0)
		return r;
	item->node.text = item->own_text;
	item->node.plain = !text &&
			   (e->data.scalar.tag || e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE);
	r = attach(b, item, reterr);
	return r < 0 ? r : add_anchor(b, e->data.scalar.anchor, &item->node, reterr);
}

static int on_begin(struct builder *b, const yaml_event_t *e, enum conf_type type,
	const yaml_char_t *anchor, const yaml_char_t *tag, holt_error **reterr)
{
	struct item *item = NULL;
	bool text = false;
	int r = check_tag(b, e, tag, &text, reterr);

	if (r < 0)
		return r;
	if (needs_key(b))
		return fail(b, line_of(e), "a map or list in place of a key", reterr);
	if (b->depth == CONF_DEPTH_MAX)
		return fail_limit(b, line_of(e), CONF_DEPTH_MAX, DEEP, reterr);
	if ((r = new_item(b, type, line_of(e), &item, reterr)) < 0 ||
		(r = attach(b, item, reterr)) < 0)
		return r;
	item->open = true;
	b->in = &item->node;
	b->depth++;
	return add_anchor(b, anchor, &item->node, reterr);
}

static int on_end(struct builder *b)
{
	((struct item *)(void *)b->in)->open = false;
	b->in = b->in->parent;
	b->depth--;
	return 0;
}

static int on_event(struct builder *b, const yaml_event_t *e, holt_error **reterr)
{
	switch (e->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (b->ended)
			return fail(b, line_of(e), "a second document begins", reterr);
		b->ended = true;
		return 0;
	case YAML_ALIAS_EVENT:
		return on_alias(b, e, reterr);
	case YAML_SCALAR_EVENT:
		return on_scalar(b, e, reterr);
	case YAML_SEQUENCE_START_EVENT:
		return on_begin(b, e, CONF_LIST, e->data.sequence_start.anchor,
			e->data.sequence_start.tag, reterr);
	case YAML_MAPPING_START_EVENT:
		return on_begin(b, e, CONF_MAP, e->data.mapping_start.anchor,
			e->data.mapping_start.tag, reterr);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return on_end(b);
	case YAML_NO_EVENT:
	case YAML_STREAM_START_EVENT:
	case YAML_STREAM_END_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		break;
	}
	return 0;
}

/* What libyaml has against the text. */
static int parser_error(const struct builder *b, holt_error **reterr)
{
	const yaml_parser_t *const p = b->parser;
	const char *const problem = p->problem ? p->problem : "cannot be read";
	size_t line = p->problem_mark.line;

	if (p->error == YAML_MEMORY_ERROR)
		return err_nomem(reterr);
	if (p->error == YAML_READER_ERROR)
		line = p->mark.line; /* near it: the reader knows offsets only */
	(void)conf_error(reterr, HOLT_EINVALID, b->conf->name, (unsigned)line + 1,
		"no valid YAML: %s", problem);
	err_hint(reterr, "look at indentation, quotes and tabs there");
	return -HOLT_EINVALID;
}

static int read_events(struct builder *b, holt_error **reterr)
{
	bool end = false;
	int r = 0;

	while (r == 0 && !end) {
		yaml_event_t e;

		if (!yaml_parser_parse(b->parser, &e))
			return parser_error(b, reterr);
		r = on_event(b, &e, reterr);
		end = e.type == YAML_STREAM_END_EVENT;
		yaml_event_delete(&e);
	}
	return r;
}

static int build(struct conf *c, const char *text, size_t len, holt_error **reterr)
{
	yaml_parser_t parser;
	auto_free struct builder *b = mem_zalloc(sizeof *b);

	if (!b || !yaml_parser_initialize(&parser))
		return err_nomem(reterr);
	b->conf = c;
	b->parser = &parser;
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	const int r = read_events(b, reterr);
	yaml_parser_delete(&parser);
	for (size_t i = 0; i < b->n_anchors; i++)
		mem_free(b->anchors[i].name);
	mem_free(b->key);
	return r;
}

int conf_parse(
	const char *text, size_t len, const char *name, struct conf **ret, holt_error **reterr)
{
	auto_conf c = mem_zalloc(sizeof *c);

	if (!c || !(c->name = str_dup(name)))
		return err_nomem(reterr);
	if (len > CONF_BYTES_MAX) {
		(void)err_make(
			reterr, HOLT_ELIMIT, "'%s' has more than %u bytes", name, CONF_BYTES_MAX);
		err_stage(reterr, "config");
		err_object(reterr, name);
		return -HOLT_ELIMIT;
	}
	const int r = build(c, text ? text : "", len, reterr);
	if (r == 0)
		*ret = take_ptr(c);
	return r;
}

void conf_free(struct conf *c)
{
	if (!c)
		return;
	while (c->items) {
		struct item *const item = c->items;

		c->items = item->older;
		mem_free(item->own_text);
		mem_free(item->own_key);
		mem_free(item);
	}
	mem_free(c->name);
	mem_free(c);
}

/* ---- looking at it ---- */

const struct conf_node *conf_root(const struct conf *c)
{
	return c->root;
}

const struct conf_node *conf_get(const struct conf_node *map, const char *key)
{
	const struct conf_node *n = map && map->type == CONF_MAP ? map->first : NULL;

	while (n && strcmp(n->key, key) != 0)
		n = n->next;
	return n;
}

const struct conf_node *conf_walk(const struct conf_node *node, const struct conf_node *top)
{
	if (node->first)
		return node->first;
	while (node != top && !node->next)
		node = node->parent;
	return node == top ? NULL : node->next;
}

static bool is_one_of(const char *text, const char *const *list)
{
	for (; *list; list++) {
		if (strcmp(text, *list) == 0)
			return true;
	}
	return false;
}

bool conf_text_bool(const char *text, bool *ret)
{
	static const char *const yes[] = {
		"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", NULL};
	static const char *const no[] = {
		"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", NULL};

	if (!is_one_of(text, yes) && !is_one_of(text, no))
		return false;
	*ret = is_one_of(text, yes);
	return true;
}

static bool all_of(const char *text, const char *set)
{
	return *text && text[strspn(text, set)] == 0;
}

/* Behind a sign: bases 2, 16 and 8, and 10 with base 60 behind colons. */
static bool is_int(const char *text)
{
	if (text[0] != '0')
		return text[0] >= '1' && text[0] <= '9' && all_of(text, "0123456789_:");
	if (text[1] == 'b')
		return all_of(text + 2, "01_");
	if (text[1] == 'x')
		return all_of(text + 2, "0123456789abcdefABCDEF_");
	return all_of(text, "01234567_");
}

static bool is_float(const char *text)
{
	static const char *const names[] = {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", NULL};
	const size_t whole = strspn(text, "0123456789_:");
	const char *at = text + whole;

	if (is_one_of(text, names))
		return true;
	if (*at != '.' || text[0] == '_' || text[0] == ':' || (whole == 0 && at[1] == '_'))
		return false;
	const size_t part = strspn(at + 1, "0123456789_");
	at += 1 + part;
	if (whole == 0 && part == 0)
		return false;
	if ((*at == 'e' || *at == 'E') && (at[1] == '+' || at[1] == '-'))
		return at[2] && at[2 + strspn(at + 2, "0123456789")] == 0;
	return *at == 0;
}

enum conf_kind conf_kind(const struct conf_node *scalar)
{
	static const char *const null[] = {"", "~", "null", "Null", "NULL", NULL};
	const char *text = scalar->text;
	bool value = false;

	if (!scalar->plain)
		return CONF_TEXT;
	if (is_one_of(text, null))
		return CONF_NULL;
	if (conf_text_bool(text, &value))
		return CONF_BOOL;
	text += *text == '+' || *text == '-';
	return is_int(text) ? CONF_INT : is_float(text) ? CONF_FLOAT : CONF_TEXT;
}
