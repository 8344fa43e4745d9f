/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_BOX_H
#define HOLT_BOX_H

/*
 * Boxes: micro-VMs with a kernel and a writable disk of their own.
 *
 * A box is made (holt_box_create), started and stopped any number of times, and removed. Its disk
 * stays from start to start. A started box is attached, so that it ends with holt_box_close or
 * within two seconds after its process has ended in any way, or detached, so that it lives on, open
 * to every process of its user. With HOLT_BOX_KEEP it stays, stopped, after its end;
 * otherwise it is removed then.
 *
 * A holt_box is a handle: it refers to the box by its id, and several handles in several processes
 * may refer to the same one.
 *
 * Calls that need a running box wait for one that is just being started, at most 30 s besides what
 * they say of themselves.
 */

#include "image.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_box holt_box;
typedef struct holt_exec holt_exec;
typedef struct holt_log_reader holt_log_reader;
struct holt_exec_options; /* exec.h */

#define HOLT_MEMORY_MIB_MIN          128u
#define HOLT_MEMORY_MIB_MAX          262144u
#define HOLT_MEMORY_MIB_DEFAULT      512u
#define HOLT_CPUS_MAX                64u
#define HOLT_DISK_BYTES_MIN          67108864ull
#define HOLT_DISK_BYTES_MAX          17592186044416ull
#define HOLT_DISK_BYTES_DEFAULT      10737418240ull
#define HOLT_BOOT_TIMEOUT_MS_DEFAULT 60000u
#define HOLT_LOG_BYTES_MIN           65536ull
#define HOLT_LOG_BYTES_MAX           1073741824ull
#define HOLT_LOG_BYTES_DEFAULT       10485760ull
#define HOLT_STOP_GRACE_MS_DEFAULT   10000u
#define HOLT_NO_GRACE                UINT64_MAX /* a grace of nothing, where 0 is the default */
#define HOLT_NAME_LEN_MAX            63u
#define HOLT_ALLOW_MAX               256u
#define HOLT_PUBLISH_MAX             64u

enum holt_box_flags {
	HOLT_BOX_KEEP = 1 << 0 /* stays, stopped, after its end, until holt_box_remove */
};

typedef struct holt_box_options {
	size_t struct_size; /* set by HOLT_BOX_OPTIONS_INIT */
	uint32_t memory_mib; /* HOLT_MEMORY_MIB_MIN to _MAX; 0: 512 */
	uint32_t cpus; /* 1 to HOLT_CPUS_MAX; 0: 1 */
	uint64_t disk_bytes; /* virtual size of the disk, HOLT_DISK_BYTES_MIN to _MAX; 0: 10 GiB */
	const char *hostname; /* 1 to 63 of [A-Za-z0-9-], no leading '-'; NULL: the box's id */
	const char *name; /* 1 to 63 of [A-Za-z0-9_.-], beginning with a letter or digit, unique in
			     the home; NULL: none */
	uint32_t flags; /* enum holt_box_flags */
	const struct holt_exec_options *program; /* what the box is for: started with it, and its
						    end is the end of the box; NULL: none, the box
						    runs until it is stopped */
	uint64_t log_bytes; /* newest output of the program that is kept; 0: 10 MiB */
	int32_t stop_signal; /* 1 to 64; 0: the image's StopSignal, else SIGTERM */
	uint64_t stop_grace_ms; /* up to 1 hour; 0: 10,000; HOLT_NO_GRACE */
	const char *network; /* "open": everything but the host itself; "allowlist": of that, what
				@allow lists; "isolated", or "none": nothing; NULL: "allowlist" with
				entries in @allow, else "open" */
	const char *const *allow; /* NULL-terminated; HOST[:PORT], *.DOMAIN[:PORT] (every name below
				     it), ADDRESS[:PORT], [IPV6][:PORT] or CIDR[:PORT], at most
				     HOLT_ALLOW_MAX; without a port all are meant; NULL: none */
	const char *const *publish; /* NULL-terminated; [ADDRESS:]HOST:GUEST[/tcp|/udp], at most
				       HOLT_PUBLISH_MAX: the host's port HOST leads to the box's
				       port GUEST; without an address on 127.0.0.1; with HOST 0 any
				       port that is free, see holt_box_ports; NULL: none */
} holt_box_options;

#define HOLT_BOX_OPTIONS_INIT                                                                     \
	{                                                                                         \
		sizeof(holt_box_options), 0, 0, 0, NULL, NULL, 0, NULL, 0, 0, 0, NULL, NULL, NULL \
	}

enum holt_start_flags {
	HOLT_START_DETACHED = 1 << 0, /* lives on without this process and this handle */
	HOLT_START_NO_TEMPLATE = 1 << 1 /* boots, without using or making a template */
};

typedef struct holt_start_options {
	size_t struct_size; /* set by HOLT_START_OPTIONS_INIT */
	uint32_t flags; /* enum holt_start_flags */
	uint64_t boot_timeout_ms; /* of one attempt, up to 1 hour; 0: 60,000 */
	const char *accel; /* "auto", "kvm" or "tcg"; NULL: $HOLT_ACCEL, else "auto" */
	holt_cancel *cancel; /* ends the start with HOLT_ECANCELLED; may be NULL */
} holt_start_options;

#define HOLT_START_OPTIONS_INIT                              \
	{                                                    \
		sizeof(holt_start_options), 0, 0, NULL, NULL \
	}

enum holt_box_state {
	HOLT_BOX_CREATED = 0, /* never started */
	HOLT_BOX_STARTING = 1,
	HOLT_BOX_RUNNING = 2,
	HOLT_BOX_PAUSED = 3,
	HOLT_BOX_STOPPING = 4,
	HOLT_BOX_EXITED = 5,
	HOLT_BOX_GONE = 6 /* removed */
};

/* Why a box ended. */
enum holt_end_reason {
	HOLT_END_NONE = 0, /* it has not */
	HOLT_END_STOPPED = 1, /* as asked */
	HOLT_END_PROGRAM = 2, /* its program ended */
	HOLT_END_KILLED = 3, /* as asked, without grace */
	HOLT_END_OOM = 4, /* its program was killed for memory */
	HOLT_END_CRASHED = 5, /* its VM ended by itself or by a signal */
	HOLT_END_OWNER_GONE = 6, /* it was attached to a process that ended */
	HOLT_END_LOST = 7, /* its keeper was killed, or the machine went down */
	HOLT_END_BOOT_FAILED = 8, /* it did not start */
	HOLT_END_GUEST_BROKE = 9, /* its agent was taken over or broke the protocol */
	HOLT_END_HOST_FAILED = 10, /* the host refused memory, disk or a process */
	HOLT_END_POWEROFF = 11 /* the guest turned itself off */
};

typedef struct holt_box_info {
	size_t struct_size; /* set by HOLT_BOX_INFO_INIT */
	int32_t state; /* enum holt_box_state */
	int32_t end_reason; /* enum holt_end_reason, of the last run */
	int32_t exit_code; /* of the last run: the program's as in holt_exit, 137 for a box that was
			      killed, 125 for one that failed, else 0 */
	int32_t vmm_pid; /* process id of the VM, or 0 */
	int32_t keeper_pid; /* process id of the keeper, or 0 */
	uint32_t flags; /* enum holt_box_flags */
	uint32_t memory_mib;
	uint32_t cpus;
	uint64_t disk_bytes;
	int64_t created_s; /* seconds since 1970 */
	int64_t started_s; /* the same, of the last run, or 0 */
	int64_t ended_s; /* the same, or 0 */
	uint64_t hello_us; /* from the VM's start to the agent's first word, microseconds, or 0 */
	uint64_t ready_us; /* from the VM's start until commands can run, microseconds, or 0 */
	uint32_t attempts; /* starts it took: 1, or 2 after a failed one */
	char accel[8]; /* "kvm" or "tcg", or empty */
} holt_box_info;

#define HOLT_BOX_INFO_INIT                                                          \
	{                                                                           \
		sizeof(holt_box_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
		{                                                                   \
			0                                                           \
		}                                                                   \
	}

typedef struct holt_box_stats {
	size_t struct_size; /* set by HOLT_BOX_STATS_INIT */
	uint64_t uptime_us; /* of the guest's kernel */
	uint64_t cpu_us; /* processor time that all programs have used */
	uint64_t memory_used_bytes; /* in the guest */
	uint64_t memory_total_bytes;
	uint64_t disk_used_bytes; /* of the box's own disk */
	uint64_t disk_total_bytes;
	uint64_t host_memory_bytes; /* proportional set size of the VM on the host, or 0 */
	uint32_t processes; /* in the guest, without the kernel's and the agent */
	uint32_t execs; /* programs started by holt that run */
} holt_box_stats;

#define HOLT_BOX_STATS_INIT                                       \
	{                                                         \
		sizeof(holt_box_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/**
 * holt_box_create - make a box from an image, without starting it.
 * @home: an open home; must not be NULL.
 * @image: reference of an image in the store, see holt_image_pull; must not be NULL.
 * @options: may be NULL for the defaults.
 * @ret: receives a handle of the box; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * A box that is not started through this handle, and has no HOLT_BOX_KEEP, goes with the handle.
 *
 * Returns: 0; -HOLT_EINVALID for a value out of range, with an entry of a list as the error's
 * object; -HOLT_ENOT_FOUND for an unknown image; -HOLT_EEXISTS for a name in use; -HOLT_ELIMIT
 * (disk full, or lists of more than 40 KiB), -HOLT_EDENIED, -HOLT_EBUSY, -HOLT_EIO,
 * -HOLT_ENO_MEMORY.
 * Ownership: the caller closes *@ret with holt_box_close, before the home.
 * Threads: any thread.
 * Blocks: for file operations; for other processes that change the index, at most 10 s.
 * Since: 0.1
 */
HOLT_API int holt_box_create(holt_home *home, const char *image, const holt_box_options *options,
	holt_box **ret, holt_error **reterr);

/**
 * holt_box_get - find a box.
 * @home: an open home; must not be NULL.
 * @ref: its name, its id, or the beginning of its id that no other has; must not be NULL.
 * @ret: receives a handle of the box; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENOT_FOUND; -HOLT_EINVALID for a beginning of several ids; -HOLT_EBUSY,
 * -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller closes *@ret with holt_box_close, before the home.
 * Threads: any thread.
 * Blocks: for file operations.
 * Since: 0.1
 */
HOLT_API int holt_box_get(holt_home *home, const char *ref, holt_box **ret, holt_error **reterr);

/**
 * holt_box_list - list the boxes of a home.
 * @home: an open home; must not be NULL.
 * @ret: receives an array of @ret_n handles, newest box first; must not be NULL.
 * @ret_n: receives the length; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EBUSY, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees the array with holt_box_list_free; a handle in it is borrowed.
 * Threads: any thread.
 * Blocks: for file operations; never for a box or its keeper.
 * Since: 0.1
 */
HOLT_API int holt_box_list(holt_home *home, holt_box ***ret, size_t *ret_n, holt_error **reterr);

/**
 * holt_box_list_free - free what holt_box_list gave.
 * @list: the array, or NULL.
 * @n: its length.
 *
 * Returns: nothing.
 * Ownership: consumes @list and its handles.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_box_list_free(holt_box **list, size_t n);

/**
 * holt_box_id - tell the id of a box.
 * @box: a box; must not be NULL.
 *
 * Returns: a NUL-terminated string of lower-case hex digits.
 * Ownership: borrowed until @box is closed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_box_id(holt_box *box);

/**
 * holt_box_name - tell the name of a box, as it was when the handle was made.
 * @box: a box; must not be NULL.
 *
 * Returns: the name, or NULL for a box without one.
 * Ownership: borrowed until @box is closed or renamed through this handle.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_box_name(holt_box *box);

/**
 * holt_box_image - tell the reference of the image that a box was made from.
 * @box: a box; must not be NULL.
 *
 * Returns: the reference as it was given; the image itself may be gone by now.
 * Ownership: borrowed until @box is closed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_box_image(holt_box *box);

/**
 * holt_box_command - tell the command line of a box's program.
 * @box: a box; must not be NULL.
 *
 * Returns: a NULL-terminated list; empty for a box without a program.
 * Ownership: borrowed until @box is closed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *const *holt_box_command(holt_box *box);

/**
 * holt_box_get_info - tell the state of a box and facts about it.
 * @box: a box; must not be NULL.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 *
 * Returns: 0, or -HOLT_EINVALID where struct_size is not set.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for reading a small file; never for the box or its keeper.
 * Since: 0.1
 */
HOLT_API int holt_box_get_info(holt_box *box, holt_box_info *ret);

/**
 * holt_box_json - tell all that is known about a box, as JSON.
 * @box: a box; must not be NULL.
 * @ret: receives the text of one JSON object; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENO_MEMORY.
 * Ownership: borrowed until the next call with @box or its close.
 * Threads: one thread at a time per box.
 * Blocks: for reading small files; never for the box or its keeper.
 * Since: 0.1
 */
HOLT_API int holt_box_json(holt_box *box, const char **ret, holt_error **reterr);

/**
 * holt_box_ports - tell the published ports of a box that runs, as they are bound.
 * @box: a box; must not be NULL.
 * @ret: receives a NULL-terminated list of texts such as "127.0.0.1:8080:80/tcp", in the order of
 * the options, empty for a box that has none or does not run; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENO_MEMORY.
 * Ownership: borrowed until the next call with @box or its close.
 * Threads: one thread at a time per box.
 * Blocks: for reading a small file; never for the box or its keeper.
 * Since: 0.1
 */
HOLT_API int holt_box_ports(holt_box *box, const char *const **ret, holt_error **reterr);

/**
 * holt_box_state_name - name a state.
 * @state: an enum holt_box_state.
 *
 * Returns: "created", "starting", "running", "paused", "stopping", "exited", "gone", or "?".
 * Ownership: static.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_box_state_name(int state);

/**
 * holt_end_reason_name - name the reason of an end.
 * @reason: an enum holt_end_reason.
 *
 * Returns: "", "stopped", "program ended", "killed", "out of memory", "crashed", "owner gone",
 * "lost", "boot failed", "guest broke the protocol", "host failed", "powered off", or "?".
 * Ownership: static.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_end_reason_name(int reason);

/**
 * holt_box_start - start a box, and its program where it has one.
 * @box: a box that does not run; must not be NULL.
 * @options: may be NULL for the defaults.
 * @ret_program: receives the program's exec; NULL: its output goes to the log only.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0 once commands can run; -HOLT_EBUSY for a box that runs already; -HOLT_ENOT_FOUND for a
 * removed box, a missing kernel, keeper or QEMU, or a program that does not exist;
 * -HOLT_EUNSUPPORTED for an accelerator that does not work here; -HOLT_ETIMEOUT where the guest did
 * not start in two attempts (the message has the last stage and the console's tail);
 * -HOLT_EGUEST_LOST, -HOLT_EPROTOCOL, -HOLT_ECANCELLED, -HOLT_EINVALID, -HOLT_ELIMIT,
 * -HOLT_EDENIED, -HOLT_EIO, -HOLT_ENO_MEMORY; as holt_exec_start for the program. After a failure
 * the box does not run.
 * Ownership: the caller frees *@ret_program with holt_exec_free; NULL for a box without a program.
 * Threads: any thread; one at a time per handle.
 * Blocks: for a clone, tens of milliseconds; where a template is made first, or the clone fails,
 * for one boot, or two; at most three times options.boot_timeout_ms and 40 s, and for the start of
 * its program, at most 30 s; see options.cancel.
 * Since: 0.1
 */
HOLT_API int holt_box_start(holt_box *box, const holt_start_options *options,
	holt_exec **ret_program, holt_error **reterr);

/**
 * holt_box_stop - stop a box in good order.
 * @box: a box; must not be NULL. One that does not run is fine.
 * @grace_ms: how long its program may take after the stop signal; then all is killed; 0: the box's
 * own; HOLT_NO_GRACE.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0 once it has ended; -HOLT_EINVALID for a grace of more than an hour; -HOLT_ENOT_FOUND
 * for a removed box; -HOLT_ETIMEOUT, -HOLT_EIO, -HOLT_EDENIED, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most the grace and 2 s; where its keeper hangs and is killed, 5 s more.
 * Since: 0.1
 */
HOLT_API int holt_box_stop(holt_box *box, uint64_t grace_ms, holt_error **reterr);

/**
 * holt_box_kill - send a signal to the program of a box.
 * @box: a running box; must not be NULL.
 * @signal: 1 to 64; SIGKILL ends the box, also one without a program and one whose keeper hangs.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID for a bad signal, or another than SIGKILL to a box without a program;
 * -HOLT_EBUSY for a paused box; -HOLT_ECLOSED for one that does not run; -HOLT_ENOT_FOUND,
 * -HOLT_ETIMEOUT, -HOLT_EIO, -HOLT_EDENIED, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most 5 s; the program's end is not awaited, the box's with SIGKILL is.
 * Since: 0.1
 */
HOLT_API int holt_box_kill(holt_box *box, int signal, holt_error **reterr);

/**
 * holt_box_pause - stop a box where it is; it uses no processor until holt_box_unpause.
 * @box: a running box; must not be NULL. A paused one is fine.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ECLOSED for a box that does not run; -HOLT_ENOT_FOUND, -HOLT_ETIMEOUT,
 * -HOLT_EIO, -HOLT_EDENIED, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most 5 s.
 * Since: 0.1
 */
HOLT_API int holt_box_pause(holt_box *box, holt_error **reterr);

/**
 * holt_box_unpause - let a paused box go on; its clock is right before any program goes on.
 * @box: a running box; must not be NULL. One that is not paused is fine.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_box_pause.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most 5 s.
 * Since: 0.1
 */
HOLT_API int holt_box_unpause(holt_box *box, holt_error **reterr);

/**
 * holt_box_wait - wait for the end of a box.
 * @box: a box; must not be NULL.
 * @timeout_ms: how long to wait; 0 only looks, HOLT_FOREVER has no limit.
 * @cancel: ends the wait with HOLT_ECANCELLED; may be NULL.
 * @ret: filled in as holt_box_get_info does; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0 for a box that does not run; -HOLT_ETIMEOUT; -HOLT_ECANCELLED, -HOLT_EINVALID,
 * -HOLT_EIO, -HOLT_EDENIED, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_box_wait(holt_box *box, uint64_t timeout_ms, holt_cancel *cancel,
	holt_box_info *ret, holt_error **reterr);

/**
 * holt_box_rename - give a box another name.
 * @box: a box; must not be NULL.
 * @name: as in holt_box_options, unique in the home; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EEXISTS; -HOLT_EINVALID for a bad name; -HOLT_ENOT_FOUND for a removed box;
 * -HOLT_EBUSY, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: @name is copied.
 * Threads: one thread at a time per box.
 * Blocks: for other processes that change the index, at most 10 s.
 * Since: 0.1
 */
HOLT_API int holt_box_rename(holt_box *box, const char *name, holt_error **reterr);

/**
 * holt_box_remove - remove a box with its disk and its log.
 * @box: a box; must not be NULL. A removed one is fine. The handle stays, to be closed.
 * @force: also one that runs: it is killed.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EBUSY for a box that runs, without @force; -HOLT_EIO, -HOLT_EDENIED,
 * -HOLT_ETIMEOUT, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for file operations; with @force at most 10 s.
 * Since: 0.1
 */
HOLT_API int holt_box_remove(holt_box *box, int force, holt_error **reterr);

/**
 * holt_box_get_stats - measure a running box.
 * @box: a running box; must not be NULL.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID; -HOLT_ECLOSED for a box that does not run; -HOLT_EBUSY for a paused
 * one; -HOLT_EGUEST_LOST, -HOLT_ETIMEOUT, -HOLT_EIO, -HOLT_EDENIED, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most 5 s.
 * Since: 0.1
 */
HOLT_API int holt_box_get_stats(holt_box *box, holt_box_stats *ret, holt_error **reterr);

/**
 * holt_box_ping - ask the agent for a sign of life.
 * @box: a running box; must not be NULL.
 * @timeout_ms: how long to wait for it; 0: 5,000.
 * @ret_us: receives the time it took, microseconds; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ETIMEOUT; as holt_box_get_stats.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_box_ping(
	holt_box *box, uint64_t timeout_ms, uint64_t *ret_us, holt_error **reterr);

/**
 * holt_box_open_log - read the kept output of a box's program.
 * @box: a box; must not be NULL.
 * @tail: begin at the last so many lines; UINT64_MAX: at the oldest that is kept.
 * @ret: receives the reader; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENOT_FOUND for a removed box; -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller closes *@ret with holt_log_close; it does not need @box any more.
 * Threads: any thread.
 * Blocks: for file operations.
 * Since: 0.1
 */
HOLT_API int holt_box_open_log(
	holt_box *box, uint64_t tail, holt_log_reader **ret, holt_error **reterr);

/**
 * holt_log_next - read the next piece of a log.
 * @log: a reader; must not be NULL.
 * @timeout_ms: how long to wait for more while the box runs; 0 does not wait.
 * @cancel: ends the wait with HOLT_ECANCELLED; may be NULL.
 * @ret_data: receives the bytes, as the program wrote them; must not be NULL.
 * @ret_len: receives their number; 0 at the end of the log of a box that does not run, and where
 * nothing came in time; must not be NULL.
 * @ret_stream: receives HOLT_STDOUT or HOLT_STDERR; must not be NULL.
 * @ret_time_ns: receives the time of writing, nanoseconds since 1970; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EIO, -HOLT_ECANCELLED, -HOLT_ENO_MEMORY.
 * Ownership: borrowed until the next call with @log.
 * Threads: one thread at a time per reader.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_log_next(holt_log_reader *log, uint64_t timeout_ms, holt_cancel *cancel,
	const void **ret_data, size_t *ret_len, int *ret_stream, uint64_t *ret_time_ns,
	holt_error **reterr);

/**
 * holt_log_close - close a log reader.
 * @log: a reader, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @log.
 * Threads: any thread, while no other call uses @log.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_log_close(holt_log_reader *log);

/**
 * holt_box_close - let a handle go.
 * @box: a box, or NULL. Its execs must have been freed before.
 *
 * A box that was started attached through this handle ends; it is removed unless it has
 * HOLT_BOX_KEEP. Every other box goes on as it is.
 *
 * Returns: nothing.
 * Ownership: consumes @box.
 * Threads: any thread, while no other call uses @box.
 * Blocks: until nothing of an attached box runs, at most 12 s.
 * Since: 0.1
 */
HOLT_API void holt_box_close(holt_box *box);

#ifdef __cplusplus
}
#endif
#endif
