/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_stream.h"

#include "cgroup.h"
#include "guest_mem.h"
#include "op_exec.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * What background children keep alive after their exec is over: the read ends of its output, and
 * its cgroup. They live on: their output is read and thrown away, so that they neither block nor
 * die of SIGPIPE. Beyond LEFTS_MAX the oldest is let go and gets SIGPIPE after all; its cgroup is
 * remembered until it is empty, which takes a hundred bytes for at least one living process.
 *
 * After a hang-up they live only until kill_us.
 */

#define LEFTS_MAX 256 /* that have an open output */

struct left_out {
	struct watch watch;
	struct left *left;
};

struct left {
	struct agent *agent;
	struct left *next; /* newest first */
	uint32_t serial;
	bool has_cgroup;
	uint64_t kill_us; /* 0 = never */
	struct left_out out[2];
};

static bool has_output(const struct left *l)
{
	return l->out[0].watch.fd >= 0 || l->out[1].watch.fd >= 0;
}

static void close_output(struct agent *a, struct left_out *o)
{
	const bool had = has_output(o->left);

	agent_close(a, &o->watch);
	a->n_lefts -= had && !has_output(o->left);
}

static void on_output(struct watch *w, uint32_t events)
{
	static char waste[65536];
	struct left_out *o = owner_of(w, struct left_out, watch);
	struct agent *a = o->left->agent;
	const ssize_t n = read(w->fd, waste, sizeof(waste));

	(void)events;
	if (n > 0) {
		/* There may be more: ask to be told again, after the others had their turn. */
		struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.ptr = w};
		(void)epoll_ctl(a->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close_output(a, o);
		a->orphan_reaped = true;
	}
}

static bool left_try_free(struct agent *a, struct left *l)
{
	if (l->has_cgroup && cgroup_remove(a->cgroup_fd, l->serial))
		l->has_cgroup = false;
	if (l->has_cgroup || has_output(l))
		return false;
	gmem_free(l);
	return true;
}

void exec_sweep(struct agent *a)
{
	struct left **link = &a->lefts;

	a->orphan_reaped = false;
	while (*link) {
		struct left *l = *link;
		struct left *next = l->next;
		if (left_try_free(a, l))
			*link = next;
		else
			link = &l->next;
	}
}

static void drop_oldest(struct agent *a)
{
	struct left *oldest = NULL;

	for (struct left *l = a->lefts; l; l = l->next)
		if (has_output(l))
			oldest = l;
	if (!oldest)
		return;
	close_output(a, &oldest->out[0]);
	close_output(a, &oldest->out[1]);
	a->orphan_reaped = true; /* for the next sweep */
}

static void left_kill(struct agent *a, struct left *l)
{
	const int fd = cgroup_open(a->cgroup_fd, l->serial);

	l->kill_us = 0;
	if (fd < 0)
		return;
	cgroup_signal(fd, SIGKILL);
	(void)close(fd);
}

void exec_leave_timers(struct agent *a, uint64_t now_us)
{
	for (struct left *l = a->lefts; l; l = l->next)
		if (l->kill_us > now_us)
			agent_wake_at(a, l->kill_us);
		else if (l->kill_us)
			left_kill(a, l);
}

/* Go on watching an output that was the exec's. */
static void take_output(struct agent *a, struct left_out *o, struct watch *from)
{
	const int fd = from->fd;

	agent_unwatch(a, from);
	if (agent_watch(a, &o->watch, fd, EPOLLIN) < 0)
		agent_close(a, &o->watch);
}

void exec_leave(struct exec *e, bool has_cgroup)
{
	struct agent *a = e->agent;
	struct left *l = gmem_zalloc(sizeof(*l));

	if (!l) {
		/* Then the outputs are closed with the exec. */
		if (e->hangup_us)
			exec_kill_all(e, SIGKILL);
		return;
	}
	if (a->n_lefts >= LEFTS_MAX)
		drop_oldest(a);
	l->agent = a;
	l->serial = e->serial;
	l->has_cgroup = has_cgroup;
	l->kill_us = has_cgroup ? e->hangup_us : 0;
	if (l->kill_us)
		agent_wake_at(a, l->kill_us);
	for (int i = 0; i < 2; i++) {
		l->out[i].left = l;
		l->out[i].watch = (struct watch){.fn = on_output, .fd = -EBADF};
		/* A terminal goes, and with it hangs up, see exec_tty.c. */
		if (e->out[i].watch.fd >= 0 && !e->tty)
			take_output(a, &l->out[i], &e->out[i].watch);
	}
	a->n_lefts += has_output(l);
	l->next = a->lefts;
	a->lefts = l;
}
