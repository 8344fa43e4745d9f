/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include <stddef.h>
#include <stdint.h>

/*
 * The agent protocol: frames on two byte streams (lanes) between host and guest, and between a
 * client and the keeper that relays them. No allocation, no I/O, no errno, no global state: the
 * caller owns every buffer. Compiled into host and guest.
 *
 * A frame is a 12-byte header, all little-endian: u32 payload length, u16 op, u16 zero, u32 stream;
 * then the payload, the fields of ops.def in order. Stream 0 is the machine itself; execs have
 * streams from 1, chosen by the host. Bytes behind the last known field are refused.
 *
 * Credits: the receiver of a channel grants bytes (exec.out_credit, started.in_credit, credit); the
 * sender never has more data bytes under way than it was granted. The payload bytes of data frames
 * count, eof and exit are free.
 */

#define WIRE_MAGIC          0x544c4f48u /* "HOLT" */
#define WIRE_VERSION        2
#define WIRE_OLDEST         2
#define WIRE_HEADER_SIZE    12
#define WIRE_DATA_MAX       65536 /* bytes in one data frame */
#define WIRE_STRS_MAX       8192 /* strings in one list */
#define WIRE_CREDIT_MAX     1048576 /* bytes of credit outstanding per channel */
#define WIRE_STREAMS_MAX    1024 /* live streams per box */
#define WIRE_PATH_MAX       65535 /* bytes of a path in the messages about files */
#define WIRE_SEED_SIZE      32
#define WIRE_MACHINE_ID_LEN 32
#define WIRE_MAC_SIZE       6

/* Where the bytes of a data frame begin: they may be read straight into their place in the frame,
 * wire_encode then only puts the head before them. */
#define WIRE_DATA_PREFIX (WIRE_HEADER_SIZE + 1 + 4)

/* In hello, what the sender knows beyond the version. */
#define WIRE_FEATURE_NETWORK (UINT64_C(1) << 0) /* an agent: the message network */
/* In network.up, beside 0 and 1. */
#define WIRE_NETWORK_TEMPLATE 2

/* In the environment of a guest that shall stop before it mounts its disk, and wait for park. */
#define WIRE_BARE_ENV "holt_bare=1"

/* Numbers of the two ports on the virtio console; /dev/vport0p<number> in the guest. */
#define WIRE_PORT_CONTROL 1
#define WIRE_PORT_BULK    2

/* The third lane is not one of the machine's: it runs inside of an exec (see ops.def). */
enum wire_lane { WIRE_CONTROL = 0, WIRE_BULK = 1, WIRE_FILES = 2 };

/* The built-in that speaks on it, and its first argument: what it must be able to speak. */
#define WIRE_FILES_BUILTIN "files"
#define WIRE_FILES_VERSION "1"

/* Which receiver decodes: it accepts only ops that may travel towards it. */
enum wire_side {
	WIRE_AS_HOST = 0, /* reads what a guest sent */
	WIRE_AS_GUEST = 1, /* reads what the host sent */
	WIRE_AS_CLIENT = 2, /* reads what a keeper sent */
	WIRE_AS_KEEPER = 3 /* reads what a client sent */
};

enum wire_channel { WIRE_STDIN = 0, WIRE_STDOUT = 1, WIRE_STDERR = 2 };

enum wire_exec_flags {
	WIRE_EXEC_STDIN = 1 << 0, /* stdin is a stream; otherwise end-of-file at once */
	WIRE_EXEC_MKCWD = 1 << 1, /* make a missing cwd (root, 0755), as an image's WorkingDir */
	WIRE_EXEC_TTY = 1 << 2, /* a terminal of rows and cols; all output is stdout */
	WIRE_EXEC_BUILTIN = 1 << 3, /* argv names a function of the agent, not a program */
	WIRE_EXEC_FLAGS_ALL = 15,
	/* For the keeper, which takes them off: */
	WIRE_EXEC_KEEP = 1 << 16, /* runs on when its client leaves; output is kept */
	WIRE_EXEC_MAIN = 1 << 17 /* the program of the box, which ends with it; implies KEEP */
};

enum wire_signal_flags {
	WIRE_SIGNAL_ALL = 1 << 0,
	WIRE_SIGNAL_LEADER = 1 << 2, /* the leader alone, as docker signals a container */
	WIRE_SIGNAL_HANGUP = 1 << 1 /* the client is gone: SIGHUP to a terminal's session (all
				       others: signo), and SIGKILL to all after a second */
};

enum wire_exit_kind {
	WIRE_EXITED = 0, /* code is the exit status, 0-255 */
	WIRE_SIGNALED = 1 /* code is the signal number */
};

enum wire_exit_flags {
	WIRE_EXIT_TIMED_OUT = 1 << 0, /* killed because its time was over */
	WIRE_EXIT_OOM = 1 << 1, /* something of it was killed for memory */
	WIRE_EXIT_LEFT = 1 << 2 /* output was cut because a background child holds the pipe */
};

enum wire_fail_class {
	WIRE_FAIL_INTERNAL = 0,
	WIRE_FAIL_INVALID = 1, /* the request is wrong */
	WIRE_FAIL_NOT_FOUND = 2, /* program not found: exit code 127 */
	WIRE_FAIL_NOT_EXEC = 3, /* found, cannot be executed: exit code 126 */
	WIRE_FAIL_CWD = 4, /* working directory missing or unusable */
	WIRE_FAIL_USER = 5, /* no such user or group in the image */
	WIRE_FAIL_LIMIT = 6, /* a limit of the agent */
	WIRE_FAIL_MOUNT = 7, /* setup could not mount */
	WIRE_FAIL_PAUSED = 8, /* not while the box is paused */
	/* Of the keeper: */
	WIRE_FAIL_NO_EXEC = 9, /* no exec of that number is kept */
	WIRE_FAIL_BUSY =
		10, /* another client has the exec; of the agent: not while something runs */
	WIRE_FAIL_ENDING = 11, /* the box is ending */
	WIRE_FAIL_NO_SPACE = 12, /* not while the host's disk is full */
	WIRE_FAIL_PATH = 13 /* of the object; the errnum says why */
};

enum wire_file_type {
	WIRE_FILE_REGULAR = 1,
	WIRE_FILE_DIRECTORY = 2,
	WIRE_FILE_SYMLINK = 3,
	WIRE_FILE_FIFO = 4,
	WIRE_FILE_SOCKET = 5,
	WIRE_FILE_CHAR = 6,
	WIRE_FILE_BLOCK = 7
};

enum wire_write_flags {
	WIRE_WRITE_APPEND = 1 << 0,
	WIRE_WRITE_PARENTS = 1 << 1, /* make missing directories above it */
	WIRE_WRITE_EXCLUSIVE = 1 << 2 /* EEXIST where something is there */
};
enum wire_stat_flags { WIRE_STAT_FOLLOW = 1 << 0 };
enum wire_mkdir_flags { WIRE_MKDIR_PARENTS = 1 << 0 /* and one that is there is fine */ };
enum wire_move_flags { WIRE_MOVE_NOREPLACE = 1 << 0 };
enum wire_remove_flags {
	WIRE_REMOVE_RECURSIVE = 1 << 0,
	WIRE_REMOVE_FORCE = 1 << 1 /* what is missing is fine */
};
enum wire_glob_flags { WIRE_GLOB_DIRS = 1 << 0 };
enum wire_grep_flags {
	WIRE_GREP_LITERAL = 1 << 0,
	WIRE_GREP_CASE = 1 << 1 /* case matters */
};

enum wire_file_failure {
	WIRE_FILE_FAIL_ERRNO = 0, /* errnum says it */
	WIRE_FILE_FAIL_REQUEST = 1, /* the request is wrong */
	WIRE_FILE_FAIL_PATTERN = 2, /* it cannot be compiled */
	WIRE_FILE_FAIL_STEPS = 3, /* a line needs more work than step_limit */
	WIRE_FILE_FAIL_TIME = 4, /* the time of the request is over */
	WIRE_FILE_FAIL_LIMIT = 5, /* another limit of the agent, which the text names */
	WIRE_FILE_FAIL_ABORTED = 6 /* as file_end asked */
};

/* What becomes of a box of a pool that nobody has had for too long. */
enum wire_idle { WIRE_IDLE_DESTROY = 0, WIRE_IDLE_STOP = 1 };
enum wire_end_reason {
	WIRE_END_STOPPED = 0, /* as asked */
	WIRE_END_BOOT_FAILED = 1,
	WIRE_END_VM_CRASHED = 2, /* QEMU ended by itself; errnum is the signal or 0 */
	WIRE_END_PROTOCOL = 3, /* the guest broke the protocol */
	WIRE_END_OWNER_GONE = 4,
	WIRE_END_SETUP_FAILED = 5,
	WIRE_END_HOST = 6, /* the host refused or failed: no memory, disk, jail */
	WIRE_END_PROGRAM = 7, /* the box's program ended */
	WIRE_END_KILLED = 8, /* as asked, without grace */
	WIRE_END_OOM = 9, /* the box's program was killed for memory */
	WIRE_END_POWEROFF = 10, /* the guest turned itself off */
	WIRE_END_FROZEN = 11 /* a template is complete */
};

/* Borrowed bytes; after decoding they point into the frame. */
struct wire_bytes {
	const uint8_t *data;
	uint32_t len;
};

/* A packed list: @count strings, each ended by a NUL, @len bytes in all. */
struct wire_strs {
	const uint8_t *data;
	uint32_t len;
	uint32_t count;
};

enum wire_op {
#define WIRE_OP(name, number, lane, dir, max, ...) WIRE_OP_##name = (number),
#include "wire/ops.def"
#undef WIRE_OP
};

#define U8(n)    uint8_t n;
#define U16(n)   uint16_t n;
#define U32(n)   uint32_t n;
#define U64(n)   uint64_t n;
#define BYTES(n) struct wire_bytes n;
#define STRS(n)  struct wire_strs n;
#define WIRE_OP(name, number, lane, dir, max, ...) \
	struct wire_##name {                       \
		__VA_ARGS__                        \
	};
#include "wire/ops.def"
#undef WIRE_OP
#undef U8
#undef U16
#undef U32
#undef U64
#undef BYTES
#undef STRS

struct wire_msg {
	uint16_t op;
	uint32_t stream;
	union {
#define WIRE_OP(name, number, lane, dir, max, ...) struct wire_##name name;
#include "wire/ops.def"
#undef WIRE_OP
	};
};

enum wire_status {
	WIRE_OK = 0,
	WIRE_MORE = 1, /* not a whole frame yet */
	WIRE_BAD_OP = -1, /* unknown, or not allowed on this lane or in this direction */
	WIRE_BAD_LENGTH = -2, /* longer than the op allows */
	WIRE_BAD_FIELD = -3, /* a field is cut, too long, or bytes are left over */
	WIRE_NO_SPACE = -4 /* encode: the buffer is too small or the message too large */
};

/* Decode the frame at the front of @buf. WIRE_OK sets *ret_msg (slices point into @buf) and
 * *ret_used. WIRE_MORE sets *ret_used to the bytes that the whole frame needs, or to
 * WIRE_HEADER_SIZE where even that is not known; a wrong header is found without its payload. */
enum wire_status wire_decode(enum wire_side side, enum wire_lane lane, const uint8_t *buf,
	size_t len, struct wire_msg *ret_msg, size_t *ret_used);

/* Encode @msg as one frame into @buf. WIRE_OK sets *ret_len. */
enum wire_status wire_encode(const struct wire_msg *msg, uint8_t *buf, size_t cap, size_t *ret_len);

/* Bytes that the frame of @msg takes, or 0 for an unknown op. */
size_t wire_size(const struct wire_msg *msg);

/* The lane an op travels on; -1 for an unknown op. */
int wire_lane_of(uint16_t op);

/* The longest frame (header included) that a receiver must be ready to hold. */
size_t wire_frame_max(enum wire_side side, enum wire_lane lane);

/* A name for logs: "exec", or "?" for an unknown op. */
const char *wire_op_name(uint16_t op);
const char *wire_status_name(enum wire_status status);

/* The next string of a list: NULL at the end. Start with *pos = 0. */
const char *wire_strs_next(const struct wire_strs *strs, uint32_t *pos);

#endif
