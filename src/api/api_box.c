/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/exec.h"

#include <stdio.h>
#include <string.h>

#include "api/exec_options.h"
#include "api/options.h"
#include "box/box_log.h"
#include "box/lifecycle.h"
#include "box/network_wish.h"
#include "base/mem.h"
#include "base/banned.h"

#define HOSTNAME_LEN_MAX 63u
#define GRACE_MS_MAX     3600000u

static int check_hostname(const char *name, holt_error **reterr)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-";
	const size_t len = name ? strlen(name) : 1;

	if (!name)
		return 0;
	if (len == 0 || len > HOSTNAME_LEN_MAX || name[0] == '-')
		return err_make(reterr, HOLT_EINVALID,
			"hostname must have 1 to %u characters and not begin with '-'",
			HOSTNAME_LEN_MAX);
	if (strspn(name, letters) != len)
		return err_make(
			reterr, HOLT_EINVALID, "hostname may hold letters, digits and '-' only");
	return 0;
}

/* A grace as it is given: 0 is the default, HOLT_NO_GRACE none. */
static int check_grace(uint64_t given, uint64_t standard, uint64_t *ret, holt_error **reterr)
{
	*ret = given == HOLT_NO_GRACE ? 0 : given ? given : standard;
	return api_check_range("grace in ms", *ret, 0, GRACE_MS_MAX, reterr);
}

/* Defaults for zeros, then the stated ranges. */
static int check_options(holt_box_options *o, holt_error **reterr)
{
	int r;

	o->log_bytes = o->log_bytes ? o->log_bytes : HOLT_LOG_BYTES_DEFAULT;
	if (o->flags & ~(uint32_t)HOLT_BOX_KEEP)
		return err_make(reterr, HOLT_EINVALID, "unknown flags 0x%x", o->flags);
	if ((r = api_check_shape(&o->memory_mib, &o->cpus, &o->disk_bytes, reterr)) < 0 ||
		(r = api_check_range("log size in bytes", o->log_bytes, HOLT_LOG_BYTES_MIN,
			 HOLT_LOG_BYTES_MAX, reterr)) < 0 ||
		(r = api_check_range(
			 "stop signal", (uint64_t)(int64_t)o->stop_signal, 0, 64, reterr)) < 0 ||
		(r = check_grace(o->stop_grace_ms, HOLT_STOP_GRACE_MS_DEFAULT, &o->stop_grace_ms,
			 reterr)) < 0)
		return r;
	return check_hostname(o->hostname, reterr);
}

HOLT_API int holt_box_create(holt_home *home, const char *image, const holt_box_options *options,
	holt_box **ret, holt_error **reterr)
{
	holt_box_options o;
	struct exec_wish program = {0};
	struct net_spec network = {0};

	if (!home || !image || !ret)
		return api_null(!home ? "home" : !image ? "image" : "ret", reterr);
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_box_options", reterr);
	if (r == 0)
		r = check_options(&o, reterr);
	if (r == 0)
		r = network_wish_read(o.network, o.allow, o.publish, &network, reterr);
	if (r == 0 && o.program)
		r = exec_wish_read(o.program, &program, reterr);
	if (r < 0) {
		err_stage(reterr, "options");
		return r;
	}
	const struct box_wish wish = {.memory_mib = o.memory_mib,
		.cpus = o.cpus,
		.disk_bytes = o.disk_bytes,
		.hostname = o.hostname,
		.name = o.name,
		.keep = o.flags & HOLT_BOX_KEEP,
		.log_bytes = o.log_bytes,
		.stop_signal = (uint32_t)o.stop_signal,
		.stop_grace_ms = o.stop_grace_ms,
		.program = o.program ? &program.wish : NULL,
		.program_limits = &program.limits,
		.network = network};
	return box_create(home, image, &wish, ret, reterr);
}

HOLT_API int holt_box_get(holt_home *home, const char *ref, holt_box **ret, holt_error **reterr)
{
	if (!home || !ref || !ret)
		return api_null(!home ? "home" : !ref ? "ref" : "ret", reterr);
	return box_get(home, ref, ret, reterr);
}

HOLT_API int holt_box_list(holt_home *home, holt_box ***ret, size_t *ret_n, holt_error **reterr)
{
	if (!home || !ret || !ret_n)
		return api_null(!home ? "home" : !ret ? "ret" : "ret_n", reterr);
	return box_list(home, ret, ret_n, reterr);
}

HOLT_API void holt_box_list_free(holt_box **list, size_t n)
{
	if (list)
		box_list_free(list, n);
}

HOLT_API const char *holt_box_id(holt_box *box)
{
	return box->rec.id;
}

HOLT_API const char *holt_box_name(holt_box *box)
{
	return box->rec.name;
}

HOLT_API const char *holt_box_image(holt_box *box)
{
	return box->rec.image;
}

HOLT_API const char *const *holt_box_command(holt_box *box)
{
	static const char *const nothing[] = {NULL};
	union {
		char **in;
		const char *const *out;
	} argv = {.in = box->rec.program.argv};

	return argv.in ? argv.out : nothing;
}

HOLT_API const char *holt_box_state_name(int state)
{
	return box_phase_name(state);
}

HOLT_API const char *holt_end_reason_name(int reason)
{
	return box_end_name(reason);
}

static int write_info(const struct holt_box *box, const struct box_state *s, holt_box_info *ret)
{
	holt_box_info info = {.state = (int32_t)s->phase,
		.end_reason = (int32_t)s->end,
		.exit_code = s->exit_code,
		.vmm_pid = s->vmm_pid,
		.keeper_pid = s->keeper_pid,
		.flags = box->rec.keep ? HOLT_BOX_KEEP : 0,
		.memory_mib = box->rec.memory_mib,
		.cpus = box->rec.cpus,
		.disk_bytes = box->rec.disk_bytes,
		.created_s = box->rec.created_ns / 1000000000,
		.started_s = (int64_t)(s->started_ns / 1000000000u),
		.ended_s = (int64_t)(s->ended_ns / 1000000000u),
		.hello_us = s->hello_us,
		.ready_us = s->ready_us,
		.attempts = s->attempts};

	(void)snprintf(info.accel, sizeof info.accel, "%s", s->accel);
	return options_write(ret, &info, sizeof info, sizeof info, "holt_box_info", NULL);
}

HOLT_API int holt_box_get_info(holt_box *box, holt_box_info *ret)
{
	struct box_state s;

	if (!box || !ret)
		return -HOLT_EINVALID;
	box_look(box, &s);
	return write_info(box, &s, ret);
}

HOLT_API int holt_box_json(holt_box *box, const char **ret, holt_error **reterr)
{
	if (!box || !ret)
		return api_null(box ? "ret" : "box", reterr);
	return box_json(box, ret, reterr);
}

HOLT_API int holt_box_ports(holt_box *box, const char *const **ret, holt_error **reterr)
{
	if (!box || !ret)
		return api_null(box ? "ret" : "box", reterr);
	return box_ports(box, ret, reterr);
}

HOLT_API int holt_box_start(holt_box *box, const holt_start_options *options,
	holt_exec **ret_program, holt_error **reterr)
{
	holt_start_options o;

	if (!box)
		return api_null("box", reterr);
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_start_options", reterr);
	if (r == 0)
		r = api_check_boot_timeout(&o.boot_timeout_ms, reterr);
	if (r == 0 && (o.flags & ~(uint32_t)(HOLT_START_DETACHED | HOLT_START_NO_TEMPLATE)))
		r = err_make(reterr, HOLT_EINVALID, "unknown flags 0x%x", o.flags);
	if (r < 0) {
		err_stage(reterr, "options");
		return r;
	}
	const struct start_wish wish = {.detached = o.flags & HOLT_START_DETACHED,
		.no_template = o.flags & HOLT_START_NO_TEMPLATE,
		.boot_timeout_ms = o.boot_timeout_ms,
		.accel = o.accel,
		.cancel = o.cancel};
	return box_start(box, &wish, ret_program, reterr);
}

HOLT_API int holt_box_stop(holt_box *box, uint64_t grace_ms, holt_error **reterr)
{
	uint64_t grace = 0;

	if (!box)
		return api_null("box", reterr);
	const int r = check_grace(grace_ms, box->rec.stop_grace_ms, &grace, reterr);
	return r < 0 ? r : box_stop(box, grace, reterr);
}

HOLT_API int holt_box_kill(holt_box *box, int signal_nr, holt_error **reterr)
{
	if (!box)
		return api_null("box", reterr);
	if (signal_nr < 1 || signal_nr > 64)
		return err_make(reterr, HOLT_EINVALID, "%d is no signal from 1 to 64", signal_nr);
	return box_kill(box, (uint32_t)signal_nr, reterr);
}

HOLT_API int holt_box_pause(holt_box *box, holt_error **reterr)
{
	return box ? box_pause(box, true, reterr) : api_null("box", reterr);
}

HOLT_API int holt_box_unpause(holt_box *box, holt_error **reterr)
{
	return box ? box_pause(box, false, reterr) : api_null("box", reterr);
}

HOLT_API int holt_box_wait(holt_box *box, uint64_t timeout_ms, holt_cancel *cancel,
	holt_box_info *ret, holt_error **reterr)
{
	struct box_state s;

	if (!box)
		return api_null("box", reterr);
	const int r = box_wait(box, timeout_ms, cancel, &s, reterr);
	if (r < 0) {
		err_stage(reterr, "wait");
		err_object(reterr, box->rec.id);
		return r;
	}
	return ret ? write_info(box, &s, ret) : 0;
}

HOLT_API int holt_box_rename(holt_box *box, const char *name, holt_error **reterr)
{
	if (!box || !name)
		return api_null(box ? "name" : "box", reterr);
	return box_rename(box, name, reterr);
}

HOLT_API int holt_box_remove(holt_box *box, int force, holt_error **reterr)
{
	return box ? box_remove(box, force != 0, reterr) : api_null("box", reterr);
}

HOLT_API int holt_box_ping(
	holt_box *box, uint64_t timeout_ms, uint64_t *ret_us, holt_error **reterr)
{
	return box ? box_ping(box, timeout_ms, ret_us, reterr) : api_null("box", reterr);
}

HOLT_API int holt_box_get_stats(holt_box *box, holt_box_stats *ret, holt_error **reterr)
{
	struct wire_stats_reply s = {0};
	uint64_t host_bytes = 0;

	if (!box || !ret)
		return api_null(box ? "ret" : "box", reterr);
	const int r = box_stats(box, &s, &host_bytes, reterr);
	if (r < 0)
		return r;
	const holt_box_stats stats = {.uptime_us = s.uptime_us,
		.cpu_us = s.cpu_us,
		.memory_used_bytes = s.memory_used,
		.memory_total_bytes = s.memory_total,
		.disk_used_bytes = s.disk_used,
		.disk_total_bytes = s.disk_total,
		.host_memory_bytes = host_bytes,
		.processes = s.processes,
		.execs = s.execs};
	return options_write(ret, &stats, sizeof stats, sizeof stats, "holt_box_stats", reterr);
}

HOLT_API int holt_box_open_log(
	holt_box *box, uint64_t tail, holt_log_reader **ret, holt_error **reterr)
{
	if (!box || !ret)
		return api_null(box ? "ret" : "box", reterr);
	const int r = box_log_open(box->home->boxes_fd, box->rec.id, tail, ret, reterr);
	if (r < 0) {
		err_stage(reterr, "logs");
		err_object(reterr, box->rec.id);
	}
	return r;
}

HOLT_API int holt_log_next(holt_log_reader *log, uint64_t timeout_ms, holt_cancel *cancel,
	const void **ret_data, size_t *ret_len, int *ret_stream, uint64_t *ret_time_ns,
	holt_error **reterr)
{
	if (!log || !ret_data || !ret_len || !ret_stream)
		return api_null(!log        ? "log"
				: !ret_data ? "ret_data"
				: !ret_len  ? "ret_len"
					    : "ret_stream",
			reterr);
	return box_log_next(
		log, timeout_ms, cancel, ret_data, ret_len, ret_stream, ret_time_ns, reterr);
}

HOLT_API void holt_log_close(holt_log_reader *log)
{
	box_log_close(log);
}

HOLT_API void holt_box_close(holt_box *box)
{
	box_close(box);
}
