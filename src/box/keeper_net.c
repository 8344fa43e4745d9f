/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network helper of a box, and what the guest is told of its network (base/net_link.h).
 *
 *   NONE --a machine starts, or a spare is claimed--> STARTING --up--> UP --it dies--> LOST
 *                                                       '-- failed, dies, or UP_MS pass: the end
 *
 * A helper belongs to one machine, whose card it has the other end of, and goes with it; so the
 * next attempt finds its ports free. It starts beside the machine; the guest gets its address
 * behind the setup and whatever the helper says, since that is the same everywhere. The box is
 * ready when the guest is, and where ports are published only with "up": they have numbers then. A
 * frame before "up" waits in the socket. A helper that never comes up is the end of the box, ready
 * or not.
 *
 * Templates are told before they are frozen, so that a clone finds its card as it wants it; one
 * that is isolated is told to take it down.
 *
 * What the helper says is taken for hostile: bounded in size and number, checked, escaped. One that
 * says more than WORDS_PER_SECOND is not heard until the next second, and waits in its socket.
 *
 * A helper that dies takes the network with it: nothing is started in its place, since connections
 * and what was learnt are gone. The box runs on, tells "lost", and a pool finds it unfit.
 */
#include "box/keeper_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/net_link.h"
#include "base/publish.h"
#include "base/str.h"
#include "box/host_names.h"
#include "vmm/jail.h"
#include "base/banned.h"

#define UP_MS            5000 /* from its start to "up" */
#define WORDS_PER_SECOND 100
#define ASK_MS           900 /* between two answers: it asks at most once a second */
#define REFUSED_BURST    20u /* events of refusals at once, and then so many each second: */
#define REFUSED_RATE     2u

/* One process, watched. It is freed when its last handle has closed. */
struct keeper_helper {
	struct keeper *k;
	struct proc proc;
	int fd; /* the messages */
	uv_poll_t exited;
	uv_poll_t words;
	uv_timer_t clock; /* the deadline of "up", then the next second */
	int handles;
	unsigned heard; /* words in this second */
	bool hushed; /* it is not listened to */
	uint64_t asked_ms; /* the last answer */
};

/* ---- its end ---- */

static void handle_closed(uv_handle_t *handle)
{
	struct keeper_helper *h = handle->data;

	if (--h->handles == 0)
		mem_free(h);
}

static void close_handle(uv_handle_t *handle)
{
	if (handle->data)
		uv_close(handle, handle_closed);
}

/* Kill it where it still lives. Returns its wait status. */
static int helper_end(struct keeper_helper *h)
{
	int status = 0;

	h->k->net.helper = NULL;
	close_handle((uv_handle_t *)&h->exited);
	close_handle((uv_handle_t *)&h->words);
	close_handle((uv_handle_t *)&h->clock);
	if (h->proc.pid > 0) {
		(void)syscall(SYS_pidfd_send_signal, h->proc.pidfd, SIGKILL, NULL, 0);
		(void)proc_wait(h->proc.pid, &status);
	}
	(void)fd_close(h->proc.pidfd);
	(void)fd_close(h->fd);
	if (h->handles == 0)
		mem_free(h);
	return status;
}

void net_end(struct keeper *k)
{
	if (k->net.helper)
		(void)helper_end(k->net.helper);
	k->net = (struct keeper_network){.refused_ms = k->net.refused_ms};
	box_state_unnet(&k->record);
}

/* The box cannot have the network that it was made with. */
static void net_failed(struct keeper *k, int errnum, const char *hint, const char *text)
{
	keeper_set_stage(k, "network", 7);
	keeper_end(k, WIRE_END_HOST, errnum, hint, "the box's network cannot be set up: %s", text);
}

static void on_link_down(void *user, const struct wire_msg *msg)
{
	/* Whatever it says: nothing is at the other end. */
	(void)user;
	(void)msg;
}

/* It died, or was ended, while the box was to have a network. Before it was up there was none. */
static void net_lost(struct keeper *k, int status, const char *why)
{
	const struct wire_msg down = {.op = WIRE_OP_network};

	if (k->state == KEEPER_ENDING)
		return;
	if (k->state == KEEPER_BOOTING || k->net.state == BOX_NET_STARTING) {
		net_failed(k, 0, "look at 'holt doctor'", why);
		return;
	}
	k->net.state = BOX_NET_LOST;
	k->record.net = BOX_NET_LOST;
	(void)snprintf(k->record.net_text, sizeof k->record.net_text, "%s", why);
	keeper_record(k, k->record.phase);
	keeper_tell(k, "network-lost",
		json_pack("{s:i, s:s}", "exit_code",
			WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), "text",
			why));
	(void)!relay_ask(k->relay, &down, on_link_down, k);
}

/* It does not keep to what was agreed. */
static void helper_broke(struct keeper_helper *h, const char *what)
{
	struct keeper *k = h->k;
	char why[128];
	const int status = helper_end(h);

	(void)snprintf(why, sizeof why, "the network helper was ended: %s", what);
	net_lost(k, status, why);
}

/* ---- what the guest is told ---- */

/* Lends texts of the keeper. */
static struct wire_msg network_msg(const struct keeper *k, uint8_t up)
{
	static const char prefix4[] = NET_GUEST4 "/24";
	static const char prefix6[] = NET_GUEST6 "/64";
	struct wire_msg msg = {.op = WIRE_OP_network};

	_Static_assert(NET_PREFIX4 == 24 && NET_PREFIX6 == 64, "as the texts have it");
	if (!up)
		return msg;
	msg.network = (struct wire_network){.up = up,
		.mtu = NET_MTU,
		.address = bytes_of(prefix4),
		.gateway = bytes_of(NET_GATEWAY4),
		.address6 = bytes_of(k->net.ipv6 ? prefix6 : ""),
		.gateway6 = bytes_of(k->net.ipv6 ? NET_GATEWAY6 : ""),
		.resolver = bytes_of(NET_RESOLVER4),
		.search = bytes_of(k->net.search)};
	return msg;
}

static void tell_guest(struct keeper *k)
{
	struct wire_msg msg = network_msg(k, net_wanted(k));

	msg.stream = NET_STREAM;
	k->net.told = true;
	if (channel_send(&k->machine->guest, &msg) < 0)
		net_failed(k, EIO, "", "the guest cannot be told of it");
}

bool net_wanted(const struct keeper *k)
{
	return k->net.state != BOX_NET_DOWN;
}

void net_greeted(struct keeper *k)
{
	/* An earlier agent has left its card down. */
	if (!k->net.known && !net_wanted(k))
		k->net.tell = false;
	if (k->net.tell && !k->net.told)
		tell_guest(k);
}

bool net_guest_done(struct keeper *k)
{
	if (!k->net.told || k->net.done)
		return false;
	k->net.done = true;
	return true;
}

bool net_is_ready(const struct keeper *k)
{
	const bool publishes = k->spec.network.publish && k->spec.network.publish[0];

	if (net_wanted(k) && publishes && k->net.state != BOX_NET_UP)
		return false;
	return !k->net.tell || k->net.done;
}

/* ---- the host's files ---- */

static int helper_send(struct keeper_helper *h, json_t *msg)
{
	auto_json owned = msg;
	auto_free char *text = owned ? json_text(owned) : NULL;

	if (!text)
		return -ENOMEM;
	const size_t len = strlen(text);
	if (len > NET_MESSAGE_MAX)
		return -EMSGSIZE;
	return send(h->fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len ? 0 : -errno;
}

/* One that does not take the answer has to ask again. */
static void heard_ask(struct keeper_helper *h)
{
	const uint64_t now_ms = clock_mono_ms();

	if (h->asked_ms && now_ms - h->asked_ms < ASK_MS)
		return;
	h->asked_ms = now_ms;
	(void)!helper_send(
		h, json_pack("{s:{s:o, s:o}}", "names", "resolv", host_file_text(HOST_RESOLV),
			   "hosts", host_file_text(HOST_HOSTS)));
}

/* What the host searches, and whether it has a name server at all. */
static bool take_search(struct keeper *k)
{
	auto_json doc = host_file_text(HOST_RESOLV);
	const char *text = json_string_value(doc);

	host_search(text ? text : "", k->net.search, sizeof k->net.search);
	return host_names_server(text ? text : "");
}

/* The guest's search list is the host's. A host that names nobody to ask is told of, once a start:
 * in the box each name fails like one that is not there for now. */
static void look_at_resolv(struct keeper *k)
{
	static const char none[] = "the host's '/etc/resolv.conf' names no server: names have no "
				   "answers in the box, unless '/etc/hosts' has them";

	if (take_search(k))
		return;
	(void)snprintf(k->record.net_text, sizeof k->record.net_text, "%s", none);
	keeper_tell(k, "no-resolver", json_pack("{s:s}", "text", none));
}

int net_prepare(struct keeper *k, void (*answer)(void *user, const struct wire_msg *msg))
{
	k->net.ipv6 = net_host_has_ipv6();
	(void)take_search(k);
	const struct wire_msg msg = network_msg(k, WIRE_NETWORK_TEMPLATE);

	return relay_ask(k->relay, &msg, answer, k);
}

/* ---- what the helper says ---- */

static void get_text(const json_t *obj, const char *key, char *ret, size_t cap)
{
	const char *text = NULL;

	*ret = 0;
	if (json_get_str(obj, key, &text, NULL) == 0 && text)
		(void)str_escape(ret, cap, text, strlen(text), false);
}

/* Ports as they were bound: of each wish the same guest's port. They are told with the wish's own
 * text where the helper does not name them. */
static bool take_ports(struct keeper *k, const json_t *up)
{
	char **ports = NULL;
	char **const wishes = k->spec.network.publish;
	size_t len = 0;
	bool ok = json_get_strv(up, "ports", &ports, NULL) == 0;
	char *const *const list = ports ? ports : wishes;

	k->record.net_ports[0] = 0;
	for (size_t i = 0; ok && wishes && wishes[i]; i++) {
		struct publish_rule wish, rule;
		char text[PUBLISH_TEXT];

		ok = list[i] && publish_parse(wishes[i], &wish, NULL) == 0 &&
		     publish_parse(list[i], &rule, NULL) == 0 &&
		     rule.guest_port == wish.guest_port && rule.udp == wish.udp;
		if (!ok)
			break;
		publish_text(&rule, text);
		len += (size_t)snprintf(k->record.net_ports + len, sizeof k->record.net_ports - len,
			"%s%s", i ? " " : "", text);
		ok = len < sizeof k->record.net_ports;
	}
	strv_free(ports);
	return ok;
}

static void heard_up(struct keeper_helper *h, const json_t *up)
{
	struct keeper *k = h->k;
	int64_t mtu = 0;

	if (k->net.state != BOX_NET_STARTING ||
		json_get_int(up, "mtu", NET_MTU, NET_MTU, &mtu, NULL) < 0 || mtu == 0 ||
		!take_ports(k, up)) {
		helper_broke(h, "its 'up' makes no sense");
		return;
	}
	(void)uv_timer_stop(&h->clock);
	k->net.state = k->record.net = BOX_NET_UP;
	if (k->state == KEEPER_BOOTING)
		machine_ready_perhaps(k->machine);
	else
		keeper_record(k, k->record.phase);
}

static const char *hint_for(int errnum)
{
	switch (errnum) {
	case EADDRINUSE:
		return "choose another port of the host, or 0 for any that is free";
	case EACCES:
	case EPERM:
		return "ports below 1024 need a privileged user";
	case EADDRNOTAVAIL:
		return "publish on an address that this host has";
	default:
		return "look at 'holt doctor'";
	}
}

static void heard_failed(struct keeper_helper *h, const json_t *failed)
{
	struct keeper *k = h->k;
	char text[512], object[128], hint[200], whole[700];
	int64_t errnum = 0;

	if (k->net.state != BOX_NET_STARTING) {
		helper_broke(h, "it failed although it was up");
		return;
	}
	(void)json_get_int(failed, "errno", 0, 4095, &errnum, NULL);
	get_text(failed, "text", text, sizeof text);
	get_text(failed, "object", object, sizeof object);
	get_text(failed, "hint", hint, sizeof hint);
	/* The object is what the user has written, such as a port. */
	(void)snprintf(whole, sizeof whole, "%s%s%s%s", text,
		*object && !strstr(text, object) ? " ('" : "",
		*object && !strstr(text, object) ? object : "",
		*object && !strstr(text, object) ? "')" : "");
	net_failed(k, (int)errnum, *hint ? hint : hint_for((int)errnum), whole);
}

/* A few at once, and then some each second: the log of events is everybody's. What is left out is
 * told with the next one. */
static bool may_tell(struct keeper_network *n, uint64_t now_ms)
{
	const uint64_t full_ms = REFUSED_BURST * 1000u / REFUSED_RATE;
	const uint64_t one_ms = 1000u / REFUSED_RATE;

	if (n->refused_ms + full_ms < now_ms)
		n->refused_ms = now_ms - full_ms;
	if (n->refused_ms + one_ms > now_ms)
		return false;
	n->refused_ms += one_ms;
	return true;
}

static void heard_refused(struct keeper_helper *h, const json_t *refused)
{
	struct keeper *k = h->k;
	char host[EGRESS_HOST_MAX + 1], address[NET_ADDR_TEXT], proto[16];
	int64_t port = 0;
	int64_t count = 1;
	struct net_addr parsed;

	get_text(refused, "name", host, sizeof host);
	get_text(refused, "address", address, sizeof address);
	get_text(refused, "proto", proto, sizeof proto);
	(void)json_get_int(refused, "port", 0, UINT16_MAX, &port, NULL);
	(void)json_get_int(refused, "count", 1, INT32_MAX, &count, NULL);
	if (*address && !net_addr_parse(address, &parsed)) {
		helper_broke(h, "an address that it refused is none");
		return;
	}
	if (!may_tell(&k->net, clock_mono_ms())) {
		k->net.left_out += (uint64_t)count;
		return;
	}
	json_t *more = json_pack("{s:s, s:s, s:I, s:s, s:I}", "host", host, "address", address,
		"port", (json_int_t)port, "proto", proto, "count", (json_int_t)count);
	if (more && k->net.left_out)
		(void)json_object_set_new(
			more, "left_out", json_integer((json_int_t)k->net.left_out));
	k->net.left_out = 0;
	keeper_tell(k, "refused", more);
}

static void heard(struct keeper_helper *h, const char *data, size_t len)
{
	auto_json doc = NULL;
	const json_t *value;

	if (json_parse(data, len, NET_MESSAGE_MAX, "word of the network helper", &doc, NULL) < 0 ||
		json_object_size(doc) != 1)
		helper_broke(h, "it said something that is no message");
	else if ((value = json_object_get(doc, "up")))
		heard_up(h, value);
	else if ((value = json_object_get(doc, "failed")))
		heard_failed(h, value);
	else if ((value = json_object_get(doc, "refused")))
		heard_refused(h, value);
	else if (json_object_get(doc, "ask"))
		heard_ask(h);
	else
		helper_broke(h, "it said something that is not known");
}

/* All that waits, as far as this second allows. False: it is gone from the keeper. */
static bool listen_to(struct keeper_helper *h)
{
	static char room[NET_MESSAGE_MAX + 1];
	struct keeper *k = h->k;

	while (h->heard < WORDS_PER_SECOND) {
		const ssize_t n = recv(h->fd, room, sizeof room, MSG_DONTWAIT | MSG_TRUNC);

		/* At its end the process is gone, too, or will be. */
		if (n <= 0)
			return true;
		h->heard++;
		if (n > (ssize_t)NET_MESSAGE_MAX)
			helper_broke(h, "one of its messages is too long");
		else
			heard(h, room, (size_t)n);
		if (k->net.helper != h)
			return false;
	}
	return true;
}

static void on_words(uv_poll_t *poll, int status, int events);

static void on_second(uv_timer_t *timer)
{
	struct keeper_helper *h = timer->data;

	if (h->k->net.state == BOX_NET_STARTING) {
		net_failed(h->k, ETIMEDOUT, "if the machine is very busy, try again",
			"the network helper was not ready within 5 seconds");
		return;
	}
	h->heard = 0;
	if (h->hushed)
		(void)uv_poll_start(&h->words, UV_READABLE | UV_DISCONNECT, on_words);
	h->hushed = false;
}

static void on_words(uv_poll_t *poll, int status, int events)
{
	struct keeper_helper *h = poll->data;

	if (!listen_to(h))
		return;
	/* Without a word left its end is seen by its pidfd. */
	if (status < 0 || (events & UV_DISCONNECT)) {
		(void)uv_poll_stop(poll);
		return;
	}
	if (h->k->net.state == BOX_NET_STARTING)
		return;
	h->hushed = h->heard >= WORDS_PER_SECOND;
	if (h->hushed)
		(void)uv_poll_stop(poll);
	if (!uv_is_active((uv_handle_t *)&h->clock))
		(void)uv_timer_start(&h->clock, on_second, 1000, 0);
}

static void on_exit_of_helper(uv_poll_t *poll, int status, int events)
{
	struct keeper_helper *h = poll->data;
	struct keeper *k = h->k;
	char why[128];

	(void)status;
	(void)events;
	/* Its last word says more than its status. */
	h->heard = 0;
	if (!listen_to(h))
		return;
	const int wait_status = helper_end(h);
	if (WIFSIGNALED(wait_status))
		(void)snprintf(why, sizeof why, "the network helper was killed by signal %d (%s)",
			WTERMSIG(wait_status), sigdescr_np(WTERMSIG(wait_status)));
	else
		(void)snprintf(why, sizeof why, "the network helper ended with status %d",
			WEXITSTATUS(wait_status));
	net_lost(k, wait_status, why);
}

/* ---- its start ---- */

/* It lies beside this program. */
static int find_program(char path[PATH_MAX + sizeof NET_PROGRAM], holt_error **reterr)
{
	const ssize_t len = readlink("/proc/self/exe", path, PATH_MAX);

	if (len <= 0 || len >= PATH_MAX)
		return err_errno(reterr, len < 0 ? errno : ENAMETOOLONG,
			"cannot tell where '" NET_PROGRAM "' is");
	path[len] = '\0';
	char *slash = strrchr(path, '/');
	memcpy(slash ? slash + 1 : path, NET_PROGRAM, sizeof NET_PROGRAM);
	if (access(path, X_OK) == 0)
		return 0;
	const int r = err_errno(reterr, errno, "cannot use '%s'", path);
	err_hint(reterr, "install holt again: '" NET_PROGRAM "' belongs beside holt-keeper");
	return r;
}

static int spawn(struct keeper *k, int frames, int words, struct proc *ret, holt_error **reterr)
{
#ifdef HOLT_SANITIZED
	const char *const *const env = (const char *const *)environ;
#else
	const char *const *const env = NULL;
#endif
	const struct proc_fd fds[] = {{frames, NET_FD_FRAMES}, {words, NET_FD_KEEPER}};
	char path[PATH_MAX + sizeof NET_PROGRAM];
	struct proc_spec spec = {.path = path,
		.env = env,
		.fds = fds,
		.n_fds = sizeof fds / sizeof fds[0],
		.flags = PROC_DEATHSIG | PROC_NOPRIVS | PROC_NOCORE};

	auto_jail jail = NULL;
	int r = find_program(path, reterr);

	if (r < 0)
		return r;
	const struct jail_spec wish = {.kind = JAIL_OF_NET,
		.program = path,
		.box_id = k->spec.id,
		.reduced = k->spec.jail_reduced,
		.preload_fd = FD_NONE};
	r = jail_prepare(&wish, &jail, reterr);
	if (r < 0)
		return r;
	const char *const argv[] = {NET_PROGRAM, jail_empty_dir(jail), NULL};
	struct jail_state state;
	spec.argv = argv;
	jail_apply(jail, &spec);
	r = proc_spawn(&spec, ret, reterr);
	if (r < 0)
		return r;
	jail_state_get(jail, &state);
	keeper_note_jail(&k->record.net_jail, &state);
	return 0;
}

static int watch(struct keeper_helper *h)
{
	uv_loop_t *loop = &h->k->loop;

	if (uv_poll_init(loop, &h->exited, h->proc.pidfd) < 0)
		return -ENOMEM;
	h->exited.data = h;
	h->handles++;
	if (uv_poll_init(loop, &h->words, h->fd) < 0)
		return -ENOMEM;
	h->words.data = h;
	h->handles++;
	if (uv_timer_init(loop, &h->clock) < 0)
		return -ENOMEM;
	h->clock.data = h;
	h->handles++;
	return uv_poll_start(&h->exited, UV_READABLE, on_exit_of_helper) < 0 ||
			       uv_poll_start(&h->words, UV_READABLE | UV_DISCONNECT, on_words) <
				       0 ||
			       uv_timer_start(&h->clock, on_second, UP_MS, 0) < 0
		       ? -EIO
		       : 0;
}

static int launch(struct keeper *k, int frames, holt_error **reterr)
{
	struct keeper_helper *h = mem_zalloc(sizeof *h);
	int pair[2];

	if (!h)
		return err_nomem(reterr);
	h->k = k;
	h->fd = FD_NONE;
	h->proc.pidfd = FD_NONE;
	k->net.helper = h;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(reterr, errno, "cannot make a socket pair for the network helper");
	h->fd = pair[0];
	int r = spawn(k, frames, pair[1], &h->proc, reterr);
	(void)fd_close(pair[1]);
	if (r < 0)
		return r;
	r = watch(h);
	if (r == 0)
		r = helper_send(h, json_pack("{s:o}", "spec", net_spec_json(&k->spec.network)));
	return r < 0 ? err_errno(reterr, -r, "cannot give the network helper its work") : 0;
}

void net_start(struct keeper *k, struct machine *m)
{
	auto_fd frames = take_fd(m->vm.net_fd);
	auto_error error = NULL;

	k->net.told = k->net.done = false;
	/* A template's card, and an isolated box's, has nobody at its other end. */
	k->net.tell = k->origin == VM_CLONE;
	if (frames < 0 || k->spec.network.mode == NET_ISOLATED)
		return;
	k->net.tell = true;
	k->net.ipv6 = net_host_has_ipv6();
	look_at_resolv(k);
	k->net.state = k->record.net = BOX_NET_STARTING;
	if (launch(k, frames, &error) < 0)
		net_failed(k,
			holt_error_code(error) == HOLT_EUNSUPPORTED ? EOPNOTSUPP
								    : holt_error_errno(error),
			holt_error_hint(error) ? holt_error_hint(error) : "look at 'holt doctor'",
			holt_error_message(error));
}
