/* SPDX-License-Identifier: Apache-2.0 */
#include "image/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "image/ref.h"
#include "base/banned.h"

/*
 * The order is docker's: the helper for this registry, the helper for all, what the file itself
 * says. A helper that knows nothing is followed by the file. What a helper printed and what the
 * file holds are in no message, not even where they are broken.
 */

#define HUB_SERVER "https://index.docker.io/v1/" /* Docker Hub in files and for helpers */
#define POLL_MS    50
#define TOKEN_USER "<token>" /* the password is an identity token */
#define NOT_FOUND  "credentials not found"
#define NAME_MAX_  64u /* of a helper */

void secret_free(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	mem_free(text);
}

void credentials_done(struct credentials *c)
{
	secret_free(c->user);
	secret_free(c->password);
	secret_free(c->identity_token);
	*c = (struct credentials){0};
}

/* jansson nests as deep as its parser allows, which is 2048. */
void secret_wipe_json(json_t *doc)
{
	const char *key = NULL;
	json_t *item = NULL;
	size_t i = 0;

	if (json_is_string(doc))
		explicit_bzero((void *)(uintptr_t)json_string_value(doc), json_string_length(doc));
	json_object_foreach(doc, key, item) secret_wipe_json(item);
	json_array_foreach(doc, i, item) secret_wipe_json(item);
}

static void wiped_json_freep(json_t **doc)
{
	secret_wipe_json(*doc);
	json_decref(*doc);
}
#define auto_wiped_json __attribute__((cleanup(wiped_json_freep))) json_t *

static int bad_file(const char *path, const char *what, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EINVALID, "%s in '%s'", what, path);
	err_object(reterr, path);
	err_hint(reterr, "mend the file, or log in again with 'docker login'");
	return -HOLT_EINVALID;
}

/* base64 of "user:password". */

static int sextet(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Into @ret, which has the length of @text, with a NUL; false for what is no base64 of a text. */
static bool base64_decode(const char *text, char *ret)
{
	const size_t len = strlen(text);
	unsigned bits = 0, n = 0;
	size_t i = 0;

	for (; i < len && text[i] != '='; i++) {
		const int v = sextet(text[i]);
		if (v < 0)
			return false;
		bits = bits << 6 | (unsigned)v;
		n += 6;
		if (n >= 8) {
			n -= 8;
			*ret = (char)(bits >> n & 0xff);
			if (!*ret++)
				return false;
		}
	}
	*ret = 0;
	return len % 4 == 0 && len - i <= 2 && strspn(text + i, "=") == len - i && n != 6;
}

static int split_auth(
	const char *text, const char *path, struct credentials *ret, holt_error **reterr)
{
	const size_t len = strlen(text);
	auto_secret plain = len <= CREDENTIALS_SECRET_MAX ? mem_zalloc(len + 1) : NULL;

	if (len > CREDENTIALS_SECRET_MAX)
		return bad_file(path, "a login is too long", reterr);
	if (!plain)
		return err_nomem(reterr);
	const bool good = base64_decode(text, plain);
	char *colon = good ? strchr(plain, ':') : NULL;
	if (!colon || colon == plain) {
		explicit_bzero(plain, len);
		return bad_file(path, "'auth' is not the base64 of user:password", reterr);
	}
	ret->user = str_ndup(plain, (size_t)(colon - plain));
	ret->password = str_dup(colon + 1);
	return ret->user && ret->password ? 0 : err_nomem(reterr);
}

/* The file's own entries. */

static int get_text(
	const json_t *obj, const char *key, const char *path, const char **ret, holt_error **reterr)
{
	*ret = NULL;
	if (json_get_str(obj, key, ret, NULL) < 0)
		return bad_file(path, "a login has a value of the wrong type", reterr);
	if (*ret && !**ret)
		*ret = NULL;
	return 0;
}

static int read_entry(
	const json_t *entry, const char *path, struct credentials *ret, holt_error **reterr)
{
	const char *auth = NULL, *user = NULL, *password = NULL, *token = NULL;
	int r = json_is_object(entry) ? 0 : bad_file(path, "a login is no object", reterr);

	if (r < 0 || (r = get_text(entry, "auth", path, &auth, reterr)) < 0 ||
		(r = get_text(entry, "username", path, &user, reterr)) < 0 ||
		(r = get_text(entry, "password", path, &password, reterr)) < 0 ||
		(r = get_text(entry, "identitytoken", path, &token, reterr)) < 0)
		return r;
	if (token) {
		ret->identity_token = str_dup(token);
		return ret->identity_token ? 0 : err_nomem(reterr);
	}
	if (auth)
		return split_auth(auth, path, ret, reterr);
	if (!user || !password)
		return 0; /* an empty entry: a helper has the rest */
	ret->user = str_dup(user);
	ret->password = str_dup(password);
	return ret->user && ret->password ? 0 : err_nomem(reterr);
}

/* Whether the key of an entry, perhaps an address of docker's first protocol, means @registry. */
static bool key_means(const char *key, const char *registry)
{
	if (str_starts(key, "https://"))
		key += 8;
	else if (str_starts(key, "http://"))
		key += 7;
	const size_t len = strcspn(key, "/");
	const char *rest = key + len;

	if (*rest && strcmp(rest, "/") != 0 && strcmp(rest, "/v1/") != 0 &&
		strcmp(rest, "/v1") != 0 && strcmp(rest, "/v2/") != 0 && strcmp(rest, "/v2") != 0)
		return false;
	if (strlen(registry) == len && strncasecmp(key, registry, len) == 0)
		return true;
	return strcmp(registry, REF_HUB) == 0 && len == 15 &&
	       strncasecmp(key, "index.docker.io", len) == 0;
}

static const char *server_name(const char *registry)
{
	return strcmp(registry, REF_HUB) == 0 ? HUB_SERVER : registry;
}

static int from_file(const json_t *doc, const char *path, const char *registry,
	struct credentials *ret, holt_error **reterr)
{
	json_t *auths = json_object_get(doc, "auths"), *item = NULL;
	const char *key = NULL;

	if (!auths || json_is_null(auths))
		return 0;
	if (!json_is_object(auths))
		return bad_file(path, "'auths' is no object", reterr);
	const json_t *exact = json_object_get(auths, server_name(registry));
	if (exact)
		return read_entry(exact, path, ret, reterr);
	json_object_foreach(auths, key, item)
	{
		if (key_means(key, registry))
			return read_entry(item, path, ret, reterr);
	}
	return 0;
}

/* Helpers. */

static bool helper_name_valid(const char *name)
{
	const size_t len = strlen(name);

	if (len == 0 || len > NAME_MAX_ || name[0] == '.' || name[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		const char c = name[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '-' || c == '_' || c == '.'))
			return false;
	}
	return true;
}

/* The program's absolute path in fresh memory; NULL where it is on no absolute part of PATH. */
static char *find_program(const char *name)
{
	const char *at = getenv("PATH");

	while (at && *at) {
		const size_t len = strcspn(at, ":");
		char *path = *at == '/' ? str_printf("%.*s/%s", (int)len, at, name) : NULL;
		if (path && access(path, X_OK) == 0)
			return path;
		mem_free(path);
		at += len + (at[len] == ':');
	}
	return NULL;
}

struct helper {
	const char *path;
	const volatile int *cancel;
	char *said; /* CREDENTIALS_SECRET_MAX + 1 bytes */
	size_t len;
	int status;
};

/* What it prints until it ends; more than there is room for ends it, too. */
static int listen(struct helper *h, int fd, uint64_t deadline)
{
	while (clock_mono_ms() < deadline) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		if (cancel_flag_set(h->cancel))
			return -HOLT_ECANCELLED;
		if (h->len == CREDENTIALS_SECRET_MAX)
			return -HOLT_ELIMIT;
		if (poll(&p, 1, POLL_MS) <= 0)
			continue;
		const ssize_t n = read(fd, h->said + h->len, CREDENTIALS_SECRET_MAX - h->len);
		if (n == 0)
			return 0;
		if (n > 0)
			h->len += (size_t)n;
	}
	return -HOLT_ETIMEOUT;
}

/* It has said all; that it ends is not certain. */
static int await_end(const struct helper *h, int pidfd, uint64_t deadline)
{
	while (clock_mono_ms() < deadline) {
		struct pollfd p = {.fd = pidfd, .events = POLLIN};
		if (cancel_flag_set(h->cancel))
			return -HOLT_ECANCELLED;
		if (poll(&p, 1, POLL_MS) > 0)
			return 0;
	}
	return -HOLT_ETIMEOUT;
}

static int start(const struct helper *h, int in, int out, struct proc *ret, holt_error **reterr)
{
	const char *const argv[] = {h->path, "get", NULL};
	const struct proc_fd fds[] = {{in, 0}, {out, 1}};
	const struct proc_spec spec = {.path = h->path,
		.argv = argv,
		.env = (const char *const *)environ, /* keychains are found by it */
		.fds = fds,
		.n_fds = 2,
		.flags = PROC_DEATHSIG | PROC_HIDDEN | PROC_NOCORE};

	return proc_spawn(&spec, ret, reterr);
}

/* The server's name is in the pipe before anybody reads, so nobody waits and no signal comes. */
static int run(struct helper *h, const char *server, holt_error **reterr)
{
	int in[2], out[2];
	int r = fd_pipe(in);

	if (r < 0)
		return err_errno(reterr, -r, "cannot make a pipe");
	auto_fd in_read = in[0];
	auto_fd in_write = in[1];
	if ((r = fd_pipe(out)) < 0)
		return err_errno(reterr, -r, "cannot make a pipe");
	auto_fd out_read = out[0];
	auto_fd out_write = out[1];
	if ((r = fd_write_full(in_write, server, strlen(server))) < 0)
		return err_errno(reterr, -r, "cannot write to a pipe");
	struct proc p = {.pidfd = FD_NONE};
	if ((r = start(h, in_read, out_write, &p, reterr)) < 0)
		return r;
	in_write = fd_close(in_write);
	out_write = fd_close(out_write);
	const uint64_t deadline = clock_mono_ms() + CREDENTIALS_HELPER_MS;
	r = listen(h, out_read, deadline);
	if (r == 0)
		r = await_end(h, p.pidfd, deadline);
	if (r < 0)
		(void)syscall(SYS_pidfd_send_signal, p.pidfd, SIGKILL, NULL, 0);
	(void)proc_wait(p.pid, &h->status);
	(void)fd_close(p.pidfd);
	if (r < 0)
		return err_make(reterr, -r,
			r == -HOLT_ECANCELLED ? "cancelled while '%s' ran"
			: r == -HOLT_ETIMEOUT ? "'%s' did not answer in time"
					      : "'%s' said too much",
			h->path);
	return 0;
}

static int helper_failed(const struct helper *h, const char *what, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EUNAVAILABLE, "the credential helper '%s' %s", h->path, what);
	err_object(reterr, h->path);
	err_hint(reterr, "try it: echo REGISTRY | %s get", h->path);
	return -HOLT_EUNAVAILABLE;
}

static int read_answer(const struct helper *h, struct credentials *ret, holt_error **reterr)
{
	auto_wiped_json doc = NULL;
	const char *user = NULL, *secret = NULL;

	if (!WIFEXITED(h->status) || WEXITSTATUS(h->status) != 0)
		return strstr(h->said, NOT_FOUND) ? 0 : helper_failed(h, "failed", reterr);
	if (json_parse(h->said, h->len, CREDENTIALS_SECRET_MAX, "answer", &doc, NULL) < 0 ||
		json_get_str(doc, "Username", &user, NULL) < 0 ||
		json_get_str(doc, "Secret", &secret, NULL) < 0)
		return helper_failed(h, "answers something else than a login", reterr);
	if (!user || !*user || !secret)
		return 0;
	if (strcmp(user, TOKEN_USER) == 0) {
		ret->identity_token = str_dup(secret);
		return ret->identity_token ? 0 : err_nomem(reterr);
	}
	ret->user = str_dup(user);
	ret->password = str_dup(secret);
	return ret->user && ret->password ? 0 : err_nomem(reterr);
}

static int from_helper(const char *name, const char *registry, const volatile int *cancel,
	const char *file, struct credentials *ret, holt_error **reterr)
{
	if (!helper_name_valid(name))
		return bad_file(file, "a credential helper has no usable name", reterr);
	auto_free char *program = str_printf("docker-credential-%s", name);
	auto_free char *path = program ? find_program(program) : NULL;
	if (!path) {
		(void)err_make(reterr, HOLT_ENOT_FOUND,
			"the credential helper 'docker-credential-%s' is not on PATH", name);
		err_object(reterr, file);
		err_hint(reterr, "install it, or remove it from '%s'", file);
		return -HOLT_ENOT_FOUND;
	}
	struct helper h = {.path = path, .cancel = cancel};
	h.said = mem_zalloc(CREDENTIALS_SECRET_MAX + 1);
	if (!h.said)
		return err_nomem(reterr);
	int r = run(&h, server_name(registry), reterr);
	if (r == 0)
		r = read_answer(&h, ret, reterr);
	explicit_bzero(h.said, h.len);
	mem_free(h.said);
	return r;
}

/* The name of the helper for @registry, or NULL. */
static int pick_helper(const json_t *doc, const char *path, const char *registry, const char **ret,
	holt_error **reterr)
{
	json_t *helpers = json_object_get(doc, "credHelpers"), *item = NULL;
	const char *key = NULL;

	*ret = NULL;
	if (helpers && !json_is_null(helpers) && !json_is_object(helpers))
		return bad_file(path, "'credHelpers' is no object", reterr);
	json_object_foreach(helpers, key, item)
	{
		if (!key_means(key, registry))
			continue;
		if (!json_is_string(item))
			return bad_file(
				path, "'credHelpers' has a value of the wrong type", reterr);
		*ret = json_string_value(item);
		return 0;
	}
	if (json_get_str(doc, "credsStore", ret, NULL) < 0)
		return bad_file(path, "'credsStore' is no text", reterr);
	if (*ret && !**ret)
		*ret = NULL;
	return 0;
}

/* The file. */

static char *config_path(void)
{
	const char *config = getenv("DOCKER_CONFIG"), *home = getenv("HOME");

	if (config && *config)
		return str_printf("%s/config.json", config);
	return str_printf("%s/.docker/config.json", home && *home ? home : "/nonexistent");
}

static int read_config(const char *path, json_t **ret, holt_error **reterr)
{
	char *text = NULL;
	size_t len = 0;
	int r = fs_read_file(AT_FDCWD, path, CREDENTIALS_FILE_MAX, &text, &len);

	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r == -EFBIG)
		return bad_file(path, "there is too much", reterr);
	if (r < 0) {
		r = err_errno(reterr, -r, "cannot read '%s'", path);
		err_object(reterr, path);
		return r;
	}
	/* The parser's own text quotes what it stumbles over. */
	r = json_parse(text, len, CREDENTIALS_FILE_MAX, path, ret, NULL);
	explicit_bzero(text, len);
	mem_free(text);
	return r < 0 ? bad_file(path, "there is something else than a JSON object", reterr) : 0;
}

int credentials_find(const char *registry, const volatile int *cancel, struct credentials *ret,
	holt_error **reterr)
{
	auto_free char *path = config_path();
	auto_wiped_json doc = NULL;
	auto_credentials found = {0};
	const char *helper = NULL;

	if (!path)
		return err_nomem(reterr);
	int r = read_config(path, &doc, reterr);
	if (r == 0 && doc)
		r = pick_helper(doc, path, registry, &helper, reterr);
	if (r == 0 && helper)
		r = from_helper(helper, registry, cancel, path, &found, reterr);
	if (r == 0 && doc && !found.user && !found.identity_token)
		r = from_file(doc, path, registry, &found, reterr);
	if (r < 0)
		return r;
	*ret = found;
	found = (struct credentials){0};
	return 0;
}
