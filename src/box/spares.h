/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_SPARES_H
#define BOX_SPARES_H

#include "box/lifecycle.h"
#include "box/template.h"

/*
 * Spares: clones of a full template that wait, restored, warmed and paused, each with a keeper of
 * its own (keeper_spare.c). A box that starts for the first time takes one over with its disk.
 *
 *   spares/<key>/<id>/      one, as a box's directory; <key> is the template's
 *   spares/<rootfs>.want    how many there shall be of an image, as a decimal number
 *
 * Nobody watches over them: whoever starts a box of the image starts what is missing.
 */
#define SPARES_MAX        64u /* of one image */
#define SPARE_LIFETIME_MS 600000u /* of one that nobody claims */
#define SPARES_WAIT_MS    30000u /* for who wants them to be ready */

/* How many are wanted; 0 where nobody said. */
unsigned spares_wanted(struct holt_home *home, const char *rootfs_digest);
int spares_want(struct holt_home *home, const char *rootfs_digest, unsigned n, holt_error **reterr);

/*
 * Take one over for the box @b, both locks of which are held, and which was never started: the
 * spare's directory gets the place of the box's. *ret is a session that is ready, *ret_owner the
 * owner's end of its pipe. HOLT_ENOT_FOUND where none is of use; one that does not answer within
 * 2 s is ended, and the next one is tried.
 */
int spares_claim(struct holt_box *b, const char *key, const struct keeper_spec *spec,
	holt_cancel *cancel, struct session **ret, int *ret_owner, holt_error **reterr);

struct spares_plan {
	char key[TEMPLATE_KEY_LEN + 1];
	unsigned n; /* how many there shall be */
	uint64_t delay_ms; /* each waits so long before it begins */
	uint64_t lifetime_ms; /* 0: SPARE_LIFETIME_MS */
};

/* Start as many as are missing, unless somebody else is about it. HOLT_ELIMIT
 * where the home's ceiling on memory is reached. */
int spares_fill(struct holt_home *home, const struct template_want *w,
	const struct spares_plan *plan, holt_error **reterr);

/* The same, and wait until all of them are ready: HOLT_ETIMEOUT after SPARES_WAIT_MS. */
int spares_fill_wait(struct holt_home *home, const struct template_want *w,
	const struct spares_plan *plan, holt_error **reterr);

/* The same as spares_fill on a thread of the home, so that the caller's start goes on.
 * @w->rootfs_fd is taken. NULL where that cannot be done. */
struct holt_job *spares_fill_later(
	struct holt_home *home, const struct template_want *w, const char *key, unsigned n);

/* End those of a key until @n are left; *ret_n (may be NULL) went. */
int spares_shed(
	struct holt_home *home, const char *key, unsigned n, unsigned *ret_n, holt_error **reterr);

/* End those whose template is gone. */
void spares_shed_orphans(struct holt_home *home);

/* Those that a keeper lives for, and of these, those that wait to be claimed. */
void spares_count(struct holt_home *home, const char *key, unsigned *ret, unsigned *ret_ready);

/* The process ids of their machines, at most @max; returns how many. */
size_t spares_machines(struct holt_home *home, int *ret, size_t max);

/* End one of whatever image that waits. False where there is none. */
bool spares_end_one(struct holt_home *home);

/* What killed keepers and their enders left. */
void spares_sweep(struct holt_home *home);

/* For spare_start.c and spare_claim.c: the directory of a key, or -errno; the spares in it, as a
 * list for strv_free; whether one waits; its end. */
int spares_open(struct holt_home *home, const char *key);
int spares_list(int dir, char ***ret);
bool spares_is_ready(int dir, const char *id);
void spares_end(int dir, const char *id);

#endif
