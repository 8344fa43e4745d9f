/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_AGENT_H
#define GUEST_AGENT_H

#include "lane.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct exec;
struct left;

/* A descriptor in the loop. Edge-triggered: @fn notes what became possible, the work is done after
 * the batch; so watches may be freed everywhere but inside a batch. */
struct watch {
	void (*fn)(struct watch *w, uint32_t events);
	int fd;
};

/* Modules that may wait; see sys_load_late. */
#define AGENT_LATE_MAX 16

#define AGENT_DEVICE_MAX 16 /* names of devices, with their NUL; as long as a link's may be */

/* A request to freeze that is not answered yet. */
struct freezing {
	uint32_t stream;
	uint64_t until_us; /* 0 = there is none */
	struct watch watch;
};

enum agent_state {
	AGENT_GREETING, /* hello sent, the host's not seen */
	AGENT_FRESH, /* no setup yet */
	AGENT_READY, /* takes execs */
	AGENT_PARKED, /* a template, or just restored from one: waits for a hello */
	AGENT_LEAVING, /* shutdown: waits for what runs until leave_us */
	AGENT_OVER /* the loop ends */
};

/* How far the root of the machine is. */
enum agent_mounts {
	AGENT_MOUNTED_NOTHING,
	AGENT_MOUNTED_IMAGE, /* all but what needs the disk */
	AGENT_MOUNTED_DISK
};

struct agent {
	enum agent_state state;
	bool fake; /* a plain process on the host, for tests */
	bool bare; /* shall be parked before it sees its disk */
	enum agent_mounts mounts;
	char disk_device[AGENT_DEVICE_MAX]; /* its path; "" = not looked for yet */
	char card[AGENT_DEVICE_MAX]; /* the link of the network card, if card_fd is there */
	int card_fd; /* a socket to ask and change it by; -EBADF = not looked for yet */
	int epoll_fd;
	int kmsg_fd;
	int disk_fd; /* root of the mounted disk */
	int cgroup_fd; /* directory of the execs' cgroups; -EBADF without */
	int late[AGENT_LATE_MAX]; /* modules that are loaded once the machine is ready */
	uint32_t n_late;
	uint64_t late_us; /* not before this */
	pid_t late_pid; /* the child that loads them, 0 = none */
	uint64_t leave_us;
	uint64_t wake_us; /* earliest deadline of an exec, 0 = none; may be too early */
	bool failed; /* ended for a reason that is not the host's wish */
	bool orphan_reaped; /* some cgroup may have become empty */
	bool childless; /* while leaving: nothing runs any more */
	bool frozen; /* the execs stand still, or are about to */
	bool dead_waiting; /* there are children to reap */
	struct freezing freezing;
	struct lane control;
	struct lane bulk;
	struct watch control_watch;
	struct watch bulk_watch;
	struct watch child_watch;

	struct exec *execs; /* all live streams */
	uint32_t n_execs;
	uint32_t serial; /* names the next cgroup */
	struct exec *queue; /* execs that have something to do */
	struct exec **queue_end;
	struct left *lefts; /* what background children keep alive */
	uint32_t n_lefts; /* those with an open output */
};

/* What went wrong, fit for a pipe and for a fail frame. */
struct agent_fail {
	uint16_t class;
	int32_t errnum;
	char stage[16];
	char object[256];
	char text[512];
};

enum agent_log_level { AGENT_LOG_ERROR = 0, AGENT_LOG_WARN = 1, AGENT_LOG_INFO = 2 };

/* The longest frame of its own that the agent puts on the control lane. */
#define AGENT_REPLY_MAX 1024

uint64_t agent_now_us(void);
int agent_watch(struct agent *a, struct watch *w, int fd, uint32_t events);
void agent_unwatch(struct agent *a, struct watch *w);
/* The same, and close the descriptor; one that is closed already is fine. */
void agent_close(struct agent *a, struct watch *w);
/* Let the loop turn at @when_us at the latest. */
void agent_wake_at(struct agent *a, uint64_t when_us);
/* Room on the control lane for one reply. */
bool agent_can_reply(struct agent *a);

/* Fill @f. The errno is part of the text where it is not 0. Returns -errnum, or -EINVAL for 0. */
int agent_fail_set(struct agent_fail *f, uint16_t class, int errnum, const char *stage,
	const char *object, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void agent_fail_send(struct agent *a, uint32_t stream, const struct agent_fail *f);
void agent_log(struct agent *a, enum agent_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Tell host and console which step begins. */
void agent_stage(struct agent *a, const char *name);
/* End the agent because of a broken or closed lane. */
void agent_die(struct agent *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct wire_bytes agent_bytes(const char *s);
/* NUL-terminated copy of foreign bytes: 0, or -EINVAL for a NUL inside or a lack of room. */
int agent_copy_str(char *dst, size_t cap, const struct wire_bytes *src);

#endif
