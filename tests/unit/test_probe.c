/* SPDX-License-Identifier: Apache-2.0 */
/* The accelerator's verdict: its time, its cache, the choice, and the jail's report. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fsutil.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "vmm/jail.h"
#include "vmm/kvm_loop.h"
#include "vmm/probe.h"

#define BUDGET_US 150000

static char dir[] = "/tmp/holt-probe-XXXXXX";
static char cache_file[64];

static void setup(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(cache_file, sizeof(cache_file), "%s/accel.json", dir);
}

static void teardown(void)
{
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static struct probe_result probe(const char *cache)
{
	struct probe_result r = {0};

	ck_assert_int_eq(probe_accel(cache, &r, NULL), 0);
	return r;
}

START_TEST(verdict_comes_in_time_with_a_reason)
{
	uint32_t best_us = UINT32_MAX;
	struct probe_result r = {0};

	/* The best of three, as the machine may be busy with other tests. */
	for (int i = 0; i < 3; i++) {
		r = probe(NULL);
		best_us = r.took_us < best_us ? r.took_us : best_us;
		ck_assert(!r.cached);
	}
	ck_assert_uint_lt(best_us, BUDGET_US);
	ck_assert_str_ne(r.reason, "");
	ck_assert(!r.kvm_usable || r.kvm_mips >= 100);
	ck_assert_uint_ge(r.tsc_khz, 100000);
}
END_TEST

START_TEST(tsc_is_measured_exactly)
{
	const uint32_t a = probe(NULL).tsc_khz;
	const uint32_t b = probe(NULL).tsc_khz;
	const uint32_t apart = a > b ? a - b : b - a;

	ck_assert_msg(apart < a / 10000, "%u and %u kHz are too far apart", a, b);
}
END_TEST

START_TEST(second_verdict_comes_from_the_cache)
{
	const struct probe_result first = probe(dir);
	const struct probe_result second = probe(dir);

	ck_assert(!first.cached);
	ck_assert(second.cached);
	ck_assert_uint_eq(second.tsc_khz, first.tsc_khz);
	ck_assert(second.kvm_usable == first.kvm_usable);
	ck_assert_str_eq(second.reason, first.reason);
	ck_assert_uint_lt(second.took_us, 20000); /* measuring the TSC alone takes that long */
}
END_TEST

START_TEST(torn_or_foreign_cache_is_ignored)
{
	auto_free char *good = NULL;
	size_t len = 0;

	const uint32_t khz = probe(dir).tsc_khz;
	ck_assert_int_eq(fs_read_file(AT_FDCWD, cache_file, 4096, &good, &len), 0);
	for (size_t cut = 0; cut < len; cut += 16) {
		ck_assert_int_eq(fs_write_atomic(AT_FDCWD, cache_file, good, cut, 0600), 0);
		ck_assert(!probe(dir).cached);
	}
	/* Another boot: the same text with another key, and a speed that would show. */
	auto_free char *other = str_printf(
		"{\"version\":1,\"key\":\"other\",\"ring0_kips\":999999,\"tsc_khz\":123456}");
	ck_assert_int_eq(fs_write_atomic(AT_FDCWD, cache_file, other, strlen(other), 0600), 0);
	const struct probe_result r = probe(dir);
	ck_assert(!r.cached);
	ck_assert_uint_ne(r.tsc_khz, 123456);
	ck_assert_uint_ge(r.tsc_khz, khz - khz / 1000);
	/* And it has been made good again. */
	ck_assert(probe(dir).cached);
}
END_TEST

START_TEST(cache_that_cannot_be_written_is_no_failure)
{
	const struct probe_result r = probe("/proc/nonexistent");

	ck_assert(!r.cached);
	ck_assert_uint_gt(r.tsc_khz, 0);
}
END_TEST

START_TEST(speeds_are_judged)
{
	ck_assert_int_eq(kvm_verdict_of(2300).outcome, KVM_INTERPRETED);
	ck_assert_int_eq(kvm_verdict_of(99999).outcome, KVM_INTERPRETED);
	ck_assert_int_eq(kvm_verdict_of(1500000).outcome, KVM_NATIVE);
}
END_TEST

START_TEST(choice_follows_wish_and_verdict)
{
	const struct probe_result good = {.kvm_usable = true, .reason = "fine"};
	const struct probe_result bad = {.reason = "ring 0 is only interpreted"};
	bool kvm = false;

	ck_assert_int_eq(probe_choose(NULL, &good, &kvm, NULL), 0);
	ck_assert(kvm);
	ck_assert_int_eq(probe_choose("tcg", &good, &kvm, NULL), 0);
	ck_assert(!kvm);
	ck_assert_int_eq(probe_choose("kvm", &good, &kvm, NULL), 0);
	ck_assert(kvm);
	ck_assert_int_eq(probe_choose("auto", &bad, &kvm, NULL), 0);
	ck_assert(!kvm);

	kvm = true;
	auto_error e = NULL;
	ck_assert_int_eq(probe_choose("kvm", &bad, &kvm, &e), -HOLT_EUNSUPPORTED);
	ck_assert(kvm);
	ck_assert_str_eq(holt_error_message(e), "KVM is not usable: ring 0 is only interpreted");
	ck_assert_str_eq(holt_error_object(e), "/dev/kvm");
	ck_assert_str_ne(holt_error_hint(e), "");
	auto_error f = NULL;
	ck_assert_int_eq(probe_choose("KVM\n", &good, &kvm, &f), -HOLT_EINVALID);
	ck_assert_str_eq(holt_error_message(f), "unknown accelerator 'KVM\\x0a'");
	ck_assert_str_eq(holt_error_hint(f), "use auto, kvm or tcg");
}
END_TEST

START_TEST(jail_reports_every_layer)
{
	struct jail_report r;

	jail_probe(&r);
	for (int i = 0; i < JAIL_LAYERS; i++) {
		ck_assert_ptr_nonnull(r.layers[i].name);
		ck_assert_msg(r.layers[i].reason[0], "'%s' has no reason", r.layers[i].name);
	}
	/* What the kernel says elsewhere must agree. */
	auto_free char *status = NULL;
	ck_assert_int_eq(fs_read_file(AT_FDCWD, "/proc/self/status", 65536, &status, NULL), 0);
	ck_assert(r.layers[JAIL_SECCOMP].available == (strstr(status, "\nSeccomp:") != NULL));
	if (access("/proc/self/ns/user", F_OK) != 0)
		ck_assert(!r.layers[JAIL_USER_NS].available);
	ck_assert(!r.sufficient || r.layers[JAIL_SECCOMP].available);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {verdict_comes_in_time_with_a_reason, tsc_is_measured_exactly,
		second_verdict_comes_from_the_cache, torn_or_foreign_cache_is_ignored,
		cache_that_cannot_be_written_is_no_failure, speeds_are_judged,
		choice_follows_wish_and_verdict, jail_reports_every_layer};
	Suite *s = suite_create("probe");
	TCase *c = tcase_create("probe");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
