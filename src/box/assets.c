/* SPDX-License-Identifier: Apache-2.0 */
#include "box/assets.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

#define AGENT_SIZE_MAX (64u << 20)

/* agent_blob.S */
extern const unsigned char agent_blob[];
extern const unsigned char agent_blob_end[];

/* The directory of the file that holds this code: libholt.so, or a program linked statically. */
static char *own_dir(void)
{
	static const char anchor = 0;
	char path[PATH_MAX];
	Dl_info info;

	if (!dladdr(&anchor, &info) || !info.dli_fname || !realpath(info.dli_fname, path)) {
		if (!realpath("/proc/self/exe", path))
			return NULL;
	}
	char *slash = strrchr(path, '/');
	if (!slash)
		return NULL;
	*slash = 0;
	return str_dup(path);
}

int asset_keeper(char **ret, holt_error **reterr)
{
	const char *forced = getenv("HOLT_KEEPER");

	if (forced && *forced) {
		if (access(forced, X_OK) < 0) {
			const int code = err_errno(
				reterr, errno, "cannot use HOLT_KEEPER='%s'", forced);
			err_hint(reterr, "correct HOLT_KEEPER or unset it");
			return code;
		}
		*ret = str_dup(forced);
		return *ret ? 0 : err_nomem(reterr);
	}
	auto_free char *dir = own_dir();
	if (!dir)
		return err_nomem(reterr);
	for (size_t i = 0; i < 2; i++) {
		auto_free char *path = i ? str_printf("%s/holt/holt-keeper", dir)
					 : str_printf("%s/holt-keeper", dir);
		if (!path)
			return err_nomem(reterr);
		if (access(path, X_OK) == 0) {
			*ret = take_ptr(path);
			return 0;
		}
	}
	(void)err_make(
		reterr, HOLT_ENOT_FOUND, "holt-keeper is not beside the library in '%s'", dir);
	err_hint(reterr, "install holt again, or name the program in HOLT_KEEPER");
	return -HOLT_ENOT_FOUND;
}

int asset_kernel_dirs(char ***ret, holt_error **reterr)
{
	auto_free char *dir = own_dir();
	auto_free char *installed = dir ? str_printf("%s/holt/kernel", dir) : NULL;
	auto_free char *built = dir ? str_printf("%s/../.kernel", dir) : NULL;

	if (!installed || !built)
		return err_nomem(reterr);
	const char *const list[] = {installed, built, NULL};
	*ret = strv_dup(list);
	return *ret ? 0 : err_nomem(reterr);
}

int asset_agent(const void **ret, size_t *ret_len, void **ret_mapped, holt_error **reterr)
{
	const char *forced = getenv("HOLT_AGENT");

	*ret_mapped = NULL;
	if (forced && *forced) {
		char *data = NULL;
		const int r = fs_read_file(AT_FDCWD, forced, AGENT_SIZE_MAX, &data, ret_len);
		if (r < 0) {
			const int code = err_errno(
				reterr, -r, "cannot read HOLT_AGENT='%s'", forced);
			err_hint(reterr, "correct HOLT_AGENT or unset it");
			return code;
		}
		*ret = *ret_mapped = data;
		return 0;
	}
	*ret = agent_blob;
	*ret_len = (size_t)(agent_blob_end - agent_blob);
	return 0;
}
