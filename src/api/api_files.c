/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/files.h"

#include "api/options.h"
#include "box/box_copy.h"
#include "box/lifecycle.h"
#include "base/banned.h"

/* Check what all four calls have in common, and connect. */
static int begin(holt_box *box, const char *box_path, uint32_t flags, struct session **ret,
	holt_error **reterr)
{
	const uint32_t unknown = flags & ~(uint32_t)(HOLT_COPY_FOLLOW | HOLT_COPY_ARCHIVE);
	int r = 0;

	if (unknown)
		r = err_make(reterr, HOLT_EINVALID, "unknown flags 0x%x", unknown);
	else if (box_path[0] != '/')
		r = err_make(reterr, HOLT_EINVALID, "'%s' is not an absolute path", box_path);
	if (r < 0) {
		err_stage(reterr, "options");
		err_object(reterr, box_path);
		err_hint(reterr, "paths in a box begin with '/'");
		return r;
	}
	return box_connect(box, DOOR_WAIT_MS, ret, reterr);
}

static int check_host_path(const char *path, holt_error **reterr)
{
	if (path[0])
		return 0;
	(void)err_make(reterr, HOLT_EINVALID, "the path on the host is empty");
	err_stage(reterr, "options");
	err_hint(reterr, "'.' is the current directory");
	return -HOLT_EINVALID;
}

HOLT_API int holt_copy_in(holt_box *box, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr)
{
	struct session *s = NULL;

	if (!box || !source || !target)
		return api_null(!box ? "box" : !source ? "source" : "target", reterr);
	int r = check_host_path(source, reterr);
	if (r == 0)
		r = begin(box, target, flags, &s, reterr);
	return r < 0 ? r : copy_in(s, source, target, flags, cancel, reterr);
}

HOLT_API int holt_copy_out(holt_box *box, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr)
{
	struct session *s = NULL;

	if (!box || !source || !target)
		return api_null(!box ? "box" : !source ? "source" : "target", reterr);
	int r = check_host_path(target, reterr);
	if (r == 0)
		r = begin(box, source, flags, &s, reterr);
	return r < 0 ? r : copy_out(s, source, target, flags, cancel, reterr);
}

static int check_fd(int fd, holt_error **reterr)
{
	if (fd >= 0)
		return 0;
	(void)err_make(reterr, HOLT_EINVALID, "fd is not a descriptor");
	err_stage(reterr, "options");
	err_hint(reterr, "open the archive first");
	return -HOLT_EINVALID;
}

HOLT_API int holt_copy_in_tar(holt_box *box, int fd, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr)
{
	struct session *s = NULL;

	if (!box || !target)
		return api_null(box ? "target" : "box", reterr);
	int r = check_fd(fd, reterr);
	if (r == 0)
		r = begin(box, target, flags, &s, reterr);
	return r < 0 ? r : copy_in_tar(s, fd, target, flags, cancel, reterr);
}

HOLT_API int holt_copy_out_tar(holt_box *box, const char *source, int fd, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr)
{
	struct session *s = NULL;

	if (!box || !source)
		return api_null(box ? "source" : "box", reterr);
	int r = check_fd(fd, reterr);
	if (r == 0)
		r = begin(box, source, flags, &s, reterr);
	return r < 0 ? r : copy_out_tar(s, source, fd, flags, cancel, reterr);
}
