/* SPDX-License-Identifier: Apache-2.0 */
#include "image/ref.h"

#include <string.h>

#include "base/digest.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

#define REF_TEXT_MAX       (REF_REPOSITORY_MAX + 1 + REF_TAG_MAX + 1 + DIGEST_STR_LEN)
#define REF_DIGEST_HEX_MIN 4 /* shortest digest prefix that stands for an image */

static bool is_lower(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
	return is_lower(c) || (c >= 'A' && c <= 'Z');
}

/* Lower-case letters and digits, with ".", "_", "__" or any number of "-" between them. */
static bool component_valid(const char *s, size_t len)
{
	size_t i = 0;

	for (;;) {
		const size_t word = i;
		while (i < len && is_lower(s[i]))
			i++;
		if (i == word)
			return false;
		if (i == len)
			return true;
		if (s[i] == '-') {
			while (i < len && s[i] == '-')
				i++;
		} else if (s[i] == '_') {
			i += i + 1 < len && s[i + 1] == '_' ? 2 : 1;
		} else if (s[i] == '.') {
			i++;
		} else {
			return false;
		}
	}
}

/* Hexadecimal digits and colons in brackets; what they mean is the resolver's. */
static size_t bracketed(const char *s, size_t len)
{
	const char *end = memchr(s, ']', len);
	const size_t n = end ? (size_t)(end - s) : 0;

	return n > 1 && strspn(s + 1, "0123456789abcdefABCDEF:") == n - 1 ? n + 1 : 0;
}

static size_t host_name(const char *s, size_t len)
{
	const char *colon = memchr(s, ':', len);
	const size_t host = colon ? (size_t)(colon - s) : len;

	for (size_t i = 0; i < host; i++) {
		const bool edge = i == 0 || i + 1 == host || s[i - 1] == '.' || s[i + 1] == '.';
		if (!is_alnum(s[i]) && (edge || (s[i] != '-' && s[i] != '.')))
			return 0;
	}
	return host;
}

/* A host name or address with an optional port. */
static bool registry_valid(const char *s, size_t len)
{
	const size_t host = *s == '[' ? bracketed(s, len) : host_name(s, len);

	if (host == 0 || host == len)
		return host > 0;
	const size_t port = len - host - 1;
	return s[host] == ':' && port >= 1 && port <= 5 &&
	       strspn(s + host + 1, "0123456789") >= port;
}

/* What docker takes for a host rather than the first part of a path. */
static bool looks_like_registry(const char *s, size_t len)
{
	if (len == 9 && memcmp(s, "localhost", 9) == 0)
		return true;
	for (size_t i = 0; i < len; i++) {
		if (s[i] == '.' || s[i] == ':' || (s[i] >= 'A' && s[i] <= 'Z'))
			return true;
	}
	return false;
}

/* Length of the registry that a repository begins with; 0: Docker Hub, unnamed. */
static size_t registry_part(const char *repository)
{
	const char *slash = strchr(repository, '/');
	const size_t len = slash ? (size_t)(slash - repository) : 0;

	return looks_like_registry(repository, len) ? len : 0;
}

static bool repository_valid(const char *s)
{
	const size_t registry = registry_part(s);

	if (registry && !registry_valid(s, registry))
		return false;
	if (registry)
		s += registry + 1;
	for (;;) {
		const char *slash = strchr(s, '/');
		if (!component_valid(s, slash ? (size_t)(slash - s) : strlen(s)))
			return false;
		if (!slash)
			return true;
		s = slash + 1;
	}
}

static bool tag_valid(const char *s)
{
	const size_t len = strlen(s);

	if (len == 0 || len > REF_TAG_MAX || s[0] == '.' || s[0] == '-')
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!is_alnum(s[i]) && s[i] != '_' && s[i] != '.' && s[i] != '-')
			return false;
	}
	return true;
}

/* Docker Hub's names without what everybody leaves out. One whose path begins like a registry's
 * name keeps its host: without it, it would be another image. */
static const char *shorten(const char *repository)
{
	static const char *const hub[] = {REF_HUB "/", "index.docker.io/"};
	const char *path = repository;

	for (size_t i = 0; i < sizeof hub / sizeof *hub && path == repository; i++) {
		if (str_starts(repository, hub[i]))
			path += strlen(hub[i]);
	}
	if (registry_part(path))
		return repository;
	if (str_starts(path, "library/") && !strchr(path + 8, '/'))
		path += 8;
	return path;
}

static int bad(holt_error **reterr, const char *text, const char *why)
{
	char shown[REF_TEXT_MAX + 16];

	(void)str_escape(shown, sizeof shown, text, strlen(text), false);
	const int r = err_make(
		reterr, HOLT_EINVALID, "'%s' is not an image reference: %s", shown, why);
	err_object(reterr, shown);
	err_hint(reterr, "write [registry/][path/]name[:tag], in lower case, such as demo:latest");
	return r;
}

int ref_parse(const char *text, struct ref *ret, holt_error **reterr)
{
	if (!*text)
		return bad(reterr, text, "it is empty");
	if (strlen(text) > REF_TEXT_MAX)
		return bad(reterr, text, "it is too long");
	auto_free char *copy = str_dup(text);
	if (!copy)
		return err_nomem(reterr);
	char *digest = strchr(copy, '@');
	if (digest) {
		*digest++ = 0;
		if (!digest_valid(digest))
			return bad(
				reterr, text, "'@' must be followed by sha256: and 64 hex digits");
	}
	char *slash = strrchr(copy, '/');
	char *tag = strchr(slash ? slash : copy, ':');
	if (tag)
		*tag++ = 0;
	if (tag && !tag_valid(tag))
		return bad(reterr, text, "the tag is malformed");
	const char *repository = shorten(copy);
	if (strlen(repository) > REF_REPOSITORY_MAX)
		return bad(reterr, text, "the name is too long");
	if (!repository_valid(repository))
		return bad(reterr, text, "the name is malformed");
	if (strcmp(repository, "sha256") == 0)
		return bad(reterr, text, "a digest is not a name");

	auto_ref r = {.repository = str_dup(repository), .tag = str_dup(tag ? tag : "latest")};
	if (digest)
		r.digest = str_dup(digest);
	if (!r.repository || !r.tag || (digest && !r.digest))
		return err_nomem(reterr);
	ret->repository = take_ptr(r.repository);
	ret->tag = take_ptr(r.tag);
	ret->digest = take_ptr(r.digest);
	return 0;
}

void ref_done(struct ref *r)
{
	mem_free(r->repository);
	mem_free(r->tag);
	mem_free(r->digest);
	*r = (struct ref){0};
}

int ref_normalise(const char *text, char **ret, holt_error **reterr)
{
	auto_ref r = {0};
	const int code = ref_parse(text, &r, reterr);

	if (code < 0)
		return code;
	if (r.digest)
		return bad(reterr, text, "an image cannot be named by a digest");
	char *name = str_printf("%s:%s", r.repository, r.tag);
	if (!name)
		return err_nomem(reterr);
	*ret = name;
	return 0;
}

int ref_locate(const struct ref *r, char **ret_registry, char **ret_path, holt_error **reterr)
{
	const size_t len = registry_part(r->repository);
	const char *path = len ? r->repository + len + 1 : r->repository;
	const bool hub = !len || (len == 15 && str_starts(r->repository, "index.docker.io"));
	const bool official = !strchr(path, '/') &&
			      (hub || (len == 9 && str_starts(r->repository, REF_HUB)));
	auto_free char *registry = hub ? str_dup(REF_HUB) : str_ndup(r->repository, len);
	auto_free char *whole = str_printf("%s%s", official ? "library/" : "", path);

	if (!registry || !whole)
		return err_nomem(reterr);
	*ret_registry = take_ptr(registry);
	*ret_path = take_ptr(whole);
	return 0;
}

bool ref_is_digest(const char *text, const char **ret_hex)
{
	const char *hex = str_starts(text, "sha256:") ? text + 7 : text;
	const size_t len = strlen(hex);

	if (len < REF_DIGEST_HEX_MIN || len > DIGEST_HEX_LEN ||
		strspn(hex, "0123456789abcdef") != len)
		return false;
	*ret_hex = hex;
	return true;
}
