/* SPDX-License-Identifier: Apache-2.0 */
#include "image/registries.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>

#include "base/conf.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/ref.h"
#include "base/banned.h"

/*
 * The file is read once, whole, and what it says is kept as endpoints without the registry itself;
 * a key that is not known is an error, since a mistyped "insecure" would go unnoticed otherwise.
 */

#define HUB_HOST "registry-1.docker.io" /* where Docker Hub really is */
#define URL_MAX  1024u
#define KEY_MAX  128u /* of a name in a message */

struct entry {
	char *registry;
	char *mirrors[REGISTRIES_MIRRORS_MAX];
	size_t n_mirrors;
	bool insecure;
	char *ca_file;
};

struct registries {
	char *name; /* of the file, for messages */
	struct entry *entries;
	size_t n;
};

static int fail(const struct registries *f, const struct conf_node *n, const char *what,
	holt_error **reterr)
{
	const char *text = n->key ? n->key : n->text ? n->text : "";
	char shown[KEY_MAX];

	(void)str_escape(shown, sizeof shown, text, strlen(text), false);
	return conf_error(reterr, HOLT_EINVALID, f->name, n->line, "'%s' %s", shown, what);
}

static bool is_host(const char *text, size_t len)
{
	auto_free char *name = str_printf("%.*s/x", (int)len, text);
	auto_ref r = {0};

	/* A name without a dot is a host here: add what docker would need to see one. */
	if (name && !memchr(text, '.', len) && !memchr(text, ':', len)) {
		mem_free(name);
		name = str_printf("%.*s:1/x", (int)len, text);
	}
	return len > 0 && len < URL_MAX && !memchr(text, '/', len) && name &&
	       ref_parse(name, &r, NULL) == 0;
}

/* The part between scheme and path; NULL where it is no URL of a registry. */
static const char *url_host(const char *url, size_t *ret_len)
{
	const char *host = str_starts(url, "https://")  ? url + 8
			   : str_starts(url, "http://") ? url + 7
							: NULL;

	if (!host || strlen(url) > URL_MAX || strpbrk(url, "@?# \t\r\n\\"))
		return NULL;
	for (const char *c = url; *c; c++) {
		if ((unsigned char)*c < 0x21 || (unsigned char)*c > 0x7e)
			return NULL;
	}
	*ret_len = strcspn(host, "/");
	return is_host(host, *ret_len) ? host : NULL;
}

static int read_mirrors(
	struct registries *f, struct entry *e, const struct conf_node *n, holt_error **reterr)
{
	size_t len = 0;

	if (n->type != CONF_LIST)
		return fail(f, n, "is no list of addresses", reterr);
	for (const struct conf_node *m = n->first; m; m = m->next) {
		if (e->n_mirrors == REGISTRIES_MIRRORS_MAX)
			return fail(f, n, "has too many mirrors", reterr);
		if (m->type != CONF_SCALAR || !url_host(m->text, &len))
			return fail(f, m, "is not an address such as https://mirror.example.org",
				reterr);
		char *url = str_dup(m->text);
		if (!url)
			return err_nomem(reterr);
		for (size_t end = strlen(url); end > 0 && url[end - 1] == '/'; end--)
			url[end - 1] = 0;
		e->mirrors[e->n_mirrors++] = url;
	}
	return 0;
}

static int read_ca(
	struct registries *f, struct entry *e, const struct conf_node *n, holt_error **reterr)
{
	if (n->type != CONF_SCALAR || n->text[0] != '/')
		return fail(f, n, "is not an absolute path", reterr);
	e->ca_file = str_dup(n->text);
	return e->ca_file ? 0 : err_nomem(reterr);
}

static int read_insecure(
	struct registries *f, struct entry *e, const struct conf_node *n, holt_error **reterr)
{
	if (n->type != CONF_SCALAR || conf_kind(n) != CONF_BOOL ||
		!conf_text_bool(n->text, &e->insecure))
		return fail(f, n, "is neither true nor false", reterr);
	return 0;
}

static int read_entry(
	struct registries *f, struct entry *e, const struct conf_node *n, holt_error **reterr)
{
	static const struct {
		const char *key;
		int (*read)(struct registries *, struct entry *, const struct conf_node *,
			holt_error **);
	} keys[] = {{"mirrors", read_mirrors}, {"insecure", read_insecure}, {"ca_file", read_ca}};

	if (!is_host(n->key, strlen(n->key)))
		return fail(f, n, "is not the name of a registry", reterr);
	if (n->type != CONF_MAP)
		return fail(f, n, "is no map of settings", reterr);
	if (!(e->registry = str_dup(n->key)))
		return err_nomem(reterr);
	for (const struct conf_node *m = n->first; m; m = m->next) {
		int r = -1;
		for (size_t i = 0; i < sizeof keys / sizeof *keys && r == -1; i++) {
			if (strcmp(m->key, keys[i].key) == 0 &&
				(r = keys[i].read(f, e, m, reterr)) < 0)
				return r;
		}
		if (r == -1)
			return fail(f, m, "is not known here", reterr);
	}
	return 0;
}

static int read_tree(struct registries *f, const struct conf_node *root, holt_error **reterr)
{
	const struct conf_node *list = conf_get(root, "registries");

	if (!root || (root->type == CONF_SCALAR && conf_kind(root) == CONF_NULL))
		return 0;
	if (root->type != CONF_MAP)
		return conf_error(reterr, HOLT_EINVALID, f->name, root->line, "this is no map");
	for (const struct conf_node *n = root->first; n; n = n->next) {
		if (n != list)
			return fail(f, n, "is not known here; 'registries' is", reterr);
	}
	if (!list || (list->type == CONF_SCALAR && conf_kind(list) == CONF_NULL))
		return 0;
	if (list->type != CONF_MAP)
		return fail(f, list, "is no map of registries", reterr);
	f->entries = mem_array(REGISTRIES_MAX, sizeof *f->entries);
	if (!f->entries)
		return err_nomem(reterr);
	memset(f->entries, 0, REGISTRIES_MAX * sizeof *f->entries);
	for (const struct conf_node *n = list->first; n; n = n->next) {
		if (f->n == REGISTRIES_MAX)
			return fail(f, list, "has too many registries", reterr);
		const int r = read_entry(f, &f->entries[f->n++], n, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_file(struct registries *f, holt_error **reterr)
{
	auto_free char *text = NULL;
	auto_conf c = NULL;
	size_t len = 0;
	int r = fs_read_file(AT_FDCWD, f->name, CONF_BYTES_MAX, &text, &len);

	if (r == -ENOENT)
		return 0;
	if (r < 0) {
		(void)err_errno(reterr, -r, "cannot read '%s'", f->name);
		err_object(reterr, f->name);
		return -holt_error_code(*reterr);
	}
	if ((r = conf_parse(text, len, f->name, &c, reterr)) == 0)
		r = read_tree(f, conf_root(c), reterr);
	return r;
}

int registries_read(const char *path, struct registries **ret, holt_error **reterr)
{
	struct registries *f = mem_zalloc(sizeof *f);
	holt_error *error = NULL;

	if (f)
		f->name = str_dup(path);
	const int r = f && f->name ? read_file(f, &error) : err_nomem(&error);
	if (r < 0) {
		registries_free(f);
		return err_take(reterr, error);
	}
	*ret = f;
	return 0;
}

void registries_free(struct registries *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++) {
		for (size_t k = 0; k < r->entries[i].n_mirrors; k++)
			mem_free(r->entries[i].mirrors[k]);
		mem_free(r->entries[i].registry);
		mem_free(r->entries[i].ca_file);
	}
	mem_free(r->entries);
	mem_free(r->name);
	mem_free(r);
}

static const struct entry *find(const struct registries *r, const char *registry)
{
	for (size_t i = 0; r && i < r->n; i++) {
		if (strcasecmp(r->entries[i].registry, registry) == 0)
			return &r->entries[i];
	}
	return NULL;
}

bool registry_is_loopback(const char *host)
{
	const size_t len = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");

	if (len == 9 && strncasecmp(host, "localhost", 9) == 0)
		return true;
	if (len == 5 && strncmp(host, "[::1]", 5) == 0)
		return true;
	/* "127.example.org" is a name. */
	unsigned dots = 0;
	for (size_t i = 0; i < len; i++) {
		if (host[i] != '.' && (host[i] < '0' || host[i] > '9'))
			return false;
		dots += host[i] == '.';
	}
	return dots == 3 && strncmp(host, "127.", 4) == 0;
}

/* What the file says about the host of a mirror holds for the mirror, too. */
static int add_mirror(const struct registries *r, const char *url, struct registry_endpoint *e,
	holt_error **reterr)
{
	size_t len = 0;
	const char *host = url_host(url, &len);

	e->mirror = true;
	e->url = str_dup(url);
	e->host = host ? str_ndup(host, len) : NULL;
	if (!e->url || !e->host)
		return err_nomem(reterr);
	const struct entry *own = find(r, e->host);
	e->insecure = own && own->insecure;
	if (own && own->ca_file && !(e->ca_file = str_dup(own->ca_file)))
		return err_nomem(reterr);
	return 0;
}

static int add_itself(const struct entry *own, const char *registry, struct registry_endpoint *e,
	holt_error **reterr)
{
	const bool hub = strcasecmp(registry, REF_HUB) == 0;
	const bool plain = registry_is_loopback(registry) &&
			   !(own && (own->ca_file || own->insecure));

	e->url = str_printf("%s://%s", plain ? "http" : "https", hub ? HUB_HOST : registry);
	e->host = str_dup(hub ? REF_HUB : registry);
	e->insecure = own && own->insecure;
	if (!e->url || !e->host || (own && own->ca_file && !(e->ca_file = str_dup(own->ca_file))))
		return err_nomem(reterr);
	return 0;
}

int registries_endpoints(const struct registries *r, const char *registry,
	struct registry_endpoint **ret, size_t *ret_n, holt_error **reterr)
{
	const struct entry *own = find(r, registry);
	const size_t n = (own ? own->n_mirrors : 0) + 1;
	struct registry_endpoint *list = mem_zalloc(n * sizeof *list);
	int code = list ? 0 : err_nomem(reterr);

	for (size_t i = 0; i + 1 < n && code == 0; i++)
		code = add_mirror(r, own->mirrors[i], &list[i], reterr);
	if (code == 0)
		code = add_itself(own, registry, &list[n - 1], reterr);
	if (code < 0) {
		registry_endpoints_free(list, list ? n : 0);
		return code;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

void registry_endpoints_free(struct registry_endpoint *e, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		mem_free(e[i].url);
		mem_free(e[i].host);
		mem_free(e[i].ca_file);
	}
	mem_free(e);
}
