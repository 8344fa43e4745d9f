/* SPDX-License-Identifier: Apache-2.0 */
#include "box/pool_shape.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/egress.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/call_bounds.h"
#include "box/network_wish.h"
#include "box/origin.h"
#include "box/spares.h"
#include "box/template_image.h"
#include "base/banned.h"

#define TEXT_MAX (PATH_MAX + 1024 + NET_ALLOW_MAX * (EGRESS_TEXT + 8))

static int check_range(
	const char *what, uint64_t value, uint64_t min, uint64_t max, holt_error **reterr)
{
	if (value >= min && value <= max)
		return 0;
	return err_make(reterr, HOLT_EINVALID,
		"%s is %" PRIu64 ", not within %" PRIu64 " to %" PRIu64, what, value, min, max);
}

int pool_shape_check(const holt_pool_shape *shape, holt_pool_shape *ret, holt_error **reterr)
{
	holt_pool_shape s = *shape;
	struct net_spec network;
	int r;

	s.memory_mib = s.memory_mib ? s.memory_mib : DEFAULT_MEMORY_MIB;
	s.cpus = s.cpus ? s.cpus : DEFAULT_CPUS;
	s.disk_bytes = s.disk_bytes ? s.disk_bytes : DEFAULT_DISK_BYTES;
	s.pool = s.pool ? s.pool : "";
	if (s.accel && strcmp(s.accel, "auto") == 0)
		s.accel = NULL;
	if (!s.image)
		return err_make(reterr, HOLT_EINVALID, "the pool has no image");
	if ((r = network_wish_read(s.network, s.allow, NULL, &network, reterr)) < 0 ||
		(r = check_range("memory in MiB", s.memory_mib, HOLT_MEMORY_MIB_MIN,
			 HOLT_MEMORY_MIB_MAX, reterr)) < 0 ||
		(r = check_range("number of cpus", s.cpus, 1, HOLT_CPUS_MAX, reterr)) < 0 ||
		(r = check_range("disk size in bytes", s.disk_bytes, HOLT_DISK_BYTES_MIN,
			 HOLT_DISK_BYTES_MAX, reterr)) < 0)
		return r;
	s.network = net_mode_name(network.mode);
	*ret = s;
	return 0;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What an allow-list means, whatever its order and writing. */
static int add_allow(const char *const *allow, struct buf *b)
{
	char *lines[NET_ALLOW_MAX + 1] = {NULL};
	size_t n = 0;
	int r = 0;

	for (; r == 0 && allow && allow[n] && n < NET_ALLOW_MAX; n++) {
		struct egress_rule rule = {0};
		char text[EGRESS_TEXT];

		(void)egress_parse(allow[n], &rule, NULL);
		egress_text(&rule, text);
		lines[n] = str_printf("allow %s\n", text);
		r = lines[n] ? 0 : -ENOMEM;
	}
	if (r == 0)
		qsort(lines, n, sizeof *lines, compare_lines);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = i > 0 && strcmp(lines[i], lines[i - 1]) == 0 ? 0 : buf_appends(b, lines[i]);
	for (size_t i = 0; i < n; i++)
		mem_free(lines[i]);
	return r;
}

/* As templates know it: by the name that it has in the cache, which tells the file that it was made
 * from. The agent is not in it: it is no part of what a thread has in its box, and a box with a
 * disk that is kept gets another one with its next start. */
static int add_kernel(struct holt_home *home, struct buf *b, holt_error **reterr)
{
	struct keeper_parts p = KEEPER_PARTS_INIT;
	char path[PATH_MAX];
	struct stat st;
	int r = keeper_open_kernel(home, &p, reterr);

	if (r < 0)
		return r;
	const char *cached = template_cached_name(p.kernel_fd, "vmlinux-", path);
	if (cached)
		r = buf_printf(b, "kernel %s\n", cached);
	else if (fstat(p.kernel_fd, &st) < 0)
		r = -errno;
	else
		r = buf_printf(b, "kernel %" PRIi64 " %" PRIi64 ".%09ld\n", (int64_t)st.st_size,
			(int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	return r < 0 ? err_errno(reterr, -r, "cannot look at the guest's kernel") : 0;
}

int pool_shape_digest(
	struct holt_home *home, const holt_pool_shape *shape, char ret[65], holt_error **reterr)
{
	struct image *img = NULL;
	char digest[DIGEST_STR_LEN + 1];
	auto_buf b = BUF_INIT(TEXT_MAX);
	int r = image_get(home->images, shape->image, &img, reterr);

	if (r < 0)
		return r;
	r = buf_printf(&b,
		"holt box 1\npool %s\nimage %s\nmemory_mib %u\ncpus %u\ndisk_bytes %" PRIu64
		"\nnetwork %s\n",
		shape->pool, img->digest, shape->memory_mib, shape->cpus, shape->disk_bytes,
		shape->network);
	image_free(img);
	if (r == 0)
		r = add_allow(shape->allow, &b);
	if (r < 0)
		return err_nomem(reterr);
	r = add_kernel(home, &b, reterr);
	if (r < 0)
		return r;
	if (digest_of(b.data, b.len, digest) < 0)
		return err_nomem(reterr);
	(void)snprintf(ret, 65, "%s", strchr(digest, ':') + 1);
	return 0;
}

static bool is_default(const holt_pool_shape *s)
{
	return s->memory_mib == DEFAULT_MEMORY_MIB && s->cpus == DEFAULT_CPUS &&
	       s->disk_bytes == DEFAULT_DISK_BYTES;
}

int pool_shape_prepare(struct holt_home *home, const holt_pool_shape *shape,
	const holt_pool_wish *wish, uint32_t spares, const holt_call *call, holt_error **reterr)
{
	const struct call_bounds bounds = call_bounds_of(call);
	const uint64_t left_ms = call_bounds_left(&bounds);
	const struct template_wish w = {.memory_mib = shape->memory_mib,
		.cpus = shape->cpus,
		.disk_bytes = shape->disk_bytes,
		.boot_timeout_ms = left_ms < HOLT_BOOT_TIMEOUT_MS_DEFAULT
					   ? left_ms
					   : HOLT_BOOT_TIMEOUT_MS_DEFAULT,
		.accel = shape->accel,
		.cancel = call->cancel,
		.directories = wish->directories,
		.owner = wish->owner};
	struct template_info info = {0};
	int r = call_bounds_check(&bounds, reterr);

	if (r == 0 && spares > 0 && !is_default(shape)) {
		r = err_make(reterr, HOLT_EUNSUPPORTED,
			"only boxes of the default shape can have spares");
		err_hint(reterr, "use 512 MiB of memory, 1 cpu and 10 GiB of disk, or no spares");
	}
	if (r == 0)
		r = check_range("number of spares", spares, 0, SPARES_MAX, reterr);
	if (r == 0)
		r = template_image_build(home, shape->image, &w, &info, reterr);
	template_info_done(&info);
	if (r == 0 && spares > 0)
		r = template_image_spares(home, shape->image, &w, spares, reterr);
	return r;
}
