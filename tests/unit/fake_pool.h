/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_POOL_H
#define FAKE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "holt/sys/pool.h"

/*
 * A pool in memory, as several processes see it: one world, and a process for each provider. Boxes
 * are numbers and flags; a holder is a handle, and a crash lets go of all handles of a process.
 * What it is asked to do is counted, and can be made to fail, to take its time or to wait.
 *
 * The world also watches: no box ever has two holders, and nobody destroys what a living process
 * holds. There is one world in a test's process.
 */
enum fake_op {
	FAKE_FINGERPRINT,
	FAKE_FETCH,
	FAKE_REGISTRY,
	FAKE_PREPARE,
	FAKE_LOCK,
	FAKE_LIST,
	FAKE_FIND,
	FAKE_LOOK,
	FAKE_CREATE,
	FAKE_START,
	FAKE_HOLD,
	FAKE_PARK,
	FAKE_LEASE,
	FAKE_PROVE,
	FAKE_OPEN,
	FAKE_DESTROY,
	FAKE_DISCARD,
	FAKE_EXECUTE,
	FAKE_OPS
};

extern const holt_pool fake_pool;

void fake_reset(void); /* an empty world, at 1,000,000 ms since 1970 */
void *fake_process(const char *label);
void fake_crash(void *process);

int64_t fake_now_ms(void);
void fake_advance(int64_t ms);

unsigned fake_calls(enum fake_op op);
unsigned fake_all_calls(void);
/* The next @times calls fail with @code. */
void fake_fail(enum fake_op op, int code, unsigned times);
void fake_delay(enum fake_op op, unsigned ms);
/* Calls wait until the gate is opened; how many do. */
void fake_gate(enum fake_op op, bool closed);
unsigned fake_waiting(enum fake_op op);
void fake_wait_for(enum fake_op op, unsigned n);
/* What an image is now; with NULL there is none until it is fetched. */
void fake_image(const char *fingerprint);

/* Boxes by id, in pool "default". */
struct fake_facts {
	bool there;
	unsigned number; /* of the instance, from 1 */
	bool known;
	int state;
	bool held;
	int64_t since_ms;
	int64_t lease_until_ms;
	char user[64];
	char thread[64];
	bool has_user;
	char last_reason[32]; /* of the last box of that name that was destroyed, or "" */
	char directories[512]; /* as they were wished for, with ';' */
	char owner[32]; /* of them, "" for the image's user */
	char env[256]; /* of the last sandbox, with ';' */
	char trace[64]; /* of the last holder */
	char fingerprint[65];
	uint64_t idle_ms;
	int on_idle;
	bool keep;
};
struct fake_facts fake_box(const char *id);
void fake_kill(const char *id); /* it is gone, and nobody was told */
void fake_stop(const char *id); /* only its disk is there */
void fake_hang(const char *id, bool hung); /* no sign of life any more */
void fake_stick(const char *id, bool stuck); /* what knows who has it does not answer, either */
void fake_answer(const char *id, const char *output, int code); /* of commands */
void fake_sicken(const char *id); /* the guest is lost, the box is there */
/* A box that somebody else made, warm; NULL fingerprint: nothing is stored with it. */
void fake_foreign(
	const char *name, const char *user, const char *thread, const char *fingerprint, int state);
unsigned fake_boxes(void); /* how many there are */
unsigned fake_handles(void); /* that were not dropped */
unsigned fake_sandboxes(void); /* that were not freed */
unsigned fake_destroyed(void);
unsigned fake_violations(void); /* of what must never happen */

#endif
