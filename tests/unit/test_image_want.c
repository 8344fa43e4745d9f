/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt_image_pull over a registry that is a function of this file: what is asked for when, what an
 * id is, what an event has, and what ends a pull. image_pull itself has tests of its own.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "holt.h"

#include "base/cancel.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/box_home.h"
#include "box/box_pool.h"
#include "box/image_want.h"
#include "image/ref.h"

static char dir[64];
static holt_home *home;

/* What the registry has and does. */
static struct {
	unsigned calls;
	char ref[128];
	char user[32], password[32], ca_file[32];
	bool insecure;
	bool has_registries;
	int code; /* it fails so */
	bool slow; /* until it is given up */
} registry;

static char *layer(void)
{
	return str_printf("%s/r.tar", dir);
}

static void copy(char *dst, size_t cap, const char *src)
{
	(void)snprintf(dst, cap, "%s", src ? src : "");
}

/* Instead of the library's. */
int image_pull(struct image_store *s, const char *ref, const struct image_pull_options *o,
	struct image **ret, bool *ret_changed, holt_error **reterr)
{
	struct pull_event e = {
		.phase = PULL_RESOLVED, .n_layers = 1, .digest = "sha256:ab", .total_bytes = 7};
	const struct timespec tick = {.tv_nsec = 1000000};
	struct image *before = NULL;
	auto_free char *name = NULL;
	auto_free char *tar = layer();

	registry.calls++;
	copy(registry.ref, sizeof registry.ref, ref);
	copy(registry.user, sizeof registry.user, o->user);
	copy(registry.password, sizeof registry.password, o->password);
	copy(registry.ca_file, sizeof registry.ca_file, o->ca_file);
	registry.insecure = o->insecure;
	registry.has_registries = o->registries != NULL;
	if (o->event)
		o->event(&e, o->user_data);
	while (registry.slow && !cancel_flag_set(o->cancel))
		(void)nanosleep(&tick, NULL);
	if (registry.slow)
		return err_make(reterr, HOLT_ECANCELLED, "cancelled");
	if (registry.code)
		return err_make(reterr, registry.code, "the registry says no");
	e = (struct pull_event){.phase = PULL_LOADING,
		.layer = 1,
		.n_layers = 1,
		.digest = "sha256:cd",
		.done_bytes = 3,
		.total_bytes = 7};
	if (o->event)
		o->event(&e, o->user_data);
	ck_assert_int_eq(ref_normalise(ref, &name, NULL), 0);
	const struct image_import_options io = {.name = name};
	*ret_changed = image_get(s, name, &before, NULL) < 0;
	image_free(before);
	return image_import(s, tar, &io, ret, reterr);
}

static void setup(void)
{
	holt_home_options o = HOLT_HOME_OPTIONS_INIT;
	char command[256];

	registry = (typeof(registry)){0};
	strcpy(dir, "/tmp/holt-want-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(
		command, sizeof command, "cd %s && mkdir -p r/etc && tar -C r -cf r.tar .", dir);
	ck_assert_int_eq(system(command), 0);
	auto_free char *path = str_printf("%s/home", dir);
	o.path = path;
	ck_assert_int_eq(holt_home_open(&o, &home, NULL), 0);
}

static void teardown(void)
{
	holt_home_close(home);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static int try_pull(const char *ref, const holt_pull_options *o, holt_error **ret_error)
{
	holt_error *error = NULL;
	const int r = holt_image_pull(home, ref, o, NULL, &error);

	ck_assert_int_eq(r, -holt_error_code(error));
	if (ret_error)
		*ret_error = error;
	else
		holt_error_free(error);
	return r;
}

static int by_policy(const char *ref, int policy)
{
	holt_pull_options o = HOLT_PULL_OPTIONS_INIT;

	o.policy = policy;
	return try_pull(ref, &o, NULL);
}

START_TEST(always_asks_missing_asks_once_never_does_not)
{
	ck_assert_int_eq(by_policy("demo", HOLT_PULL_NEVER), -HOLT_ENOT_FOUND);
	ck_assert_uint_eq(registry.calls, 0);
	ck_assert_int_eq(by_policy("demo", HOLT_PULL_MISSING), 0);
	ck_assert_uint_eq(registry.calls, 1);
	ck_assert_str_eq(registry.ref, "demo");
	ck_assert_int_eq(by_policy("demo", HOLT_PULL_MISSING), 0);
	ck_assert_int_eq(by_policy("docker.io/library/demo:latest", HOLT_PULL_MISSING), 0);
	ck_assert_int_eq(by_policy("demo", HOLT_PULL_NEVER), 0);
	ck_assert_uint_eq(registry.calls, 1);
	ck_assert_int_eq(try_pull("demo", NULL, NULL), 0);
	ck_assert_uint_eq(registry.calls, 2);
	ck_assert_int_eq(by_policy("demo:other", HOLT_PULL_MISSING), 0);
	ck_assert_uint_eq(registry.calls, 3);
}
END_TEST

START_TEST(ids_are_not_pulled)
{
	static const char whole[] =
		"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	holt_image *img = NULL;
	holt_error *error = NULL;

	for (int policy = HOLT_PULL_ALWAYS; policy <= HOLT_PULL_NEVER; policy++) {
		ck_assert_int_eq(by_policy(whole, policy), -HOLT_ENOT_FOUND);
		ck_assert_int_eq(by_policy(whole + 7, policy), -HOLT_ENOT_FOUND);
		ck_assert_int_eq(by_policy("cafe", policy), -HOLT_ENOT_FOUND);
		ck_assert_int_eq(by_policy("sha256:0123", policy), -HOLT_ENOT_FOUND);
	}
	ck_assert_int_eq(try_pull("cafe", NULL, &error), -HOLT_ENOT_FOUND);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "an id cannot be pulled"));
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "NAME[:TAG]"));
	holt_error_free(error);
	ck_assert_uint_eq(registry.calls, 0);
	/* One that is there is found, and nobody is asked. */
	ck_assert_int_eq(by_policy("demo", HOLT_PULL_MISSING), 0);
	ck_assert_int_eq(holt_image_get(home, "demo", &img, NULL), 0);
	ck_assert_int_eq(by_policy(holt_image_digest(img), HOLT_PULL_ALWAYS), 0);
	ck_assert_uint_eq(registry.calls, 1);
	holt_image_free(img);
	/* A name that only looks like one is known by its tag, or by being there. */
	ck_assert_int_eq(by_policy("cafe:latest", HOLT_PULL_MISSING), 0);
	ck_assert_uint_eq(registry.calls, 2);
	ck_assert_int_eq(by_policy("cafe", HOLT_PULL_ALWAYS), 0);
	ck_assert_uint_eq(registry.calls, 3);
}
END_TEST

START_TEST(what_is_no_reference_is_refused)
{
	ck_assert_int_eq(by_policy("", HOLT_PULL_ALWAYS), -HOLT_EINVALID);
	ck_assert_int_eq(by_policy("", HOLT_PULL_MISSING), -HOLT_EINVALID);
	ck_assert_int_eq(by_policy("Demo", HOLT_PULL_MISSING), -HOLT_EINVALID);
	ck_assert_int_eq(by_policy("Demo", HOLT_PULL_NEVER), -HOLT_EINVALID);
	ck_assert_uint_eq(registry.calls, 0);
}
END_TEST

START_TEST(options_are_checked)
{
	holt_pull_options o = HOLT_PULL_OPTIONS_INIT;
	holt_error *error = NULL;

	ck_assert_int_eq(holt_image_pull(NULL, "demo", NULL, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_image_pull(home, NULL, NULL, NULL, NULL), -HOLT_EINVALID);
	o.policy = 3;
	ck_assert_int_eq(try_pull("demo", &o, NULL), -HOLT_EINVALID);
	o.policy = -1;
	ck_assert_int_eq(try_pull("demo", &o, NULL), -HOLT_EINVALID);
	o.policy = 0;
	o.flags = 2;
	ck_assert_int_eq(try_pull("demo", &o, NULL), -HOLT_EINVALID);
	o.flags = 0;
	o.username = "ann";
	ck_assert_int_eq(try_pull("demo", &o, NULL), -HOLT_EINVALID);
	o.username = NULL;
	o.password = "secret";
	ck_assert_int_eq(try_pull("demo", &o, &error), -HOLT_EINVALID);
	ck_assert_ptr_null(strstr(holt_error_message(error), "secret"));
	holt_error_free(error);
	o.password = NULL;
	o.platform = "linux/arm64";
	error = NULL;
	ck_assert_int_eq(try_pull("demo", &o, &error), -HOLT_EUNSUPPORTED);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "linux/arm64"));
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "linux/amd64"));
	holt_error_free(error);
	o.platform = "";
	ck_assert_int_eq(try_pull("demo", &o, NULL), -HOLT_EUNSUPPORTED);
	o.struct_size = 3;
	ck_assert_int_eq(try_pull("demo", &o, NULL), -HOLT_EINVALID);
	ck_assert_uint_eq(registry.calls, 0);
}
END_TEST

START_TEST(options_arrive)
{
	holt_pull_options o = HOLT_PULL_OPTIONS_INIT;
	auto_free char *path = str_printf("%s/home/registries.yaml", dir);

	o.platform = "linux/amd64";
	o.flags = HOLT_PULL_INSECURE;
	o.ca_file = "/ca.pem";
	o.username = "ann";
	o.password = "secret";
	ck_assert_int_eq(try_pull("demo", &o, NULL), 0);
	ck_assert_str_eq(registry.user, "ann");
	ck_assert_str_eq(registry.password, "secret");
	ck_assert_str_eq(registry.ca_file, "/ca.pem");
	ck_assert(registry.insecure);
	ck_assert(registry.has_registries);
	/* The home's file, and what is wrong with it is told. */
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	(void)fputs("registries: [", f);
	(void)fclose(f);
	ck_assert_int_eq(try_pull("demo", NULL, NULL), -HOLT_EINVALID);
	ck_assert_uint_eq(registry.calls, 1);
}
END_TEST

struct told {
	unsigned n;
	holt_pull_event last[8];
	char digests[8][80];
};

static void on_event(const holt_pull_event *e, void *user)
{
	struct told *t = user;

	ck_assert_uint_eq(e->struct_size, sizeof *e);
	ck_assert_uint_lt(t->n, 8);
	t->last[t->n] = *e;
	copy(t->digests[t->n], sizeof t->digests[0], e->digest);
	t->n++;
}

START_TEST(events)
{
	holt_pull_options o = HOLT_PULL_OPTIONS_INIT;
	struct told told = {0};
	holt_image *img = NULL;

	o.event = on_event;
	o.user = &told;
	ck_assert_int_eq(holt_image_pull(home, "demo", &o, &img, NULL), 0);
	ck_assert_uint_eq(told.n, 3);
	ck_assert_int_eq(told.last[0].phase, HOLT_PULL_RESOLVED);
	ck_assert_uint_eq(told.last[0].layer, 0);
	ck_assert_uint_eq(told.last[0].layers, 1);
	ck_assert_uint_eq(told.last[0].total_bytes, 7);
	ck_assert_str_eq(told.digests[0], "sha256:ab");
	ck_assert_int_eq(told.last[1].phase, HOLT_PULL_LOADING);
	ck_assert_uint_eq(told.last[1].layer, 1);
	ck_assert_uint_eq(told.last[1].done_bytes, 3);
	ck_assert_int_eq(told.last[2].phase, HOLT_PULL_DONE);
	ck_assert_int_eq(told.last[2].changed, 1);
	ck_assert_str_eq(told.digests[2], holt_image_digest(img));
	holt_image_free(img);
	/* What is there already is done at once. */
	told.n = 0;
	o.policy = HOLT_PULL_MISSING;
	ck_assert_int_eq(try_pull("demo", &o, NULL), 0);
	ck_assert_uint_eq(told.n, 1);
	ck_assert_int_eq(told.last[0].phase, HOLT_PULL_DONE);
	ck_assert_int_eq(told.last[0].changed, 0);
	/* A failure has an error instead. */
	told.n = 0;
	registry.code = HOLT_EDENIED;
	ck_assert_int_eq(try_pull("demo:2", &o, NULL), -HOLT_EDENIED);
	ck_assert_uint_eq(told.n, 1);
}
END_TEST

START_TEST(failures_say_what_was_tried)
{
	holt_error *error = NULL;
	holt_pull_options o = HOLT_PULL_OPTIONS_INIT;

	registry.code = HOLT_EUNAVAILABLE;
	ck_assert_int_eq(try_pull("demo", NULL, &error), -HOLT_EUNAVAILABLE);
	ck_assert_str_eq(
		holt_error_message(error), "'demo' cannot be pulled: the registry says no");
	ck_assert_str_eq(holt_error_stage(error), "pull");
	ck_assert_str_eq(holt_error_object(error), "demo");
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "network"));
	holt_error_free(error);
	error = NULL;
	registry.code = HOLT_EDENIED;
	ck_assert_int_eq(try_pull("demo", NULL, &error), -HOLT_EDENIED);
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "docker login"));
	holt_error_free(error);
	error = NULL;
	registry.code = HOLT_EUNAVAILABLE;
	o.policy = HOLT_PULL_MISSING;
	ck_assert_int_eq(try_pull("demo", &o, &error), -HOLT_EUNAVAILABLE);
	ck_assert_str_eq(holt_error_message(error),
		"there is no image 'demo', and it cannot be pulled: the registry says no");
	holt_error_free(error);
}
END_TEST

START_TEST(cancelled_or_late)
{
	holt_pull_options o = HOLT_PULL_OPTIONS_INIT;
	struct image_wish wish = {.policy = HOLT_PULL_MISSING, .timeout_ms = 50};
	struct image *img = NULL;
	holt_error *error = NULL;
	bool changed = true;

	registry.slow = true;
	ck_assert_int_eq(holt_cancel_new(&o.cancel, NULL), 0);
	holt_cancel_trigger(o.cancel);
	ck_assert_int_eq(try_pull("demo", &o, NULL), -HOLT_ECANCELLED);
	ck_assert_int_eq(image_want(home, "demo", &wish, &img, &changed, &error), -HOLT_ETIMEOUT);
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "holt pull demo"));
	holt_error_free(error);
	ck_assert_ptr_null(img);
	/* Cancelled is cancelled, whatever the time. */
	wish.timeout_ms = 60000;
	wish.cancel = o.cancel;
	ck_assert_int_eq(image_want(home, "demo", &wish, &img, &changed, NULL), -HOLT_ECANCELLED);
	registry.slow = false;
	ck_assert_int_eq(image_want(home, "demo", &wish, &img, &changed, NULL), 0);
	ck_assert(changed);
	image_free(img);
	holt_cancel_free(o.cancel);
}
END_TEST

/* What a provider asks for. */
START_TEST(pools_fetch)
{
	holt_pool_shape shape = {.pool = "default"};
	holt_call call = {.timeout_ms = 20};
	void *pool = NULL;

	ck_assert_int_eq(box_pool_new(home, &pool, NULL), 0);
	ck_assert_int_eq(
		box_pool.fetch(pool, &shape, HOLT_PULL_MISSING, &call, NULL), -HOLT_EINVALID);
	shape.image = "demo";
	ck_assert_int_eq(
		box_pool.fetch(pool, &shape, HOLT_PULL_NEVER, &call, NULL), -HOLT_ENOT_FOUND);
	registry.slow = true;
	ck_assert_int_eq(
		box_pool.fetch(pool, &shape, HOLT_PULL_MISSING, &call, NULL), -HOLT_ETIMEOUT);
	registry.slow = false;
	call.timeout_ms = HOLT_FOREVER;
	ck_assert_int_eq(box_pool.fetch(pool, &shape, HOLT_PULL_MISSING, &call, NULL), 0);
	ck_assert_int_eq(box_pool.fetch(pool, &shape, HOLT_PULL_MISSING, &call, NULL), 0);
	ck_assert_uint_eq(registry.calls, 2);
	ck_assert_int_eq(box_pool.fetch(pool, &shape, HOLT_PULL_ALWAYS, &call, NULL), 0);
	ck_assert_uint_eq(registry.calls, 3);
	box_pool.close(pool);
}
END_TEST

START_TEST(phases_have_names)
{
	ck_assert_str_eq(holt_pull_phase_name(HOLT_PULL_RESOLVED), "resolved");
	ck_assert_str_eq(holt_pull_phase_name(HOLT_PULL_CONVERTED), "converted");
	ck_assert_str_eq(holt_pull_phase_name(HOLT_PULL_DONE), "done");
	ck_assert_str_eq(holt_pull_phase_name(HOLT_PULL_DONE + 1), "unknown");
	ck_assert_str_eq(holt_pull_phase_name(-1), "unknown");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("image_want");
	TCase *t = tcase_create("want");
	SRunner *runner = srunner_create(s);

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, always_asks_missing_asks_once_never_does_not);
	tcase_add_test(t, ids_are_not_pulled);
	tcase_add_test(t, what_is_no_reference_is_refused);
	tcase_add_test(t, options_are_checked);
	tcase_add_test(t, options_arrive);
	tcase_add_test(t, events);
	tcase_add_test(t, failures_say_what_was_tried);
	tcase_add_test(t, cancelled_or_late);
	tcase_add_test(t, pools_fetch);
	tcase_add_test(t, phases_have_names);
	suite_add_tcase(s, t);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
