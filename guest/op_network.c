/* SPDX-License-Identifier: Apache-2.0 */
#include "op_network.h"

#include "clone_identity.h"
#include "op_sys.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * The network of a box: address, route and resolver as the host says, set by the kernel's own
 * interface, since no tool has to be in the image. What is there already is replaced, so the same
 * request may come again. Without it the card stays down, as the kernel has it.
 *
 * A template is told before it is parked, since every box has the same addresses: a clone that has
 * to set them translates all of the kernel's paths for it first, which took it 100 ms. What it is
 * told again is compared with what was done then; only what differs costs anything. Nothing of it
 * may be the template's own: so there is no link-local address, which would be made of its MAC.
 *
 * IPv6 takes what it is told and nothing else: no router advertisements, no address made up, no
 * second of looking for duplicates in a network of two, and its groups are told at once, so that no
 * timer of it is left for the clones.
 *
 * /etc/resolv.conf is ours at the box's first start, as it is in a container. From then on it is
 * written only while its first line says that it still is: what somebody has changed in the box
 * stays. A symbolic link that leads nowhere, or into /run, is replaced: it belongs to a service
 * that does not run here. Any other link is the image's arrangement and is left alone.
 *
 * A template has it written already, unless a link is in the way, as the first new file costs a
 * clone 30 ms. An isolated clone gets back what was there.
 */

#define MTU_MIN     1280 /* of IPv6 */
#define MTU_MAX     65535
#define TEXT_MAX    256 /* of a field, with its NUL */
#define RESOLV_MARK "# holt: written at each start while this line is here\n"
#define RESOLV_MAX  1024
#define RESOLV_NOTE ".holt-resolv" /* on the disk, beside the layers: it was written once */

/* One address and what it is reached by. */
struct family {
	uint16_t af; /* AF_UNSPEC: none */
	uint8_t len; /* of an address, in bytes */
	uint8_t prefix;
	uint8_t address[16];
	uint8_t gateway[16];
};

/* What the last request has made of the card. Nobody but the host asks, and nothing runs between a
 * template's request and its clone's. */
struct card_state {
	bool up;
	uint32_t mtu;
	struct family fams[2];
};

static struct card_state last;

/* What lay at /etc/resolv.conf before it was written in a template. */
enum resolv_before { RESOLV_UNKNOWN, RESOLV_NONE, RESOLV_TEXT };

static struct {
	enum resolv_before before; /* RESOLV_UNKNOWN: it was not written there */
	char old[RESOLV_MAX];
	char text[RESOLV_MAX]; /* that was written last */
} resolv;

/* ---- what was asked ---- */

static int refuse(struct agent_fail *f, const char *object, const char *text)
{
	return agent_fail_set(f, WIRE_FAIL_INVALID, 0, "network", object, "%s", text);
}

static int take_text(
	char dst[TEXT_MAX], const struct wire_bytes *src, const char *what, struct agent_fail *f)
{
	if (agent_copy_str(dst, TEXT_MAX, src) < 0 || strpbrk(dst, "\r\n"))
		return refuse(f, what, "the text is not usable");
	return 0;
}

static int take_family(struct family *fam, int af, const struct wire_bytes *address,
	const struct wire_bytes *gateway, struct agent_fail *f)
{
	const long longest = af == AF_INET ? 32 : 128;
	char text[TEXT_MAX];
	char via[TEXT_MAX];
	char *end = NULL;

	if (take_text(text, address, "address", f) < 0 || take_text(via, gateway, "gateway", f) < 0)
		return -EINVAL;
	if (!*text)
		return 0;
	char *slash = strchr(text, '/');
	if (!slash)
		return refuse(f, text, "the address has no prefix");
	*slash = 0;
	const long prefix = strtol(slash + 1, &end, 10);
	if (end == slash + 1 || *end || prefix < 0 || prefix > longest ||
		inet_pton(af, text, fam->address) != 1)
		return refuse(f, text, "the address is not usable");
	if (inet_pton(af, via, fam->gateway) != 1)
		return refuse(f, via, "the gateway is no address");
	fam->af = (uint16_t)af;
	fam->len = af == AF_INET ? 4 : 16;
	fam->prefix = (uint8_t)prefix;
	return 0;
}

/* ---- netlink ---- */

struct request {
	struct nlmsghdr head;
	union {
		struct ifaddrmsg addr;
		struct rtmsg route;
		uint8_t room[160];
	};
};

static void put_attr(struct request *r, unsigned short type, const void *data, size_t len)
{
	uint8_t *at = (uint8_t *)r + NLMSG_ALIGN(r->head.nlmsg_len);
	const struct rtattr attr = {.rta_len = (unsigned short)RTA_LENGTH(len), .rta_type = type};

	memcpy(at, &attr, sizeof(attr));
	memcpy(at + RTA_LENGTH(0), data, len);
	r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + (uint32_t)RTA_ALIGN(attr.rta_len);
}

/* Send it and read the answer: 0 or -errno. */
static int transact(int fd, struct request *r)
{
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		uint8_t room[512];
	} reply;

	r->head.nlmsg_flags |= NLM_F_REQUEST | NLM_F_ACK;
	if (send(fd, r, r->head.nlmsg_len, 0) < 0)
		return -errno;
	const ssize_t n = recv(fd, &reply, sizeof(reply), 0);
	if (n < (ssize_t)(sizeof(reply.head) + sizeof(reply.err)))
		return n < 0 ? -errno : -EPROTO;
	return reply.head.nlmsg_type == NLMSG_ERROR ? reply.err.error : -EPROTO;
}

/* How a request begins that sets something anew, or takes it away. */
static struct nlmsghdr head_of(bool add, size_t len, uint16_t add_type, uint16_t del_type)
{
	return (struct nlmsghdr){.nlmsg_len = (uint32_t)NLMSG_LENGTH(len),
		.nlmsg_type = add ? add_type : del_type,
		.nlmsg_flags = add ? NLM_F_CREATE | NLM_F_REPLACE : 0};
}

static int put_address(int fd, unsigned index, const struct family *fam, bool add)
{
	const uint32_t flags = IFA_F_NODAD;
	struct request r = {.head = head_of(add, sizeof(r.addr), RTM_NEWADDR, RTM_DELADDR),
		.addr = {.ifa_family = (uint8_t)fam->af,
			.ifa_prefixlen = fam->prefix,
			.ifa_flags = fam->af == AF_INET6 ? IFA_F_NODAD : 0,
			.ifa_index = index}};

	put_attr(&r, IFA_LOCAL, fam->address, fam->len);
	put_attr(&r, IFA_ADDRESS, fam->address, fam->len);
	if (fam->af == AF_INET6)
		put_attr(&r, IFA_FLAGS, &flags, sizeof(flags));
	return transact(fd, &r);
}

static int put_route(int fd, unsigned index, const struct family *fam, bool add)
{
	const uint32_t oif = index;
	struct request r = {.head = head_of(add, sizeof(r.route), RTM_NEWROUTE, RTM_DELROUTE),
		.route = {.rtm_family = (uint8_t)fam->af,
			.rtm_table = RT_TABLE_MAIN,
			.rtm_protocol = RTPROT_STATIC,
			.rtm_scope = RT_SCOPE_UNIVERSE,
			.rtm_type = RTN_UNICAST}};

	put_attr(&r, RTA_GATEWAY, fam->gateway, fam->len);
	put_attr(&r, RTA_OIF, &oif, sizeof(oif));
	return transact(fd, &r);
}

/* ---- the card ---- */

static int card_failed(const struct agent *a, struct agent_fail *f, int errnum, const char *what)
{
	return agent_fail_set(f, WIRE_FAIL_INTERNAL, errnum, "network", a->card,
		"cannot set %s of '%s'", what, a->card);
}

static int find_card(struct agent *a, struct agent_fail *f)
{
	/* Its driver is one of those that nothing else waits for. */
	if (a->card_fd < 0)
		sys_finish_late(a);
	identity_prepare(a);
	return a->card_fd >= 0 ? 0 : refuse(f, "", "the machine has no network card");
}

static int set_link(struct agent *a, bool up, struct agent_fail *f)
{
	struct ifreq ifr = {0};

	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", a->card);
	if (ioctl(a->card_fd, SIOCGIFFLAGS, &ifr) < 0)
		return card_failed(a, f, errno, "the state");
	ifr.ifr_flags = (short)(up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP);
	return ioctl(a->card_fd, SIOCSIFFLAGS, &ifr) < 0 ? card_failed(a, f, errno, "the state")
							 : 0;
}

static int set_mtu(struct agent *a, uint32_t mtu, struct agent_fail *f)
{
	struct ifreq ifr = {.ifr_mtu = (int)mtu};

	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", a->card);
	return ioctl(a->card_fd, SIOCSIFMTU, &ifr) < 0 ? card_failed(a, f, errno, "the MTU") : 0;
}

/* A kernel without IPv6 has none of these files, and needs none. */
static void settle_ipv6(const struct agent *a)
{
	static const char *const settings[][2] = {{"accept_ra", "0"}, {"autoconf", "0"},
		{"addr_gen_mode", "1"}, {"dad_transmits", "0"}, {"accept_dad", "0"},
		{"router_solicitations", "0"}, {"mldv2_unsolicited_report_interval", "10"}};
	char path[128];

	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		(void)snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/%s", a->card,
			settings[i][0]);
		const int fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		(void)!write(fd, settings[i][1], strlen(settings[i][1]));
		(void)close(fd);
	}
}

static int set_family(struct agent *a, int fd, const struct family *fam, struct agent_fail *f)
{
	const unsigned index = if_nametoindex(a->card);

	if (fam->af == AF_UNSPEC)
		return 0;
	int rc = put_address(fd, index, fam, true);
	if (rc < 0)
		return card_failed(a, f, -rc, "an address");
	rc = put_route(fd, index, fam, true);
	return rc < 0 ? card_failed(a, f, -rc, "the route") : 0;
}

/* What is gone already, such as by a link that went down, is as good. */
static void unset_family(const struct agent *a, int fd, const struct family *fam)
{
	const unsigned index = if_nametoindex(a->card);

	if (fam->af == AF_UNSPEC)
		return;
	(void)put_route(fd, index, fam, false);
	(void)put_address(fd, index, fam, false);
}

static bool same_family(const struct family *x, const struct family *y)
{
	return memcmp(x, y, sizeof(*x)) == 0;
}

static int set_families(struct agent *a, const struct family fams[2], struct agent_fail *f)
{
	const bool same[2] = {
		same_family(&last.fams[0], &fams[0]), same_family(&last.fams[1], &fams[1])};
	int rc = 0;

	if (same[0] && same[1])
		return 0;
	const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return card_failed(a, f, errno, "an address");
	for (int i = 0; rc == 0 && i < 2; i++) {
		if (same[i])
			continue;
		unset_family(a, fd, &last.fams[i]);
		last.fams[i] = (struct family){0};
		rc = set_family(a, fd, &fams[i], f);
		if (rc == 0)
			last.fams[i] = fams[i];
	}
	(void)close(fd);
	return rc;
}

static int link_up(struct agent *a, uint32_t mtu, const struct family fams[2], struct agent_fail *f)
{
	int rc = find_card(a, f);

	if (rc < 0)
		return rc;
	if (!last.up)
		settle_ipv6(a);
	if (last.mtu != mtu && (rc = set_mtu(a, mtu, f)) < 0)
		return rc;
	last.mtu = mtu;
	if (!last.up && (rc = set_link(a, true, f)) < 0)
		return rc;
	last.up = true;
	return set_families(a, fams, f);
}

/* ---- /etc/resolv.conf ---- */

/* What lies there: its beginning in @text, "" where it cannot be read. */
static void read_resolv(int etc_fd, char text[RESOLV_MAX])
{
	const int fd = openat(
		etc_fd, "resolv.conf", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	const ssize_t n = fd < 0 ? 0 : read(fd, text, RESOLV_MAX - 1);

	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		(void)close(fd);
}

static bool leads_nowhere(int etc_fd)
{
	char target[64] = "";

	if (faccessat(etc_fd, "resolv.conf", F_OK, 0) < 0)
		return true;
	const ssize_t n = readlinkat(etc_fd, "resolv.conf", target, sizeof(target) - 1);
	return n > 0 && (strncmp(target, "/run/", 5) == 0 || strncmp(target, "../run/", 7) == 0);
}

/* Whether the file is ours to write; a link that is in the way goes. */
static bool is_ours(const struct agent *a, int etc_fd, const char *text)
{
	const bool noted = a->disk_fd >= 0 &&
			   faccessat(a->disk_fd, RESOLV_NOTE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	char have[RESOLV_MAX];
	struct stat st;

	if (fstatat(etc_fd, "resolv.conf", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	if (S_ISLNK(st.st_mode))
		return leads_nowhere(etc_fd) && unlinkat(etc_fd, "resolv.conf", 0) == 0;
	read_resolv(etc_fd, have);
	if (strcmp(have, text) == 0)
		return false;
	return !noted || strncmp(have, RESOLV_MARK, strlen(RESOLV_MARK)) == 0;
}

/* Written over, not emptied first, as in clone_identity.c. */
static int write_resolv(int etc_fd, const char *text)
{
	const size_t len = strlen(text);
	const int fd = openat(etc_fd, "resolv.conf",
		O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
	struct stat st = {0};

	if (fd < 0)
		return -errno;
	const bool done = write(fd, text, len) == (ssize_t)len && fstat(fd, &st) == 0 &&
			  (st.st_size <= (off_t)len || ftruncate(fd, (off_t)len) == 0);
	const int rc = done ? 0 : -errno;
	(void)close(fd);
	return rc;
}

static void leave_note(const struct agent *a)
{
	const int fd = a->disk_fd < 0 ? -1
				      : openat(a->disk_fd, RESOLV_NOTE,
						O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd >= 0)
		(void)close(fd);
}

static int open_etc(void)
{
	return open("/etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Before it is written in a template. False: that could not be made undone. */
static bool remember_resolv(void)
{
	const int etc_fd = open_etc();
	struct stat st;

	resolv.before = RESOLV_UNKNOWN;
	if (etc_fd < 0)
		return false;
	if (fstatat(etc_fd, "resolv.conf", &st, AT_SYMLINK_NOFOLLOW) < 0)
		resolv.before = errno == ENOENT ? RESOLV_NONE : RESOLV_UNKNOWN;
	else if (S_ISREG(st.st_mode) && st.st_size < RESOLV_MAX) {
		read_resolv(etc_fd, resolv.old);
		if (strlen(resolv.old) == (size_t)st.st_size)
			resolv.before = RESOLV_TEXT;
	}
	(void)close(etc_fd);
	return resolv.before != RESOLV_UNKNOWN;
}

/* An isolated clone has the image's. */
static void undo_resolv(struct agent *a)
{
	const int etc_fd = resolv.before == RESOLV_UNKNOWN ? -1 : open_etc();

	if (etc_fd >= 0 && resolv.before == RESOLV_NONE)
		(void)unlinkat(etc_fd, "resolv.conf", 0);
	else if (etc_fd >= 0)
		(void)write_resolv(etc_fd, resolv.old);
	if (etc_fd >= 0 && a->disk_fd >= 0)
		(void)unlinkat(a->disk_fd, RESOLV_NOTE, 0);
	if (etc_fd >= 0)
		(void)close(etc_fd);
	resolv.before = RESOLV_UNKNOWN;
	resolv.text[0] = 0;
}

/* Of three seconds, since the resolver asks others in turn. */
static void put_resolv(struct agent *a, const char *resolver, const char *search)
{
	char text[RESOLV_MAX];
	int rc = 0;

	(void)snprintf(text, sizeof(text),
		RESOLV_MARK "nameserver %s\n%s%s%soptions timeout:3 attempts:3\n", resolver,
		*search ? "search " : "", search, *search ? "\n" : "");
	if (strcmp(text, resolv.text) == 0)
		return;
	(void)mkdir("/etc", 0755);
	const int etc_fd = open_etc();
	if (etc_fd < 0)
		rc = -errno;
	else if (is_ours(a, etc_fd, text))
		rc = write_resolv(etc_fd, text);
	/* An image may have made it what cannot be written, and then wants it so. */
	if (rc < 0)
		agent_log(a, AGENT_LOG_WARN, "cannot write '/etc/resolv.conf': %s", strerror(-rc));
	else {
		leave_note(a);
		memcpy(resolv.text, text, sizeof(text));
	}
	if (etc_fd >= 0)
		(void)close(etc_fd);
}

/* ---- the request ---- */

static int go_up(struct agent *a, const struct wire_network *req, struct agent_fail *f)
{
	struct family fams[2] = {{0}};
	char resolver[TEXT_MAX];
	char search[TEXT_MAX];
	int rc = 0;

	if (req->mtu < MTU_MIN || req->mtu > MTU_MAX)
		return refuse(f, "mtu", "the MTU is not within 1280 to 65535");
	if ((rc = take_family(&fams[0], AF_INET, &req->address, &req->gateway, f)) < 0 ||
		(rc = take_family(&fams[1], AF_INET6, &req->address6, &req->gateway6, f)) < 0 ||
		(rc = take_text(resolver, &req->resolver, "resolver", f)) < 0 ||
		(rc = take_text(search, &req->search, "search", f)) < 0)
		return rc;
	/* The host's own network is none of a test's. */
	if (a->fake)
		return 0;
	rc = link_up(a, req->mtu, fams, f);
	/* In a bare machine there is no place for it yet. */
	if (rc == 0 && *resolver && a->mounts == AGENT_MOUNTED_DISK &&
		(req->up != WIRE_NETWORK_TEMPLATE || remember_resolv()))
		put_resolv(a, resolver, search);
	if (req->up != WIRE_NETWORK_TEMPLATE)
		resolv.before = RESOLV_UNKNOWN;
	return rc;
}

/* Down, and without an address: what a clone of a template has that was up. */
static int go_down(struct agent *a, struct agent_fail *f)
{
	struct ifreq ifr = {.ifr_addr = {.sa_family = AF_INET}};

	/* Without a driver it is down already. */
	if (a->fake || a->card_fd < 0)
		return 0;
	undo_resolv(a);
	last = (struct card_state){0};
	const int rc = set_link(a, false, f);
	/* Those of IPv6 went with the link. */
	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", a->card);
	(void)ioctl(a->card_fd, SIOCSIFADDR, &ifr);
	return rc;
}

void network_set(struct agent *a, const struct wire_msg *msg)
{
	const bool open = a->state == AGENT_READY || (a->state == AGENT_FRESH && a->bare);
	struct agent_fail f;
	int rc;

	if (!open)
		rc = refuse(&f, "", "the machine is not set up, or shutting down");
	else
		rc = msg->network.up ? go_up(a, &msg->network, &f) : go_down(a, &f);
	if (rc < 0)
		agent_fail_send(a, msg->stream, &f);
	else
		lane_send(
			&a->control, &(struct wire_msg){.op = WIRE_OP_done, .stream = msg->stream});
}
