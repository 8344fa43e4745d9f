/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be done with a box that exists: find, look, stop, kill, pause, wait, rename, remove,
 * measure. Looking reads small files only and never waits for a keeper; everything else asks it,
 * and what it does not do in time is done without it.
 */
#include "box/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/event_log.h"
#include "box/home_memory.h"
#include "box/request.h"
#include "base/banned.h"

#define ASK_TIMEOUT_MS  5000
#define STOP_MARGIN_MS  1500 /* beyond the grace, before the keeper is killed */
#define KILL_TIMEOUT_MS 3000
#define LOCK_WAIT_MS    3000
#define KNOCK_WAIT_MS   500 /* for a keeper that hangs, while waiting for the end of its box */
#define LOOK_PAUSE_MS   20 /* between looks at a box whose keeper is not to be reached */

/* ---- finding ---- */

static int handle_of(
	struct holt_home *home, struct box_entry *e, struct holt_box **ret, holt_error **reterr)
{
	struct holt_box *b = NULL;
	int r = box_handle(home, &b, reterr);

	if (r == 0)
		r = box_record_parse(e->record, &b->rec, reterr);
	if (r < 0) {
		box_close(b);
		return r;
	}
	b->rec.name = take_ptr(e->name);
	*ret = b;
	return 0;
}

int box_get(struct holt_home *home, const char *ref, struct holt_box **ret, holt_error **reterr)
{
	struct box_entry e = {0};
	int r = box_index_find(home->boxes, ref, &e, reterr);

	if (r == 0)
		r = handle_of(home, &e, ret, reterr);
	box_entry_done(&e);
	if (r < 0) {
		err_stage(reterr, "box lookup");
		err_object(reterr, ref);
	}
	return r;
}

int box_list(struct holt_home *home, struct holt_box ***ret, size_t *ret_n, holt_error **reterr)
{
	struct box_entry *entries = NULL;
	size_t n = 0;
	size_t done = 0;
	int r = box_index_list(home->boxes, &entries, &n, reterr);
	struct holt_box **list = r == 0 ? mem_array(n + 1, sizeof *list) : NULL;

	if (r == 0 && !list)
		r = err_nomem(reterr);
	for (size_t i = 0; i < n; i++) {
		/* Without a directory it is removed, only not forgotten yet. */
		if (r == 0 &&
			faccessat(home->boxes_fd, entries[i].id, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
			auto_error error = NULL;
			const int code = handle_of(home, &entries[i], &list[done], &error);

			/* One record that nobody can read shall not hide all the others. */
			if (code == -HOLT_ENO_MEMORY)
				r = err_take(reterr, take_ptr(error));
			else if (code < 0)
				log_warn("box", "ignoring box id=%s: %s", entries[i].id,
					holt_error_message(error));
			done += code == 0;
		}
		box_entry_done(&entries[i]);
	}
	mem_free(entries);
	if (r < 0) {
		box_list_free(list, done);
		err_stage(reterr, "box list");
		return r;
	}
	*ret = list;
	*ret_n = done;
	return 0;
}

void box_list_free(struct holt_box **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		box_close(list[i]);
	mem_free(list);
}

void box_look(struct holt_box *b, struct box_state *ret)
{
	box_state_look(b->home->boxes_fd, b->rec.id, ret);
	if (ret->phase == BOX_STARTING && __atomic_load_n(&b->unstarted, __ATOMIC_SEQ_CST))
		ret->phase = BOX_CREATED;
}

static bool runs(const struct box_state *s)
{
	return s->phase == BOX_STARTING || s->phase == BOX_RUNNING || s->phase == BOX_PAUSED ||
	       s->phase == BOX_STOPPING;
}

static int put_state(json_t *doc, const struct holt_box *b, const struct box_state *s)
{
	json_t *state = json_pack("{s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:I}", "status",
		box_phase_name(s->phase), "reason", box_end_name(s->end), "exit_code", s->exit_code,
		"keeper_pid", s->keeper_pid, "vmm_pid", s->vmm_pid, "started_ns",
		(json_int_t)s->started_ns, "ended_ns", (json_int_t)s->ended_ns, "attempts",
		(json_int_t)s->attempts);

	if (!state || json_object_set_new(state, "accel", json_string(s->accel)) < 0 ||
		json_object_set_new(state, "text", json_string(s->text)) < 0 ||
		json_object_set_new(state, "origin", json_string(s->origin)) < 0 ||
		json_object_set_new(state, "origin_note", json_string(s->note)) < 0 ||
		json_object_set_new(state, "hello_us", json_integer((json_int_t)s->hello_us)) < 0 ||
		json_object_set_new(state, "ready_us", json_integer((json_int_t)s->ready_us)) < 0 ||
		(s->lease != BOX_LEASE_NONE &&
			json_object_set_new(state, "lease", box_lease_json(s)) < 0) ||
		(s->jail.known &&
			json_object_set_new(state, "jail", box_jail_json(&s->jail)) < 0) ||
		json_object_set_new(
			doc, "name", b->rec.name ? json_string(b->rec.name) : json_null()) < 0) {
		json_decref(state);
		return -ENOMEM;
	}
	return json_object_set_new(doc, "state", state) < 0 ? -ENOMEM : 0;
}

/* What the record says of the network, and how it is. */
static int put_network(json_t *doc, const struct holt_box *b, const struct box_state *s)
{
	const bool any = b->rec.network.mode != NET_ISOLATED;
	json_t *network = json_object_get(doc, "network");
	auto_json now = box_net_json(s);
	auto_json addresses = json_pack(
		"{s:s, s:s}", "address", any ? NET_GUEST4 : "", "gateway", any ? NET_GATEWAY4 : "");

	return network && now && addresses && json_object_update(network, now) == 0 &&
			       json_object_update(network, addresses) == 0
		       ? 0
		       : -ENOMEM;
}

int box_json(struct holt_box *b, const char **ret, holt_error **reterr)
{
	struct box_state s;
	auto_json doc = box_record_json(&b->rec);

	box_look(b, &s);
	char *text = doc && put_state(doc, b, &s) == 0 && put_network(doc, b, &s) == 0
			     ? json_text(doc)
			     : NULL;
	if (!text)
		return err_nomem(reterr);
	mem_free(b->json);
	b->json = text;
	*ret = text;
	return 0;
}

int box_ports(struct holt_box *b, const char *const **ret, holt_error **reterr)
{
	struct box_state s;
	size_t n = 0;

	box_look(b, &s);
	char **list = mem_array(NET_PUBLISH_MAX + 1, sizeof *list);
	bool ok = list != NULL;
	for (const char *at = s.net_ports; ok && *at && n < NET_PUBLISH_MAX;) {
		const size_t len = strcspn(at, " ");

		list[n] = str_ndup(at, len);
		ok = list[n++] != NULL;
		at += len + (at[len] == ' ');
	}
	if (!ok) {
		strv_free(list);
		return err_nomem(reterr);
	}
	strv_free(b->ports);
	b->ports = list;
	*ret = (const char *const *)list;
	return 0;
}

/* ---- ending ---- */

static void nap(uint64_t ms)
{
	const struct timespec pause = {.tv_nsec = (long)ms * 1000000L};

	(void)nanosleep(&pause, NULL);
}

/* Wait until a look says that the box does not run. */
static bool wait_stopped(struct holt_box *b, uint64_t timeout_ms, struct box_state *ret)
{
	const uint64_t start_ms = clock_mono_ms();

	for (;;) {
		box_look(b, ret);
		if (!runs(ret))
			return true;
		if (clock_mono_ms() - start_ms >= timeout_ms)
			return false;
		nap(LOOK_PAUSE_MS);
	}
}

/* The keeper did not end the box: end it, and say so in its place. */
static int end_by_force(struct holt_box *b, enum box_end why, holt_error **reterr)
{
	struct box_state s;
	struct box_dir d = BOX_DIR_INIT;

	box_look(b, &s);
	(void)door_kill(b->home->boxes_fd, b->rec.id);
	const int r = box_dir_lock(b->home->boxes_fd, b->rec.id, LOCK_WAIT_MS, &d);
	if (r == -ENOENT)
		return 0;
	if (r < 0) {
		(void)err_make(reterr, HOLT_ETIMEOUT, "the box does not end, even by force");
		err_object(reterr, b->rec.id);
		err_hint(reterr, "end process %d by hand", s.vmm_pid);
		return -HOLT_ETIMEOUT;
	}
	if (!b->rec.keep) {
		const int code = box_discard(b->home, &d, b->rec.name, reterr);
		box_dir_close(&d);
		return code;
	}
	s.phase = BOX_EXITED;
	s.end = why;
	s.exit_code = 137;
	s.ended_ns = clock_wall_ns();
	s.keeper_pid = s.vmm_pid = 0;
	box_state_unlease(&s);
	(void)snprintf(s.text, sizeof s.text, "its keeper did not answer and was killed");
	(void)!box_state_write(d.fd, &s);
	box_dir_close(&d);
	return 0;
}

/* Ask for the end and wait for it. */
static int end_by_keeper(
	struct holt_box *b, const struct wire_msg *msg, uint64_t timeout_ms, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	struct session *s = NULL;
	struct session_end end = {0};
	int r = box_reach(b, timeout_ms, &s, reterr);
	const uint64_t now_ms = clock_mono_ms();

	if (r == 0)
		r = session_tell(s, msg, reterr);
	if (r == 0)
		r = session_wait_end(
			s, deadline_ms > now_ms ? deadline_ms - now_ms : 0, NULL, &end, reterr);
	if (r == 0)
		(void)session_wait_gone(s, ASK_TIMEOUT_MS, NULL);
	return r;
}

static int box_finish(struct holt_box *b, const struct wire_msg *msg, enum box_end why,
	uint64_t timeout_ms, holt_error **reterr)
{
	struct box_state s;
	auto_error error = NULL;

	box_look(b, &s);
	if (s.phase == BOX_GONE)
		return err_make(reterr, HOLT_ENOT_FOUND, "the box is removed");
	if (!runs(&s))
		return 0;
	if (end_by_keeper(b, msg, timeout_ms, &error) == 0)
		return 0;
	/* It may have ended by itself at the same time. */
	const int code = holt_error_code(error);
	if (code == HOLT_ECLOSED && wait_stopped(b, KILL_TIMEOUT_MS, &s))
		return 0;
	/* A keeper that answers is not ended by force where good order was asked for. */
	if (why == BOX_END_STOPPED && code != HOLT_ECLOSED && code != HOLT_ETIMEOUT)
		return err_take(reterr, take_ptr(error));
	return end_by_force(b, why, reterr);
}

int box_stop(struct holt_box *b, uint64_t grace_ms, holt_error **reterr)
{
	const struct wire_msg msg = {
		.op = WIRE_OP_stop, .stop = {.signo = 0, .grace_ms = (uint32_t)grace_ms}};
	struct box_state before;

	box_look(b, &before);
	const int r = box_finish(b, &msg, BOX_END_STOPPED, grace_ms + STOP_MARGIN_MS, reterr);
	if (r < 0) {
		err_stage(reterr, "stop");
		err_object(reterr, b->rec.id);
	} else if (runs(&before)) {
		event_tell(b->home->fd, "stop", b->rec.id, b->rec.name, NULL);
	}
	return r;
}

int box_kill(struct holt_box *b, uint32_t signo, holt_error **reterr)
{
	const struct wire_msg msg = {.op = WIRE_OP_kill, .kill = {.signo = signo}};
	struct session *s = NULL;
	struct box_state now;
	int r = 0;

	box_look(b, &now);
	if (now.phase == BOX_GONE)
		r = err_make(reterr, HOLT_ENOT_FOUND, "the box is removed");
	else if (!runs(&now))
		r = err_make(reterr, HOLT_ECLOSED, "the box does not run");
	else if (signo == SIGKILL)
		r = box_finish(b, &msg, BOX_END_KILLED, KILL_TIMEOUT_MS, reterr);
	else if ((r = box_connect(b, DOOR_WAIT_MS, &s, reterr)) == 0)
		r = session_ask(s, &msg, ASK_TIMEOUT_MS, NULL, NULL, reterr);
	if (r < 0) {
		err_stage(reterr, "kill");
		err_object(reterr, b->rec.id);
	}
	return r;
}

int box_wait(struct holt_box *b, uint64_t timeout_ms, holt_cancel *cancel, struct box_state *ret,
	holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);

	for (;;) {
		struct session *s = NULL;
		struct session_end end = {0};
		const uint64_t now_ms = clock_mono_ms();

		box_look(b, ret);
		if (!runs(ret))
			return 0;
		if (now_ms >= deadline_ms)
			return err_make(reterr, HOLT_ETIMEOUT, "the box did not end in time");
		if (cancel_fired(cancel))
			return err_make(reterr, HOLT_ECANCELLED, "waiting was cancelled");
		/* Short, so that a cancellation is seen. */
		const uint64_t left_ms = deadline_ms - now_ms;
		if (box_reach(b, left_ms < KNOCK_WAIT_MS ? left_ms : KNOCK_WAIT_MS, &s, NULL) < 0) {
			nap(LOOK_PAUSE_MS);
			continue;
		}
		const int r = session_wait_end(s, left_ms, cancel, &end, reterr);
		if (r < 0)
			return r;
		if (!end.told)
			continue;
		/* A box that is not kept leaves no other trace. */
		(void)session_wait_gone(s, ASK_TIMEOUT_MS, NULL);
		box_look(b, ret);
		if (ret->phase == BOX_GONE) {
			ret->end = box_end_of_wire(end.reason);
			ret->exit_code = (int)end.code;
		}
		if (!runs(ret))
			return 0;
	}
}

/* ---- changing ---- */

int box_pause(struct holt_box *b, bool on, holt_error **reterr)
{
	const struct wire_msg msg = {.op = WIRE_OP_pause, .pause = {.on = on}};
	struct session *s = NULL;
	int r = box_connect(b, DOOR_WAIT_MS, &s, reterr);

	if (r == 0)
		r = session_ask(s, &msg, ASK_TIMEOUT_MS, NULL, NULL, reterr);
	if (r < 0) {
		err_stage(reterr, on ? "pause" : "unpause");
		err_object(reterr, b->rec.id);
	}
	return r;
}

int box_rename(struct holt_box *b, const char *name, holt_error **reterr)
{
	auto_free char *copy = str_dup(name);
	int r = copy ? box_check_name(name, reterr) : err_nomem(reterr);

	for (int i = 0; i < 2 && r == 0; i++) {
		auto_free char *holder = NULL;
		auto_error error = NULL;

		r = box_index_rename(b->home->boxes, b->rec.id, name, &holder, &error);
		if (r == 0)
			break;
		if (r != -HOLT_EEXISTS || i == 1 || !box_free_name(b->home, holder))
			r = err_take(reterr, take_ptr(error));
		else
			r = 0;
	}
	if (r < 0) {
		err_stage(reterr, "rename");
		err_object(reterr, b->rec.id);
		return r;
	}
	event_tell(b->home->fd, "rename", b->rec.id, name,
		b->rec.name ? json_pack("{s:s}", "old_name", b->rec.name) : NULL);
	mem_free(b->rec.name);
	b->rec.name = take_ptr(copy);
	return 0;
}

static int remove_stopped(struct holt_box *b, holt_error **reterr)
{
	struct box_dir d = BOX_DIR_INIT;
	/* A box that was made through this handle is locked by it. */
	int r = b->dir.fd >= 0 ? 0 : box_dir_lock(b->home->boxes_fd, b->rec.id, LOCK_WAIT_MS, &d);

	if (b->dir.fd >= 0) {
		d = b->dir;
		b->dir = BOX_DIR_INIT;
	}
	if (r == -ENOENT)
		return box_index_remove(b->home->boxes, b->rec.id, reterr);
	if (r == -EBUSY)
		return err_make(reterr, HOLT_EBUSY, "the box is in use");
	if (r < 0)
		return err_errno(reterr, -r, "cannot lock the box");
	r = box_discard(b->home, &d, b->rec.name, reterr);
	box_dir_close(&d);
	return r;
}

/* A lock without a keeper's word is held by a start, another removal, or a process that cleans up:
 * see what becomes of it. */
static void look_settled(struct holt_box *b, struct box_state *ret)
{
	const uint64_t start_ms = clock_mono_ms();

	for (box_look(b, ret); ret->phase == BOX_STARTING && ret->keeper_pid == 0 &&
			       clock_mono_ms() - start_ms < LOCK_WAIT_MS;
		box_look(b, ret))
		nap(LOOK_PAUSE_MS);
}

int box_remove(struct holt_box *b, bool force, holt_error **reterr)
{
	struct box_state s;
	int r = 0;

	if (b->dir.fd >= 0) /* made by this handle, and locked by it */
		s = (struct box_state){0};
	else
		look_settled(b, &s);
	if (runs(&s) && !force) {
		r = err_make(reterr, HOLT_EBUSY, "the box is %s", box_phase_name(s.phase));
		err_hint(reterr, "stop it first, or use -f");
	} else if (runs(&s)) {
		r = box_finish(b,
			&(struct wire_msg){.op = WIRE_OP_kill, .kill = {.signo = SIGKILL}},
			BOX_END_KILLED, KILL_TIMEOUT_MS, reterr);
		if (r == -HOLT_ENOT_FOUND)
			r = 0;
	}
	if (r == 0)
		r = remove_stopped(b, reterr);
	if (r < 0) {
		err_stage(reterr, "remove");
		err_object(reterr, b->rec.name ? b->rec.name : b->rec.id);
	}
	return r;
}

/* ---- measuring ---- */

int box_ping(struct holt_box *b, uint64_t timeout_ms, uint64_t *ret_us, holt_error **reterr)
{
	const struct wire_msg msg = {.op = WIRE_OP_ping, .ping = {.token = clock_mono_us()}};
	struct session *s = NULL;
	const uint64_t wait_ms = timeout_ms ? timeout_ms : ASK_TIMEOUT_MS;
	int r = box_connect(b, wait_ms, &s, reterr);
	const uint64_t start_us = clock_mono_us();

	if (r == 0)
		r = session_ask(s, &msg, wait_ms, NULL, NULL, reterr);
	if (r == 0 && ret_us)
		*ret_us = clock_mono_us() - start_us;
	return r;
}

int box_stats(struct holt_box *b, struct wire_stats_reply *ret, uint64_t *ret_host_bytes,
	holt_error **reterr)
{
	struct session *s = NULL;
	struct wire_msg answer = {0};
	int r = box_connect(b, DOOR_WAIT_MS, &s, reterr);

	if (r == 0)
		r = session_ask(s, &(struct wire_msg){.op = WIRE_OP_stats}, ASK_TIMEOUT_MS, NULL,
			&answer, reterr);
	if (r < 0)
		return r;
	*ret = answer.stats_reply;
	struct box_state now;
	box_look(b, &now);
	*ret_host_bytes = now.vmm_pid > 0 ? memory_of(now.vmm_pid) : 0;
	return 0;
}
