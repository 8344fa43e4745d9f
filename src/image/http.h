/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_HTTP_H
#define IMAGE_HTTP_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The only door to libcurl: one request after the other over connections that are kept. One thread
 * at a time per client. What it decides: time-outs, redirects (at most HTTP_REDIRECTS_MAX; the
 * credentials stay with the scheme, host and port that they were given for), what is tried again
 * (connections that fail, 408, 429 and 5xx, with Retry-After), the largest header. Proxies
 * are those of the environment, as curl has them, but none for this machine. What an answer means
 * is the caller's.
 */

#define HTTP_REDIRECTS_MAX   10
#define HTTP_TRIES_MAX       5 /* of one request, with pauses between them */
#define HTTP_RETRY_AFTER_MAX 60 /* seconds that an answer may ask us to wait */
#define HTTP_HEADERS_MAX     (256u << 10) /* bytes of all headers of an answer */
#define HTTP_CONNECT_MS      15000
#define HTTP_STALL_S         30 /* an answer that brings nothing for so long is cut */

struct http;

struct http_options {
	const char *ca_file; /* PEM; NULL: the system's */
	bool insecure; /* certificates are not checked */
	const volatile int *cancel; /* non-zero ends a request with HOLT_ECANCELLED; may be NULL */
};

struct http_request {
	const char *method; /* "GET", "HEAD", "POST" */
	const char *url;
	const char *const *headers; /* "Name: value", NULL-terminated; may be NULL */
	const char
		*authorization; /* value of that header, or NULL; never logged, never redirected */
	const char *form; /* body of a POST, or NULL */
	unsigned tries; /* at most; 0: HTTP_TRIES_MAX */
	uint64_t from; /* GET: only the bytes from here on are wanted (Range) */
	/* Takes the body of a 2xx answer, @at being where in the whole @data begins (what the
	 * server said; not @from where it ignores ranges). NULL: into http_reply.body. */
	int (*sink)(void *user, uint64_t at, const void *data, size_t len, holt_error **reterr);
	void *user;
	size_t body_max; /* of http_reply.body; more is HOLT_ELIMIT */
};

struct http_reply {
	int status; /* of the last answer, any from 200 on but the redirects that were followed */
	char *body; /* with a NUL behind it; of errors the beginning */
	size_t body_len;
	bool unreached; /* also of a request that failed: nobody was there, or spoke no TLS */
	char *content_type;
	char *content_digest; /* Docker-Content-Digest */
	char **challenges; /* WWW-Authenticate, one a line; NULL where there is none */
};

int http_new(const struct http_options *o, struct http **ret, holt_error **reterr);
void http_free(struct http *h);

/* 0 for every complete answer, also 404. A connection that breaks within the body of a request with
 * a sink is not tried again here: the caller knows from where to go on (HOLT_EUNAVAILABLE). */
int http_do(
	struct http *h, const struct http_request *q, struct http_reply *ret, holt_error **reterr);
void http_reply_done(struct http_reply *r);
#define auto_http_reply __attribute__((cleanup(http_reply_done))) struct http_reply

#endif
