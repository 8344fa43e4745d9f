/* SPDX-License-Identifier: Apache-2.0 */
#include "image/registry_auth.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/registries.h"
#include "base/banned.h"

/*
 * The parser takes the grammar at its word and nothing beside it: what a registry sends decides
 * where a password goes, so a line that can be read in two ways is refused. Secrets go over https,
 * to this machine, or where the user said "insecure".
 */

#define REQUEST_MAX 65536u /* of a URL or form */
#define SHOWN_MAX   256u

/* The grammar. */

struct cursor {
	const char *at;
	const char *end;
};

static bool is_token_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip_space(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
		c->at++;
}

static size_t token(struct cursor *c, const char **ret)
{
	*ret = c->at;
	while (c->at < c->end && is_token_char(*c->at))
		c->at++;
	return (size_t)(c->at - *ret);
}

/* The characters of token68, then any number of "="; ends at a comma or the end. Moves on only
 * where it is one. */
static bool token68(struct cursor *c)
{
	struct cursor t = *c;

	while (t.at < t.end &&
		((is_token_char(*t.at) && !strchr("!#$%&'*^`|", *t.at)) || *t.at == '/'))
		t.at++;
	if (t.at == c->at)
		return false;
	while (t.at < t.end && *t.at == '=')
		t.at++;
	skip_space(&t);
	if (t.at < t.end && *t.at != ',')
		return false;
	*c = t;
	return true;
}

/* What is behind "=", unquoted, in fresh memory. */
static int value(struct cursor *c, char **ret)
{
	const char *word = NULL;
	size_t n = 0;

	if (c->at == c->end || *c->at != '"') {
		n = token(c, &word);
		return n && (*ret = str_ndup(word, n)) ? 0 : n ? -HOLT_ENO_MEMORY : -HOLT_EPROTOCOL;
	}
	auto_free char *text = mem_zalloc((size_t)(c->end - c->at));
	if (!text)
		return -HOLT_ENO_MEMORY;
	for (c->at++; c->at < c->end && *c->at != '"'; c->at++) {
		if (*c->at == '\\' && ++c->at == c->end)
			return -HOLT_EPROTOCOL;
		if ((unsigned char)*c->at < 0x20 || *c->at == 0x7f)
			return -HOLT_EPROTOCOL;
		text[n++] = *c->at;
	}
	if (c->at++ == c->end)
		return -HOLT_EPROTOCOL;
	*ret = take_ptr(text);
	return 0;
}

static bool is_word(const char *s, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(s, word, len) == 0;
}

/* A parameter that is there twice could mean two things. */
static int keep_param(struct challenge *c, const char *name, size_t len, char **text)
{
	char **to = is_word(name, len, "realm")     ? &c->realm
		    : is_word(name, len, "service") ? &c->service
		    : is_word(name, len, "scope")   ? &c->scope
						    : NULL;

	if (!to)
		return 0;
	if (*to)
		return -HOLT_EPROTOCOL;
	*to = take_ptr(*text);
	return 0;
}

/* "name = value"; -HOLT_ENOT_FOUND, and nothing moved, where it is the next challenge's scheme. */
static int param(struct cursor *c, struct challenge *ret)
{
	struct cursor t = *c;
	auto_free char *text = NULL;
	const char *name = NULL;
	const size_t len = token(&t, &name);

	if (len == 0)
		return -HOLT_EPROTOCOL;
	skip_space(&t);
	if (t.at == t.end || *t.at != '=')
		return -HOLT_ENOT_FOUND;
	t.at++;
	skip_space(&t);
	int r = value(&t, &text);
	if (r == 0)
		r = keep_param(ret, name, len, &text);
	skip_space(&t);
	if (r == 0 && t.at < t.end && *t.at != ',')
		return -HOLT_EPROTOCOL;
	*c = t;
	return r;
}

/* Commas, of which there may be more than one. */
static void skip_commas(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ',' || *c->at == ' ' || *c->at == '\t'))
		c->at++;
}

static int params(struct cursor *c, struct challenge *ret)
{
	for (unsigned n = 0; c->at < c->end; n++) {
		if (n == CHALLENGE_PARAMS_MAX)
			return -HOLT_EPROTOCOL;
		const int r = param(c, ret);
		if (r == -HOLT_ENOT_FOUND) /* a scheme, but only behind a comma */
			return n > 0 ? 0 : -HOLT_EPROTOCOL;
		if (r < 0)
			return r;
		skip_commas(c);
	}
	return 0;
}

static int challenge_read(struct cursor *c, struct challenge *ret)
{
	const char *word = NULL;
	const size_t len = token(c, &word);

	if (len == 0)
		return -HOLT_EPROTOCOL;
	ret->scheme = is_word(word, len, "bearer")  ? CHALLENGE_BEARER
		      : is_word(word, len, "basic") ? CHALLENGE_BASIC
						    : CHALLENGE_NONE;
	if (c->at == c->end || *c->at == ',') { /* alone */
		skip_commas(c);
		return 0;
	}
	if (*c->at != ' ')
		return -HOLT_EPROTOCOL;
	skip_space(c);
	if (c->at == c->end)
		return 0;
	if (token68(c)) {
		skip_commas(c);
		return 0;
	}
	return params(c, ret);
}

static bool is_usable(const struct challenge *c)
{
	return c->scheme == CHALLENGE_BASIC || (c->scheme == CHALLENGE_BEARER && c->realm);
}

static int read_line(const char *line, struct challenge *best)
{
	struct cursor c = {line, line + strlen(line)};

	if ((size_t)(c.end - c.at) > CHALLENGE_BYTES_MAX)
		return -HOLT_EPROTOCOL;
	skip_commas(&c);
	while (c.at < c.end) {
		auto_challenge one = {0};
		const int r = challenge_read(&c, &one);
		if (r < 0)
			return r;
		if (is_usable(&one) && one.scheme > best->scheme) {
			challenge_done(best);
			*best = one;
			one = (struct challenge){0};
		}
	}
	return 0;
}

int challenge_pick(char *const *lines, struct challenge *ret, holt_error **reterr)
{
	auto_challenge best = {0};

	for (size_t i = 0; lines && lines[i]; i++) {
		const int r = read_line(lines[i], &best);
		if (r == -HOLT_ENO_MEMORY)
			return err_nomem(reterr);
		if (r < 0) {
			char shown[SHOWN_MAX];
			(void)str_escape(shown, sizeof shown, lines[i], strlen(lines[i]), false);
			return err_make(reterr, HOLT_EPROTOCOL,
				"the registry asks for a login in a malformed way: '%s'", shown);
		}
	}
	if (best.scheme == CHALLENGE_NONE)
		return err_make(reterr, HOLT_EUNSUPPORTED,
			"the registry asks for a login that is neither Basic nor Bearer");
	*ret = best;
	best = (struct challenge){0};
	return 0;
}

void challenge_done(struct challenge *c)
{
	mem_free(c->realm);
	mem_free(c->service);
	mem_free(c->scope);
	*c = (struct challenge){0};
}

/* Answers. */

static const char *host_of(const char *url)
{
	const char *slashes = strstr(url, "://");

	return slashes ? slashes + 3 : url;
}

static bool is_https(const char *url)
{
	return strncasecmp(url, "https://", 8) == 0;
}

/* Whether a secret may be sent to @url. */
static int allow_secret(const struct auth_where *w, const char *url, holt_error **reterr)
{
	char shown[SHOWN_MAX];
	const char *host = host_of(url);
	auto_free char *name = str_ndup(host, strcspn(host, "/?#"));

	if (!name)
		return err_nomem(reterr);
	if (is_https(url) || w->insecure)
		return 0;
	if (registry_is_loopback(name) && !is_https(w->url))
		return 0;
	(void)str_escape(shown, sizeof shown, url, strcspn(url, "?#"), false);
	(void)err_make(
		reterr, HOLT_EDENIED, "the login may not be sent to '%s' without TLS", shown);
	err_hint(reterr, "if its network is to be trusted, allow that by --insecure, or by "
			 "'insecure: true' in registries.yaml");
	return -HOLT_EDENIED;
}

static int denied(const struct auth_where *w, const char *why, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EDENIED, "%s at '%s'", why, w->url);
	err_hint(reterr, "check the name; where it is private log in, with 'docker login' or by "
			 "--creds and --password-stdin");
	return -HOLT_EDENIED;
}

static void base64(const char *data, size_t len, char *ret)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		const unsigned a = (unsigned char)data[i];
		const unsigned b = i + 1 < len ? (unsigned char)data[i + 1] : 0;
		const unsigned c = i + 2 < len ? (unsigned char)data[i + 2] : 0;
		*ret++ = digits[a >> 2];
		*ret++ = digits[(a & 3) << 4 | b >> 4];
		*ret++ = i + 1 < len ? digits[(b & 15) << 2 | c >> 6] : '=';
		*ret++ = i + 2 < len ? digits[c & 63] : '=';
	}
	*ret = 0;
}

static int basic(const struct credentials *who, char **ret, holt_error **reterr)
{
	auto_secret plain = NULL;

	if (strchr(who->user, ':'))
		return err_make(reterr, HOLT_EINVALID, "the user's name has a colon in it");
	plain = str_printf("%s:%s", who->user, who->password);
	const size_t len = plain ? strlen(plain) : 0;
	auto_secret code = plain ? mem_zalloc((len + 2) / 3 * 4 + 1) : NULL;
	if (!code)
		return err_nomem(reterr);
	base64(plain, len, code);
	*ret = str_printf("Basic %s", code);
	return *ret ? 0 : err_nomem(reterr);
}

/* "name=value" of a query or form, behind @sep. */
static int add_field(struct buf *b, const char *sep, const char *name, const char *text)
{
	static const char hex[] = "0123456789ABCDEF";
	int r = buf_appends(b, sep);

	if (r == 0)
		r = buf_appends(b, name);
	if (r == 0)
		r = buf_appends(b, "=");
	for (const char *c = text; *c && r == 0; c++) {
		const unsigned char u = (unsigned char)*c;
		const bool plain = (u >= 'a' && u <= 'z') || (u >= 'A' && u <= 'Z') ||
				   (u >= '0' && u <= '9') || strchr("-._~:/", *c);
		const char code[] = {'%', hex[u >> 4], hex[u & 15], 0};
		r = plain ? buf_append(b, c, 1) : buf_appends(b, code);
	}
	return r;
}

static int add_what(
	struct buf *b, const char *sep, const struct auth_where *w, const struct challenge *c)
{
	int r = 0;

	if (c->service) {
		r = add_field(b, sep, "service", c->service);
		sep = "&";
	}
	return r < 0 ? r : add_field(b, sep, "scope", c->scope ? c->scope : w->scope);
}

static int too_long(int r, holt_error **reterr)
{
	return r == 0 ? 0
	       : r == -ENOMEM
		       ? err_nomem(reterr)
		       : err_make(reterr, HOLT_ELIMIT, "the request for a token is too long");
}

static int ask_get(const struct auth_where *w, const struct challenge *c,
	const struct credentials *who, struct http_reply *reply, holt_error **reterr)
{
	auto_buf url = BUF_INIT(REQUEST_MAX);
	auto_secret login = NULL;
	int r = buf_appends(&url, c->realm);

	if (r == 0)
		r = add_what(&url, strchr(c->realm, '?') ? "&" : "?", w, c);
	if (r == 0 && who->user)
		r = add_field(&url, "&", "account", who->user);
	if ((r = too_long(r, reterr)) == 0 && who->user)
		r = basic(who, &login, reterr);
	if (r < 0)
		return r;
	const struct http_request q = {.method = "GET",
		.url = (const char *)url.data,
		.authorization = login,
		.body_max = TOKEN_BYTES_MAX};
	return http_do(w->http, &q, reply, reterr);
}

static int ask_post(const struct auth_where *w, const struct challenge *c,
	const struct credentials *who, struct http_reply *reply, holt_error **reterr)
{
	struct buf form = BUF_INIT(REQUEST_MAX);
	int r = buf_appends(&form, "grant_type=refresh_token&client_id=holt");

	if (r == 0)
		r = add_what(&form, "&", w, c);
	if (r == 0)
		r = add_field(&form, "&", "refresh_token", who->identity_token);
	if ((r = too_long(r, reterr)) == 0) {
		const struct http_request q = {.method = "POST",
			.url = c->realm,
			.form = (const char *)form.data,
			.body_max = TOKEN_BYTES_MAX};
		r = http_do(w->http, &q, reply, reterr);
	}
	if (form.data)
		explicit_bzero(form.data, form.cap);
	buf_done(&form);
	return r;
}

static bool is_token_text(const char *text)
{
	for (const char *c = text; *c; c++) {
		if ((unsigned char)*c < 0x21 || (unsigned char)*c > 0x7e)
			return false;
	}
	return *text != 0;
}

/* "token", or "access_token" as OAuth2 calls it. The text of the answer is in no message. */
static int read_token(const struct http_reply *reply, char **ret, holt_error **reterr)
{
	auto_json doc = NULL;
	const char *text = NULL;

	if (json_parse(reply->body, reply->body_len, TOKEN_BYTES_MAX, "token", &doc, NULL) < 0 ||
		json_get_str(doc, "token", &text, NULL) < 0 ||
		(!text && json_get_str(doc, "access_token", &text, NULL) < 0) || !text ||
		!is_token_text(text))
		return err_make(reterr, HOLT_EPROTOCOL, "the token server's answer has no token");
	*ret = str_printf("Bearer %s", text);
	secret_wipe_json(doc);
	return *ret ? 0 : err_nomem(reterr);
}

static int bearer(const struct auth_where *w, const struct challenge *c,
	const struct credentials *who, char **ret, holt_error **reterr)
{
	auto_http_reply reply = {0};
	const bool known = who->user || who->identity_token;
	int r = known ? allow_secret(w, c->realm, reterr) : 0;

	if (r < 0)
		return r;
	if (!is_https(c->realm) && strncasecmp(c->realm, "http://", 7) != 0)
		return err_make(reterr, HOLT_EPROTOCOL, "the registry names no address for tokens");
	r = who->identity_token ? ask_post(w, c, who, &reply, reterr)
				: ask_get(w, c, who, &reply, reterr);
	if (r < 0)
		return r;
	if (reply.status == 200)
		return read_token(&reply, ret, reterr);
	if (reply.status == 401 || reply.status == 403 || (known && reply.status == 400))
		return denied(w, known ? "the login is refused" : "a login is needed", reterr);
	return err_make(reterr,
		reply.status == 429 || reply.status >= 500 ? HOLT_EUNAVAILABLE : HOLT_EPROTOCOL,
		"the token server answers %d", reply.status);
}

int auth_answer(const struct auth_where *w, const struct challenge *c,
	const struct credentials *who, char **ret, holt_error **reterr)
{
	if (c->scheme == CHALLENGE_BEARER)
		return bearer(w, c, who, ret, reterr);
	if (!who->user)
		return denied(w, "a login is needed", reterr);
	const int r = allow_secret(w, w->url, reterr);
	return r < 0 ? r : basic(who, ret, reterr);
}
