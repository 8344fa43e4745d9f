/* SPDX-License-Identifier: Apache-2.0 */
#include "box/keeper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/banned.h"

#define SPEC_SIZE_MAX 65000u /* with its length no more than a pipe takes without a reader */

int keeper_spec_write(const struct keeper_spec *s, int fd, holt_error **reterr)
{
	char mac[13];

	(void)snprintf(mac, sizeof mac, "%02x%02x%02x%02x%02x%02x", s->mac[0], s->mac[1], s->mac[2],
		s->mac[3], s->mac[4], s->mac[5]);
	auto_json doc = json_pack("{s:i, s:i, s:s, s:s, s:b, s:b, s:s, s:s}", "protocol",
		KEEPER_PROTOCOL, "role", (int)s->role, "id", s->id, "name", s->name, "kvm",
		(int)s->kvm, "keep", (int)s->keep, "hostname", s->hostname, "mac", mac);
	auto_json origin = json_pack("{s:b, s:b, s:b, s:b, s:s, s:s, s:s, s:I, s:I}", "clone",
		(int)s->clone, "bare", (int)s->bare, "jail_reduced", (int)s->jail_reduced,
		"run_with", (int)s->run_with, "generation", s->generation, "key", s->key, "note",
		s->note, "delay_ms", (json_int_t)s->delay_ms, "lifetime_ms",
		(json_int_t)s->lifetime_ms);
	auto_json directories = json_pack("{s:o, s:I, s:o}", "directories",
		json_from_data(s->directories.paths, s->directories.len), "n_directories",
		(json_int_t)s->directories.n, "owner", json_from_bytes(s->directories.owner));
	auto_json numbers = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "memory_mib",
		(json_int_t)s->memory_mib, "cpus", (json_int_t)s->cpus, "tsc_khz",
		(json_int_t)s->tsc_khz, "stop_signal", (json_int_t)s->stop_signal, "stop_grace_ms",
		(json_int_t)s->stop_grace_ms, "log_bytes", (json_int_t)s->log_bytes, "disk_bytes",
		(json_int_t)s->disk_bytes, "boot_timeout_ms", (json_int_t)s->boot_timeout_ms);
	if (!doc || !numbers || !origin || !directories || json_object_update(doc, numbers) < 0 ||
		json_object_update(doc, origin) < 0 || json_object_update(doc, directories) < 0 ||
		json_object_set_new(doc, "network", net_spec_json(&s->network)) < 0)
		return err_nomem(reterr);
	auto_free char *text = json_text(doc);
	if (!text)
		return err_nomem(reterr);
	const uint32_t len = (uint32_t)strlen(text);
	if (len > SPEC_SIZE_MAX)
		return err_make(reterr, HOLT_ELIMIT,
			"the specification of the box has %u bytes, more than %u", len,
			SPEC_SIZE_MAX);
	int r = fd_write_full(fd, &len, sizeof len);
	if (r == 0)
		r = fd_write_full(fd, text, len);
	if (r < 0)
		return err_errno(reterr, -r, "cannot hand the specification to the keeper");
	return 0;
}

/* A bounded copy of a string member. */
static int get_text(const json_t *doc, const char *key, char *ret, size_t cap, holt_error **reterr)
{
	const char *text = NULL;
	const int r = json_get_str(doc, key, &text, reterr);

	if (r < 0)
		return r;
	if (!text || strlen(text) >= cap)
		return err_make(reterr, HOLT_EINVALID, "'%s' is missing or too long", key);
	(void)snprintf(ret, cap, "%s", text);
	return 0;
}

static int get_number(const json_t *doc, const char *key, int64_t min, int64_t max, int64_t *ret,
	holt_error **reterr)
{
	*ret = -1;
	const int r = json_get_int(doc, key, min, max, ret, reterr);
	if (r == 0 && *ret == -1)
		return err_make(reterr, HOLT_EINVALID, "'%s' is missing", key);
	return r;
}

static int parse_mac(const char *text, uint8_t ret[6], holt_error **reterr)
{
	unsigned b[6];

	if (strlen(text) != 12 ||
		sscanf(text, "%2x%2x%2x%2x%2x%2x", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5]) != 6)
		return err_make(reterr, HOLT_EINVALID, "'mac' is not 12 hex digits");
	for (int i = 0; i < 6; i++)
		ret[i] = (uint8_t)b[i];
	return 0;
}

static int parse_numbers(const json_t *doc, struct keeper_spec *s, holt_error **reterr)
{
	int64_t memory, cpus, tsc, disk, boot, signo, grace, log;
	int r = get_number(doc, "memory_mib", 1, UINT32_MAX, &memory, reterr);

	if (r < 0 || (r = get_number(doc, "cpus", 1, UINT32_MAX, &cpus, reterr)) < 0 ||
		(r = get_number(doc, "tsc_khz", 0, UINT32_MAX, &tsc, reterr)) < 0 ||
		(r = get_number(doc, "stop_signal", 1, 64, &signo, reterr)) < 0 ||
		(r = get_number(doc, "stop_grace_ms", 0, INT32_MAX, &grace, reterr)) < 0 ||
		(r = get_number(doc, "log_bytes", 1, INT64_MAX, &log, reterr)) < 0 ||
		(r = get_number(doc, "disk_bytes", 1, INT64_MAX, &disk, reterr)) < 0 ||
		(r = get_number(doc, "boot_timeout_ms", 1, INT32_MAX, &boot, reterr)) < 0)
		return r;
	s->memory_mib = (uint32_t)memory;
	s->cpus = (uint32_t)cpus;
	s->tsc_khz = (uint32_t)tsc;
	s->stop_signal = (uint32_t)signo;
	s->stop_grace_ms = (uint64_t)grace;
	s->log_bytes = (uint64_t)log;
	s->disk_bytes = (uint64_t)disk;
	s->boot_timeout_ms = (uint64_t)boot;
	return 0;
}

static int parse_origin(const json_t *doc, struct keeper_spec *s, holt_error **reterr)
{
	int64_t role = 0;
	int64_t delay = 0;
	int64_t lifetime = 0;
	int r = get_number(doc, "role", KEEPER_BOX, KEEPER_SPARE, &role, reterr);

	if (r < 0 ||
		(r = get_text(doc, "generation", s->generation, sizeof s->generation, reterr)) <
			0 ||
		(r = get_text(doc, "key", s->key, sizeof s->key, reterr)) < 0 ||
		(r = get_text(doc, "note", s->note, sizeof s->note, reterr)) < 0 ||
		(r = get_number(doc, "delay_ms", 0, INT32_MAX, &delay, reterr)) < 0 ||
		(r = get_number(doc, "lifetime_ms", 0, INT32_MAX, &lifetime, reterr)) < 0)
		return r;
	s->role = (enum keeper_role)role;
	s->delay_ms = (uint64_t)delay;
	s->lifetime_ms = (uint64_t)lifetime;
	s->clone = json_is_true(json_object_get(doc, "clone"));
	s->bare = json_is_true(json_object_get(doc, "bare"));
	return 0;
}

static int parse_directories(const json_t *doc, struct keeper_directories *d, holt_error **reterr)
{
	auto_free char *paths = NULL;
	auto_free char *owner = NULL;
	int64_t n = 0;
	size_t len = 0;
	/* Who claims a spare may be from before there were any. */
	if (!json_object_get(doc, "n_directories"))
		return 0;
	int r = get_number(doc, "n_directories", 0, (int64_t)sizeof d->paths, &n, reterr);

	if (r < 0 || (r = json_get_data(doc, "directories", &paths, &len, reterr)) < 0 ||
		(r = json_get_bytes(doc, "owner", &owner, reterr)) < 0)
		return r;
	if (!paths || !owner || len > sizeof d->paths || strlen(owner) >= sizeof d->owner)
		return err_make(reterr, HOLT_EINVALID, "'directories' are missing or too long");
	d->n = (uint32_t)n;
	d->len = (uint32_t)len;
	memcpy(d->paths, paths, len);
	(void)snprintf(d->owner, sizeof d->owner, "%s", owner);
	return 0;
}

static int spec_parse(const json_t *doc, struct keeper_spec *s, holt_error **reterr)
{
	int64_t protocol = 0;
	char mac[13];

	int r = get_number(doc, "protocol", 0, INT32_MAX, &protocol, reterr);
	if (r == 0 && protocol != KEEPER_PROTOCOL)
		return err_make(reterr, HOLT_EUNSUPPORTED,
			"library speaks keeper protocol %d, this keeper %d", (int)protocol,
			KEEPER_PROTOCOL);
	if (r < 0 || (r = get_text(doc, "id", s->id, sizeof s->id, reterr)) < 0 ||
		(r = get_text(doc, "hostname", s->hostname, sizeof s->hostname, reterr)) < 0 ||
		(r = get_text(doc, "name", s->name, sizeof s->name, reterr)) < 0 ||
		(r = get_text(doc, "mac", mac, sizeof mac, reterr)) < 0 ||
		(r = parse_mac(mac, s->mac, reterr)) < 0 ||
		(r = parse_origin(doc, s, reterr)) < 0 ||
		(r = parse_directories(doc, &s->directories, reterr)) < 0)
		return r;
	s->kvm = json_is_true(json_object_get(doc, "kvm"));
	s->keep = json_is_true(json_object_get(doc, "keep"));
	s->jail_reduced = json_is_true(json_object_get(doc, "jail_reduced"));
	s->run_with = json_is_true(json_object_get(doc, "run_with"));
	r = parse_numbers(doc, s, reterr);
	return r < 0 ? r : net_spec_parse(json_object_get(doc, "network"), &s->network, reterr);
}

void keeper_spec_done(struct keeper_spec *spec)
{
	net_spec_done(&spec->network);
}

int keeper_spec_read(int fd, struct keeper_spec *ret, holt_error **reterr)
{
	uint32_t len = 0;

	if (fd_read_full(fd, &len, sizeof len) != (ssize_t)sizeof len || len > SPEC_SIZE_MAX)
		return err_make(reterr, HOLT_EPROTOCOL, "no specification on the owner pipe");
	auto_free char *text = mem_zalloc(len + 1);
	if (!text)
		return err_nomem(reterr);
	if (fd_read_full(fd, text, len) != (ssize_t)len)
		return err_make(reterr, HOLT_EPROTOCOL, "specification is cut short");
	auto_json doc = NULL;
	int r = json_parse(text, len, SPEC_SIZE_MAX, "keeper specification", &doc, reterr);
	if (r < 0)
		return r;
	struct keeper_spec spec = {0};
	r = spec_parse(doc, &spec, reterr);
	if (r == 0)
		*ret = spec;
	return r;
}
