/* SPDX-License-Identifier: Apache-2.0 */
#include "box/keeper_start.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "box/assets.h"
#include "vmm/jail.h"
#include "vmm/kernel.h"
#include "vmm/probe.h"
#include "vmm/qemu_facts.h"
#include "base/banned.h"

void keeper_parts_done(struct keeper_parts *p)
{
	int *fds[] = {&p->rootfs_fd, &p->disk_fd, &p->memory_fd, &p->state_fd, &p->owner[0],
		&p->owner[1], &p->control[0], &p->control[1], &p->bulk[0], &p->bulk[1]};

	for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
		*fds[i] = fd_close(*fds[i]);
}

int keeper_choose_accel(
	struct holt_home *home, const char *want, struct keeper_spec *spec, holt_error **reterr)
{
	struct probe_result probe = {0};

	int r = probe_accel(home->cache_dir, &probe, reterr);
	if (r == 0)
		r = probe_choose(want ? want : getenv("HOLT_ACCEL"), &probe, &spec->kvm, reterr);
	spec->tsc_khz = probe.tsc_khz;
	return r;
}

static int open_kernel(
	struct holt_home *home, int *ret_kernel, int *ret_initrd, holt_error **reterr)
{
	struct kernel kernel = {0};
	char **near = NULL;
	const void *agent = NULL;
	size_t agent_len = 0;
	void *agent_mem = NULL;

	int r = asset_kernel_dirs(&near, reterr);
	if (r < 0)
		return r;
	const char *const *dirs = (const char *const *)near;
	r = home->kernel ? kernel_find_at(home->kernel, home->cache_dir, &kernel, reterr)
			 : kernel_find(dirs, home->cache_dir, &kernel, reterr);
	if (r == 0)
		r = asset_agent(&agent, &agent_len, &agent_mem, reterr);
	if (r == 0)
		r = initramfs_open(&kernel, agent, agent_len, home->cache_dir, ret_initrd, reterr);
	if (r == 0)
		r = kernel_open(&kernel, home->cache_dir, ret_kernel, reterr);
	mem_free(agent_mem);
	kernel_done(&kernel);
	strv_free(near);
	return r;
}

int keeper_open_kernel(struct holt_home *home, struct keeper_parts *p, holt_error **reterr)
{
	int r = 0;

	(void)pthread_mutex_lock(&home->boot_lock);
	if (home->kernel_fd < 0) {
		auto_fd kernel = FD_NONE;
		auto_fd initrd = FD_NONE;

		r = open_kernel(home, &kernel, &initrd, reterr);
		if (r == 0) {
			home->kernel_fd = take_fd(kernel);
			home->initrd_fd = take_fd(initrd);
		}
	}
	p->kernel_fd = home->kernel_fd;
	p->initrd_fd = home->initrd_fd;
	(void)pthread_mutex_unlock(&home->boot_lock);
	return r;
}

/* All that the keeper sees of the caller's environment: where QEMU is, overrides for development.
 */
static const char *const passed_env[] = {
	"HOLT_AGENT",
	"HOLT_QEMU",
	"PATH",
#ifdef HOLT_SANITIZED
	"ASAN_OPTIONS",
	"TSAN_OPTIONS",
	"UBSAN_OPTIONS",
#endif
};

#define PASSED_ENV (sizeof passed_env / sizeof passed_env[0])

/* The variables above, as a fresh list (strv_free), or NULL without memory. */
static char **keeper_env(void)
{
	char **env = mem_array(PASSED_ENV + 2, sizeof *env);
	size_t n = 0;
	bool ok = env != NULL;

	if (ok) {
		env[n] = str_dup("LC_ALL=C");
		ok = env[n++] != NULL;
	}
	for (size_t i = 0; ok && i < PASSED_ENV; i++) {
		const char *value = getenv(passed_env[i]);

		if (value) {
			env[n] = str_printf("%s=%s", passed_env[i], value);
			ok = env[n++] != NULL;
		}
	}
	if (ok)
		return env;
	strv_free(env);
	return NULL;
}

/* The descriptors of a keeper under their numbers; those that are none are left out. */
static size_t list_fds(const struct holt_home *home, const struct box_dir *d,
	const struct keeper_parts *p, struct proc_fd *ret)
{
	const struct proc_fd all[] = {{p->owner[0], KEEPER_FD_OWNER},
		{p->control[1], KEEPER_FD_CONTROL}, {p->bulk[1], KEEPER_FD_BULK},
		{p->kernel_fd, KEEPER_FD_KERNEL}, {p->initrd_fd, KEEPER_FD_INITRD},
		{p->rootfs_fd, KEEPER_FD_ROOTFS}, {p->disk_fd, KEEPER_FD_DISK},
		{d->vm_lock, KEEPER_FD_VM_LOCK}, {d->keeper_lock, KEEPER_FD_KEEPER_LOCK},
		{home->fd, KEEPER_FD_HOME}, {d->fd, KEEPER_FD_BOX},
		{p->memory_fd, KEEPER_FD_MEMORY}, {p->state_fd, KEEPER_FD_STATE}};
	size_t n = 0;

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (all[i].from >= 0)
			ret[n++] = all[i];
	}
	return n;
}

static int spawn_keeper(const struct holt_home *home, const struct box_dir *d,
	const struct keeper_parts *p, holt_error **reterr)
{
	struct proc_fd fds[KEEPER_FD_END];
	auto_free char *path = NULL;
	struct proc proc = {0};

	int r = asset_keeper(&path, reterr);
	if (r < 0)
		return r;
	char **env = keeper_env();
	if (!env)
		return err_nomem(reterr);
	const char *const argv[] = {"holt-keeper", NULL};
	const struct proc_spec spec = {.path = path,
		.argv = argv,
		.env = (const char *const *)env,
		.fds = fds,
		.n_fds = list_fds(home, d, p, fds),
		.flags = PROC_DETACH | PROC_NOCORE};
	r = proc_spawn(&spec, &proc, reterr);
	strv_free(env);
	return r;
}

int keeper_start(struct holt_home *home, const struct box_dir *dir, struct keeper_parts *p,
	const struct keeper_spec *spec, holt_error **reterr)
{
	struct keeper_spec whole = *spec;
	int r = jail_wish(&whole.jail_reduced, reterr);

	whole.run_with = qemu_has_run_with(home->cache_dir);

	if (r < 0)
		return r;
	r = fd_pipe(p->owner);
	if (r < 0 || (r = fd_socketpair(p->control)) < 0 || (r = fd_socketpair(p->bulk)) < 0)
		return err_errno(reterr, -r, "cannot make the keeper's sockets");
	/* The pipe takes all of it; written later it could meet a keeper that has ended. */
	r = keeper_spec_write(&whole, p->owner[1], reterr);
	if (r == 0)
		r = spawn_keeper(home, dir, p, reterr);
	/* The keeper's ends: as long as they are open here, its end would not be seen. */
	p->owner[0] = fd_close(p->owner[0]);
	p->control[1] = fd_close(p->control[1]);
	p->bulk[1] = fd_close(p->bulk[1]);
	return r;
}
