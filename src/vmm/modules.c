/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/modules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "vmm/modinfo.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * A kernel package holds no modules.dep (depmod makes it at installation), so the dependencies come
 * from the modules themselves: .modinfo says "depends=a,b". Names are looked up in modules.order
 * (what was built as a module) and modules.builtin. In names `-` and `_` mean the same.
 *
 * The set grows while it is walked, so no recursion. The load order follows the table: what the
 * agent needs first comes first.
 */

#define LIST_BYTES_MAX (4u * 1024u * 1024u) /* modules.order of a full distribution: 0.3 MB */
#define NAME_MAX_LEN   64 /* the kernel's own limit is 56 */

static const struct {
	const char *name;
	bool required;
	bool late; /* not needed for the start; these stand last */
} wanted[] = {
	{"virtio_mmio", true, false},
	{"virtio_console", true, false},
	{"virtio_blk", true, false},
	{"squashfs", true, false},
	{"overlay", true, false},
	{"ext4", true, false},
	{"crc32c_generic", false, false}, /* ext4 asks for it by a name in no dependency list */
	{"virtio_net", true, true},
	{"virtio_rng", false, true},
};

struct module {
	char name[NAME_MAX_LEN];
	char *path;
	char *depends; /* "a,b" or "" */
	bool taken;
};

struct module_set {
	const char *dir;
	char *order; /* text of modules.order and modules.builtin */
	char *builtin;
	struct module items[MODULES_MAX];
	size_t n;
};

static void module_set_done(struct module_set *s)
{
	mem_free(s->order);
	mem_free(s->builtin);
	for (size_t i = 0; i < s->n; i++) {
		mem_free(s->items[i].path);
		mem_free(s->items[i].depends);
	}
}

static bool name_equal(const char *a, const char *b, size_t b_len)
{
	size_t i = 0;

	for (; i < b_len && a[i] != '\0'; i++) {
		if (a[i] != b[i] && !((a[i] == '-' || a[i] == '_') && (b[i] == '-' || b[i] == '_')))
			return false;
	}
	return i == b_len && a[i] == '\0';
}

/* Find the line of @list whose last part is @name.ko: its start and length. */
static const char *list_find(const char *list, const char *name, size_t *ret_len)
{
	while (*list != '\0') {
		const size_t len = strcspn(list, "\n");
		const char *slash = memrchr(list, '/', len);
		const char *base = slash ? slash + 1 : list;
		const size_t base_len = len - (size_t)(base - list);
		if (base_len > 3 && memcmp(base + base_len - 3, ".ko", 3) == 0 &&
			name_equal(name, base, base_len - 3)) {
			*ret_len = len;
			return list;
		}
		list += len;
		list += *list == '\n';
	}
	return NULL;
}

static struct module *set_find(struct module_set *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++) {
		if (name_equal(s->items[i].name, name, strlen(name)))
			return &s->items[i];
	}
	return NULL;
}

static int fail_missing(const struct module_set *s, const char *name, holt_error **reterr)
{
	err_make(reterr, HOLT_EUNSUPPORTED, "module '%s' is neither in '%s' nor built in", name,
		s->dir);
	err_object(reterr, name);
	err_hint(reterr, "use a kernel with virtio-mmio, squashfs and overlay, such as Debian's "
			 "linux-image-cloud-amd64");
	return -HOLT_EUNSUPPORTED;
}

/* The file is not there: perhaps under a compressed name. */
static int fail_absent(
	const struct module_set *s, const char *name, const char *path, holt_error **reterr)
{
	static const char *const suffixes[] = {".xz", ".zst", ".gz"};

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		auto_free char *packed = str_printf("%s%s", path, suffixes[i]);
		if (!packed)
			return err_nomem(reterr);
		if (access(packed, F_OK) != 0)
			continue;
		err_make(reterr, HOLT_EUNSUPPORTED, "module '%s' is compressed", packed);
		err_object(reterr, packed);
		err_hint(reterr, "use a kernel with uncompressed modules, such as Debian's "
				 "linux-image-cloud-amd64");
		return -HOLT_EUNSUPPORTED;
	}
	return fail_missing(s, name, reterr);
}

static int module_read(const struct module_set *s, struct module *m, holt_error **reterr)
{
	auto_free char *data = NULL;
	size_t len = 0;
	bool elf = false;

	const int r = fs_read_file(AT_FDCWD, m->path, MODULE_BYTES_MAX, &data, &len);
	if (r == -ENOENT)
		return fail_absent(s, m->name, m->path, reterr);
	if (r < 0) {
		const int code = err_errno(reterr, -r, "cannot read module '%s'", m->path);
		err_object(reterr, m->path);
		return code;
	}
	const char *depends = modinfo_get(data, len, "depends", &elf);
	if (!elf) {
		err_make(reterr, HOLT_EUNSUPPORTED, "'%s' is not an x86_64 kernel module", m->path);
		err_object(reterr, m->path);
		return -HOLT_EUNSUPPORTED;
	}
	m->depends = str_dup(depends ? depends : "");
	return m->depends ? 0 : err_nomem(reterr);
}

static int set_want(struct module_set *s, const char *name, bool required, holt_error **reterr)
{
	size_t len = 0;

	if (set_find(s, name) || list_find(s->builtin, name, &len))
		return 0;
	const char *line = list_find(s->order, name, &len);
	if (!line)
		return required ? fail_missing(s, name, reterr) : 0;
	if (s->n == MODULES_MAX || strlen(name) >= NAME_MAX_LEN)
		return err_make(reterr, HOLT_ELIMIT, "modules of '%s' need more than %d others",
			s->dir, MODULES_MAX);

	struct module *m = &s->items[s->n];
	memcpy(m->name, name, strlen(name) + 1);
	m->path = str_printf("%s/%.*s", s->dir, (int)len, line);
	if (!m->path)
		return err_nomem(reterr);
	auto_error error = NULL;
	s->n++;
	const int r = module_read(s, m, &error);
	if (r == 0)
		return 0;
	if (required || r == -HOLT_ENO_MEMORY)
		return err_take(reterr, take_ptr(error));
	mem_free(m->path);
	*m = (struct module){0};
	s->n--;
	return 0;
}

/* The next word of "a,b,c" into @name: false at the end. */
static bool next_depend(const char **at, char name[NAME_MAX_LEN])
{
	*at += strspn(*at, ",");
	const size_t len = strcspn(*at, ",");
	if (len == 0)
		return false;
	const size_t kept = len < NAME_MAX_LEN ? len : NAME_MAX_LEN - 1;
	memcpy(name, *at, kept);
	name[kept] = '\0';
	*at += len;
	return true;
}

static int set_close(struct module_set *s, holt_error **reterr)
{
	char name[NAME_MAX_LEN];

	for (size_t i = 0; i < s->n; i++) {
		const char *at = s->items[i].depends;
		while (next_depend(&at, name)) {
			const int r = set_want(s, name, true, reterr);
			if (r < 0)
				return r;
		}
	}
	return 0;
}

/* The first dependency of @m that is in the set and not yet taken. */
static struct module *pending_depend(struct module_set *s, const struct module *m)
{
	char name[NAME_MAX_LEN];

	for (const char *at = m->depends; next_depend(&at, name);) {
		struct module *other = set_find(s, name);
		if (other && !other->taken)
			return other;
	}
	return NULL;
}

/* The module that must be loaded first for @m: @m itself or something below it; NULL for a circle.
 */
static struct module *deepest_pending(struct module_set *s, struct module *m)
{
	for (size_t depth = 0; depth < s->n; depth++) {
		struct module *below = pending_depend(s, m);
		if (!below)
			return m;
		m = below;
	}
	return NULL;
}

/* In the order wanted, each behind all that it depends on. */
static int set_order(struct module_set *s, size_t n_early_wanted, char ***ret, size_t *ret_n_early,
	holt_error **reterr)
{
	size_t n_early = SIZE_MAX;
	char **paths = mem_array(s->n + 1, sizeof(char *));
	size_t n = 0;

	if (!paths)
		return err_nomem(reterr);
	for (size_t i = 0; i < s->n;) {
		if (i == n_early_wanted && n_early == SIZE_MAX)
			n_early = n;
		if (s->items[i].taken) {
			i++;
			continue;
		}
		struct module *m = deepest_pending(s, &s->items[i]);
		if (!m) {
			strv_free(paths);
			return err_make(reterr, HOLT_EUNSUPPORTED,
				"modules of '%s' depend on each other in a circle", s->dir);
		}
		m->taken = true;
		paths[n++] = take_ptr(m->path);
	}
	*ret = paths;
	*ret_n_early = n_early < n ? n_early : n;
	return 0;
}

static int list_read(const char *dir, const char *name, char **ret, holt_error **reterr)
{
	auto_free char *path = str_printf("%s/%s", dir, name);
	size_t len = 0;

	if (!path)
		return err_nomem(reterr);
	const int r = fs_read_file(AT_FDCWD, path, LIST_BYTES_MAX, ret, &len);
	if (r == 0)
		return 0;
	const int code = err_errno(reterr, -r, "cannot read '%s'", path);
	err_object(reterr, path);
	return code;
}

int modules_resolve(const char *dir, char ***ret_paths, size_t *ret_n_early, holt_error **reterr)
{
	size_t n_early_wanted = 0;
	struct module_set *s = mem_zalloc(sizeof(*s));

	if (!s)
		return err_nomem(reterr);
	s->dir = dir;
	int r = list_read(dir, "modules.order", &s->order, reterr);
	if (r == 0)
		r = list_read(dir, "modules.builtin", &s->builtin, reterr);
	for (size_t i = 0; r == 0 && i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		r = set_want(s, wanted[i].name, wanted[i].required, reterr);
		if (!wanted[i].late)
			n_early_wanted = s->n;
	}
	if (r == 0)
		r = set_close(s, reterr);
	if (r == 0)
		r = set_order(s, n_early_wanted, ret_paths, ret_n_early, reterr);
	module_set_done(s);
	mem_free(s);
	return r;
}
