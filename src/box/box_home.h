/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_HOME_H
#define BOX_BOX_HOME_H

#include "base/err.h"
#include "base/executor.h"
#include "box/box_index.h"
#include "box/loop.h"
#include "image/images.h"

#include <pthread.h>

/* As holt/job.h promises. */
#define HOME_JOBS_RUNNING 16u
#define HOME_JOBS_MAX     4096u

/*
 * An open home: its directories, its image store, its loop thread.
 *
 *   format            version of the layout, "1"
 *   images/           the image store
 *   cache/            verdicts, initramfs and empty disks: may be deleted at any time
 *   templates/<key>/  one template, see template.h
 *   spares/           see spares.h
 *   boxes.db          the index of the boxes
 *   boxes/<id>/       one box, see box_dir.h
 *   events.jsonl      what happened to them, see event_log.h
 */
struct holt_home {
	char *path;
	int fd; /* its directory */
	int boxes_fd;
	int templates_fd;
	int spares_fd;
	uint64_t max_memory_bytes; /* see home_memory.h; 0: no ceiling */
	uint64_t template_bytes; /* what all templates together may take */
	uint64_t image_bytes; /* what images and blobs together may take */
	struct box_index *boxes;
	char *cache_dir;
	char *kernel; /* the only one that will do; NULL: the one that is found */
	pthread_mutex_t boot_lock; /* of the two below */
	int kernel_fd; /* opened with the first start, and then kept: looking for them takes longer
			  than many a start; FD_NONE before */
	int initrd_fd;
	struct image_store *images;
	struct loop *loop;
	struct executor *executor;
};

/* The directory that is used for @path (NULL: the default), absolute, in fresh memory. */
int home_resolve(const char *path, char **ret, holt_error **reterr);

#define TEMPLATE_BYTES_DEFAULT (UINT64_C(8) << 30) /* some thirty of them */

/* What templates may take: @given, unless that is 0, else what the environment or the default says.
 */
int home_template_bytes(uint64_t given, uint64_t *ret, holt_error **reterr);

#define IMAGE_BYTES_DEFAULT (UINT64_C(32) << 30)

/* The same of images and blobs. */
int home_image_bytes(uint64_t given, uint64_t *ret, holt_error **reterr);

/* What machines may take of the host's memory: @given, unless that is 0, else what the environment
 * says; 0: there is no ceiling. */
int home_max_memory(uint64_t given, uint64_t *ret, holt_error **reterr);

/* What its user wants of it. */
struct home_wish {
	const char *path; /* as for home_resolve */
	uint64_t template_bytes; /* as for home_template_bytes */
	uint64_t max_memory_bytes; /* as for home_max_memory */
	uint64_t image_bytes; /* as for home_image_bytes */
	const char *kernel; /* as for kernel_find_at; NULL: search */
};

int home_open(const struct home_wish *w, struct holt_home **ret, holt_error **reterr);
void home_close(struct holt_home *h);

#endif
