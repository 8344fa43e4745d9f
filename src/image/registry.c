/* SPDX-License-Identifier: Apache-2.0 */
#include "image/registry.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cancel.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/registry_auth.h"
#include "base/banned.h"

/*
 * The places of a repository, mirrors first, are asked in turn until one has what is wanted. A
 * place:
 *
 *   UNKNOWN --401--> challenge answered --> has a login for all links --401--> one new one --> ...
 *   https of an insecure place that cannot be reached --> PLAIN (http) for all links
 *   a mirror that cannot be reached, or broke off --> LEFT, for as long as the registry is open
 *
 * One request is answered by at most two logins: what was known, and a new one. Whoever comes with
 * a login that another link has replaced meanwhile takes the new one. One link makes a place's
 * login, the others wait for it, each until it is cancelled itself; nothing blocks under the lock.
 */

#define TURN_MS      20 /* between two looks whether another link has a new login */
#define MIRROR_TRIES 2u /* there is somewhere else to go */
#define SAID_MAX     256u /* of a registry's own words */
#define CONTENT_HEAD                                                  \
	"Accept: application/vnd.oci.image.index.v1+json, "           \
	"application/vnd.oci.image.manifest.v1+json, "                \
	"application/vnd.docker.distribution.manifest.list.v2+json, " \
	"application/vnd.docker.distribution.manifest.v2+json"

struct place {
	struct registry_endpoint e;
	pthread_mutex_t lock; /* of what follows */
	char *login; /* value of Authorization, or NULL */
	unsigned generation; /* of the login */
	bool renewing; /* some link makes a new one, and has what is about who asks */
	bool who_known;
	struct credentials who;
	bool answered; /* by the scheme of its URL */
	bool plain; /* asked by http instead of https */
	bool left; /* not asked any more */
};

struct registry {
	struct registry_options o;
	char *user, *password, *ca_file;
	char *path; /* "library/alpine" */
	char *scope;
	struct place *places;
	size_t n;
};

struct registry_link {
	struct registry *r;
	const volatile int *cancel;
	struct http **clients; /* one a place, made when needed */
};

/* Opening. */

static void place_done(struct place *p)
{
	secret_free(p->login);
	credentials_done(&p->who);
	(void)pthread_mutex_destroy(&p->lock);
}

void registry_close(struct registry *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n; i++) {
		place_done(&r->places[i]);
		mem_free(r->places[i].e.url);
		mem_free(r->places[i].e.host);
		mem_free(r->places[i].e.ca_file);
	}
	mem_free(r->places);
	secret_free(r->user);
	secret_free(r->password);
	mem_free(r->ca_file);
	mem_free(r->path);
	mem_free(r->scope);
	mem_free(r);
}

static int copy_text(const char *text, char **ret)
{
	*ret = text ? str_dup(text) : NULL;
	return text && !*ret ? -HOLT_ENO_MEMORY : 0;
}

/* What the call says is about the registry that it names, not about its mirrors. */
static int apply_options(struct registry *r, struct place *p)
{
	const struct registry_options *o = &r->o;

	if (o->insecure)
		p->e.insecure = true;
	if (o->ca_file) {
		mem_free(p->e.ca_file);
		if (copy_text(o->ca_file, &p->e.ca_file) < 0)
			return -HOLT_ENO_MEMORY;
	}
	/* This machine is asked by http unless something speaks of certificates. */
	if ((o->insecure || o->ca_file) && str_starts(p->e.url, "http://")) {
		char *url = str_printf("https://%s", p->e.url + 7);
		if (!url)
			return -HOLT_ENO_MEMORY;
		mem_free(p->e.url);
		p->e.url = url;
	}
	return 0;
}

static int open_places(struct registry *r, const char *host, holt_error **reterr)
{
	struct registry_endpoint *list = NULL;
	size_t n = 0;
	int code = registries_endpoints(r->o.registries, host, &list, &n, reterr);

	if (code < 0)
		return code;
	r->places = mem_array(n, sizeof *r->places);
	if (!r->places) {
		registry_endpoints_free(list, n);
		return err_nomem(reterr);
	}
	for (size_t i = 0; i < n; i++) {
		r->places[i].e = list[i];
		(void)pthread_mutex_init(&r->places[i].lock, NULL);
	}
	r->n = n;
	mem_free(list);
	return apply_options(r, &r->places[n - 1]) < 0 ? err_nomem(reterr) : 0;
}

int registry_open(const struct ref *ref, const struct registry_options *o, struct registry **ret,
	holt_error **reterr)
{
	auto_free char *host = NULL;
	struct registry *r = mem_zalloc(sizeof *r);

	if (!r)
		return err_nomem(reterr);
	r->o = *o;
	int code = ref_locate(ref, &host, &r->path, reterr);
	if (code == 0) {
		r->scope = str_printf("repository:%s:pull", r->path);
		if (!r->scope || copy_text(o->user, &r->user) < 0 ||
			copy_text(o->password, &r->password) < 0)
			code = err_nomem(reterr);
	}
	if (code == 0)
		code = open_places(r, host, reterr);
	if (code < 0) {
		registry_close(r);
		return code;
	}
	*ret = r;
	return 0;
}

int registry_link_open(struct registry *r, const volatile int *cancel, struct registry_link **ret,
	holt_error **reterr)
{
	struct registry_link *l = mem_zalloc(sizeof *l);

	if (!l)
		return err_nomem(reterr);
	l->r = r;
	l->cancel = cancel ? cancel : r->o.cancel;
	l->clients = mem_array(r->n, sizeof *l->clients);
	if (!l->clients) {
		mem_free(l);
		return err_nomem(reterr);
	}
	*ret = l;
	return 0;
}

void registry_link_close(struct registry_link *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->r->n; i++)
		http_free(l->clients[i]);
	mem_free(l->clients);
	mem_free(l);
}

static int client_of(struct registry_link *l, size_t i, struct http **ret, holt_error **reterr)
{
	const struct registry_endpoint *e = &l->r->places[i].e;
	const struct http_options o = {
		.ca_file = e->ca_file, .insecure = e->insecure, .cancel = l->cancel};
	const int r = l->clients[i] ? 0 : http_new(&o, &l->clients[i], reterr);

	*ret = l->clients[i];
	return r;
}

/* Who asks. */

static int who_at(struct registry_link *l, struct place *p, holt_error **reterr)
{
	const struct registry *r = l->r;
	int code = 0;

	if (p->who_known)
		return 0;
	if (r->user && !p->e.mirror) {
		if (copy_text(r->user, &p->who.user) < 0 ||
			copy_text(r->password ? r->password : "", &p->who.password) < 0)
			return err_nomem(reterr);
	} else {
		code = credentials_find(p->e.host, l->cancel, &p->who, reterr);
	}
	p->who_known = code == 0;
	return code;
}

/* By the one link that renews. */
static int log_in(struct registry_link *l, struct place *p, struct http *h, const char *url,
	const struct http_reply *reply, holt_error **reterr)
{
	auto_challenge c = {0};
	char *login = NULL;
	const struct auth_where w = {
		.http = h, .url = url, .scope = l->r->scope, .insecure = p->e.insecure};
	int r = challenge_pick(reply->challenges, &c, reterr);

	if (r == 0)
		r = who_at(l, p, reterr);
	if (r == 0)
		r = auth_answer(&w, &c, &p->who, &login, reterr);
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&p->lock);
	secret_free(p->login);
	p->login = login;
	p->generation++;
	(void)pthread_mutex_unlock(&p->lock);
	return 0;
}

/* What a request goes with. */
struct attempt {
	char *login;
	unsigned generation;
	bool probing; /* https of an insecure place, which may not be there */
	char *base; /* "http(s)://..." of the place */
};

static void attempt_done(struct attempt *a)
{
	secret_free(a->login);
	mem_free(a->base);
	*a = (struct attempt){0};
}
#define auto_attempt __attribute__((cleanup(attempt_done))) struct attempt

static int attempt_begin(struct place *p, struct attempt *ret, holt_error **reterr)
{
	(void)pthread_mutex_lock(&p->lock);
	int r = copy_text(p->login, &ret->login);
	ret->generation = p->generation;
	ret->base = p->plain ? str_printf("http://%s", p->e.url + strlen("https://"))
			     : str_dup(p->e.url);
	ret->probing = p->e.insecure && !p->plain && !p->answered &&
		       str_starts(p->e.url, "https://");
	(void)pthread_mutex_unlock(&p->lock);
	return r < 0 || !ret->base ? err_nomem(reterr) : 0;
}

static void note_answer(struct place *p)
{
	(void)pthread_mutex_lock(&p->lock);
	p->answered = true;
	(void)pthread_mutex_unlock(&p->lock);
}

static void go_plain(struct place *p)
{
	(void)pthread_mutex_lock(&p->lock);
	p->plain = !p->answered || p->plain;
	(void)pthread_mutex_unlock(&p->lock);
}

enum turn { TURN_MINE, TURN_WAIT, TURN_OVER };

/* Whose turn it is to replace the login that @a went with: over, where it is replaced. */
static enum turn take_turn(struct place *p, const struct attempt *a)
{
	enum turn turn = TURN_MINE;

	(void)pthread_mutex_lock(&p->lock);
	if (p->generation != a->generation)
		turn = TURN_OVER;
	else if (p->renewing)
		turn = TURN_WAIT;
	else
		p->renewing = true;
	(void)pthread_mutex_unlock(&p->lock);
	return turn;
}

static int renew(struct registry_link *l, struct place *p, struct http *h, const struct attempt *a,
	const struct http_reply *reply, holt_error **reterr)
{
	const struct timespec step = {.tv_nsec = TURN_MS * 1000000};
	enum turn turn = take_turn(p, a);

	while (turn == TURN_WAIT) {
		if (cancel_flag_set(l->cancel))
			return err_make(reterr, HOLT_ECANCELLED, "the request was cancelled");
		(void)nanosleep(&step, NULL);
		turn = take_turn(p, a);
	}
	if (turn == TURN_OVER)
		return 0;
	const int r = log_in(l, p, h, a->base, reply, reterr);
	(void)pthread_mutex_lock(&p->lock);
	p->renewing = false;
	(void)pthread_mutex_unlock(&p->lock);
	return r;
}

/* What the registry itself says is wrong, escaped; "" where it does not. */
static void said(const struct http_reply *reply, char ret[SAID_MAX])
{
	auto_json doc = NULL;
	const char *text = NULL;

	*ret = 0;
	if (!reply->body ||
		json_parse(reply->body, reply->body_len, reply->body_len, "answer", &doc, NULL) < 0)
		return;
	const json_t *first = json_array_get(json_object_get(doc, "errors"), 0);
	if (json_get_str(first, "message", &text, NULL) == 0 && text && *text) {
		ret[0] = ':';
		ret[1] = ' ';
		(void)str_escape(ret + 2, SAID_MAX - 2, text, strlen(text), false);
	}
}

static int fail_status(const struct registry_link *l, const struct place *p, const char *what,
	const struct http_reply *reply, holt_error **reterr)
{
	char words[SAID_MAX];
	const int s = reply->status;
	const int code = s == 401 || s == 403               ? HOLT_EDENIED
			 : s == 404                         ? HOLT_ENOT_FOUND
			 : s == 408 || s == 429 || s >= 500 ? HOLT_EUNAVAILABLE
							    : HOLT_EPROTOCOL;

	said(reply, words);
	(void)err_make(reterr, code, "'%s' answers %d to '%s' of '%s'%s", p->e.host, s, what,
		l->r->path, words);
	err_object(reterr, l->r->path);
	if (code == HOLT_EDENIED)
		err_hint(reterr, "check the name; where it is private log in, with 'docker login' "
				 "or by --creds and --password-stdin");
	else if (code == HOLT_ENOT_FOUND)
		err_hint(reterr, "check the name and tag");
	else if (s == 400 && str_starts(p->e.url, "http://"))
		err_hint(reterr, "it may want TLS: give its CA, or call it insecure");
	else if (s == 429)
		err_hint(reterr, "the registry limits how much it serves: wait, or log in");
	return -code;
}

/* One request to a place, with whatever login it takes. @what is "manifests/..." or "blobs/...".
 * 0 for 2xx; 416 is left to the caller. */
static int ask(struct registry_link *l, size_t i, const char *what, struct http_request *q,
	struct http_reply *reply, holt_error **reterr)
{
	struct place *p = &l->r->places[i];
	struct http *h = NULL;
	int r = client_of(l, i, &h, reterr);

	for (unsigned logins = 0; r == 0;) {
		auto_attempt a = {0};
		auto_error error = NULL;
		http_reply_done(reply);
		if ((r = attempt_begin(p, &a, reterr)) < 0)
			return r;
		auto_free char *url = str_printf("%s/v2/%s/%s", a.base, l->r->path, what);
		if (!url)
			return err_nomem(reterr);
		q->url = url;
		q->authorization = a.login;
		q->tries = a.probing ? 1 : p->e.mirror ? MIRROR_TRIES : 0;
		r = http_do(h, q, reply, &error);
		if (r < 0 && reply->unreached && a.probing) {
			go_plain(p);
			r = 0;
			continue;
		}
		if (r < 0)
			return err_take(reterr, take_ptr(error));
		note_answer(p);
		if ((reply->status >= 200 && reply->status < 300) || reply->status == 416)
			return 0;
		if (reply->status != 401 || logins++ > 0)
			return fail_status(l, p, what, reply, reterr);
		r = renew(l, p, h, &a, reply, reterr);
	}
	return r;
}

/* Mirrors. */

static bool is_left(struct place *p)
{
	(void)pthread_mutex_lock(&p->lock);
	const bool left = p->left;
	(void)pthread_mutex_unlock(&p->lock);
	return left;
}

static void leave(struct place *p)
{
	(void)pthread_mutex_lock(&p->lock);
	p->left = true;
	(void)pthread_mutex_unlock(&p->lock);
}

bool registry_leave_mirrors(struct registry *r)
{
	bool any = false;

	for (size_t i = 0; i + 1 < r->n; i++) {
		any = any || !is_left(&r->places[i]);
		leave(&r->places[i]);
	}
	return any;
}

/* Whether the next place may have what place @i failed at; takes the error if so. */
static bool go_on(struct registry_link *l, size_t i, int r, holt_error **error)
{
	struct place *p = &l->r->places[i];

	if (!p->e.mirror || r == -HOLT_ECANCELLED || r == -HOLT_ENO_MEMORY)
		return false;
	log_info("image", "mirror '%s' is passed over: %s", p->e.host, holt_error_message(*error));
	if (r == -HOLT_EUNAVAILABLE)
		leave(p);
	holt_error_free(take_ptr(*error));
	return true;
}

/* Manifests. */

static bool is_schema1(const char *type, const json_t *doc)
{
	const json_t *version = json_object_get(doc, "schemaVersion");

	if (type && str_starts(type, "application/vnd.docker.distribution.manifest.v1+"))
		return true;
	return json_is_integer(version) && json_integer_value(version) == 1;
}

static int check_kind(
	const struct registry_link *l, const struct http_reply *reply, holt_error **reterr)
{
	auto_json doc = NULL;

	if (json_parse(reply->body, reply->body_len, MANIFEST_BYTES_MAX, "manifest", &doc, NULL) <
		0) {
		(void)err_make(
			reterr, HOLT_EPROTOCOL, "what came for '%s' is not a manifest", l->r->path);
		err_object(reterr, l->r->path);
		return -HOLT_EPROTOCOL;
	}
	if (!is_schema1(reply->content_type, doc))
		return 0;
	(void)err_make(reterr, HOLT_EUNSUPPORTED,
		"'%s' is stored in docker's old format (manifest schema 1)", l->r->path);
	err_object(reterr, l->r->path);
	err_hint(reterr, "push the image again with a docker of this decade");
	return -HOLT_EUNSUPPORTED;
}

static int check_digest(const struct registry_link *l, const char *reference,
	const struct http_reply *reply, const char *digest, holt_error **reterr)
{
	const bool pinned = strchr(reference, ':') != NULL;
	const char *claimed = reply->content_digest;
	const char *want = pinned ? reference : claimed && digest_valid(claimed) ? claimed : digest;

	if (strcmp(want, digest) == 0)
		return 0;
	(void)err_make(reterr, HOLT_EINVALID, "the manifest of '%s' has the digest '%s', not '%s'",
		l->r->path, digest, want);
	err_object(reterr, l->r->path);
	return -HOLT_EINVALID;
}

static int get_manifest(struct registry_link *l, size_t i, const char *reference,
	struct registry_manifest *ret, holt_error **reterr)
{
	static const char *const headers[] = {CONTENT_HEAD, NULL};
	auto_http_reply reply = {0};
	auto_free char *what = str_printf("manifests/%s", reference);
	struct registry_manifest m = {0};

	if (!what)
		return err_nomem(reterr);
	struct http_request q = {
		.method = "GET", .headers = headers, .body_max = MANIFEST_BYTES_MAX};
	int r = ask(l, i, what, &q, &reply, reterr);
	if (r == 0 && reply.status != 200)
		r = fail_status(l, &l->r->places[i], what, &reply, reterr);
	if (r == 0)
		r = check_kind(l, &reply, reterr);
	if (r == 0 && digest_of(reply.body, reply.body_len, m.digest) < 0)
		r = err_nomem(reterr);
	if (r == 0)
		r = check_digest(l, reference, &reply, m.digest, reterr);
	if (r < 0)
		return r;
	m.text = take_ptr(reply.body);
	m.len = reply.body_len;
	*ret = m;
	return 0;
}

int registry_manifest(struct registry_link *l, const char *reference, struct registry_manifest *ret,
	holt_error **reterr)
{
	for (size_t i = 0;; i++) {
		holt_error *error = NULL;
		if (i + 1 < l->r->n && is_left(&l->r->places[i]))
			continue;
		const int r = get_manifest(l, i, reference, ret, &error);
		if (r == 0 || !go_on(l, i, r, &error))
			return r < 0 ? err_take(reterr, error) : 0;
	}
}

/* Blobs. */

struct taking {
	int (*sink)(void *user, uint64_t at, const void *data, size_t len, holt_error **reterr);
	void *user;
	uint64_t size;
	uint64_t next; /* where the sink goes on */
	bool refused; /* by the sink */
	bool too_long;
};

static int take(void *user, uint64_t at, const void *data, size_t len, holt_error **reterr)
{
	struct taking *t = user;

	if (at > t->size || len > t->size - at) {
		t->too_long = true;
		return err_make(reterr, HOLT_EINVALID,
			"the blob has more than the %llu bytes that its manifest says",
			(unsigned long long)t->size);
	}
	const int r = t->sink(t->user, at, data, len, reterr);
	t->refused = r < 0;
	if (r == 0)
		t->next = at + len;
	return r;
}

static int get_blob(
	struct registry_link *l, size_t i, const char *what, struct taking *t, holt_error **reterr)
{
	auto_http_reply reply = {0};
	struct http_request q = {.method = "GET", .sink = take, .user = t, .from = t->next};
	int r = ask(l, i, what, &q, &reply, reterr);

	if (r == 0 && reply.status == 416 && q.from > 0) {
		q.from = 0;
		r = ask(l, i, what, &q, &reply, reterr);
	}
	if (r == 0 && reply.status != 200 && reply.status != 206)
		r = fail_status(l, &l->r->places[i], what, &reply, reterr);
	if (r == 0 && l->r->places[i].e.mirror && t->next < t->size)
		r = err_make(reterr, HOLT_EINVALID, "the blob ends early");
	return r;
}

int registry_blob(struct registry_link *l, const struct descriptor *d, uint64_t from,
	int (*sink)(void *user, uint64_t at, const void *data, size_t len, holt_error **reterr),
	void *user, holt_error **reterr)
{
	struct taking t = {.sink = sink, .user = user, .size = d->size, .next = from};
	auto_free char *what = str_printf("blobs/%s", d->digest);

	if (!what)
		return err_nomem(reterr);
	for (size_t i = 0;; i++) {
		holt_error *error = NULL;
		if (i + 1 < l->r->n && is_left(&l->r->places[i]))
			continue;
		const int r = get_blob(l, i, what, &t, &error);
		if (r < 0 && !t.refused && go_on(l, i, r, &error)) {
			t.next = t.too_long ? 0 : t.next;
			t.too_long = false;
			continue;
		}
		if (r < 0)
			err_object(&error, d->digest);
		return r < 0 ? err_take(reterr, error) : 0;
	}
}
