/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_stream.h"

#include "cgroup.h"
#include "guest_mem.h"
#include "op_exec.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * What background children keep alive after their exec is over: the read ends of its output, and
 * its cgroup. They live on: their output is read and thrown away, so that they neither block nor
 * die of SIGPIPE. Beyond LEFTS_MAX the oldest is let go and gets SIGPIPE after all.
 */

#define LEFTS_MAX 256

struct left_out {
	struct watch watch;
	struct left *left;
};

struct left {
	struct agent *agent;
	struct left *next; /* newest first */
	uint32_t serial;
	bool has_cgroup;
	struct left_out out[2];
};

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
		agent_close(a, w);
		a->orphan_reaped = true;
	}
}

static bool left_try_free(struct agent *a, struct left *l)
{
	if (l->has_cgroup && cgroup_remove(a->cgroup_fd, l->serial))
		l->has_cgroup = false;
	if (l->has_cgroup || l->out[0].watch.fd >= 0 || l->out[1].watch.fd >= 0)
		return false;
	gmem_free(l);
	a->n_lefts--;
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
	struct left **link = &a->lefts;

	while ((*link)->next)
		link = &(*link)->next;
	struct left *l = *link;
	*link = NULL;
	agent_close(a, &l->out[0].watch);
	agent_close(a, &l->out[1].watch);
	gmem_free(l);
	a->n_lefts--;
}

void exec_leave(struct exec *e, bool has_cgroup)
{
	struct agent *a = e->agent;
	struct left *l = gmem_zalloc(sizeof(*l));

	if (!l)
		return; /* then the outputs are closed with the exec */
	if (a->n_lefts >= LEFTS_MAX)
		drop_oldest(a);
	l->agent = a;
	l->serial = e->serial;
	l->has_cgroup = has_cgroup;
	for (int i = 0; i < 2; i++) {
		const int fd = e->out[i].watch.fd;
		l->out[i].left = l;
		l->out[i].watch = (struct watch){.fn = on_output, .fd = -EBADF};
		if (fd < 0)
			continue;
		agent_unwatch(a, &e->out[i].watch);
		if (agent_watch(a, &l->out[i].watch, fd, EPOLLIN) < 0)
			agent_close(a, &l->out[i].watch);
	}
	l->next = a->lefts;
	a->lefts = l;
	a->n_lefts++;
}
