/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a jail, and whether it works here.
 *
 * A host can refuse each layer in its own way: by a sysctl, a security module, the filter of a
 * container, a kernel without it. Nothing of that is looked up. The whole jail is tried in a child;
 * where that fails, the step that failed says which layer the host does not have, and it is tried
 * without it. So a usual start costs one trial, and what is said to be missing is what was seen.
 *
 *   direct:  root makes the namespaces, becomes its own user, makes a user namespace around itself
 *   inside:  everything in a user namespace; as root with a user of its own that is made late, and
 *            then there is no pid namespace
 *
 * Root without its usual power, as in a container without privileges, is an ordinary user.
 */
#include "vmm/jail_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/banned.h"

/* User ids of boxes of root: 2013265920 to 2030043135, above what systemd, containers and
 * directory services give out by default, and below the half that some programs take for negative.
 */
#define OWN_UID_FIRST 0x78000000u
#define OWN_UID_MASK  0x00ffffffu
#define PASSWD_MAX    (4u << 20)
#define ID_MAP_MAX    65536u
#define TRIALS_MAX    16 /* each one but the last finds something missing */

static const struct {
	const char *name;
	uint64_t flag;
	const char *weakness;
} layers[JAIL_LAYERS] = {
	[JAIL_SECCOMP] = {"seccomp", 0, "filter"},
	[JAIL_USER_NS] = {"user namespace", CLONE_NEWUSER, "userns"},
	[JAIL_LANDLOCK] = {"landlock", 0, "landlock"},
	[JAIL_MOUNT_NS] = {"mount namespace", CLONE_NEWNS, "mountns"},
	[JAIL_PID_NS] = {"pid namespace", CLONE_NEWPID, "pidns"},
	[JAIL_NET_NS] = {"network namespace", CLONE_NEWNET, "netns"},
	[JAIL_IPC_NS] = {"ipc namespace", CLONE_NEWIPC | CLONE_NEWUTS, "ipcns"},
	[JAIL_CGROUP] = {"cgroup", 0, "cgroup"},
};

static const enum jail_layer ns_layers[] = {JAIL_MOUNT_NS, JAIL_PID_NS, JAIL_NET_NS, JAIL_IPC_NS};

#define NS_LAYERS (sizeof ns_layers / sizeof ns_layers[0])

const char *jail_layer_name(enum jail_layer layer)
{
	return layers[layer].name;
}

bool jail_is_weak(const char *name)
{
	const size_t len = strlen(name);

	for (const char *at = jail_weakness(); *at != '\0';) {
		const size_t n = strcspn(at, ", \n");
		if (n == len && strncmp(at, name, n) == 0)
			return true;
		at += n + (at[n] != '\0');
	}
	return false;
}

static void lack(struct jail *j, enum jail_layer layer, const char *fmt, ...)
	__attribute__((format(__printf__, 3, 4)));
static void lack(struct jail *j, enum jail_layer layer, const char *fmt, ...)
{
	va_list ap;

	if (j->lacks[layer])
		return;
	va_start(ap, fmt);
	(void)vsnprintf(j->reasons[layer], sizeof j->reasons[layer], fmt, ap);
	va_end(ap);
	j->lacks[layer] = true;
}

static void lack_errno(struct jail *j, enum jail_layer layer, int errnum)
{
	if (errnum == ENOSPC || errnum == EUSERS)
		lack(j, layer, "the limit in /proc/sys/user is reached, or 0");
	else if (errnum == EPERM || errnum == EACCES)
		lack(j, layer,
			"refused by this host's policy: sysctl, security module or container");
	else if (errnum == ENOSYS || errnum == EOPNOTSUPP || errnum == EINVAL)
		lack(j, layer, "not in this kernel, or refused: %s", strerrordesc_np(errnum));
	else
		lack(j, layer, "not available: %s", strerrordesc_np(errnum));
}

/* ---- the user ---- */

/* Is @id somebody in this user namespace? */
static bool id_is_mapped(const char *path, uint32_t id)
{
	auto_free char *text = NULL;

	if (fs_read_file(AT_FDCWD, path, ID_MAP_MAX, &text, NULL) < 0)
		return false;
	for (const char *at = text; *at != '\0';) {
		uint32_t first = 0;
		uint32_t outside = 0;
		uint32_t count = 0;

		if (sscanf(at, "%" SCNu32 " %" SCNu32 " %" SCNu32, &first, &outside, &count) == 3 &&
			id >= first && id - first < count)
			return true;
		at += strcspn(at, "\n");
		at += *at == '\n';
	}
	return false;
}

static bool is_in_passwd(const char *passwd, uint32_t uid)
{
	char field[24];

	(void)snprintf(field, sizeof field, ":%" PRIu32 ":", uid);
	return passwd && strstr(passwd, field) != NULL;
}

/* The same for the same box; a box is not asked who it is, so its name is spread evenly (FNV-1a).
 */
static uint32_t own_uid(const char *box_id)
{
	auto_free char *passwd = NULL;
	uint32_t hash = 2166136261u;

	for (const char *at = box_id; *at != '\0'; at++)
		hash = (hash ^ (uint8_t)*at) * 16777619u;
	(void)!fs_read_file(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &passwd, NULL);
	hash = (hash >> 8) ^ (hash & 0xff);
	while (is_in_passwd(passwd, OWN_UID_FIRST + (hash & OWN_UID_MASK)))
		hash++;
	return OWN_UID_FIRST + (hash & OWN_UID_MASK);
}

static void choose_user(struct jail *j, const char *box_id)
{
	const uint32_t uid = own_uid(box_id ? box_id : "");

	j->uid = geteuid();
	j->gid = getegid();
	/* Who may not end it afterwards does not make it another's. */
	if (j->uid != 0 || !(jail_permitted_caps() & 1ull << CAP_KILL) || jail_is_weak("uid") ||
		!id_is_mapped("/proc/self/uid_map", uid) ||
		!id_is_mapped("/proc/self/gid_map", uid))
		return;
	j->own_user = true;
	j->uid = j->gid = uid;
}

/* ---- the plan ---- */

static bool has(const struct jail *j, enum jail_layer layer)
{
	return !j->lacks[layer];
}

static uint64_t ns_flags(const struct jail *j)
{
	uint64_t flags = 0;

	for (size_t i = 0; i < NS_LAYERS; i++)
		flags |= has(j, ns_layers[i]) ? layers[ns_layers[i]].flag : 0;
	return flags;
}

/* What follows from what is lacking. */
static void plan(struct jail *j)
{
	/* Root's helper needs its one capability outside of any, and root needs none to be rid of
	 * the rest. Where that would leave it the host's files it has to do without. */
	const bool files = has(j, JAIL_MOUNT_NS) || has(j, JAIL_LANDLOCK);
	const bool bare = j->kind == JAIL_OF_NET && j->own_user && j->direct &&
			  (files || !has(j, JAIL_USER_NS));
	const bool around = has(j, JAIL_USER_NS) && !bare;

	if (!around && !j->direct) {
		for (size_t i = 0; i < NS_LAYERS; i++)
			lack(j, ns_layers[i], "needs a user namespace");
	}
	if (!j->direct && j->own_user)
		lack(j, JAIL_PID_NS, "needs root's power");
	const uint64_t flags = ns_flags(j);
	j->map = around;
	if (j->direct) {
		j->clone_flags = flags;
		j->late_flags = around ? CLONE_NEWUSER : 0;
	} else if (j->own_user) {
		j->clone_flags = 0;
		j->late_flags = around ? CLONE_NEWUSER | flags : 0;
	} else {
		j->clone_flags = around ? CLONE_NEWUSER | flags : 0;
		j->late_flags = 0;
	}
	j->new_root = has(j, JAIL_MOUNT_NS);
	j->may_chroot = j->new_root && (j->map || bare) && !jail_is_weak("chroot");
	if (!has(j, JAIL_LANDLOCK))
		j->landlock_fd = fd_close(j->landlock_fd);
	if (!has(j, JAIL_SECCOMP)) {
		mem_free(j->filter);
		j->filter = NULL;
	}
}

/* ---- trying ---- */

static void try_each(struct jail *j, uint64_t with)
{
	for (size_t i = 0; i < NS_LAYERS; i++) {
		const int r = has(j, ns_layers[i])
				      ? proc_try_clone(with | layers[ns_layers[i]].flag)
				      : 0;
		if (r < 0)
			lack_errno(j, ns_layers[i], -r);
	}
}

/* There was not even a child. */
static void learn_clone(struct jail *j, int errnum)
{
	if (j->direct) {
		/* It may still do without the power of root. */
		j->direct = false;
		return;
	}
	const int r = proc_try_clone(CLONE_NEWUSER);
	if (r < 0)
		lack_errno(j, JAIL_USER_NS, -r);
	else
		try_each(j, CLONE_NEWUSER);
	/* Each one alone, but not together: none of them. */
	if (has(j, JAIL_USER_NS) && (j->clone_flags & ~(uint64_t)CLONE_NEWUSER) == ns_flags(j))
		lack_errno(j, JAIL_USER_NS, errnum);
}

/* What the failed trial means. False where no layer can be left out. */
static bool learn(struct jail *j, const char *step, int errnum)
{
	if (strcmp(step, PROC_STEP_CLONE) == 0)
		learn_clone(j, errnum);
	else if (strcmp(step, JAIL_STEP_USERNS) == 0)
		lack_errno(j, JAIL_USER_NS, errnum);
	else if (strcmp(step, JAIL_STEP_MOUNT) == 0)
		lack_errno(j, JAIL_MOUNT_NS, errnum);
	else if (strcmp(step, JAIL_STEP_LANDLOCK) == 0)
		lack_errno(j, JAIL_LANDLOCK, errnum);
	else if (strcmp(step, JAIL_STEP_FILTER) == 0)
		lack_errno(j, JAIL_SECCOMP, errnum);
	else if (strcmp(step, JAIL_STEP_USER) == 0 && j->own_user) {
		j->own_user = false;
		j->uid = geteuid();
		j->gid = getegid();
	} else
		return false;
	return true;
}

static void apply(struct jail *j, struct proc_spec *proc)
{
	proc->clone_flags = j->clone_flags;
	proc->flags |= j->no_nnp ? 0 : PROC_NOPRIVS;
	proc->enter = jail_enter;
	proc->enter_user = j;
}

static int find_what_works(struct jail *j, holt_error **reterr)
{
	const char *step = "";
	int r = 0;

	for (int i = 0; i < TRIALS_MAX; i++) {
		struct proc_spec trial = {0};

		plan(j);
		apply(j, &trial);
		r = proc_try(&trial, &step);
		if (r == 0 && !j->map)
			lack(j, JAIL_USER_NS, "its ports below 1024 need the host's own");
		if (r == 0)
			return 0;
		if (!learn(j, step, -r))
			break;
	}
	return err_errno(reterr, -r, "the jail cannot be entered (%s)", step);
}

/* ---- its parts ---- */

/* Taken away by a test, or nothing for this kind. */
static void leave_out(struct jail *j)
{
	for (int i = 0; i < JAIL_LAYERS; i++) {
		/* The helper's filter is its own, without which it does not go up. */
		if (i == JAIL_SECCOMP && j->kind == JAIL_OF_NET)
			continue;
		if (jail_is_weak(layers[i].weakness))
			lack(j, (enum jail_layer)i, "taken away by a test");
	}
	j->no_limits = jail_is_weak("limits");
	j->no_nnp = jail_is_weak("nonewprivs");
	lack(j, JAIL_CGROUP, "not used by this version");
	if (j->kind == JAIL_OF_NET)
		lack(j, JAIL_NET_NS, "it connects to the host's network");
#ifdef HOLT_SANITIZED
	if (j->kind == JAIL_OF_NET) {
		lack(j, JAIL_MOUNT_NS, "a sanitizer needs /proc");
		lack(j, JAIL_LANDLOCK, "a sanitizer writes reports");
	}
#endif
}

static int make_parts(struct jail *j, const struct jail_spec *spec, holt_error **reterr)
{
	char real[PATH_MAX];

	if (spec->program && !realpath(spec->program, real))
		return err_errno(reterr, errno, "cannot find '%s'", spec->program);
	j->program = spec->program ? str_dup(real) : NULL;
	j->preload_path = str_dup(spec->preload_path ? spec->preload_path : "");
	if ((spec->program && !j->program) || !j->preload_path)
		return err_nomem(reterr);
	if (spec->preload_fd >= 0) {
		j->preload_fd = fcntl(spec->preload_fd, F_DUPFD_CLOEXEC, JAIL_FD_SAFE);
		if (j->preload_fd < 0)
			return err_errno(reterr, errno, "no descriptor for the jail");
	}
	int r = jail_list_paths(j);
	if (r < 0)
		return err_errno(
			reterr, -r, "cannot list what '%s' loads", spec->program ? real : "QEMU");
	r = has(j, JAIL_LANDLOCK) ? jail_landlock_open(j) : 0;
	if (r < 0)
		lack_errno(j, JAIL_LANDLOCK, -r);
	if (j->kind == JAIL_OF_VMM && has(j, JAIL_SECCOMP))
		r = jail_filter_make(&j->filter, &j->n_filter);
	else
		r = 0;
	return r < 0 ? err_errno(reterr, -r, "cannot make the filter of system calls") : 0;
}

int jail_plan(const struct jail_spec *spec, struct jail **ret, holt_error **reterr)
{
	auto_jail j = mem_zalloc(sizeof *j);

	if (!j)
		return err_nomem(reterr);
	j->kind = spec->kind;
	j->landlock_fd = j->preload_fd = FD_NONE;
	j->direct = geteuid() == 0;
	leave_out(j);
	choose_user(j, spec->box_id);
	int r = make_parts(j, spec, reterr);
	if (r == 0)
		r = find_what_works(j, reterr);
	if (r == 0)
		*ret = take_ptr(j);
	return r;
}

/* ---- what is required ---- */

/* A user who owns nothing, in a root directory with nothing of anybody's, is as good. */
static bool is_sufficient(const struct jail *j)
{
	if (j->kind == JAIL_OF_NET && j->own_user && has(j, JAIL_MOUNT_NS))
		return true;
	return (has(j, JAIL_SECCOMP) || j->kind == JAIL_OF_NET) &&
	       (has(j, JAIL_USER_NS) || has(j, JAIL_LANDLOCK));
}

static int refuse(const struct jail *j, holt_error **reterr)
{
	static const enum jail_layer shown[] = {JAIL_SECCOMP, JAIL_USER_NS, JAIL_LANDLOCK};
	auto_buf text = BUF_INIT(1024);

	for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
		if (has(j, shown[i]) || (shown[i] == JAIL_SECCOMP && j->kind == JAIL_OF_NET))
			continue;
		(void)!buf_printf(&text, "%s%s (%s)", text.len ? ", no " : "no ",
			layers[shown[i]].name, j->reasons[shown[i]]);
	}
	err_make(reterr, HOLT_EUNSUPPORTED, "this host offers no sufficient jail: %s",
		text.len ? (const char *)text.data : "");
	err_stage(reterr, "jail");
	err_object(reterr, has(j, JAIL_SECCOMP) ? "user namespace, landlock" : "seccomp");
	/* As short as the wire's room for it. */
	err_hint(reterr, "allow user namespaces (sysctl user.max_user_namespaces, "
			 "kernel.apparmor_restrict_unprivileged_userns; a container's seccomp "
			 "profile) or Landlock (lsm=landlock); HOLT_JAIL=reduced does without, and "
			 "trusts QEMU");
	err_set_errno(reterr, EOPNOTSUPP);
	return -HOLT_EUNSUPPORTED;
}

int jail_judge(struct jail *j, bool reduced, holt_error **reterr)
{
	j->reduced = !is_sufficient(j);
	if (j->reduced && !reduced && strcmp(jail_weakness(), "nothing") == 0)
		return refuse(j, reterr);
	return 0;
}

int jail_prepare(const struct jail_spec *spec, struct jail **ret, holt_error **reterr)
{
	auto_jail j = NULL;
	int r = jail_plan(spec, &j, reterr);

	if (r < 0)
		err_stage(reterr, "jail");
	else
		r = jail_judge(j, spec->reduced, reterr);
	if (r == 0)
		*ret = take_ptr(j);
	return r;
}

int jail_wish(bool *ret_reduced, holt_error **reterr)
{
	const char *wish = getenv("HOLT_JAIL");
	char shown[64];

	if (!wish || !wish[0] || strcmp(wish, "full") == 0) {
		*ret_reduced = false;
		return 0;
	}
	if (strcmp(wish, "reduced") == 0) {
		*ret_reduced = true;
		return 0;
	}
	(void)str_escape(shown, sizeof shown, wish, strlen(wish), false);
	err_make(reterr, HOLT_EINVALID, "unknown jail '%s' (HOLT_JAIL)", shown);
	err_stage(reterr, "jail");
	err_object(reterr, "HOLT_JAIL");
	err_hint(reterr, "use full or reduced, or unset it");
	return -HOLT_EINVALID;
}

/* ---- its use ---- */

void jail_apply(struct jail *j, struct proc_spec *proc)
{
	proc->path = j->program;
	apply(j, proc);
}

const char *jail_empty_dir(const struct jail *j)
{
	return j->may_chroot ? JAIL_EMPTY_DIR : NULL;
}

void jail_state_get(const struct jail *j, struct jail_state *ret)
{
	size_t len = 0;

	*ret = (struct jail_state){.reduced = j->reduced, .uid = j->uid};
	for (int i = 0; i < JAIL_LAYERS; i++) {
		if (!j->lacks[i]) {
			ret->on |= 1u << i;
			continue;
		}
		const int n = snprintf(ret->missing + len, sizeof ret->missing - len, "%s%s (%s)",
			len ? ", " : "", layers[i].name, j->reasons[i]);
		len += n < 0 ? 0 : (size_t)n;
		if (len >= sizeof ret->missing)
			len = sizeof ret->missing - 1;
	}
}

void jail_free(struct jail *j)
{
	if (!j)
		return;
	for (size_t i = 0; i < j->n_paths; i++) {
		mem_free(j->paths[i].path);
		mem_free(j->paths[i].target);
	}
	mem_free(j->program);
	mem_free(j->preload_path);
	mem_free(j->filter);
	(void)fd_close(j->landlock_fd);
	(void)fd_close(j->preload_fd);
	mem_free(j);
}
