/* SPDX-License-Identifier: Apache-2.0 */
#include "box/home_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/box_dir.h"
#include "box/box_state.h"
#include "box/spares.h"
#include "base/banned.h"

#define SPARES_SEEN 1024 /* machines of spares that are counted */
#define PSS_MAX     4096 /* of smaps_rollup, which has some 700 bytes */
/* What a clone takes at first: the pages that it wrote to, and QEMU's own. */
#define CLONE_BYTES (UINT64_C(64) << 20)

uint64_t memory_of(int pid)
{
	char path[64];
	auto_free char *text = NULL;
	unsigned long long kib = 0;

	(void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
	if (fs_read_file(AT_FDCWD, path, PSS_MAX, &text, NULL) < 0)
		return 0;
	const char *line = strstr(text, "\nPss:");
	return line && sscanf(line, "\nPss: %llu", &kib) == 1 ? kib * 1024 : 0;
}

static uint64_t of_boxes(struct holt_home *home)
{
	const int fd = openat(home->boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	struct box_state state;
	uint64_t sum = 0;

	if (!dir) {
		(void)fd_close(fd);
		return 0;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || box_dir_is_gone(entry->d_name))
			continue;
		box_state_look(home->boxes_fd, entry->d_name, &state);
		if (state.vmm_pid > 0)
			sum += memory_of(state.vmm_pid);
	}
	(void)closedir(dir);
	return sum;
}

static uint64_t of_spares(struct holt_home *home)
{
	int pids[SPARES_SEEN];
	const size_t n = spares_machines(home, pids, SPARES_SEEN);
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += memory_of(pids[i]);
	return sum;
}

uint64_t memory_used(struct holt_home *home)
{
	return of_boxes(home) + of_spares(home);
}

bool memory_has_room(struct holt_home *home)
{
	return !home->max_memory_bytes || memory_used(home) + CLONE_BYTES <= home->max_memory_bytes;
}

int memory_make_room(struct holt_home *home, holt_error **reterr)
{
	while (!memory_has_room(home)) {
		if (spares_end_one(home)) {
			log_debug("memory", "a spare was ended: the home's ceiling is reached");
			continue;
		}
		const int r = err_make(reterr, HOLT_ELIMIT,
			"the boxes of the home take %" PRIu64
			" MiB of memory, the ceiling is %" PRIu64 " MiB",
			memory_used(home) >> 20, home->max_memory_bytes >> 20);
		err_stage(reterr, "memory");
		err_hint(reterr, "stop some boxes, or raise max_memory (HOLT_MAX_MEMORY)");
		return r;
	}
	return 0;
}
