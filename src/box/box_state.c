/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/json.h"
#include "base/mem.h"
#include "wire/wire.h"
#include "base/banned.h"

#define STATE_SIZE_MAX 16384u
#define LOOKS          3

static const char *const phase_names[] = {[BOX_CREATED] = "created",
	[BOX_STARTING] = "starting",
	[BOX_RUNNING] = "running",
	[BOX_PAUSED] = "paused",
	[BOX_STOPPING] = "stopping",
	[BOX_EXITED] = "exited",
	[BOX_GONE] = "gone"};

static const char *const end_names[] = {[BOX_END_NONE] = "",
	[BOX_END_STOPPED] = "stopped",
	[BOX_END_PROGRAM] = "program ended",
	[BOX_END_KILLED] = "killed",
	[BOX_END_OOM] = "out of memory",
	[BOX_END_CRASHED] = "crashed",
	[BOX_END_OWNER_GONE] = "owner gone",
	[BOX_END_LOST] = "lost",
	[BOX_END_BOOT_FAILED] = "boot failed",
	[BOX_END_GUEST_BROKE] = "guest broke the protocol",
	[BOX_END_HOST_FAILED] = "host failed",
	[BOX_END_POWEROFF] = "powered off"};

static const char *const lease_names[] = {
	[BOX_LEASE_NONE] = "", [BOX_LEASE_HELD] = "held", [BOX_LEASE_WARM] = "warm"};

static const char *const net_names[] = {[BOX_NET_DOWN] = "down",
	[BOX_NET_STARTING] = "starting",
	[BOX_NET_UP] = "up",
	[BOX_NET_LOST] = "lost"};

#define N_NETS   ((int)(sizeof net_names / sizeof net_names[0]))
#define N_LEASES ((int)(sizeof lease_names / sizeof lease_names[0]))
#define N_PHASES ((int)(sizeof phase_names / sizeof phase_names[0]))
#define N_ENDS   ((int)(sizeof end_names / sizeof end_names[0]))

const char *box_phase_name(int phase)
{
	return phase >= 0 && phase < N_PHASES ? phase_names[phase] : "?";
}

const char *box_end_name(int end)
{
	return end >= 0 && end < N_ENDS ? end_names[end] : "?";
}

const char *box_lease_name(int lease)
{
	return lease >= 0 && lease < N_LEASES ? lease_names[lease] : "?";
}

const char *box_net_name(int net)
{
	return net >= 0 && net < N_NETS ? net_names[net] : "?";
}

enum box_end box_end_of_wire(uint16_t reason)
{
	static const enum box_end ends[] = {[WIRE_END_STOPPED] = BOX_END_STOPPED,
		[WIRE_END_BOOT_FAILED] = BOX_END_BOOT_FAILED,
		[WIRE_END_VM_CRASHED] = BOX_END_CRASHED,
		[WIRE_END_PROTOCOL] = BOX_END_GUEST_BROKE,
		[WIRE_END_OWNER_GONE] = BOX_END_OWNER_GONE,
		[WIRE_END_SETUP_FAILED] = BOX_END_BOOT_FAILED,
		[WIRE_END_HOST] = BOX_END_HOST_FAILED,
		[WIRE_END_PROGRAM] = BOX_END_PROGRAM,
		[WIRE_END_KILLED] = BOX_END_KILLED,
		[WIRE_END_OOM] = BOX_END_OOM,
		[WIRE_END_POWEROFF] = BOX_END_POWEROFF};

	return reason < sizeof ends / sizeof ends[0] ? ends[reason] : BOX_END_LOST;
}

/* Into the block that the old file has: it needs no space on the disk. */
static int overwrite(int dir, const char *text)
{
	const size_t len = strlen(text);
	auto_fd fd = openat(dir, BOX_STATE_FILE, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	const ssize_t n = pwrite(fd, text, len, 0);
	if (n != (ssize_t)len)
		return n < 0 ? -errno : -EIO;
	return ftruncate(fd, (off_t)len) < 0 ? -errno : 0;
}

json_t *box_lease_json(const struct box_state *s)
{
	return json_pack("{s:s, s:I, s:I, s:s, s:s}", "state", box_lease_name(s->lease), "since_ns",
		(json_int_t)s->lease_ns, "until_ns", (json_int_t)s->lease_until_ns, "holder",
		s->holder, "label", s->holder_label);
}

/* A list of text for a list of names. */
static json_t *layers_json(const char *layers)
{
	json_t *list = json_array();

	for (const char *at = layers; list && *at != 0;) {
		const size_t len = strcspn(at, ",");

		if (json_array_append_new(list, json_stringn(at, len)) < 0) {
			json_decref(list);
			return NULL;
		}
		at += len;
		at += strspn(at, ", ");
	}
	return list;
}

json_t *box_jail_json(const struct box_jail *jail)
{
	return json_pack("{s:o, s:s, s:b, s:I}", "layers", layers_json(jail->layers), "missing",
		jail->missing, "reduced", (int)jail->reduced, "uid", (json_int_t)jail->uid);
}

static int put_jail(json_t *doc, const struct box_jail *jail)
{
	if (!jail->known)
		return 0;
	return json_object_set_new(doc, "jail", box_jail_json(jail)) < 0 ? -ENOMEM : 0;
}

static json_t *ports_json(const struct box_state *s)
{
	json_t *list = json_array();
	const char *at = s->net_ports;

	while (list && *at) {
		const size_t len = strcspn(at, " ");

		if (json_array_append_new(list, json_stringn(at, len)) < 0) {
			json_decref(list);
			return NULL;
		}
		at += len + (at[len] == ' ');
	}
	return list;
}

json_t *box_net_json(const struct box_state *s)
{
	json_t *doc = json_pack("{s:s, s:o, s:s}", "state", box_net_name(s->net), "ports",
		ports_json(s), "text", s->net_text);

	if (!doc || put_jail(doc, &s->net_jail) == 0)
		return doc;
	json_decref(doc);
	return NULL;
}

static int put_net(json_t *doc, const struct box_state *s)
{
	if (s->net == BOX_NET_DOWN)
		return 0;
	return json_object_set_new(doc, "network", box_net_json(s)) < 0 ? -ENOMEM : 0;
}

static int put_lease(json_t *doc, const struct box_state *s)
{
	if (s->lease == BOX_LEASE_NONE)
		return 0;
	return json_object_set_new(doc, "lease", box_lease_json(s)) < 0 ? -ENOMEM : 0;
}

int box_state_write(int dir, const struct box_state *s)
{
	auto_json doc = json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:s}", "state",
		box_phase_name(s->phase), "reason", box_end_name(s->end), "exit_code", s->exit_code,
		"keeper_pid", s->keeper_pid, "vmm_pid", s->vmm_pid, "accel", s->accel, "text",
		s->text);
	auto_json origin = json_pack("{s:s, s:s}", "origin", s->origin, "origin_note", s->note);
	auto_json times = json_pack("{s:I, s:I, s:I, s:I, s:I}", "attempts",
		(json_int_t)s->attempts, "started_ns", (json_int_t)s->started_ns, "ended_ns",
		(json_int_t)s->ended_ns, "hello_us", (json_int_t)s->hello_us, "ready_us",
		(json_int_t)s->ready_us);

	if (!doc || !times || !origin || json_object_update(doc, times) < 0 ||
		json_object_update(doc, origin) < 0 || put_lease(doc, s) < 0 ||
		put_net(doc, s) < 0 || put_jail(doc, &s->jail) < 0)
		return -ENOMEM;
	auto_free char *text = json_text(doc);
	if (!text)
		return -ENOMEM;
	const int r = fs_replace(dir, BOX_STATE_FILE, text, strlen(text), 0600);
	return r == -ENOSPC || r == -EDQUOT ? overwrite(dir, text) : r;
}

static int index_of(const char *const *names, int n, const char *name)
{
	for (int i = 0; name && i < n; i++) {
		if (strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}

static void get_text(const json_t *doc, const char *key, char *dst, size_t cap)
{
	const char *text = NULL;

	if (json_get_str(doc, key, &text, NULL) == 0 && text)
		(void)snprintf(dst, cap, "%s", text);
}

/* A number that does not fit counts as missing. */
static int64_t get_int(const json_t *doc, const char *key, int64_t max)
{
	int64_t value = 0;

	(void)json_get_int(doc, key, 0, max, &value, NULL);
	return value;
}

static bool runs(const struct box_state *s)
{
	return s->phase == BOX_RUNNING || s->phase == BOX_PAUSED || s->phase == BOX_STOPPING;
}

/* Only what runs can be held. */
static void parse_lease(const json_t *doc, struct box_state *s)
{
	const json_t *lease = json_object_get(doc, "lease");
	const char *name = NULL;
	const int nr = lease && json_get_str(lease, "state", &name, NULL) == 0
			       ? index_of(lease_names, N_LEASES, name)
			       : -1;

	if (nr <= BOX_LEASE_NONE || !runs(s))
		return;
	s->lease = (enum box_lease)nr;
	s->lease_ns = (uint64_t)get_int(lease, "since_ns", INT64_MAX);
	s->lease_until_ns = (uint64_t)get_int(lease, "until_ns", INT64_MAX);
	get_text(lease, "holder", s->holder, sizeof s->holder);
	get_text(lease, "label", s->holder_label, sizeof s->holder_label);
}

static void parse_jail(const json_t *doc, struct box_jail *ret)
{
	const json_t *jail = json_object_get(doc, "jail");
	const json_t *layers = json_object_get(jail, "layers");
	size_t len = 0;

	if (!jail)
		return;
	ret->known = true;
	ret->reduced = json_is_true(json_object_get(jail, "reduced"));
	ret->uid = (uint32_t)get_int(jail, "uid", UINT32_MAX);
	get_text(jail, "missing", ret->missing, sizeof ret->missing);
	for (size_t i = 0; i < json_array_size(layers); i++) {
		const char *name = json_string_value(json_array_get(layers, i));
		const size_t room = sizeof ret->layers - len;

		if (!name || strlen(name) + 3 > room)
			return;
		len += (size_t)snprintf(ret->layers + len, room, "%s%s", len ? ", " : "", name);
	}
}

static void parse_net(const json_t *doc, struct box_state *s)
{
	const json_t *net = json_object_get(doc, "network");
	const json_t *ports = json_object_get(net, "ports");
	const char *name = NULL;
	size_t len = 0;
	const int nr = net && json_get_str(net, "state", &name, NULL) == 0
			       ? index_of(net_names, N_NETS, name)
			       : -1;

	if (nr <= BOX_NET_DOWN || !runs(s))
		return;
	s->net = (enum box_net)nr;
	get_text(net, "text", s->net_text, sizeof s->net_text);
	for (size_t i = 0; i < json_array_size(ports); i++) {
		const char *port = json_string_value(json_array_get(ports, i));

		if (port && len + strlen(port) + 1 < sizeof s->net_ports)
			len += (size_t)snprintf(s->net_ports + len, sizeof s->net_ports - len,
				"%s%s", len ? " " : "", port);
	}
	parse_jail(net, &s->net_jail);
}

static int parse(const json_t *doc, struct box_state *s)
{
	const char *phase = NULL;
	const char *end = NULL;

	if (json_get_str(doc, "state", &phase, NULL) < 0 ||
		json_get_str(doc, "reason", &end, NULL) < 0)
		return -EINVAL;
	const int phase_nr = index_of(phase_names, N_PHASES, phase);
	const int end_nr = index_of(end_names, N_ENDS, end);
	if (phase_nr < 0 || end_nr < 0)
		return -EINVAL;
	s->phase = (enum box_phase)phase_nr;
	s->end = (enum box_end)end_nr;
	s->exit_code = (int)get_int(doc, "exit_code", INT32_MAX);
	s->keeper_pid = (int)get_int(doc, "keeper_pid", INT32_MAX);
	s->vmm_pid = (int)get_int(doc, "vmm_pid", INT32_MAX);
	s->attempts = (uint32_t)get_int(doc, "attempts", UINT32_MAX);
	s->started_ns = (uint64_t)get_int(doc, "started_ns", INT64_MAX);
	s->ended_ns = (uint64_t)get_int(doc, "ended_ns", INT64_MAX);
	get_text(doc, "origin", s->origin, sizeof s->origin);
	get_text(doc, "origin_note", s->note, sizeof s->note);
	s->hello_us = (uint64_t)get_int(doc, "hello_us", INT64_MAX);
	s->ready_us = (uint64_t)get_int(doc, "ready_us", INT64_MAX);
	get_text(doc, "accel", s->accel, sizeof s->accel);
	get_text(doc, "text", s->text, sizeof s->text);
	parse_lease(doc, s);
	parse_net(doc, s);
	parse_jail(doc, &s->jail);
	return 0;
}

/* Whether somebody holds the lock. A shared one disturbs no other that looks, and who wants to hold
 * it tries again. */
static bool is_locked(int dir, const char *name)
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static void set_lost(struct box_state *s)
{
	box_state_unlease(s);
	box_state_unnet(s);
	s->phase = BOX_EXITED;
	s->end = BOX_END_LOST;
	s->exit_code = 137;
	s->keeper_pid = s->vmm_pid = 0;
	(void)snprintf(s->text, sizeof s->text,
		"its keeper was killed, or the machine went down, before it could say more");
}

void box_state_unnet(struct box_state *s)
{
	s->net = BOX_NET_DOWN;
	s->net_ports[0] = s->net_text[0] = 0;
	s->net_jail.known = false;
}

void box_state_unlease(struct box_state *s)
{
	s->lease = BOX_LEASE_NONE;
	s->lease_ns = s->lease_until_ns = 0;
	s->holder[0] = s->holder_label[0] = 0;
}

/* One look at the file: 0, -ENOENT, or another -errno where it says nothing. */
static int read_state(int dir, struct box_state *ret)
{
	auto_free char *text = NULL;
	auto_json doc = NULL;
	size_t len = 0;
	const int r = fs_read_file(dir, BOX_STATE_FILE, STATE_SIZE_MAX, &text, &len);

	*ret = (struct box_state){0};
	if (r < 0)
		return r;
	if (json_parse(text, len, STATE_SIZE_MAX, "state", &doc, NULL) < 0)
		return -EINVAL;
	return parse(doc, ret);
}

void box_state_look(int boxes, const char *name, struct box_state *ret)
{
	auto_fd dir = openat(boxes, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	*ret = (struct box_state){.phase = BOX_GONE};
	if (dir < 0)
		return;
	/* Where nobody holds the lock, a keeper may just have ended since the file was read: its
	 * last word stands in it now. */
	int r = 0;
	bool locked = false;
	for (int i = 0; i < LOOKS && !locked; i++) {
		r = read_state(dir, ret);
		if (r == 0 && ret->phase == BOX_EXITED)
			return;
		locked = is_locked(dir, "keeper.lock");
	}
	/* A removed box loses its name first, then its files. */
	if (!locked && faccessat(boxes, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		*ret = (struct box_state){.phase = BOX_GONE};
	else if (r == -ENOENT)
		*ret = (struct box_state){.phase = locked ? BOX_STARTING : BOX_CREATED};
	else if (r < 0 || !locked)
		set_lost(ret);
}
