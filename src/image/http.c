/* SPDX-License-Identifier: Apache-2.0 */
#include "image/http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "image/registries.h"
#include "base/banned.h"

/*
 * A request is a row of hops: each is one transfer by libcurl, which follows nothing, keeps no
 * cookies and reads no .netrc. A hop that fails on its way, or is answered by "later", is made
 * again after a pause; one that is answered by a redirect leads to the next URL. The caller's
 * thread does everything and looks at its flag every POLL_MS.
 *
 * Texts of errors name URLs without what is behind '?': signatures are there.
 */

#define POLL_MS        50 /* a cancelled request ends within 200 ms */
#define ERROR_BODY_MAX 16384u /* of an answer that is no success: enough for what it says */
#define TOTAL_MS       300000L /* of a request without a sink; its body is small */
#define BACKOFF_MS     250u /* before the second try; doubled for each further one */
#define URL_MAX        16384u
#define CHALLENGES_MAX 16u
#define SHOWN_MAX      512u

struct http {
	CURLM *multi;
	CURL *easy;
	char *ca_file;
	bool insecure;
	const volatile int *cancel;
};

/* One transfer. */
struct hop {
	const struct http_request *q;
	struct http *http;
	struct http_reply *reply;
	struct buf body;
	size_t header_bytes;
	bool judged; /* the first byte of the body was looked at */
	bool cut; /* we had enough of an answer that is no success */
	bool begun; /* the sink has had something */
	uint64_t at;
	char *content_range;
	holt_error *error; /* of a callback */
	char text[CURL_ERROR_SIZE];
};

static pthread_once_t started = PTHREAD_ONCE_INIT;
static CURLcode start_result;

static void start(void)
{
	start_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int http_new(const struct http_options *o, struct http **ret, holt_error **reterr)
{
	(void)pthread_once(&started, start);
	struct http *h = mem_zalloc(sizeof *h);

	if (!h)
		return err_nomem(reterr);
	h->insecure = o->insecure;
	h->cancel = o->cancel;
	h->ca_file = o->ca_file ? str_dup(o->ca_file) : NULL;
	h->multi = start_result == CURLE_OK ? curl_multi_init() : NULL;
	h->easy = h->multi ? curl_easy_init() : NULL;
	if (!h->easy || (o->ca_file && !h->ca_file)) {
		http_free(h);
		return err_nomem(reterr);
	}
	*ret = h;
	return 0;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	if (h->easy)
		curl_easy_cleanup(h->easy);
	if (h->multi)
		(void)curl_multi_cleanup(h->multi);
	mem_free(h->ca_file);
	mem_free(h);
}

void http_reply_done(struct http_reply *r)
{
	/* A token may be in it. */
	if (r->body)
		explicit_bzero(r->body, r->body_len);
	mem_free(r->body);
	mem_free(r->content_type);
	mem_free(r->content_digest);
	strv_free(r->challenges);
	*r = (struct http_reply){0};
}

static void show(const char *url, char ret[SHOWN_MAX])
{
	(void)str_escape(ret, SHOWN_MAX, url, strcspn(url, "?#"), false);
}

/* Headers. */

static int keep(char **to, const char *value, size_t len)
{
	char *copy = str_ndup(value, len);

	if (!copy)
		return -HOLT_ENO_MEMORY;
	mem_free(*to);
	*to = copy;
	return 0;
}

static int keep_challenge(struct hop *p, const char *value, size_t len)
{
	const size_t n = p->reply->challenges ? strv_len((const char *const *)p->reply->challenges)
					      : 0;

	if (n >= CHALLENGES_MAX)
		return err_make(&p->error, HOLT_ELIMIT, "the answer has more than %u challenges",
			CHALLENGES_MAX);
	char **more = mem_resize(p->reply->challenges, n + 2, sizeof *more);
	if (!more)
		return -HOLT_ENO_MEMORY;
	p->reply->challenges = more;
	more[n + 1] = NULL;
	more[n] = str_ndup(value, len);
	return more[n] ? 0 : -HOLT_ENO_MEMORY;
}

/* The value of a header line, without spaces around it; NULL where it is another header. */
static const char *value_of(const char *line, size_t len, const char *name, size_t *ret_len)
{
	const size_t n = strlen(name);

	if (len <= n || strncasecmp(line, name, n) != 0 || line[n] != ':')
		return NULL;
	const char *v = line + n + 1, *end = line + len;
	while (v < end && (*v == ' ' || *v == '\t'))
		v++;
	while (end > v && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*ret_len = (size_t)(end - v);
	return v;
}

static int take_header(struct hop *p, const char *line, size_t len)
{
	size_t n = 0;
	const char *v = NULL;

	if ((v = value_of(line, len, "content-type", &n)))
		return keep(&p->reply->content_type, v, n);
	if ((v = value_of(line, len, "docker-content-digest", &n)))
		return keep(&p->reply->content_digest, v, n);
	if ((v = value_of(line, len, "content-range", &n)))
		return keep(&p->content_range, v, n);
	if ((v = value_of(line, len, "www-authenticate", &n)))
		return keep_challenge(p, v, n);
	return 0;
}

static void forget_headers(struct hop *p)
{
	http_reply_done(p->reply);
	mem_free(take_ptr(p->content_range));
}

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
	struct hop *p = user;
	const size_t len = size * n;

	p->header_bytes += len;
	if (p->header_bytes > HTTP_HEADERS_MAX) {
		(void)err_make(&p->error, HOLT_ELIMIT,
			"the answer has more than %u bytes of headers", HTTP_HEADERS_MAX);
		return 0;
	}
	if (len > 5 && memcmp(line, "HTTP/", 5) == 0) /* perhaps another after 1xx */
		forget_headers(p);
	else if (memchr(line, 0, len) == NULL && take_header(p, line, len) < 0) {
		if (!p->error)
			(void)err_nomem(&p->error);
		return 0;
	}
	return len;
}

/* The body. */

/* "bytes FIRST-LAST/TOTAL" or with "*" for the total. */
static bool range_begins(const char *text, uint64_t from)
{
	char number[24];

	if (!text || strncasecmp(text, "bytes ", 6) != 0)
		return false;
	const size_t digits = strspn(text + 6, "0123456789");
	if (digits == 0 || digits >= sizeof number || text[6 + digits] != '-')
		return false;
	(void)snprintf(number, sizeof number, "%.*s", (int)digits, text + 6);
	uint64_t first = 0;
	return str_to_u64(number, UINT64_MAX, &first) == 0 && first == from;
}

static int judge(struct hop *p)
{
	long status = 0;

	(void)curl_easy_getinfo(p->http->easy, CURLINFO_RESPONSE_CODE, &status);
	p->reply->status = (int)status;
	p->judged = true;
	if (status != 206)
		return 0;
	if (p->q->from == 0 || !range_begins(p->content_range, p->q->from))
		return err_make(
			&p->error, HOLT_EPROTOCOL, "the answer is a part that was not asked for");
	p->at = p->q->from;
	return 0;
}

static int take_body(struct hop *p, const char *data, size_t len)
{
	const bool success = p->reply->status >= 200 && p->reply->status < 300;

	if (success && p->q->sink) {
		p->begun = true;
		const int r = p->q->sink(p->q->user, p->at, data, len, &p->error);
		p->at += len;
		return r;
	}
	const size_t max = success ? p->q->body_max : ERROR_BODY_MAX;
	if (len <= max - p->body.len) {
		return buf_append(&p->body, data, len) < 0 ? err_nomem(&p->error) : 0;
	}
	if (success)
		return err_make(&p->error, HOLT_ELIMIT, "the answer has more than %zu bytes", max);
	p->cut = true;
	return -HOLT_ELIMIT;
}

static size_t on_body(char *data, size_t size, size_t n, void *user)
{
	struct hop *p = user;

	if (!p->judged && judge(p) < 0)
		return 0;
	return take_body(p, data, size * n) < 0 ? 0 : size * n;
}

/* One transfer. */

/* The list takes a copy, which is wiped before it goes. */
static int add_header(struct curl_slist **list, const char *text)
{
	struct curl_slist *more = curl_slist_append(*list, text);

	if (!more)
		return -HOLT_ENO_MEMORY;
	*list = more;
	return 0;
}

static void headers_free(struct curl_slist *list)
{
	for (struct curl_slist *i = list; i; i = i->next)
		explicit_bzero(i->data, strlen(i->data));
	curl_slist_free_all(list);
}

static int add_secret(struct curl_slist **list, const char *value)
{
	char *text = str_printf("Authorization: %s", value);

	if (!text)
		return -HOLT_ENO_MEMORY;
	const int r = add_header(list, text);
	explicit_bzero(text, strlen(text));
	mem_free(text);
	return r;
}

static int make_headers(const struct http_request *q, bool with_secret, struct curl_slist **ret,
	holt_error **reterr)
{
	int r = 0;
	char range[48];

	for (size_t i = 0; q->headers && q->headers[i] && r == 0; i++)
		r = add_header(ret, q->headers[i]);
	if (r == 0 && q->from) {
		(void)snprintf(
			range, sizeof range, "Range: bytes=%llu-", (unsigned long long)q->from);
		r = add_header(ret, range);
	}
	if (r == 0 && with_secret)
		r = add_secret(ret, q->authorization);
	return r < 0 ? err_nomem(reterr) : 0;
}

static CURLcode set_method(CURL *c, const struct http_request *q)
{
	CURLcode e = CURLE_OK;

	if (strcmp(q->method, "HEAD") == 0)
		return curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
	if (strcmp(q->method, "POST") != 0)
		return curl_easy_setopt(c, CURLOPT_HTTPGET, 1L);
	if ((e = curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)strlen(q->form ? q->form : ""))))
		return e;
	return curl_easy_setopt(c, CURLOPT_POSTFIELDS, q->form ? q->form : "");
}

#define SET(option, value)                                      \
	do {                                                    \
		if (e == CURLE_OK)                              \
			e = curl_easy_setopt(c, option, value); \
	} while (0)

/* A proxy cannot reach this machine, and what may go to it in the clear may not go through one. */
static CURLcode set_proxy(CURL *c, const char *url)
{
	const char *host = strstr(url, "://");

	return host && registry_is_loopback(host + 3) ? curl_easy_setopt(c, CURLOPT_PROXY, "")
						      : CURLE_OK;
}

static CURLcode set_transfer(
	struct http *h, struct hop *p, const char *url, struct curl_slist *headers)
{
	CURL *c = h->easy;
	CURLcode e = CURLE_OK;

	curl_easy_reset(c);
	SET(CURLOPT_URL, url);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_QUICK_EXIT, 1L); /* do not wait for a resolver when cancelled */
	SET(CURLOPT_USERAGENT, "holt");
	SET(CURLOPT_HTTPHEADER, headers);
	SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)HTTP_CONNECT_MS);
	SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
	SET(CURLOPT_LOW_SPEED_TIME, (long)HTTP_STALL_S);
	SET(CURLOPT_TIMEOUT_MS, p->q->sink ? 0L : TOTAL_MS);
	/* Refused while the buffer of a try without a connection is still there. */
	(void)curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 128L << 10);
	SET(CURLOPT_ERRORBUFFER, p->text);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, p);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, p);
	if (h->ca_file)
		SET(CURLOPT_CAINFO, h->ca_file);
	if (h->insecure) {
		SET(CURLOPT_SSL_VERIFYPEER, 0L);
		SET(CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (e == CURLE_OK)
		e = set_proxy(c, url);
	return e == CURLE_OK ? set_method(c, p->q) : e;
}

static int cancelled(holt_error **reterr)
{
	return err_make(reterr, HOLT_ECANCELLED, "the request was cancelled");
}

/* Until the transfer ends or is cancelled. */
static int drive(struct http *h, CURLcode *ret)
{
	int running = 1, left = 0;

	while (running > 0) {
		if (cancel_flag_set(h->cancel))
			return -HOLT_ECANCELLED;
		CURLMcode m = curl_multi_perform(h->multi, &running);
		if (m == CURLM_OK && running > 0)
			m = curl_multi_poll(h->multi, NULL, 0, POLL_MS, NULL);
		if (m != CURLM_OK) {
			*ret = CURLE_FAILED_INIT;
			return 0;
		}
	}
	const CURLMsg *msg = curl_multi_info_read(h->multi, &left);
	*ret = msg && msg->msg == CURLMSG_DONE ? msg->data.result : CURLE_FAILED_INIT;
	return 0;
}

/* OpenSSL writes to sockets that may be closed; the host program's SIGPIPE is not ours to touch. */
static void pipe_block(sigset_t *before, bool *pending)
{
	sigset_t pipe, now;

	(void)sigemptyset(&pipe);
	(void)sigaddset(&pipe, SIGPIPE);
	(void)sigpending(&now);
	*pending = sigismember(&now, SIGPIPE) == 1;
	(void)pthread_sigmask(SIG_BLOCK, &pipe, before);
}

static void pipe_restore(const sigset_t *before, bool pending)
{
	const struct timespec none = {0};
	sigset_t pipe;

	(void)sigemptyset(&pipe);
	(void)sigaddset(&pipe, SIGPIPE);
	if (!pending)
		(void)sigtimedwait(&pipe, NULL, &none);
	(void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

static bool is_certificate(CURLcode e)
{
	return e == CURLE_PEER_FAILED_VERIFICATION || e == CURLE_SSL_ISSUER_ERROR ||
	       e == CURLE_SSL_INVALIDCERTSTATUS || e == CURLE_SSL_PINNEDPUBKEYNOTMATCH;
}

static bool is_unreached(CURLcode e)
{
	return e == CURLE_COULDNT_CONNECT || e == CURLE_SSL_CONNECT_ERROR;
}

/* Whether the same again may help. */
static bool is_passing(CURLcode e)
{
	return e == CURLE_COULDNT_CONNECT || e == CURLE_COULDNT_RESOLVE_HOST ||
	       e == CURLE_COULDNT_RESOLVE_PROXY || e == CURLE_OPERATION_TIMEDOUT ||
	       e == CURLE_GOT_NOTHING || e == CURLE_SEND_ERROR || e == CURLE_RECV_ERROR ||
	       e == CURLE_PARTIAL_FILE || e == CURLE_HTTP2 || e == CURLE_HTTP2_STREAM;
}

static int fail_transfer(const struct hop *p, CURLcode e, const char *url, holt_error **reterr)
{
	char shown[SHOWN_MAX], why[CURL_ERROR_SIZE];
	const char *text = p->text[0] ? p->text : curl_easy_strerror(e);

	show(url, shown);
	(void)str_escape(why, sizeof why, text, strcspn(text, "?\r\n"), false);
	if (e == CURLE_OUT_OF_MEMORY)
		return err_nomem(reterr);
	if (e == CURLE_SSL_CACERT_BADFILE) {
		(void)err_make(reterr, HOLT_EINVALID, "cannot read the certificates in '%s'",
			p->http->ca_file ? p->http->ca_file : "the system's store");
	} else if (e == CURLE_URL_MALFORMAT || e == CURLE_UNSUPPORTED_PROTOCOL) {
		(void)err_make(reterr, HOLT_EINVALID, "'%s' is not a usable address", shown);
	} else if (e == CURLE_WEIRD_SERVER_REPLY) {
		(void)err_make(reterr, HOLT_EPROTOCOL, "%s: '%s' does not speak HTTP", why, shown);
	} else {
		(void)err_make(reterr, HOLT_EUNAVAILABLE, "%s, asking '%s'", why, shown);
	}
	err_object(reterr, shown);
	if (is_certificate(e))
		err_hint(reterr,
			"give the certificate of its authority by --ca-file, or as ca_file in "
			"registries.yaml; or trust whoever answers, by --insecure");
	return -holt_error_code(*reterr);
}

static int end_hop(struct hop *p, CURLcode e, const char *url, holt_error **reterr)
{
	char shown[SHOWN_MAX];

	if (p->error) {
		show(url, shown);
		err_object(&p->error, shown);
		return err_take(reterr, take_ptr(p->error));
	}
	if (e != CURLE_OK && !p->cut) {
		p->reply->unreached = is_unreached(e);
		return fail_transfer(p, e, url, reterr);
	}
	if (!p->judged && judge(p) < 0)
		return err_take(reterr, take_ptr(p->error));
	if (buf_append(&p->body, "", 1) < 0)
		return err_nomem(reterr);
	p->reply->body_len = p->body.len - 1;
	p->reply->body = (char *)take_ptr(p->body.data);
	return 0;
}

/* Where a hop ended, beside its reply. */
struct ending {
	CURLcode code;
	bool begun; /* the sink has had something */
	long wait_s; /* Retry-After, 0 for none */
	char *redirect; /* the absolute URL, or NULL */
};

static void look_back(struct http *h, struct hop *p, struct ending *end)
{
	curl_off_t wait = 0;
	char *url = NULL;

	(void)curl_easy_getinfo(h->easy, CURLINFO_RETRY_AFTER, &wait);
	(void)curl_easy_getinfo(h->easy, CURLINFO_REDIRECT_URL, &url);
	end->wait_s = wait > HTTP_RETRY_AFTER_MAX ? HTTP_RETRY_AFTER_MAX + 1 : (long)wait;
	end->begun = p->begun;
	if (url && strlen(url) <= URL_MAX)
		end->redirect = str_dup(url);
}

static int transfer(struct http *h, struct hop *p, const char *url, struct curl_slist *headers,
	struct ending *end, holt_error **reterr)
{
	sigset_t before;
	bool pending = false;
	int r = 0;

	end->code = set_transfer(h, p, url, headers);
	if (end->code != CURLE_OK)
		return fail_transfer(p, end->code, url, reterr);
	pipe_block(&before, &pending);
	if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK) {
		r = err_nomem(reterr);
	} else {
		r = drive(h, &end->code);
		if (r == 0)
			look_back(h, p, end);
		(void)curl_multi_remove_handle(h->multi, h->easy);
		r = r < 0 ? cancelled(reterr) : end_hop(p, end->code, url, reterr);
	}
	pipe_restore(&before, pending);
	return r;
}

static int hop_make(struct http *h, const struct http_request *q, const char *url, bool with_secret,
	struct http_reply *reply, struct ending *end, holt_error **reterr)
{
	const size_t max = q->body_max > ERROR_BODY_MAX ? q->body_max : ERROR_BODY_MAX;
	struct hop p = {.q = q, .http = h, .reply = reply, .body = BUF_INIT(max + 1)};
	struct curl_slist *headers = NULL;
	int r = make_headers(q, with_secret, &headers, reterr);

	*end = (struct ending){.code = CURLE_OK};
	if (r == 0)
		r = transfer(h, &p, url, headers, end, reterr);
	headers_free(headers);
	holt_error_free(p.error);
	mem_free(p.content_range);
	if (p.body.data)
		explicit_bzero(p.body.data, p.body.len);
	buf_done(&p.body);
	return r;
}

/* Tries. */

static int pause_ms(struct http *h, uint64_t ms, holt_error **reterr)
{
	const uint64_t end = clock_mono_ms() + ms;

	for (uint64_t now = clock_mono_ms(); now < end; now = clock_mono_ms()) {
		const uint64_t step = end - now < POLL_MS ? end - now : POLL_MS;
		const struct timespec t = {.tv_nsec = (long)step * 1000000};
		if (cancel_flag_set(h->cancel))
			return cancelled(reterr);
		(void)nanosleep(&t, NULL);
	}
	return cancel_flag_set(h->cancel) ? cancelled(reterr) : 0;
}

/* Doubled each time, and up to half of it more, so that many who failed together come apart. */
static uint64_t backoff_ms(unsigned try)
{
	const uint64_t base = (uint64_t)BACKOFF_MS << try;
	uint16_t dice = 0;

	if (random_bytes(&dice, sizeof dice) < 0)
		dice = 0;
	return base + base * dice / (2 * UINT16_MAX);
}

static bool is_later(int status)
{
	return status == 408 || status == 429 || status >= 500;
}

/* A hop until it has an answer that is not "later", or no try is left. */
static int hop_try(struct http *h, const struct http_request *q, const char *url, bool with_secret,
	struct http_reply *reply, struct ending *end, holt_error **reterr)
{
	const unsigned tries = q->tries ? q->tries : HTTP_TRIES_MAX;

	for (unsigned try = 0;; try++) {
		auto_error error = NULL;
		mem_free(take_ptr(end->redirect));
		http_reply_done(reply);
		int r = hop_make(h, q, url, with_secret, reply, end, &error);
		const bool again = r < 0 ? r == -HOLT_EUNAVAILABLE && is_passing(end->code) &&
						   !end->begun
					 : is_later(reply->status) &&
						   end->wait_s <= HTTP_RETRY_AFTER_MAX;
		if (!again || try + 1 >= tries)
			return r < 0 ? err_take(reterr, take_ptr(error)) : 0;
		const uint64_t asked = r < 0 ? 0 : (uint64_t)end->wait_s * 1000;
		const uint64_t ours = backoff_ms(try);
		if ((r = pause_ms(h, asked > ours ? asked : ours, reterr)) < 0)
			return r;
	}
}

/* Redirects. */

static bool same_part(CURLU *a, CURLU *b, CURLUPart part)
{
	char *x = NULL, *y = NULL;
	const bool got = curl_url_get(a, part, &x, CURLU_DEFAULT_PORT) == CURLUE_OK &&
			 curl_url_get(b, part, &y, CURLU_DEFAULT_PORT) == CURLUE_OK;
	const bool same = got && strcasecmp(x, y) == 0;

	curl_free(x);
	curl_free(y);
	return same;
}

struct step {
	bool same_origin; /* scheme, host and port */
	bool downgrade; /* from https to http */
	char *url; /* without user, password and fragment */
};

static bool is_scheme(CURLU *u, const char *scheme)
{
	char *x = NULL;
	const bool is = curl_url_get(u, CURLUPART_SCHEME, &x, 0) == CURLUE_OK &&
			strcasecmp(x, scheme) == 0;

	curl_free(x);
	return is;
}

static bool step_read(CURLU *a, CURLU *b, const char *from, const char *to, struct step *ret)
{
	char *url = NULL;

	if (curl_url_set(a, CURLUPART_URL, from, 0) || curl_url_set(b, CURLUPART_URL, to, 0) ||
		curl_url_set(b, CURLUPART_USER, NULL, 0) ||
		curl_url_set(b, CURLUPART_PASSWORD, NULL, 0) ||
		curl_url_set(b, CURLUPART_FRAGMENT, NULL, 0) ||
		curl_url_get(b, CURLUPART_URL, &url, 0))
		return false;
	ret->same_origin = same_part(a, b, CURLUPART_SCHEME) && same_part(a, b, CURLUPART_HOST) &&
			   same_part(a, b, CURLUPART_PORT);
	ret->downgrade = is_scheme(a, "https") && !is_scheme(b, "https");
	ret->url = str_dup(url);
	const bool known = is_scheme(b, "https") || is_scheme(b, "http");
	curl_free(url);
	return known && ret->url;
}

static int step_from(const char *from, const char *to, struct step *ret, holt_error **reterr)
{
	CURLU *a = curl_url(), *b = curl_url();
	char shown[SHOWN_MAX];
	const bool good = a && b && step_read(a, b, from, to, ret);

	curl_url_cleanup(a);
	curl_url_cleanup(b);
	if (good)
		return 0;
	mem_free(take_ptr(ret->url));
	show(from, shown);
	(void)err_make(reterr, HOLT_EPROTOCOL, "'%s' leads to an address that is none", shown);
	err_object(reterr, shown);
	return -HOLT_EPROTOCOL;
}

static bool is_redirect(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Whether the next URL may be asked; *secret: whether it may be told who we are. */
static int step_allow(const struct http_request *q, const char *url, const struct step *s,
	bool *secret, holt_error **reterr)
{
	char shown[SHOWN_MAX];

	show(url, shown);
	if (strcmp(q->method, "POST") == 0)
		return err_make(reterr, HOLT_EPROTOCOL,
			"'%s' leads somewhere else, where what was posted must not go", shown);
	if (s->downgrade && q->authorization)
		return err_make(reterr, HOLT_EPROTOCOL,
			"'%s' leads from https to http, though it was told who asks", shown);
	if (!s->same_origin)
		*secret = false; /* also on the way back */
	return 0;
}

static int follow(struct http *h, const struct http_request *q, char **url,
	struct http_reply *reply, struct ending *end, holt_error **reterr)
{
	bool secret = q->authorization != NULL;
	char shown[SHOWN_MAX];

	for (unsigned n = 0;; n++) {
		struct step s = {0};
		int r = hop_try(h, q, *url, secret, reply, end, reterr);
		if (r < 0 || !is_redirect(reply->status))
			return r;
		show(*url, shown);
		if (!end->redirect || n >= HTTP_REDIRECTS_MAX)
			return err_make(reterr, HOLT_EPROTOCOL,
				end->redirect ? "'%s' leads to too many other addresses"
					      : "'%s' leads nowhere",
				shown);
		if ((r = step_from(*url, end->redirect, &s, reterr)) < 0)
			return r;
		r = step_allow(q, *url, &s, &secret, reterr);
		mem_free(*url);
		*url = s.url;
		if (r < 0)
			return r;
	}
}

int http_do(
	struct http *h, const struct http_request *q, struct http_reply *ret, holt_error **reterr)
{
	struct http_reply reply = {0};
	struct ending end = {0};
	auto_free char *url = str_dup(q->url);

	if (!url)
		return err_nomem(reterr);
	if (q->authorization && strpbrk(q->authorization, "\r\n"))
		return err_make(reterr, HOLT_EINVALID, "the credentials have a line feed in them");
	const int r = follow(h, q, &url, &reply, &end, reterr);
	mem_free(end.redirect);
	const bool unreached = reply.unreached;
	if (r < 0)
		http_reply_done(&reply);
	*ret = reply;
	ret->unreached = unreached;
	return r;
}
