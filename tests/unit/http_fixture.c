/* SPDX-License-Identifier: Apache-2.0 */
#include "http_fixture.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

char *web_header(const struct web_request *q, const char *name)
{
	const size_t n = strlen(name);

	for (const char *line = q->head; *line;) {
		const size_t len = strcspn(line, "\r\n");
		if (len > n && strncasecmp(line, name, n) == 0 && line[n] == ':') {
			const char *v = line + n + 1 + strspn(line + n + 1, " ");
			return strndup(v, (size_t)(line + len - v));
		}
		line += len;
		line += strspn(line, "\r\n");
	}
	return NULL;
}

void web_send(struct web_conn *c, const void *data, size_t len)
{
	const char *at = data;

	while (len > 0) {
		const ssize_t n = c->ssl ? SSL_write(c->ssl, at, (int)len)
					 : send(c->fd, at, len, MSG_NOSIGNAL);
		if (n <= 0) {
			c->ended = true;
			return;
		}
		at += n;
		len -= (size_t)n;
	}
}

void web_text(struct web_conn *c, const char *text)
{
	web_send(c, text, strlen(text));
}

void web_cut(struct web_conn *c)
{
	c->ended = true;
}

void web_answer(struct web_conn *c, const struct web_request *q, int status, const char *headers,
	const char *body)
{
	char head[4096];

	(void)snprintf(head, sizeof head, "HTTP/1.1 %d Text\r\n%sContent-Length: %zu\r\n\r\n",
		status, headers, strlen(body));
	web_text(c, head);
	if (strcmp(q->method, "HEAD") != 0)
		web_text(c, body);
}

static void keep_line(struct web *w, struct web_request *q)
{
	char *auth = web_header(q, "Authorization");
	char *range = web_header(q, "Range");
	char *line = NULL;

	ck_assert_int_gt(asprintf(&line, "%s %s%s%s%s%s%s%s\n", q->method, q->target,
				 auth ? " auth=" : "", auth ? auth : "", range ? " range=" : "",
				 range ? range : "", *q->body ? " body=" : "", q->body),
		0);
	(void)pthread_mutex_lock(&w->lock);
	if (w->n < WEB_LINES_MAX)
		w->lines[w->n] = line;
	else
		free(line);
	q->nth = ++w->n;
	(void)pthread_mutex_unlock(&w->lock);
	free(auth);
	free(range);
}

static bool read_exactly(struct web_conn *c, char *data, size_t len)
{
	while (len > 0) {
		const ssize_t n = c->ssl ? SSL_read(c->ssl, data, (int)len)
					 : recv(c->fd, data, len, 0);
		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

/* Byte by byte, so that nothing of the next request is taken. */
static bool read_request(struct web_conn *c, struct web_request *q)
{
	size_t len = 0;
	char *all = q->body;

	memset(q, 0, sizeof *q);
	while (len < WEB_REQUEST_MAX - 1 &&
		(len < 4 || memcmp(all + len - 4, "\r\n\r\n", 4) != 0)) {
		if (!read_exactly(c, all + len, 1))
			return false;
		if (all[0] == 0x16) { /* TLS, which is not spoken here */
			(void)send(c->fd, "HTTP/1.0 400 No\r\n\r\n", 19, MSG_NOSIGNAL);
			return false;
		}
		len++;
	}
	const char *end = strstr(all, "\r\n");
	if (!end || sscanf(all, "%15s %2047s", q->method, q->target) != 2)
		return false;
	memcpy(q->head, end + 2, len - (size_t)(end + 2 - all));
	memset(q->body, 0, sizeof q->body);
	char *length = web_header(q, "Content-Length");
	const size_t n = length ? strtoul(length, NULL, 10) : 0;
	free(length);
	return n < WEB_REQUEST_MAX && read_exactly(c, q->body, n);
}

static void *serve(void *arg)
{
	struct web_conn *c = arg;
	struct web_request *q = malloc(sizeof *q);

	ck_assert_ptr_nonnull(q);
	if (c->web->tls) {
		c->ssl = SSL_new(c->web->tls);
		ck_assert_int_eq(SSL_set_fd(c->ssl, c->fd), 1);
		c->ended = SSL_accept(c->ssl) != 1;
	}
	while (!c->ended && read_request(c, q)) {
		keep_line(c->web, q);
		c->web->fn(c, q, c->web->user);
	}
	free(q);
	SSL_free(c->ssl);
	(void)shutdown(c->fd, SHUT_RDWR); /* closed by web_stop, so that no number is used twice */
	return NULL;
}

static void *run(void *arg)
{
	struct web *w = arg;

	for (;;) {
		const int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			return NULL;
		ck_assert_uint_lt(w->n_conns, WEB_CONNS_MAX);
		struct web_conn *c = &w->conns[w->n_conns];
		*c = (struct web_conn){.web = w, .fd = fd};
		ck_assert_int_eq(pthread_create(&c->thread, NULL, serve, c), 0);
		(void)pthread_mutex_lock(&w->lock);
		w->n_conns++;
		(void)pthread_mutex_unlock(&w->lock);
	}
}

static void web_init(struct web *w, web_fn fn, void *user)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;

	*w = (struct web){.fn = fn, .user = user, .lock = PTHREAD_MUTEX_INITIALIZER};
	w->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(w->fd, 0);
	ck_assert_int_eq(bind(w->fd, (struct sockaddr *)&a, sizeof a), 0);
	ck_assert_int_eq(listen(w->fd, 64), 0);
	ck_assert_int_eq(getsockname(w->fd, (struct sockaddr *)&a, &len), 0);
	w->port = ntohs(a.sin_port);
	(void)snprintf(w->host, sizeof w->host, "127.0.0.1:%u", w->port);
	(void)snprintf(w->url, sizeof w->url, "http://%s", w->host);
}

void web_start(struct web *w, web_fn fn, void *user)
{
	web_init(w, fn, user);
	ck_assert_int_eq(pthread_create(&w->thread, NULL, run, w), 0);
}

static void add_extension(X509 *x, int nid, const char *text)
{
	X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, text);

	ck_assert_ptr_nonnull(e);
	ck_assert_int_eq(X509_add_ext(x, e, -1), 1);
	X509_EXTENSION_free(e);
}

static X509 *make_certificate(EVP_PKEY *key)
{
	X509 *x = X509_new();

	ck_assert_int_eq(X509_set_version(x, 2), 1);
	ck_assert_int_eq(ASN1_INTEGER_set(X509_get_serialNumber(x), 1), 1);
	ck_assert_ptr_nonnull(X509_gmtime_adj(X509_getm_notBefore(x), -3600));
	ck_assert_ptr_nonnull(X509_gmtime_adj(X509_getm_notAfter(x), 3600));
	ck_assert_int_eq(X509_set_pubkey(x, key), 1);
	ck_assert_int_eq(X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
				 (const unsigned char *)"holt test", -1, -1, 0),
		1);
	ck_assert_int_eq(X509_set_issuer_name(x, X509_get_subject_name(x)), 1);
	add_extension(x, NID_basic_constraints, "critical,CA:TRUE");
	add_extension(x, NID_subject_alt_name, "IP:127.0.0.1");
	ck_assert_int_gt(X509_sign(x, key, EVP_sha256()), 0);
	return x;
}

void web_start_tls(struct web *w, web_fn fn, void *user, const char *pem)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *x = make_certificate(key);
	FILE *f = fopen(pem, "we");

	(void)signal(SIGPIPE, SIG_IGN); /* SSL_write has no flag for it */
	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(PEM_write_X509(f, x), 1);
	(void)fclose(f);
	web_init(w, fn, user);
	w->tls = SSL_CTX_new(TLS_server_method());
	ck_assert_int_eq(SSL_CTX_use_certificate(w->tls, x), 1);
	ck_assert_int_eq(SSL_CTX_use_PrivateKey(w->tls, key), 1);
	(void)snprintf(w->url, sizeof w->url, "https://%s", w->host);
	X509_free(x);
	EVP_PKEY_free(key);
	ck_assert_int_eq(pthread_create(&w->thread, NULL, run, w), 0);
}

void web_stop(struct web *w)
{
	(void)shutdown(w->fd, SHUT_RDWR);
	ck_assert_int_eq(pthread_join(w->thread, NULL), 0);
	(void)close(w->fd);
	for (size_t i = 0; i < w->n_conns; i++) {
		(void)shutdown(w->conns[i].fd, SHUT_RDWR);
		ck_assert_int_eq(pthread_join(w->conns[i].thread, NULL), 0);
		(void)close(w->conns[i].fd);
	}
	for (size_t i = 0; i < WEB_LINES_MAX; i++)
		free(w->lines[i]);
	SSL_CTX_free(w->tls);
}

unsigned web_count(struct web *w)
{
	(void)pthread_mutex_lock(&w->lock);
	const unsigned n = w->n;
	(void)pthread_mutex_unlock(&w->lock);
	return n;
}

size_t web_conns(struct web *w)
{
	(void)pthread_mutex_lock(&w->lock);
	const size_t n = w->n_conns;
	(void)pthread_mutex_unlock(&w->lock);
	return n;
}

char *web_lines(struct web *w)
{
	char *all = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&all, &len);

	ck_assert_ptr_nonnull(f);
	(void)pthread_mutex_lock(&w->lock);
	for (unsigned i = 0; i < w->n && i < WEB_LINES_MAX; i++)
		(void)fputs(w->lines[i], f);
	(void)pthread_mutex_unlock(&w->lock);
	(void)fclose(f);
	return all;
}
