/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_home.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/lifecycle.h"
#include "box/spares.h"
#include "box/template.h"
#include "base/banned.h"

#define HOME_FORMAT "1\n"

/* An empty text where nothing tells. */
static char *default_home(void)
{
	const char *home = getenv("HOLT_HOME");
	const char *data = getenv("XDG_DATA_HOME");
	const char *user = getenv("HOME");

	if (home && *home)
		return str_dup(home);
	if (geteuid() == 0)
		return str_dup("/var/lib/holt");
	if (data && data[0] == '/')
		return str_printf("%s/holt", data);
	return user && user[0] == '/' ? str_printf("%s/.local/share/holt", user) : str_dup("");
}

/* The current directory may be another one tomorrow. */
static int make_absolute(const char *path, char **ret, holt_error **reterr)
{
	char cwd[PATH_MAX];

	if (*path == '/') {
		*ret = str_dup(path);
		return *ret ? 0 : err_nomem(reterr);
	}
	if (!getcwd(cwd, sizeof cwd)) {
		const int code = err_errno(reterr, errno, "cannot tell the current directory");
		err_object(reterr, path);
		err_hint(reterr, "use an absolute path");
		return code;
	}
	*ret = str_printf("%s/%s", cwd, path);
	return *ret ? 0 : err_nomem(reterr);
}

int home_resolve(const char *path, char **ret, holt_error **reterr)
{
	auto_free char *chosen = path ? str_dup(path) : default_home();

	if (!chosen)
		return err_nomem(reterr);
	if (!*chosen) {
		(void)err_make(reterr, HOLT_EINVALID,
			path ? "the path of the home is empty"
			     : "neither HOLT_HOME nor HOME tells where the home is");
		err_hint(reterr, "set HOLT_HOME to a directory of your own");
		return -HOLT_EINVALID;
	}
	return make_absolute(chosen, ret, reterr);
}

/* Whether it is one is seen by the first start. */
static int take_kernel(const char *path, char **ret, holt_error **reterr)
{
	if (!path)
		return 0;
	return *path ? make_absolute(path, ret, reterr)
		     : err_make(reterr, HOLT_EINVALID, "the path of the kernel is empty");
}

/* A size in the environment; @ret stays where there is none. */
static int size_of_env(const char *name, const char *hint, uint64_t *ret, holt_error **reterr)
{
	const char *text = getenv(name);

	if (!text || !*text || str_to_bytes(text, ret) == 0)
		return 0;
	(void)err_make(reterr, HOLT_EINVALID, "%s is '%.64s', not a size such as 8g or 8589934592",
		name, text);
	err_hint(reterr, "%s", hint);
	return -HOLT_EINVALID;
}

int home_template_bytes(uint64_t given, uint64_t *ret, holt_error **reterr)
{
	uint64_t bytes = given ? given : TEMPLATE_BYTES_DEFAULT;
	const int r = given ? 0
			    : size_of_env("HOLT_TEMPLATE_BYTES",
				      "the default is 8 GiB; 'holt run --no-template' makes none",
				      &bytes, reterr);

	if (r == 0)
		*ret = bytes;
	return r;
}

int home_image_bytes(uint64_t given, uint64_t *ret, holt_error **reterr)
{
	uint64_t bytes = given ? given : IMAGE_BYTES_DEFAULT;
	const int r = given ? 0
			    : size_of_env(
				      "HOLT_IMAGE_BYTES", "the default is 32 GiB", &bytes, reterr);

	if (r == 0)
		*ret = bytes;
	return r;
}

int home_max_memory(uint64_t given, uint64_t *ret, holt_error **reterr)
{
	uint64_t bytes = given;
	const int r = given ? 0
			    : size_of_env("HOLT_MAX_MEMORY", "unset HOLT_MAX_MEMORY for no ceiling",
				      &bytes, reterr);

	if (r == 0)
		*ret = bytes;
	return r;
}

/* The directory must be ours and closed to others. */
static int check_owner(int fd, const char *path, holt_error **reterr)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(reterr, errno, "cannot look at '%s'", path);
	if (st.st_uid != geteuid()) {
		(void)err_make(reterr, HOLT_EDENIED, "'%s' belongs to user %u, not to %u", path,
			st.st_uid, geteuid());
		err_hint(reterr, "choose another directory with HOLT_HOME");
		return -HOLT_EDENIED;
	}
	if ((st.st_mode & 077) && fchmod(fd, 0700) < 0)
		return err_errno(reterr, errno, "cannot close '%s' to other users", path);
	return 0;
}

static int check_format(int fd, holt_error **reterr)
{
	auto_free char *format = NULL;
	int r = fs_read_file(fd, "format", 64, &format, NULL);

	if (r == -ENOENT) {
		r = fs_write_atomic(fd, "format", HOME_FORMAT, strlen(HOME_FORMAT), 0600);
		return r < 0 ? err_errno(reterr, -r, "cannot write to the home") : 0;
	}
	if (r < 0)
		return err_errno(reterr, -r, "cannot read the home's format");
	if (strcmp(format, HOME_FORMAT) != 0) {
		(void)err_make(reterr, HOLT_EINVALID,
			"the home has another format than this "
			"version of holt knows");
		err_hint(reterr, "use the version of holt that made it, or another HOLT_HOME");
		return -HOLT_EINVALID;
	}
	return 0;
}

static int make_dir(int fd, const char *name, holt_error **reterr)
{
	if (mkdirat(fd, name, 0700) < 0 && errno != EEXIST)
		return err_errno(reterr, errno, "cannot make '%s' in the home", name);
	return 0;
}

static int open_dirs(struct holt_home *h, holt_error **reterr)
{
	int r = fs_mkdirs(h->path);

	if (r < 0) {
		(void)err_errno(reterr, -r, "cannot make the home '%s'", h->path);
		err_hint(reterr, "choose another directory with HOLT_HOME");
		return -err_code_of_errno(-r);
	}
	const int fd = h->fd = open(h->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(reterr, errno, "cannot open the home '%s'", h->path);
	if ((r = check_owner(fd, h->path, reterr)) < 0 || (r = check_format(fd, reterr)) < 0 ||
		(r = make_dir(fd, "images", reterr)) < 0 ||
		(r = make_dir(fd, "cache", reterr)) < 0 ||
		(r = make_dir(fd, "boxes", reterr)) < 0 ||
		(r = make_dir(fd, "templates", reterr)) < 0 ||
		(r = make_dir(fd, SPARES_DIR, reterr)) < 0)
		return r;
	h->boxes_fd = openat(fd, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (h->boxes_fd < 0)
		return err_errno(reterr, errno, "cannot open the boxes of '%s'", h->path);
	h->templates_fd = openat(fd, "templates", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (h->templates_fd < 0)
		return err_errno(reterr, errno, "cannot open the templates of '%s'", h->path);
	h->spares_fd = openat(fd, SPARES_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (h->spares_fd < 0)
		return err_errno(reterr, errno, "cannot open the spares of '%s'", h->path);
	return 0;
}

static const struct executor_options job_threads = {
	.max_threads = HOME_JOBS_RUNNING, .max_jobs = HOME_JOBS_MAX, .thread_name = "holt-job"};

static int open_all(struct holt_home *h, const struct home_wish *w, holt_error **reterr)
{
	int r = home_resolve(w->path, &h->path, reterr);

	if (r < 0 || (r = take_kernel(w->kernel, &h->kernel, reterr)) < 0 ||
		(r = home_template_bytes(w->template_bytes, &h->template_bytes, reterr)) < 0 ||
		(r = home_image_bytes(w->image_bytes, &h->image_bytes, reterr)) < 0 ||
		(r = home_max_memory(w->max_memory_bytes, &h->max_memory_bytes, reterr)) < 0 ||
		(r = open_dirs(h, reterr)) < 0)
		return r;
	auto_free char *images = str_printf("%s/images", h->path);
	h->cache_dir = str_printf("%s/cache", h->path);
	h->loop = loop_new();
	h->executor = executor_new(&job_threads);
	auto_free char *boxes = str_printf("%s/boxes.db", h->path);
	if (!images || !boxes || !h->cache_dir || !h->loop || !h->executor)
		return err_nomem(reterr);
	r = image_store_open(images, &h->images, reterr);
	if (r == 0)
		r = box_index_open(boxes, &h->boxes, reterr);
	if (r == 0) {
		box_sweep(h);
		template_sweep(h);
		spares_sweep(h);
	}
	return r;
}

int home_open(const struct home_wish *w, struct holt_home **ret, holt_error **reterr)
{
	struct holt_home *h = mem_zalloc(sizeof *h);

	if (!h)
		return err_nomem(reterr);
	h->fd = h->boxes_fd = h->templates_fd = h->spares_fd = FD_NONE;
	h->kernel_fd = h->initrd_fd = FD_NONE;
	(void)pthread_mutex_init(&h->boot_lock, NULL);
	const int r = open_all(h, w, reterr);
	if (r < 0) {
		err_stage(reterr, "home");
		err_object(reterr, h->path);
		home_close(h);
		return r;
	}
	*ret = h;
	return 0;
}

void home_close(struct holt_home *h)
{
	if (!h)
		return;
	executor_free(h->executor);
	loop_free(h->loop);
	image_store_close(h->images);
	box_index_close(h->boxes);
	(void)fd_close(h->boxes_fd);
	(void)fd_close(h->templates_fd);
	(void)fd_close(h->spares_fd);
	(void)fd_close(h->kernel_fd);
	(void)fd_close(h->initrd_fd);
	(void)pthread_mutex_destroy(&h->boot_lock);
	(void)fd_close(h->fd);
	mem_free(h->cache_dir);
	mem_free(h->kernel);
	mem_free(h->path);
	mem_free(h);
}
