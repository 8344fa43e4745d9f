/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/box.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "api/options.h"
#include "box/lifecycle.h"
#include "base/banned.h"

#define HOSTNAME_LEN_MAX    63u
#define BOOT_TIMEOUT_MS_MAX 3600000u

static int check_range(
	const char *what, uint64_t value, uint64_t min, uint64_t max, holt_error **reterr)
{
	if (value >= min && value <= max)
		return 0;
	return err_make(reterr, HOLT_EINVALID, "%s is %llu, not within %llu to %llu", what,
		(unsigned long long)value, (unsigned long long)min, (unsigned long long)max);
}

static int check_hostname(const char *name, holt_error **reterr)
{
	const size_t len = name ? strlen(name) : 1;

	if (!name)
		return 0;
	if (len == 0 || len > HOSTNAME_LEN_MAX || name[0] == '-')
		return err_make(reterr, HOLT_EINVALID,
			"hostname must have 1 to %u characters and not begin with '-'",
			HOSTNAME_LEN_MAX);
	for (size_t i = 0; i < len; i++) {
		const char c = name[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '-'))
			return err_make(reterr, HOLT_EINVALID,
				"hostname may hold letters, digits and '-' only");
	}
	return 0;
}

/* Defaults for zeros, then the stated ranges. */
static int check_options(holt_box_options *o, holt_error **reterr)
{
	int r;

	o->memory_mib = o->memory_mib ? o->memory_mib : HOLT_MEMORY_MIB_DEFAULT;
	o->cpus = o->cpus ? o->cpus : 1;
	o->disk_bytes = o->disk_bytes ? o->disk_bytes : HOLT_DISK_BYTES_DEFAULT;
	o->boot_timeout_ms = o->boot_timeout_ms ? o->boot_timeout_ms : HOLT_BOOT_TIMEOUT_MS_DEFAULT;
	if ((r = check_range("memory in MiB", o->memory_mib, HOLT_MEMORY_MIB_MIN,
		     HOLT_MEMORY_MIB_MAX, reterr)) < 0 ||
		(r = check_range("number of cpus", o->cpus, 1, HOLT_CPUS_MAX, reterr)) < 0 ||
		(r = check_range("disk size in bytes", o->disk_bytes, HOLT_DISK_BYTES_MIN,
			 HOLT_DISK_BYTES_MAX, reterr)) < 0 ||
		(r = check_range("boot time-out in ms", o->boot_timeout_ms, 1, BOOT_TIMEOUT_MS_MAX,
			 reterr)) < 0)
		return r;
	return check_hostname(o->hostname, reterr);
}

HOLT_API int holt_box_start(holt_home *home, const char *image, const holt_box_options *options,
	holt_box **ret, holt_error **reterr)
{
	holt_box_options o;

	if (!home || !image || !ret)
		return api_null(!home ? "home" : !image ? "image" : "ret", reterr);
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_box_options", reterr);
	if (r == 0)
		r = check_options(&o, reterr);
	if (r < 0) {
		err_stage(reterr, "options");
		return r;
	}
	const struct box_wish wish = {.memory_mib = o.memory_mib,
		.cpus = o.cpus,
		.disk_bytes = o.disk_bytes,
		.boot_timeout_ms = o.boot_timeout_ms,
		.hostname = o.hostname,
		.accel = o.accel,
		.cancel = o.cancel};
	return box_start(home, image, &wish, ret, reterr);
}

HOLT_API const char *holt_box_id(holt_box *box)
{
	return box->id;
}

HOLT_API int holt_box_get_info(holt_box *box, holt_box_info *ret)
{
	holt_box_info info = {.hello_us = box->ready.hello_us,
		.ready_us = box->ready.ready_us,
		.attempts = box->ready.attempts,
		.vmm_pid = (int32_t)box->ready.vmm_pid};

	(void)snprintf(info.accel, sizeof info.accel, "%s", box->ready.accel);
	return options_write(ret, &info, sizeof info, sizeof info, "holt_box_info", NULL);
}

HOLT_API void holt_box_close(holt_box *box)
{
	box_close(box);
}
