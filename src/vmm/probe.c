/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/probe.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "vmm/kernel.h"
#include "vmm/kvm_loop.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * Which accelerator works, and how fast the host's TSC runs.
 *
 * What takes time is cached: the speed of the ring-0 loop (40 ms where it is interpreted) and the
 * TSC (20 ms). Whether the device is there and may be opened is asked each time, so that joining
 * group kvm takes effect at once. The cache file is valid for one kernel release, one boot and one
 * incarnation of the device node; whatever is wrong with it, it is ignored and written anew. It is
 * replaced atomically, so processes may race.
 */

#define CACHE_NAME      "accel.json"
#define CACHE_BYTES_MAX 4096
#define CACHE_VERSION   1
#define BOOT_ID_PATH    "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_MAX     64
#define KEY_MAX         512
#define TSC_SPAN_NS     20000000 /* an error of 50 ns at both ends: 5 parts in a million */
#define TSC_TRIES       16
#define TSC_MIN_KHZ     100000
#define TSC_MAX_KHZ     20000000
#define KIPS_MAX        1000000000

/* What the cache holds: 0 = not known. */
struct measured {
	uint64_t kips;
	uint32_t tsc_khz;
};

/* Kernel, boot and device in one string; empty where it cannot be told, which is never cached. */
static void cache_key(char ret[KEY_MAX])
{
	auto_free char *boot_id = NULL;
	struct utsname uts;
	struct stat st = {0};
	size_t len = 0;

	ret[0] = '\0';
	if (uname(&uts) < 0 ||
		fs_read_file(AT_FDCWD, BOOT_ID_PATH, BOOT_ID_MAX, &boot_id, &len) < 0)
		return;
	(void)stat("/dev/kvm", &st);
	(void)snprintf(ret, KEY_MAX, "%s %.*s %" PRIu64 ".%09ld", uts.release,
		(int)strcspn(boot_id, "\n"), boot_id, (uint64_t)st.st_ctim.tv_sec,
		st.st_ctim.tv_nsec);
}

static bool cache_read(const char *path, const char *key, struct measured *ret)
{
	auto_free char *text = NULL;
	auto_json doc = NULL;
	size_t len = 0;
	int64_t version = 0;
	int64_t kips = 0;
	int64_t khz = 0;
	const char *cached_key = NULL;

	if (fs_read_file(AT_FDCWD, path, CACHE_BYTES_MAX, &text, &len) < 0 ||
		json_parse(text, len, CACHE_BYTES_MAX, path, &doc, NULL) < 0 ||
		json_get_int(doc, "version", 0, INT32_MAX, &version, NULL) < 0 ||
		json_get_str(doc, "key", &cached_key, NULL) < 0 ||
		json_get_int(doc, "ring0_kips", 0, KIPS_MAX, &kips, NULL) < 0 ||
		json_get_int(doc, "tsc_khz", 0, TSC_MAX_KHZ, &khz, NULL) < 0)
		return false;
	if (version != CACHE_VERSION || !cached_key || strcmp(cached_key, key) != 0)
		return false;
	*ret = (struct measured){.kips = (uint64_t)kips, .tsc_khz = (uint32_t)khz};
	return true;
}

/* A cache that cannot be written costs time only. */
static void cache_write(
	const char *cache_dir, const char *path, const char *key, const struct measured *m)
{
	auto_json doc = json_object();

	if (!doc || json_object_set_new(doc, "version", json_integer(CACHE_VERSION)) < 0 ||
		json_object_set_new(doc, "key", json_string(key)) < 0 ||
		json_object_set_new(doc, "ring0_kips", json_integer((json_int_t)m->kips)) < 0 ||
		json_object_set_new(doc, "tsc_khz", json_integer(m->tsc_khz)) < 0)
		return;
	auto_free char *text = json_text(doc);
	if (text && fs_mkdirs(cache_dir) == 0)
		(void)!fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0600);
}

struct tsc_sample {
	uint64_t tsc;
	uint64_t ns;
};

/* The clock and the TSC at one moment: of several pairs the one taken in the shortest time. */
static struct tsc_sample tsc_sample(void)
{
	struct tsc_sample best = {0};
	uint64_t best_width = UINT64_MAX;

	for (int i = 0; i < TSC_TRIES; i++) {
		struct timespec now = {0};
		const uint64_t before = __rdtsc();
		(void)clock_gettime(CLOCK_MONOTONIC_RAW, &now);
		const uint64_t width = __rdtsc() - before;
		if (width >= best_width)
			continue;
		best_width = width;
		best.tsc = before + width / 2;
		best.ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	}
	return best;
}

/* The processor's own word (leaf 0x15: crystal and ratio), or 0. */
static uint32_t tsc_khz_cpuid(void)
{
	unsigned denominator = 0;
	unsigned numerator = 0;
	unsigned crystal_hz = 0;
	unsigned unused = 0;

	if (!__get_cpuid(0x15, &denominator, &numerator, &crystal_hz, &unused) ||
		denominator == 0 || numerator == 0)
		return 0;
	return (uint32_t)((uint64_t)crystal_hz * numerator / denominator / 1000);
}

static uint32_t tsc_khz_measure(void)
{
	const struct timespec span = {.tv_nsec = TSC_SPAN_NS};
	uint64_t khz = tsc_khz_cpuid();

	if (khz == 0) {
		const struct tsc_sample a = tsc_sample();
		(void)nanosleep(&span, NULL);
		const struct tsc_sample b = tsc_sample();
		khz = b.ns > a.ns ? (b.tsc - a.tsc) * 1000000u / (b.ns - a.ns) : 0;
	}
	return khz >= TSC_MIN_KHZ && khz <= TSC_MAX_KHZ ? (uint32_t)khz : 0;
}

static void set_reason(struct probe_result *r, const struct kvm_verdict *v)
{
	const double mips = (double)v->kips / 1000;

	switch (v->outcome) {
	case KVM_NATIVE:
		(void)snprintf(r->reason, sizeof(r->reason),
			"KVM runs ring 0 natively (%.0f M instructions/s)", mips);
		break;
	case KVM_INTERPRETED:
		(void)snprintf(r->reason, sizeof(r->reason),
			"/dev/kvm opens but ring 0 is only interpreted (%.1f M instructions/s)",
			mips);
		break;
	case KVM_NO_DEVICE:
		(void)snprintf(r->reason, sizeof(r->reason),
			"there is no /dev/kvm: no virtualization here, or its module is not "
			"loaded");
		break;
	case KVM_NO_PERMISSION:
		(void)snprintf(r->reason, sizeof(r->reason),
			"no permission for /dev/kvm: add this user to the group 'kvm'");
		break;
	case KVM_BAD_VERSION:
		(void)snprintf(r->reason, sizeof(r->reason), "KVM speaks API version %d, not 12",
			v->detail);
		break;
	case KVM_NO_MACHINE:
		(void)snprintf(r->reason, sizeof(r->reason),
			"/dev/kvm cannot make a virtual machine: %s", strerrordesc_np(v->errnum));
		break;
	case KVM_BAD_EXIT:
		(void)snprintf(r->reason, sizeof(r->reason),
			"a virtual CPU of /dev/kvm stops with exit reason %d", v->detail);
		break;
	}
}

/* The verdict from the device and, where that opens, from @m or a run. */
static struct kvm_verdict kvm_judge(struct measured *m)
{
	struct kvm_verdict v = {.outcome = KVM_NO_DEVICE};
	auto_fd kvm = kvm_open(&v);

	if (kvm < 0)
		return v;
	if (m->kips > 0)
		return kvm_verdict_of(m->kips);
	kvm_loop_run(kvm, &v);
	m->kips = v.kips;
	return v;
}

int probe_accel(const char *cache_dir, struct probe_result *ret, holt_error **reterr)
{
	const uint64_t start_us = clock_mono_us();
	auto_free char *path = cache_dir ? str_printf("%s/" CACHE_NAME, cache_dir) : NULL;
	struct measured m = {0};
	char key[KEY_MAX];

	if (cache_dir && !path)
		return err_nomem(reterr);
	cache_key(key);
	const bool cacheable = path && key[0] != '\0';
	bool cached = cacheable && cache_read(path, key, &m);
	/* One measures, and the others take what it found: no two measurings give the same, and
	 * what is measured is in the key of each template. */
	auto_fd lock = cacheable && !cached ? kernel_cache_lock(cache_dir) : FD_NONE;
	if (lock >= 0)
		cached = cache_read(path, key, &m);
	const struct measured before = m;
	const struct kvm_verdict v = kvm_judge(&m);
	if (m.tsc_khz == 0)
		m.tsc_khz = tsc_khz_measure();
	const bool changed = m.kips != before.kips || m.tsc_khz != before.tsc_khz;
	if (cacheable && changed)
		cache_write(cache_dir, path, key, &m);

	struct probe_result r = {
		.kvm_usable = v.outcome == KVM_NATIVE,
		.cached = cached && !changed,
		.kvm_mips = (double)v.kips / 1000,
		.tsc_khz = m.tsc_khz,
	};
	set_reason(&r, &v);
	r.took_us = (uint32_t)(clock_mono_us() - start_us);
	*ret = r;
	return 0;
}

int probe_choose(
	const char *want, const struct probe_result *probe, bool *ret_kvm, holt_error **reterr)
{
	int r = 0;

	if (!want || strcmp(want, "auto") == 0) {
		*ret_kvm = probe->kvm_usable;
		return 0;
	}
	if (strcmp(want, "tcg") == 0) {
		*ret_kvm = false;
		return 0;
	}
	if (strcmp(want, "kvm") != 0) {
		char shown[64];
		(void)str_escape(shown, sizeof(shown), want, strlen(want), false);
		r = err_make(reterr, HOLT_EINVALID, "unknown accelerator '%s'", shown);
		err_hint(reterr, "use auto, kvm or tcg");
		err_object(reterr, shown);
	} else if (probe->kvm_usable) {
		*ret_kvm = true;
		return 0;
	} else {
		r = err_make(reterr, HOLT_EUNSUPPORTED, "KVM is not usable: %s", probe->reason);
		err_hint(reterr, "use the accelerator 'auto' or 'tcg'");
		err_object(reterr, "/dev/kvm");
	}
	err_stage(reterr, "accelerator");
	return r;
}
