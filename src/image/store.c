/* SPDX-License-Identifier: Apache-2.0 */
#include "image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "image/blobs.h"
#include "image/manifest.h"
#include "image/ref.h"
#include "base/banned.h"

/*
 * Any thread: the lock is held over each use of the index, never over an import's work. Other
 * processes are kept out by transactions (publishing, removing) and by a lock for each digest
 * (importing the same image twice at once would be wasted work, not an error).
 */

#define ROOTFS_SUFFIX   ".squashfs"
#define ROOTFS_NAME_LEN (DIGEST_HEX_LEN + sizeof ROOTFS_SUFFIX - 1)
#define LOCK_POLL_NS    20000000 /* between two tries for another import's lock */

struct image_store {
	char *path;
	int dir;
	int rootfs;
	int tmp;
	int blobs;
	struct index *index;
	pthread_mutex_t lock;
};

static int open_dir(int parent, const char *name, int *ret, holt_error **reterr)
{
	if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
		return err_errno(reterr, errno, "cannot make the directory '%s'", name);
	const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(reterr, errno, "cannot open the directory '%s'", name);
	*ret = fd;
	return 0;
}

/* Call @fn for every name in a directory. */
static int each_name(int dirfd_, int (*fn)(struct image_store *, const char *, holt_error **),
	struct image_store *s, holt_error **reterr)
{
	const int fd = openat(dirfd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int code = 0;

	if (!dir) {
		code = err_errno(reterr, errno, "cannot list a directory of the image store");
		(void)fd_close(fd);
		return code;
	}
	while (code == 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			code = fn(s, entry->d_name, reterr);
	}
	(void)closedir(dir);
	return code;
}

static int sweep_temp(struct image_store *s, const char *name, holt_error **reterr)
{
	auto_fd fd = openat(s->tmp, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	(void)reterr;
	if (fd < 0 || fs_trylock(fd) < 0)
		return 0;
	/* Its owner may have given the name up, and another one taken it, since it was opened. */
	if (fs_is_named(fd, s->tmp, name))
		(void)unlinkat(s->tmp, name, 0);
	return 0;
}

/* Whether a name in rootfs/ is that of a rootfs; gives its digest. */
static bool rootfs_digest_of(const char *name, char ret[DIGEST_STR_LEN + 1])
{
	if (strlen(name) != ROOTFS_NAME_LEN || !str_ends(name, ROOTFS_SUFFIX))
		return false;
	memcpy(ret, "sha256:", 7);
	memcpy(ret + 7, name, DIGEST_HEX_LEN);
	ret[DIGEST_STR_LEN] = 0;
	return digest_valid(ret);
}

static char *rootfs_name_of(const char *digest)
{
	return str_printf("%s" ROOTFS_SUFFIX, digest + 7);
}

/* Remove a rootfs that no image uses; seen again within a transaction, because an import may be
 * about to make it known. */
static int sweep_rootfs(struct image_store *s, const char *name, holt_error **reterr)
{
	char digest[DIGEST_STR_LEN + 1];
	bool used = true;

	if (!rootfs_digest_of(name, digest))
		return 0;
	int code = index_uses_rootfs(s->index, digest, &used, reterr);
	if (code < 0 || used)
		return code;
	code = index_begin(s->index, reterr);
	if (code == 0)
		code = index_uses_rootfs(s->index, digest, &used, reterr);
	if (code == 0 && !used && unlinkat(s->rootfs, name, 0) < 0 && errno != ENOENT)
		code = err_errno(reterr, errno, "cannot remove the rootfs '%s'", name);
	index_rollback(s->index);
	return code;
}

static int open_all(struct image_store *s, holt_error **reterr)
{
	const int r = fs_mkdirs(s->path);

	if (r < 0)
		return err_errno(reterr, -r, "cannot make the directory of the image store");
	s->dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return err_errno(reterr, errno, "cannot open the directory of the image store");
	int code = open_dir(s->dir, "rootfs", &s->rootfs, reterr);
	if (code == 0)
		code = open_dir(s->dir, "tmp", &s->tmp, reterr);
	if (code == 0)
		code = open_dir(s->dir, BLOB_DIR, &s->blobs, reterr);
	if (code < 0)
		return code;
	auto_free char *path = str_printf("%s/index.db", s->path);
	if (!path)
		return err_nomem(reterr);
	code = index_open(path, &s->index, reterr);
	if (code == 0)
		code = each_name(s->tmp, sweep_temp, s, reterr);
	if (code == 0)
		code = each_name(s->rootfs, sweep_rootfs, s, reterr);
	return code;
}

/* Every failure of the store says what it is about. */
static int about(holt_error **reterr, int code, const char *stage, const char *object)
{
	if (code < 0) {
		err_stage(reterr, stage);
		err_object(reterr, object);
	}
	return code;
}

int image_store_open(const char *dir, struct image_store **ret, holt_error **reterr)
{
	struct image_store *s = mem_zalloc(sizeof *s);

	if (!s)
		return err_nomem(reterr);
	s->dir = s->rootfs = s->tmp = s->blobs = FD_NONE;
	(void)pthread_mutex_init(&s->lock, NULL);
	s->path = str_dup(dir);
	const int code = s->path ? open_all(s, reterr) : err_nomem(reterr);
	if (code < 0) {
		image_store_close(s);
		return about(reterr, code, "image store", dir);
	}
	*ret = s;
	return 0;
}

void image_store_close(struct image_store *s)
{
	if (!s)
		return;
	index_close(s->index);
	(void)fd_close(s->blobs);
	(void)fd_close(s->tmp);
	(void)fd_close(s->rootfs);
	(void)fd_close(s->dir);
	(void)pthread_mutex_destroy(&s->lock);
	mem_free(s->path);
	mem_free(s);
}

int store_blobs_dir(const struct image_store *s)
{
	return s->blobs;
}

/* --- For imports ------------------------------------------------------------------------------ */

int store_temp(struct image_store *s, struct temp_file *ret, holt_error **reterr)
{
	char hex[33];
	int r = random_hex(hex, 32);

	if (r < 0)
		return err_errno(reterr, -r, "cannot get random bytes");
	auto_free char *name = str_printf("import-%s", hex);
	if (!name)
		return err_nomem(reterr);
	r = fs_open_lock(s->tmp, name, true);
	if (r < 0)
		return err_errno(reterr, -r, "cannot make a temporary file in '%s/tmp'", s->path);
	*ret = (struct temp_file){.fd = r, .name = take_ptr(name)};
	return 0;
}

void store_temp_done(struct image_store *s, struct temp_file *t)
{
	if (t->name)
		(void)unlinkat(s->tmp, t->name, 0);
	(void)fd_close(t->fd);
	mem_free(t->name);
	*t = (struct temp_file){.fd = FD_NONE};
}

int store_lock_digest(struct image_store *s, const char *digest, const volatile int *cancel,
	struct temp_file *ret, holt_error **reterr)
{
	const struct timespec pause = {.tv_nsec = LOCK_POLL_NS};
	auto_free char *name = str_printf("lock-%s", digest + 7);

	if (!name)
		return err_nomem(reterr);
	for (;;) {
		const int fd = fs_open_lock(s->tmp, name, false);
		if (fd >= 0) {
			*ret = (struct temp_file){.fd = fd, .name = take_ptr(name)};
			return 0;
		}
		if (fd != -EWOULDBLOCK)
			return err_errno(reterr, -fd, "cannot lock the image");
		if (cancel_flag_set(cancel))
			return err_make(reterr, HOLT_ECANCELLED, "the import was cancelled");
		(void)nanosleep(&pause, NULL);
	}
}

int store_free_bytes(struct image_store *s, uint64_t *ret, holt_error **reterr)
{
	struct statvfs st;

	if (fstatvfs(s->tmp, &st) < 0)
		return err_errno(reterr, errno, "cannot ask for the free space");
	*ret = st.f_blocks > 0 ? (uint64_t)st.f_bavail * st.f_frsize : UINT64_MAX;
	return 0;
}

int store_need(struct image_store *s, uint64_t bytes, holt_error **reterr)
{
	uint64_t there = 0;
	const int code = store_free_bytes(s, &there, reterr);

	if (code < 0 || there >= bytes)
		return code;
	(void)err_make(reterr, HOLT_ELIMIT,
		"%" PRIu64 " MiB are free where the images are kept, and %" PRIu64
		" MiB are needed",
		there >> 20, (bytes >> 20) + 1);
	err_hint(reterr, "free some space there, or let 'holt image prune' do it");
	return -HOLT_ELIMIT;
}

/* Whether the rootfs of an image is there in full. */
static bool has_rootfs(struct image_store *s, const char *digest, uint64_t size)
{
	auto_free char *name = rootfs_name_of(digest);
	struct stat st;

	return name && fstatat(s->rootfs, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode) && (uint64_t)st.st_size == size;
}

static int set_name(struct image *img, const char *name, holt_error **reterr)
{
	char *copy = str_dup(name);

	if (!copy)
		return err_nomem(reterr);
	mem_free(img->name);
	img->name = copy;
	return 0;
}

static int adopt_locked(struct image_store *s, const char *digest, const char *name,
	struct image **ret, holt_error **reterr)
{
	struct image *img = NULL;
	unsigned n = 0;
	int code = index_begin(s->index, reterr);

	if (code == 0)
		code = index_by_digest(s->index, digest + 7, &img, &n, reterr);
	if (code == 0 && img && !has_rootfs(s, img->rootfs_digest, img->size_bytes)) {
		image_free(img);
		img = NULL;
	}
	if (code == 0 && img && name) {
		code = index_name(s->index, name, digest, reterr);
		if (code == 0)
			code = set_name(img, name, reterr);
	}
	if (code == 0)
		code = index_commit(s->index, reterr);
	index_rollback(s->index);
	if (code < 0) {
		image_free(img);
		return code;
	}
	*ret = img;
	return 0;
}

int store_adopt(struct image_store *s, const char *digest, const char *name, struct image **ret,
	holt_error **reterr)
{
	(void)pthread_mutex_lock(&s->lock);
	const int code = adopt_locked(s, digest, name, ret, reterr);
	(void)pthread_mutex_unlock(&s->lock);
	return code;
}

/* Within a transaction: bring the file to its name. An older file of that name that is damaged is
 * replaced; a box that has it open keeps what it has. */
static int place_rootfs(struct image_store *s, struct temp_file *rootfs, const struct image *img,
	holt_error **reterr)
{
	auto_free char *name = rootfs_name_of(img->rootfs_digest);

	if (!name)
		return err_nomem(reterr);
	if (has_rootfs(s, img->rootfs_digest, img->size_bytes))
		return 0;
	const int r = fs_publish(s->tmp, rootfs->name, s->rootfs, name);
	if (r < 0)
		return err_errno(reterr, -r, "cannot place the rootfs");
	mem_free(rootfs->name);
	rootfs->name = NULL;
	return 0;
}

static int publish_locked(struct image_store *s, struct temp_file *rootfs, const struct image *img,
	const char *config, const char *name, struct image **ret, holt_error **reterr)
{
	unsigned n = 0;
	int code = index_begin(s->index, reterr);

	if (code == 0)
		code = place_rootfs(s, rootfs, img, reterr);
	if (code == 0)
		code = index_put(s->index, img, config, reterr);
	if (code == 0 && name)
		code = index_name(s->index, name, img->digest, reterr);
	if (code == 0)
		code = index_by_digest(s->index, img->digest + 7, ret, &n, reterr);
	if (code == 0 && name)
		code = set_name(*ret, name, reterr);
	if (code == 0)
		code = index_commit(s->index, reterr);
	index_rollback(s->index);
	if (code < 0) {
		image_free(*ret);
		*ret = NULL;
	}
	return code;
}

int store_publish(struct image_store *s, struct temp_file *rootfs, const struct image *img,
	const char *config, const char *name, struct image **ret, holt_error **reterr)
{
	struct image *out = NULL;

	if (fchmod(rootfs->fd, 0444) < 0 || fsync(rootfs->fd) < 0)
		return err_errno(reterr, errno, "cannot write the rootfs to disk");
	(void)pthread_mutex_lock(&s->lock);
	const int code = publish_locked(s, rootfs, img, config, name, &out, reterr);
	(void)pthread_mutex_unlock(&s->lock);
	if (code == 0)
		*ret = out;
	return code;
}

/* --- Looking up ------------------------------------------------------------------------------- */

static int not_found(const char *ref, holt_error **reterr)
{
	char shown[512];

	(void)str_escape(shown, sizeof shown, ref, strlen(ref), false);
	const int code = err_make(reterr, HOLT_ENOT_FOUND, "there is no image '%s'", shown);
	err_hint(reterr,
		"holt image ls shows what there is; holt pull and holt image import add more");
	return code;
}

static int get_by_digest(
	struct image_store *s, const char *hex, struct image **ret, holt_error **reterr)
{
	unsigned n = 0;
	const int code = index_by_digest(s->index, hex, ret, &n, reterr);

	if (code == 0 && n > 1)
		return err_make(reterr, HOLT_EINVALID,
			"more than one image has a digest that begins with '%s'", hex);
	return code;
}

/* "name@digest": the digest decides, but it must be an image of that name. */
static int get_pinned(
	struct image_store *s, const struct ref *r, struct image **ret, holt_error **reterr)
{
	bool named = false;
	int code = get_by_digest(s, r->digest + 7, ret, reterr);

	if (code == 0 && *ret)
		code = index_has_repository(
			s->index, (*ret)->digest, r->repository, &named, reterr);
	if (code < 0 || !named) {
		image_free(*ret);
		*ret = NULL;
	}
	return code;
}

static int get_locked(
	struct image_store *s, const char *text, struct image **ret, holt_error **reterr)
{
	auto_error malformed = NULL;
	auto_ref r = {0};
	const char *hex = NULL;
	const bool is_digest = ref_is_digest(text, &hex);
	int code = 0;

	/* A name may look like a digest, so names come first. */
	if (ref_parse(text, &r, &malformed) == 0) {
		auto_free char *name = str_printf("%s:%s", r.repository, r.tag);
		if (!name)
			return err_nomem(reterr);
		code = r.digest ? get_pinned(s, &r, ret, reterr)
				: index_by_name(s->index, name, ret, reterr);
	} else if (!is_digest) {
		code = err_take(reterr, malformed);
		malformed = NULL;
		return code;
	}
	if (code == 0 && !*ret && is_digest)
		code = get_by_digest(s, hex, ret, reterr);
	if (code == 0 && !*ret)
		code = not_found(text, reterr);
	return code;
}

int image_get(struct image_store *s, const char *ref, struct image **ret, holt_error **reterr)
{
	struct image *img = NULL;

	(void)pthread_mutex_lock(&s->lock);
	const int code = get_locked(s, ref, &img, reterr);
	(void)pthread_mutex_unlock(&s->lock);
	if (code == 0)
		*ret = img;
	return about(reterr, code, "image lookup", ref);
}

int store_config(struct image_store *s, const char *digest, char **ret, holt_error **reterr)
{
	(void)pthread_mutex_lock(&s->lock);
	const int code = index_config(s->index, digest, ret, reterr);
	(void)pthread_mutex_unlock(&s->lock);
	return code == 0 && !*ret ? not_found(digest, reterr) : code;
}

static int tag_locked(struct image_store *s, const char *ref, const char *name, holt_error **reterr)
{
	struct image *img = NULL;
	int code = index_begin(s->index, reterr);

	/* Found inside, so that no other process removes the image before it is named. */
	if (code == 0)
		code = get_locked(s, ref, &img, reterr);
	if (code == 0)
		code = index_name(s->index, name, img->digest, reterr);
	if (code == 0)
		code = index_commit(s->index, reterr);
	index_rollback(s->index);
	image_free(img);
	return code;
}

int image_tag(struct image_store *s, const char *ref, const char *name, holt_error **reterr)
{
	auto_free char *whole = NULL;
	int code = ref_normalise(name, &whole, reterr);

	if (code < 0)
		return about(reterr, code, "image tag", name);
	(void)pthread_mutex_lock(&s->lock);
	code = tag_locked(s, ref, whole, reterr);
	(void)pthread_mutex_unlock(&s->lock);
	return about(reterr, code, "image tag", ref);
}

int image_list(struct image_store *s, struct image ***ret, size_t *ret_n, holt_error **reterr)
{
	(void)pthread_mutex_lock(&s->lock);
	const int code = index_list(s->index, ret, ret_n, reterr);
	(void)pthread_mutex_unlock(&s->lock);
	return about(reterr, code, "image list", s->path);
}

/* Remove the name that was asked for, or the image if it has no other one. */
static int remove_rows(struct image_store *s, const char *text, struct image **ret_img,
	bool *ret_gone, holt_error **reterr)
{
	struct image *img = NULL;
	unsigned names = 0;
	int code = get_locked(s, text, &img, reterr);

	if (!img)
		return code;
	*ret_img = img;
	auto_free char *name = NULL;
	const bool by_name = ref_normalise(text, &name, NULL) == 0 && img->name &&
			     strcmp(name, img->name) == 0;
	code = index_count_names(s->index, img->digest, &names, reterr);
	if (code < 0)
		return code;
	if (!by_name && names > 1) {
		code = err_make(reterr, HOLT_EBUSY, "the image has %u names", names);
		err_hint(reterr, "remove it by name; holt image ls shows them");
		return code;
	}
	*ret_gone = names <= 1;
	return *ret_gone ? index_drop(s->index, img->digest, reterr)
			 : index_unname(s->index, img->name, reterr);
}

static int remove_locked(struct image_store *s, const char *text, holt_error **reterr)
{
	struct image *img = NULL;
	bool gone = false;
	int code = index_begin(s->index, reterr);

	if (code == 0)
		code = remove_rows(s, text, &img, &gone, reterr);
	if (code == 0)
		code = index_commit(s->index, reterr);
	index_rollback(s->index);
	/* Only now: were the file removed first, a crash would leave an image without a rootfs. */
	if (code == 0 && gone) {
		auto_free char *name = rootfs_name_of(img->rootfs_digest);
		code = name ? sweep_rootfs(s, name, reterr) : err_nomem(reterr);
	}
	image_free(img);
	return code;
}

static int drop_locked(struct image_store *s, const char *digest, holt_error **reterr)
{
	struct image *img = NULL;
	unsigned n = 0;
	int code = index_begin(s->index, reterr);

	if (code == 0)
		code = index_by_digest(s->index, digest + 7, &img, &n, reterr);
	if (code == 0 && img)
		code = index_drop(s->index, digest, reterr);
	if (code == 0)
		code = index_commit(s->index, reterr);
	index_rollback(s->index);
	if (code == 0 && img) {
		auto_free char *name = rootfs_name_of(img->rootfs_digest);
		code = name ? sweep_rootfs(s, name, reterr) : err_nomem(reterr);
	}
	image_free(img);
	return code;
}

int image_drop(struct image_store *s, const char *digest, holt_error **reterr)
{
	(void)pthread_mutex_lock(&s->lock);
	const int code = drop_locked(s, digest, reterr);
	(void)pthread_mutex_unlock(&s->lock);
	return about(reterr, code, "image removal", digest);
}

int image_rootfs_use(struct image_store *s, const char *rootfs_digest, struct rootfs_use *ret,
	holt_error **reterr)
{
	auto_free char *name = rootfs_name_of(rootfs_digest);
	struct stat st;

	if (!name)
		return err_nomem(reterr);
	if (fstatat(s->rootfs, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(reterr, errno, "cannot look at the rootfs '%s'", name);
	*ret = (struct rootfs_use){.bytes = (uint64_t)st.st_blocks * 512,
		.linked = st.st_nlink > 1,
		.used_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec};
	return 0;
}

int image_remove(struct image_store *s, const char *ref, holt_error **reterr)
{
	(void)pthread_mutex_lock(&s->lock);
	const int code = remove_locked(s, ref, reterr);
	(void)pthread_mutex_unlock(&s->lock);
	return about(reterr, code, "image removal", ref);
}

int image_open_rootfs(
	struct image_store *s, const struct image *img, int *ret_fd, holt_error **reterr)
{
	auto_free char *name = rootfs_name_of(img->rootfs_digest);
	struct stat st;

	if (!name)
		return err_nomem(reterr);
	auto_fd fd = openat(s->rootfs, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		const int code = err_errno(reterr, errno, "cannot open the rootfs of the image");
		err_hint(reterr, "import the image again");
		return about(reterr, code, "image rootfs", img->digest);
	}
	if ((uint64_t)st.st_size != img->size_bytes) {
		const int code = err_make(reterr, HOLT_EIO,
			"the rootfs of the image does not have its size any more");
		err_hint(reterr, "import the image again");
		return about(reterr, code, "image rootfs", img->digest);
	}
	*ret_fd = take_fd(fd);
	return 0;
}

static int copy_rootfs(int from, int dirfd, const char *name)
{
	auto_fd to = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);

	return to < 0 ? -errno : fs_copy_sparse(from, to);
}

int image_link_rootfs(struct image_store *s, const struct image *img, int dirfd, const char *name,
	holt_error **reterr)
{
	auto_free char *own = rootfs_name_of(img->rootfs_digest);
	auto_fd fd = FD_NONE;
	int code = own ? 0 : err_nomem(reterr);

	/* When it was used last, for who makes room. */
	if (code == 0)
		(void)utimensat(s->rootfs, own, NULL, AT_SYMLINK_NOFOLLOW);
	if (code == 0 && linkat(s->rootfs, own, dirfd, name, 0) == 0)
		return 0;
	if (code == 0)
		code = image_open_rootfs(s, img, &fd, reterr);
	if (code < 0)
		return code;
	const int r = copy_rootfs(fd, dirfd, name);
	return r < 0 ? err_errno(reterr, -r, "cannot copy the rootfs of the image") : 0;
}

void image_free(struct image *img)
{
	if (!img)
		return;
	mem_free(img->digest);
	mem_free(img->rootfs_digest);
	mem_free(img->name);
	config_done(&img->config);
	mem_free(img);
}

void image_list_free(struct image **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		image_free(list[i]);
	mem_free(list);
}
