/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/qemu.h"

#include <ctype.h>
#include <fcntl.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/jail_inside.h"
#include "vmm/qemu_argv.h"
#include "vmm/vm.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * Starting QEMU, in a jail (jail.h). The process gets the descriptors of enum qemu_fd and nothing
 * else. Its standard output and error go to the console's socket, so that its last words stand
 * beside the guest's.
 *
 * All channels are socket pairs, because QEMU treats a full socket as "try later" while a full pipe
 * would stop its main loop. Called on the keeper's loop thread, which outlives the machine.
 *
 * Its whole environment is the object that answers its paths with these descriptors (openshim.c).
 * It lies beside this program, the keeper, perhaps where nobody else may look; QEMU gets a copy.
 * Kernel and initramfs are opened anew for each machine: the descriptors that a keeper has are
 * those of the library's process, which other keepers have too, and QEMU reads at the file's
 * position.
 */

#define QEMU_PROGRAM       "qemu-system-x86_64"
#define FILE_SLACK_BYTES   (1024u * 1024u) /* room for the size limit above the disk's own size */
#define VERSION_TIMEOUT_MS 5000
#define SHIM_NAME          "holt-open.so"
#define SHIM_PATH          "/proc/self/fd/15"
#define SHIM_CHUNK         (1u << 20)
#define FDS_MAX            20

/* Both ends of every channel: [0] stays here, [1] goes to QEMU. */
struct channels {
	int control[2];
	int bulk[2];
	int console[2];
	int qmp[2];
	int net[2];
};

#define CHANNELS_INIT                                     \
	((struct channels){.control = {FD_NONE, FD_NONE}, \
		.bulk = {FD_NONE, FD_NONE},               \
		.console = {FD_NONE, FD_NONE},            \
		.qmp = {FD_NONE, FD_NONE},                \
		.net = {FD_NONE, FD_NONE}})

static void channels_done(struct channels *c)
{
	int *const pairs[] = {c->control, c->bulk, c->console, c->qmp, c->net};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		pairs[i][0] = fd_close(pairs[i][0]);
		pairs[i][1] = fd_close(pairs[i][1]);
	}
}
#define auto_channels __attribute__((cleanup(channels_done))) struct channels

static int channels_open(struct channels *c, holt_error **reterr)
{
	int *const pairs[] = {c->control, c->bulk, c->console, c->qmp};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		int r = fd_socketpair(pairs[i]);
		if (r == 0)
			r = fd_nonblock(pairs[i][0]);
		if (r < 0)
			return err_errno(reterr, -r, "cannot make a socket pair for the machine");
	}
	/* Without a helper at the other end frames go nowhere. */
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, c->net) < 0)
		return err_errno(reterr, errno, "cannot make a socket pair for the network card");
	return 0;
}

static bool is_program(const char *path)
{
	return path[0] == '/' && access(path, X_OK) == 0;
}

int qemu_find(char **ret_path, holt_error **reterr)
{
	const char *configured = getenv("HOLT_QEMU");
	const char *path = getenv("PATH");

	if (configured && configured[0] != '\0') {
		if (!is_program(configured)) {
			err_make(reterr, HOLT_ENOT_FOUND,
				"'%s' (HOLT_QEMU) is not an absolute path of a program",
				configured);
			err_object(reterr, configured);
			err_hint(reterr, "correct HOLT_QEMU or unset it");
			return -HOLT_ENOT_FOUND;
		}
		*ret_path = str_dup(configured);
		return *ret_path ? 0 : err_nomem(reterr);
	}
	for (const char *at = path && path[0] ? path : "/usr/bin:/usr/local/bin"; *at != '\0';) {
		const size_t len = strcspn(at, ":");
		auto_free char *candidate = str_printf("%.*s/" QEMU_PROGRAM, (int)len, at);
		if (!candidate)
			return err_nomem(reterr);
		if (is_program(candidate)) {
			*ret_path = take_ptr(candidate);
			return 0;
		}
		at += len;
		at += *at == ':';
	}
	err_make(reterr, HOLT_ENOT_FOUND, "'" QEMU_PROGRAM "' is not in PATH");
	err_object(reterr, QEMU_PROGRAM);
	err_hint(reterr, "install QEMU %d.%d or newer (Debian: qemu-system-x86), or set HOLT_QEMU",
		QEMU_OLDEST_MAJOR, QEMU_OLDEST_MINOR);
	return -HOLT_ENOT_FOUND;
}

/* "QEMU emulator version 7.2.22 (Debian ...)": the word of digits and dots. */
static char *version_word(const char *output)
{
	const char *at = strstr(output, "version ");

	if (!at)
		return NULL;
	at += strlen("version ");
	return str_ndup(at, strspn(at, "0123456789."));
}

int qemu_version(const char *path, char **ret_version, holt_error **reterr)
{
	const char *const argv[] = {QEMU_PROGRAM, "--version", NULL};
	auto_free char *output = NULL;
	const int r = proc_run(path, argv, VERSION_TIMEOUT_MS, &output, reterr);
	if (r < 0) {
		err_stage(reterr, "qemu version");
		err_object(reterr, path);
		return r;
	}
	auto_free char *version = version_word(output);
	char *end = NULL;
	const unsigned long major = version ? strtoul(version, &end, 10) : 0;
	const unsigned long minor = end && *end == '.' ? strtoul(end + 1, NULL, 10) : 0;

	if (major > QEMU_OLDEST_MAJOR ||
		(major == QEMU_OLDEST_MAJOR && minor >= QEMU_OLDEST_MINOR)) {
		*ret_version = take_ptr(version);
		return 0;
	}
	err_make(reterr, HOLT_EUNSUPPORTED, "QEMU %s is older than %d.%d",
		version && version[0] ? version : "of unknown version", QEMU_OLDEST_MAJOR,
		QEMU_OLDEST_MINOR);
	err_stage(reterr, "qemu version");
	err_object(reterr, path);
	err_hint(reterr, "install a newer QEMU or set HOLT_QEMU");
	return -HOLT_EUNSUPPORTED;
}

static int shim_failed(int errnum, holt_error **reterr)
{
	const int r = err_errno(
		reterr, errnum, "cannot open '" SHIM_NAME "', without which no machine starts");

	err_object(reterr, SHIM_NAME);
	err_hint(reterr, "install holt again: the file belongs beside holt-keeper");
	return r;
}

/* A copy of the shim that nobody can change, and everybody can read. It lies beside the program
 * that this is. */
static int shim_open(int *ret_fd, holt_error **reterr)
{
	char path[PATH_MAX + sizeof(SHIM_NAME)];
	const ssize_t len = readlink("/proc/self/exe", path, PATH_MAX);

	if (len < 0 || len == PATH_MAX)
		return shim_failed(len < 0 ? errno : ENAMETOOLONG, reterr);
	path[len] = '\0';
	char *slash = strrchr(path, '/');
	memcpy(slash ? slash + 1 : path, SHIM_NAME, sizeof(SHIM_NAME));
	auto_fd file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return shim_failed(errno, reterr);
	auto_fd copy = memfd_create("holt-open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (copy < 0)
		return shim_failed(errno, reterr);
	ssize_t n;
	while ((n = sendfile(copy, file, NULL, SHIM_CHUNK)) > 0)
		continue;
	if (n < 0 || fcntl(copy, F_ADD_SEALS,
			     F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return shim_failed(errno, reterr);
	*ret_fd = take_fd(copy);
	return 0;
}

/* The same file with a position of its own. */
static int open_again(int fd, int *ret_fd, holt_error **reterr)
{
	char path[32];

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*ret_fd < 0)
		return err_errno(reterr, errno, "cannot open the guest's kernel or initramfs");
	return 0;
}

/* What a clone gets cannot be written to, and is what its shape says: QEMU would only find out by
 * a bus error. */
static int clone_check(const struct vm_spec *spec, holt_error **reterr)
{
	const int files[] = {spec->memory_fd, spec->state_fd};
	struct stat st;

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const int flags = fcntl(files[i], F_GETFL);
		if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY)
			return err_make(reterr, HOLT_EINTERNAL,
				"a template's file is not open for reading only");
	}
	if (fstat(spec->memory_fd, &st) < 0)
		return err_errno(reterr, errno, "cannot look at the template's memory");
	if (st.st_size != (off_t)spec->memory_mib << 20) {
		err_make(reterr, HOLT_EIO, "the template's memory has %lld bytes instead of %lld",
			(long long)st.st_size, (long long)spec->memory_mib << 20);
		err_hint(reterr, "remove the template; it is built again when it is needed");
		return -HOLT_EIO;
	}
	return 0;
}

static uint64_t max_file_bytes(const struct vm_spec *spec)
{
	const uint64_t memory = spec->origin == VM_FREEZE ? (uint64_t)spec->memory_mib << 20 : 0;

	return (spec->disk_bytes > memory ? spec->disk_bytes : memory) + FILE_SLACK_BYTES;
}

/* What the engine adds to what the machine is made of. */
struct extras {
	int kernel;
	int initrd;
	int shim;
	int kvm;
	struct jail *jail;
};

#define EXTRAS_INIT \
	((struct extras){.kernel = FD_NONE, .initrd = FD_NONE, .shim = FD_NONE, .kvm = FD_NONE})

static void extras_done(struct extras *e)
{
	int *const fds[] = {&e->kernel, &e->initrd, &e->shim, &e->kvm};

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		*fds[i] = fd_close(*fds[i]);
	jail_free(e->jail);
}
#define auto_extras __attribute__((cleanup(extras_done))) struct extras

static int extras_open(
	const struct vm_spec *spec, const char *program, struct extras *e, holt_error **reterr)
{
	int r = 0;

	if (spec->origin == VM_CLONE) {
		r = clone_check(spec, reterr);
	} else {
		r = open_again(spec->kernel_fd, &e->kernel, reterr);
		if (r == 0)
			r = open_again(spec->initrd_fd, &e->initrd, reterr);
	}
	if (r == 0 && !jail_is_weak("shim"))
		r = shim_open(&e->shim, reterr);
	/* Where it does not open, QEMU says why. */
	if (r == 0 && spec->kvm)
		e->kvm = open(QEMU_KVM_PATH, O_RDWR | O_CLOEXEC);
	const struct jail_spec jail = {.kind = JAIL_OF_VMM,
		.program = program,
		.box_id = spec->box_id,
		.reduced = spec->reduced,
		.preload_fd = e->shim,
		.preload_path = SHIM_PATH};
	return r < 0 ? r : jail_prepare(&jail, &e->jail, reterr);
}

/* Fill @fds with what the machine gets and return how many that are. */
static size_t list_fds(const struct vm_spec *spec, const struct channels *c, const struct extras *e,
	struct proc_fd fds[static FDS_MAX])
{
	const struct proc_fd all[] = {
		{c->console[1], STDOUT_FILENO},
		{c->console[1], STDERR_FILENO},
		{e->kernel, QEMU_FD_KERNEL},
		{e->initrd, QEMU_FD_INITRD},
		{spec->rootfs_fd, QEMU_FD_ROOTFS},
		{spec->disk_fd, QEMU_FD_DISK},
		{c->control[1], QEMU_FD_CONTROL},
		{c->bulk[1], QEMU_FD_BULK},
		{c->console[1], QEMU_FD_CONSOLE},
		{c->net[1], QEMU_FD_NET},
		{spec->lock_fd, QEMU_FD_LOCK},
		{c->qmp[1], QEMU_FD_QMP},
		{spec->origin == VM_COLD ? FD_NONE : spec->memory_fd, QEMU_FD_MEMORY},
		{spec->origin == VM_CLONE ? spec->state_fd : FD_NONE, QEMU_FD_STATE},
		{e->shim, QEMU_FD_SHIM},
		{e->kvm, QEMU_FD_KVM},
	};
	size_t n = 0;

	_Static_assert(sizeof(all) / sizeof(all[0]) <= FDS_MAX, "more descriptors than room");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i].from >= 0)
			fds[n++] = all[i];
	}
	return n;
}

static int spawn(const struct vm_spec *spec, const struct channels *c, const struct extras *e,
	struct proc *ret, holt_error **reterr)
{
	static const char *const shim_env[] = {"LD_PRELOAD=" SHIM_PATH, NULL};
	struct vm_spec inside = *spec;
	struct proc_fd fds[FDS_MAX];
	char **argv = NULL;

	inside.chroot_dir = jail_empty_dir(e->jail);
	inside.no_sandbox = jail_is_weak("sandbox");
	const int r = qemu_argv_build(&inside, &argv, reterr);
	if (r < 0)
		return r;
	struct proc_spec proc = {
		.argv = (const char *const *)argv,
		.env = e->shim >= 0 ? shim_env : NULL,
		.fds = fds,
		.n_fds = list_fds(spec, c, e, fds),
		.flags = PROC_DEATHSIG | PROC_NOCORE,
		.max_file_bytes = jail_is_weak("limits") ? 0 : max_file_bytes(spec),
	};
	jail_apply(e->jail, &proc);
	const int spawned = proc_spawn(&proc, ret, reterr);
	strv_free(argv);
	return spawned;
}

static int qemu_start(const struct vm_spec *spec, struct vm *ret, holt_error **reterr)
{
	auto_free char *program = NULL;
	auto_channels c = CHANNELS_INIT;
	auto_extras e = EXTRAS_INIT;
	struct proc proc = {.pidfd = FD_NONE};

	int r = qemu_find(&program, reterr);
	if (r == 0)
		r = channels_open(&c, reterr);
	if (r == 0)
		r = extras_open(spec, program, &e, reterr);
	if (r == 0)
		r = spawn(spec, &c, &e, &proc, reterr);
	if (r < 0) {
		if (reterr && *reterr && !*holt_error_stage(*reterr)) {
			err_stage(reterr, "vm start");
			err_object(reterr, QEMU_PROGRAM);
		}
		return r;
	}
	*ret = (struct vm){
		.proc = proc,
		.control_fd = take_fd(c.control[0]),
		.bulk_fd = take_fd(c.bulk[0]),
		.console_fd = take_fd(c.console[0]),
		.qmp_fd = take_fd(c.qmp[0]),
		.net_fd = take_fd(c.net[0]),
	};
	jail_state_get(e.jail, &ret->jail);
	return 0;
}

const struct vm_engine vm_engine_qemu = {.name = "qemu", .start = qemu_start};
