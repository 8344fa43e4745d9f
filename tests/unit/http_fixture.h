/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_HTTP_FIXTURE_H
#define TESTS_UNIT_HTTP_FIXTURE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * A server on loopback whose answers a test's function gives, a thread a connection. It keeps a
 * line of each request: "METHOD TARGET", then " auth=VALUE" and " range=VALUE" where there were
 * such headers, and " body=TEXT".
 */

#define WEB_REQUEST_MAX 65536
#define WEB_CONNS_MAX   64
#define WEB_LINES_MAX   128

struct ssl_st;
struct ssl_ctx_st;

struct web_conn {
	struct web *web;
	struct ssl_st *ssl; /* NULL: in the clear */
	pthread_t thread;
	int fd;
	bool ended; /* no further request on it */
};

struct web_request {
	char method[16];
	char target[2048];
	char head[WEB_REQUEST_MAX]; /* all header lines */
	char body[WEB_REQUEST_MAX];
	unsigned nth; /* request of the server, from 1 */
};

typedef void (*web_fn)(struct web_conn *c, const struct web_request *q, void *user);

struct web {
	int fd;
	struct ssl_ctx_st *tls;
	unsigned port;
	char url[64]; /* "http://127.0.0.1:PORT" */
	char host[48]; /* "127.0.0.1:PORT" */
	web_fn fn;
	void *user;
	pthread_t thread;
	pthread_mutex_t lock; /* of what follows */
	unsigned n; /* requests */
	char *lines[WEB_LINES_MAX];
	struct web_conn conns[WEB_CONNS_MAX];
	size_t n_conns;
};

/* On 127.0.0.1, at any port. */
void web_start(struct web *w, web_fn fn, void *user);
/* With TLS: a certificate of its own, written to @pem, is its CA. */
void web_start_tls(struct web *w, web_fn fn, void *user, const char *pem);
void web_stop(struct web *w);

/* Requests and connections so far. */
unsigned web_count(struct web *w);
size_t web_conns(struct web *w);
/* The lines of all requests so far, each with a line feed, in fresh memory. */
char *web_lines(struct web *w);
/* The value of a header of a request, in fresh memory; NULL where there is none. */
char *web_header(const struct web_request *q, const char *name);

/* A whole answer; @headers are lines with CRLF behind each, or "". The body is not sent after HEAD
 * (@q). */
void web_answer(struct web_conn *c, const struct web_request *q, int status, const char *headers,
	const char *body);
/* Any bytes; what cannot be sent is dropped, since the other end may be gone on purpose. */
void web_send(struct web_conn *c, const void *data, size_t len);
void web_text(struct web_conn *c, const char *text);
/* Nothing more on this connection. */
void web_cut(struct web_conn *c);

#endif
