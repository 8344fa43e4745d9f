/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/kernel.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/initramfs_note.h"
#include "vmm/modules.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * Finding the guest kernel. A place is either one image file or a root directory with boot/ and
 * lib/modules/; in a root the newest release comes first and the first usable one wins. What makes
 * one unusable (not readable, no module for a needed driver) is kept, and told if nothing is found.
 */

#define BOOT_CANDIDATES_MAX 64 /* images looked at in one boot directory */
#define SETUP_BYTES         (33u * 1024u) /* real-mode part of an image, at most 32.5 KiB */
#define CONFIG_BYTES_MAX    (2u * 1024u * 1024u) /* a full distribution's has 0.3 MB */
#define RELEASE_MAX         128
#define REASONS_MAX         2048
#define IMAGE_PREFIX        "vmlinuz-"

/* Offsets in the real-mode part of an x86 image (the kernel's boot protocol). */
#define SETUP_SIGNATURE  0x202 /* "HdrS" */
#define SETUP_VERSION    0x20e /* u16: where the version text is, from 0x200 */
#define SETUP_XLOADFLAGS 0x236 /* bit 0: 64-bit entry point */

void kernel_done(struct kernel *k)
{
	if (!k)
		return;
	mem_free(k->release);
	mem_free(k->image);
	mem_free(k->dir);
	strv_free(k->modules);
	*k = (struct kernel){0};
}

/* The release in an image's own header, which a file name could only claim. */
static int image_release(const char *image, char **ret, holt_error **reterr)
{
	auto_free uint8_t *head = mem_zalloc(SETUP_BYTES + 1);
	if (!head)
		return err_nomem(reterr);
	auto_fd fd = open(image, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	const ssize_t len = fd < 0 ? -errno : fd_read_full(fd, head, SETUP_BYTES);

	if (len < 0) {
		const int code = err_errno(
			reterr, (int)-len, "cannot read kernel image '%s'", image);
		if (len == -EACCES)
			err_hint(reterr, "make '%s' readable, or set HOLT_KERNEL to a copy", image);
		return code;
	}
	const char *version = "";
	if (len > SETUP_XLOADFLAGS && memcmp(head + SETUP_SIGNATURE, "HdrS", 4) == 0 &&
		(head[SETUP_XLOADFLAGS] & 1)) {
		const size_t at = 0x200u + head[SETUP_VERSION] +
				  ((size_t)head[SETUP_VERSION + 1] << 8);
		if (at < (size_t)len)
			version = (const char *)head + at;
	}
	const size_t n = strcspn(version, " \n");
	if (n == 0 || n > RELEASE_MAX || memchr(version, '/', n)) {
		err_make(reterr, HOLT_EUNSUPPORTED, "'%s' is not an x86_64 Linux kernel image",
			image);
		err_hint(reterr, "use a bzImage (vmlinuz) for x86_64");
		return -HOLT_EUNSUPPORTED;
	}
	*ret = str_ndup(version, n);
	return *ret ? 0 : err_nomem(reterr);
}

/* Whether the build's configuration lies beside the image and says that signatures are not
 * demanded. Unknown counts as no. */
static bool signatures_optional(const char *image, const char *release)
{
	const char *slash = strrchr(image, '/');
	auto_free char *path = str_printf(
		"%.*sconfig-%s", slash ? (int)(slash - image) + 1 : 0, image, release);
	auto_free char *text = NULL;

	return path && fs_read_file(AT_FDCWD, path, CONFIG_BYTES_MAX, &text, NULL) == 0 &&
	       strstr(text, "# CONFIG_MODULE_SIG_FORCE is not set") &&
	       !strstr(text, "CONFIG_LOCK_DOWN_KERNEL_FORCE_INTEGRITY=y") &&
	       !strstr(text, "CONFIG_LOCK_DOWN_KERNEL_FORCE_CONFIDENTIALITY=y");
}

/* Where below @root the modules of @release are: fresh memory, NULL if nowhere. */
static char *modules_dir(const char *root, const char *release)
{
	static const char *const places[] = {"lib/modules", "usr/lib/modules"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		auto_free char *dir = str_printf("%s/%s/%s", root, places[i], release);
		struct stat st;
		if (dir && stat(dir, &st) == 0 && S_ISDIR(st.st_mode))
			return take_ptr(dir);
	}
	return NULL;
}

int kernel_complete(struct kernel *k, holt_error **reterr)
{
	const int r = modules_resolve(k->dir, &k->modules, &k->n_early, reterr);

	k->strip = signatures_optional(k->image, k->release);
	return r;
}

/* Look at one image; its modules are below the first of @roots (@n of them) that has any. */
static int kernel_load(const char *image, const char *const *roots, size_t n, const char *cache_dir,
	struct kernel *ret, holt_error **reterr)
{
	struct kernel k = {.image = str_dup(image)};

	int r = k.image ? image_release(image, &k.release, reterr) : err_nomem(reterr);
	for (size_t i = 0; r == 0 && !k.dir && i < n; i++)
		k.dir = modules_dir(roots[i], k.release);
	if (r == 0 && !k.dir) {
		r = err_make(reterr, HOLT_ENOT_FOUND,
			"kernel '%s' has no modules: '%s/lib/modules/%s' "
			"is missing",
			image, roots[0], k.release);
		err_hint(reterr, "unpack the whole kernel package, not only the image");
	}
	auto_free char *made = r == 0 && cache_dir ? initramfs_note_read(&k, cache_dir) : NULL;
	if (r == 0 && !made)
		r = kernel_complete(&k, reterr);
	if (r < 0) {
		err_object(reterr, image);
		kernel_done(&k);
		return r;
	}
	*ret = k;
	return 0;
}

static int newest_first(const void *a, const void *b)
{
	return strverscmp(*(char *const *)b, *(char *const *)a);
}

/* Names of the images in @boot, newest first, as a fresh list. An unreadable directory is empty. */
static int boot_list(const char *boot, char ***ret, holt_error **reterr)
{
	char **names = mem_array(BOOT_CANDIDATES_MAX + 1, sizeof(char *));
	const struct dirent *entry;
	size_t n = 0;

	if (!names)
		return err_nomem(reterr);
	DIR *dir = opendir(boot);
	while (dir && n < BOOT_CANDIDATES_MAX && (entry = readdir(dir))) {
		if (!str_starts(entry->d_name, IMAGE_PREFIX))
			continue;
		names[n] = str_dup(entry->d_name);
		if (!names[n++]) {
			(void)closedir(dir);
			strv_free(names);
			return err_nomem(reterr);
		}
	}
	if (dir)
		(void)closedir(dir);
	qsort(names, n, sizeof(char *), newest_first);
	*ret = names;
	return 0;
}

/* Take the newest usable kernel below @root. The first reason why one is not goes to @reterr. */
static int root_search(
	const char *root, const char *cache_dir, struct kernel *ret, holt_error **reterr)
{
	auto_free char *boot = str_printf("%s/boot", root);
	char **names = NULL;
	holt_error *first = NULL;

	if (!boot)
		return err_nomem(reterr);
	int r = boot_list(boot, &names, reterr);
	if (r < 0)
		return r;
	r = -HOLT_ENOT_FOUND;
	for (size_t i = 0; r < 0 && names && names[i]; i++) {
		auto_free char *image = str_printf("%s/%s", boot, names[i]);
		auto_error error = NULL;
		r = image ? kernel_load(image, &root, 1, cache_dir, ret, &error)
			  : err_nomem(&error);
		if (r < 0 && !first)
			first = take_ptr(error);
	}
	strv_free(names);
	if (r == 0) {
		holt_error_free(first);
		return 0;
	}
	if (first)
		return err_take(reterr, first);
	r = err_make(reterr, HOLT_ENOT_FOUND, "no kernel image '" IMAGE_PREFIX "*' in '%s'", boot);
	err_object(reterr, boot);
	return r;
}

/* What was named: a root directory, or an image in its own boot directory, or one of this host. */
static int configured_search(
	const char *path, const char *cache_dir, struct kernel *ret, holt_error **reterr)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_errno(reterr, errno, "cannot use kernel '%s'", path);
	if (S_ISDIR(st.st_mode))
		return root_search(path, cache_dir, ret, reterr);
	const char *slash = strrchr(path, '/');
	auto_free char *beside = str_printf("%.*s..", slash ? (int)(slash - path) + 1 : 0, path);
	if (!beside)
		return err_nomem(reterr);
	const char *const roots[] = {beside, ""};
	return kernel_load(path, roots, 2, cache_dir, ret, reterr);
}

int kernel_find_at(const char *path, const char *cache_dir, struct kernel *ret, holt_error **reterr)
{
	const int r = configured_search(path, cache_dir, ret, reterr);

	if (r < 0) {
		err_wrap(reterr, "the kernel that was named is not usable");
		err_stage(reterr, "kernel");
		err_object(reterr, path);
		err_hint(reterr,
			"name a vmlinuz file, or the directory of an unpacked kernel package");
	}
	return r;
}

/* What was wrong in every place, for the error if all fail. */
struct search {
	const char *cache_dir;
	struct buf reasons;
	int code;
};

static int search_root(struct search *s, const char *root, struct kernel *ret)
{
	auto_error error = NULL;
	const int r = root_search(root, s->cache_dir, ret, &error);

	if (r == 0)
		return 0;
	if (s->code == HOLT_ENOT_FOUND)
		s->code = holt_error_code(error);
	/* A reason too many for the buffer is left out. */
	(void)!buf_printf(
		&s->reasons, "%s%s", s->reasons.len ? "; " : "", holt_error_message(error));
	return r;
}

int kernel_find(
	const char *const *near, const char *cache_dir, struct kernel *ret, holt_error **reterr)
{
	const char *configured = getenv("HOLT_KERNEL");
	struct search s = {
		.cache_dir = cache_dir, .reasons = BUF_INIT(REASONS_MAX), .code = HOLT_ENOT_FOUND};

	if (configured && configured[0] != '\0') {
		const int r = configured_search(configured, cache_dir, ret, reterr);
		if (r < 0) {
			err_wrap(reterr, "HOLT_KERNEL is not usable");
			err_stage(reterr, "kernel");
			err_object(reterr, configured);
			err_hint(reterr, "correct HOLT_KERNEL or unset it");
		}
		return r;
	}
	int r = -HOLT_ENOT_FOUND;
	for (size_t i = 0; r < 0 && near && near[i]; i++)
		r = search_root(&s, near[i], ret);
	if (r < 0)
		r = search_root(&s, "", ret);
	if (r < 0) {
		r = err_make(reterr, s.code, "no usable guest kernel: %s",
			s.reasons.data ? (const char *)s.reasons.data : "out of memory");
		err_stage(reterr, "kernel");
		err_hint(reterr,
			"run 'make setup', and then 'make install' if this is an installed copy; "
			"or set HOLT_KERNEL to an unpacked kernel package");
	}
	buf_done(&s.reasons);
	return r;
}

int kernel_cache_lock(const char *cache_dir)
{
	auto_free char *path = str_printf("%s/kernel.lock", cache_dir);
	const int r = path ? fs_mkdirs(cache_dir) : -ENOMEM;

	return r < 0 ? r : fs_open_lock(AT_FDCWD, path, true);
}
