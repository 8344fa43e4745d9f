/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/assets.h"
#include "box/box_home.h"
#include "box/template.h"
#include "vmm/jail.h"
#include "vmm/kernel.h"
#include "vmm/probe.h"
#include "vmm/qemu.h"
#include "base/banned.h"

/* Below this, an image and a few disks may not fit. */
#define SPACE_LOW_BYTES (2ull << 30)
/* Below this, not even a box. */
#define SPACE_LEAST_BYTES (64ull << 20)

static void add(struct holt_doctor *d, const char *name, int status, const char *advice,
	const char *fmt, ...) __attribute__((format(__printf__, 5, 6)));

/* A row without memory for its text is still a row. */
static void add(struct holt_doctor *d, const char *name, int status, const char *advice,
	const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (d->n == DOCTOR_CHECKS_MAX)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	struct doctor_check *c = &d->checks[d->n++];
	c->name = name;
	c->status = status;
	c->text = str_dup(text);
	c->advice = str_dup(advice);
}

/* A row that is bad because of @error. */
static void add_error(struct holt_doctor *d, const char *name, const holt_error *error)
{
	add(d, name, DOCTOR_FAIL, holt_error_hint(error), "%s", holt_error_message(error));
}

static void check_host(struct holt_doctor *d)
{
	struct utsname u;

	if (uname(&u) < 0)
		return;
	const bool ok = strcmp(u.sysname, "Linux") == 0 && strcmp(u.machine, "x86_64") == 0;
	add(d, "host", ok ? DOCTOR_OK : DOCTOR_FAIL,
		ok ? "" : "holt runs on x86_64 Linux only, for now", "%s %s on %s", u.sysname,
		u.release, u.machine);
}

static json_t *check_accel(struct holt_doctor *d, const char *cache_dir)
{
	auto_error error = NULL;
	struct probe_result p = {0};
	bool kvm = false;

	if (probe_accel(cache_dir, &p, &error) < 0) {
		add_error(d, "accelerator", error);
		return NULL;
	}
	if (probe_choose(getenv("HOLT_ACCEL"), &p, &kvm, &error) < 0)
		add_error(d, "accelerator", error);
	else if (kvm)
		add(d, "accelerator", DOCTOR_OK, "", "kvm: %s", p.reason);
	else
		add(d, "accelerator", DOCTOR_WARN,
			p.kvm_usable ? "unset HOLT_ACCEL to use KVM"
				     : "software emulation works everywhere, at a fraction of the "
				       "speed; use a host with working KVM where speed matters",
			"tcg (software emulation): %s", p.reason);
	return json_pack("{s:s?, s:b, s:s, s:f, s:i, s:i, s:b}", "use",
		error ? NULL
		: kvm ? "kvm"
		      : "tcg",
		"kvm_usable", (int)p.kvm_usable, "reason", p.reason, "kvm_mips", p.kvm_mips,
		"tsc_khz", (int)p.tsc_khz, "took_us", (int)p.took_us, "cached", (int)p.cached);
}

static void check_qemu(struct holt_doctor *d)
{
	auto_error error = NULL;
	auto_free char *path = NULL;
	auto_free char *version = NULL;

	if (qemu_find(&path, &error) < 0 || qemu_version(path, &version, &error) < 0)
		add_error(d, "qemu", error);
	else
		add(d, "qemu", DOCTOR_OK, "", "%s at '%s'", version, path);
}

static void check_kernel(struct holt_doctor *d)
{
	auto_error error = NULL;
	struct kernel kernel = {0};
	char **near = NULL;

	if (asset_kernel_dirs(&near, &error) < 0 ||
		kernel_find((const char *const *)near, NULL, &kernel, &error) < 0)
		add_error(d, "kernel", error);
	else
		add(d, "kernel", DOCTOR_OK, "", "%s at '%s', %zu modules", kernel.release,
			kernel.image, strv_len((const char *const *)kernel.modules));
	kernel_done(&kernel);
	strv_free(near);
}

static void check_programs(struct holt_doctor *d)
{
	auto_error error = NULL;
	auto_free char *keeper = NULL;

	if (asset_keeper(&keeper, &error) < 0)
		add_error(d, "keeper", error);
	else
		add(d, "keeper", DOCTOR_OK, "", "'%s'", keeper);
}

/* Every layer in one row. */
static void check_jail(struct holt_doctor *d)
{
	struct jail_report jail = {0};
	auto_buf have = BUF_INIT(1024);
	auto_buf lack = BUF_INIT(4096);
	auto_error error = NULL;
	bool reduced = false;

	if (jail_wish(&reduced, &error) < 0) {
		add_error(d, "jail", error);
		return;
	}
	jail_probe(&jail);
	for (size_t i = 0; i < JAIL_LAYERS; i++) {
		const struct jail_finding *f = &jail.layers[i];
		struct buf *list = f->available ? &have : &lack;
		const char *comma = list->len ? ", " : "";

		(void)!(f->available ? buf_printf(list, "%s%s", comma, f->name)
				     : buf_printf(list, "%s%s (%s)", comma, f->name, f->reason));
	}
	add(d, "jail",
		jail.sufficient ? DOCTOR_OK
		: reduced       ? DOCTOR_WARN
				: DOCTOR_FAIL,
		jail.sufficient ? ""
		: reduced ? "boxes start, and trust QEMU: unset HOLT_JAIL where guests are not "
			    "trusted"
			  : "allow user namespaces or Landlock on this host, see SECURITY.md, or "
			    "set HOLT_JAIL=reduced, which trusts QEMU",
		"%savailable: %s; missing: %s", reduced ? "HOLT_JAIL=reduced; " : "",
		have.len ? (const char *)have.data : "none",
		lack.len ? (const char *)lack.data : "none");
}

/* The nearest directory above @path that exists, so that a home that is not made yet can be judged.
 */
static char *existing_parent(const char *path)
{
	char *p = str_dup(path);

	while (p && access(p, F_OK) < 0) {
		char *slash = strrchr(p, '/');

		if (!slash || slash == p) {
			mem_free(p);
			return str_dup("/");
		}
		*slash = 0;
	}
	return p;
}

static void check_home(struct holt_doctor *d, const char *path)
{
	auto_free char *place = existing_parent(path);
	uint64_t space = 0;
	struct stat st;

	if (!place || stat(place, &st) < 0 || access(place, W_OK | X_OK) < 0) {
		add(d, "home", DOCTOR_FAIL, "choose a writable directory with HOLT_HOME",
			"'%s' cannot be written: %s", path, strerrordesc_np(errno));
		return;
	}
	if (strcmp(place, path) == 0 && st.st_uid != geteuid()) {
		add(d, "home", DOCTOR_FAIL, "choose a directory of your own with HOLT_HOME",
			"'%s' belongs to user %u", path, st.st_uid);
		return;
	}
	add(d, "home", DOCTOR_OK, "", "'%s'%s", path,
		strcmp(place, path) == 0 ? "" : ", will be made");
	if (fs_free_bytes(place, &space) < 0)
		return;
	add(d, "space",
		space < SPACE_LEAST_BYTES ? DOCTOR_FAIL
		: space < SPACE_LOW_BYTES ? DOCTOR_WARN
					  : DOCTOR_OK,
		space < SPACE_LOW_BYTES ? "make room, or move HOLT_HOME to a larger file system"
					: "",
		"%.1f GB free", (double)space / 1e9);
}

/* Counting them opens no home. */
static void check_templates(struct holt_doctor *d, const char *path)
{
	auto_error error = NULL;
	auto_free char *dir = str_printf("%s/templates", path);
	struct holt_home h = {.templates_fd = FD_NONE};
	struct template_info *list = NULL;
	uint64_t used = 0;
	size_t n = 0;

	if (home_template_bytes(0, &h.template_bytes, &error) < 0) {
		add_error(d, "templates", error);
		return;
	}
	auto_fd fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : FD_NONE;
	h.templates_fd = fd;
	if (fd >= 0 && template_list(&h, &list, &n, &error) < 0) {
		add(d, "templates", DOCTOR_WARN, "look at the permissions of the home", "%s",
			holt_error_message(error));
		return;
	}
	for (size_t i = 0; i < n; i++)
		used += list[i].size_bytes;
	template_list_free(list, n);
	add(d, "templates", DOCTOR_OK, "", "%zu, which take %.1f GB of at most %.1f GB", n,
		(double)used / 1e9, (double)h.template_bytes / 1e9);
}

static void check_memory(struct holt_doctor *d)
{
	auto_error error = NULL;
	uint64_t bytes = 0;

	if (home_max_memory(0, &bytes, &error) < 0)
		add_error(d, "memory", error);
	else if (bytes)
		add(d, "memory", DOCTOR_OK, "", "all machines together take at most %.1f GB",
			(double)bytes / 1e9);
	else
		add(d, "memory", DOCTOR_OK, "", "no ceiling for machines");
}

static int make_json(struct holt_doctor *d, json_t *accel, holt_error **reterr)
{
	static const char *const status_names[] = {"ok", "warn", "fail"};
	auto_json checks = json_array();
	bool ok = true;

	for (size_t i = 0; i < d->n; i++) {
		const struct doctor_check *c = &d->checks[i];

		ok = ok && c->status != DOCTOR_FAIL;
		(void)json_array_append_new(checks,
			json_pack("{s:s, s:s, s:s, s:s}", "name", c->name, "status",
				status_names[c->status], "text", c->text, "advice", c->advice));
	}
	auto_json doc = json_pack("{s:b, s:s, s:O?, s:O}", "ok", (int)ok, "version", HOLT_VERSION,
		"accelerator", accel, "checks", checks);
	d->json = doc ? json_text(doc) : NULL;
	return d->json ? 0 : err_nomem(reterr);
}

static int run_checks(struct holt_doctor *d, const char *home, holt_error **reterr)
{
	auto_free char *path = NULL;
	int r = home_resolve(home, &path, reterr);

	if (r < 0)
		return r;
	auto_free char *cache_dir = str_printf("%s/cache", path);
	if (!cache_dir)
		return err_nomem(reterr);
	check_host(d);
	auto_json accel = check_accel(d, access(cache_dir, W_OK) == 0 ? cache_dir : NULL);
	check_qemu(d);
	check_kernel(d);
	check_programs(d);
	check_jail(d);
	check_home(d, path);
	check_templates(d, path);
	check_memory(d);
	for (size_t i = 0; i < d->n; i++) {
		if (!d->checks[i].text || !d->checks[i].advice)
			return err_nomem(reterr);
	}
	return make_json(d, accel, reterr);
}

int doctor_run(const char *home, struct holt_doctor **ret, holt_error **reterr)
{
	struct holt_doctor *d = mem_zalloc(sizeof *d);

	if (!d)
		return err_nomem(reterr);
	const int r = run_checks(d, home, reterr);
	if (r < 0) {
		err_stage(reterr, "doctor");
		doctor_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

void doctor_free(struct holt_doctor *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->n; i++) {
		mem_free(d->checks[i].text);
		mem_free(d->checks[i].advice);
	}
	mem_free(d->json);
	mem_free(d);
}
