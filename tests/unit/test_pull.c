/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pulling, from a registry that is a function of this file: what is told on the way, what comes
 * together, what is cut, wrong, damaged or cancelled. With real registries: tests/registry.
 */
#include "image_fixture.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "dir_fixture.h"
#include "http_fixture.h"
#include "image/pull.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define LAYERS    5
#define PULLERS   6
#define KILLED    12
#define BIG_BYTES (1u << 20)
#define CANCEL_MS 300 /* the promise; the test allows ten times as much */

static struct image_store *store;
static struct web web;
static struct tarbuf layers[LAYERS];
static char *config;
static char *manifest;
static char config_digest[DIGEST_STR_LEN + 1];
static char layer_digest[LAYERS][DIGEST_STR_LEN + 1];

/* How the registry behaves. */
static atomic_uint cuts; /* so many answers for layers end in the middle */
static atomic_bool wrong; /* the last byte of the base is another one */
static atomic_bool silent; /* layers never come */

static struct tarbuf make_layer(unsigned i)
{
	char name[16];
	auto_free char *big = mem_zalloc(BIG_BYTES + 1);

	memset(big, 'a' + (int)i, BIG_BYTES);
	(void)snprintf(name, sizeof name, "file%u", i);
	const struct ent e[] = {ENT_FILE(name, big), {0}};
	return fixture_tar(e, NULL);
}

static void make_image(void)
{
	auto_free char *ids = str_dup("");
	auto_free char *list = str_dup("");

	for (unsigned i = 0; i < LAYERS; i++) {
		/* The second and the fourth are the same. */
		layers[i] = make_layer(i == 3 ? 1 : i);
		ck_assert_int_eq(digest_of(layers[i].data, layers[i].len, layer_digest[i]), 0);
		char *more_ids = str_printf("%s%s\"%s\"", ids, i ? "," : "", layer_digest[i]);
		char *more = str_printf("%s%s{\"digest\":\"%s\",\"size\":%zu}", list, i ? "," : "",
			layer_digest[i], layers[i].len);
		mem_free(ids);
		mem_free(list);
		ids = more_ids;
		list = more;
	}
	config = str_printf("{\"architecture\":\"amd64\",\"os\":\"linux\",\"rootfs\":{\"type\":"
			    "\"layers\",\"diff_ids\":[%s]},\"config\":{\"Cmd\":[\"/file0\"]}}",
		ids);
	ck_assert_int_eq(digest_of(config, strlen(config), config_digest), 0);
	manifest = str_printf("{\"schemaVersion\":2,\"config\":{\"digest\":\"%s\",\"size\":%zu},"
			      "\"layers\":[%s]}",
		config_digest, strlen(config), list);
}

static void send_layer(struct web_conn *c, const struct web_request *q, unsigned i)
{
	auto_free char *range = web_header(q, "Range");
	size_t from = 0;

	if (range)
		(void)sscanf(range, "bytes=%zu-", &from);
	auto_free char *head = str_printf(
		"HTTP/1.1 %s\r\nContent-Length: %zu\r\nContent-Range: bytes %zu-%zu/%zu\r\n\r\n",
		range ? "206 Partial Content" : "200 OK", layers[i].len - from, from,
		layers[i].len - 1, layers[i].len);
	web_text(c, head);
	if (silent) {
		(void)usleep(3000000);
		web_cut(c);
		return;
	}
	size_t len = layers[i].len - from;
	if (cuts > 0) {
		cuts--;
		web_send(c, layers[i].data + from, len / 2);
		web_cut(c);
		return;
	}
	len -= wrong && i == 0;
	web_send(c, layers[i].data + from, len);
	if (wrong && i == 0)
		web_send(c, "?", 1);
}

static void serve(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	if (strstr(q->target, "/manifests/")) {
		web_answer(c, q, 200, "", manifest);
		return;
	}
	if (strstr(q->target, config_digest)) {
		web_answer(c, q, 200, "", config);
		return;
	}
	for (unsigned i = 0; i < LAYERS; i++) {
		if (strstr(q->target, layer_digest[i])) {
			send_layer(c, q, i);
			return;
		}
	}
	web_answer(c, q, 404, "", "{}");
}

static struct image_store *open_store(void)
{
	auto_error error = NULL;
	struct image_store *s = NULL;

	ck_assert_msg(image_store_open(in_dir("images"), &s, &error) == 0, "%s",
		holt_error_message(error));
	return s;
}

/* All but the server, whose threads no child should be born among. */
static void begin_alone(void)
{
	setup();
	ck_assert_int_eq(setenv("DOCKER_CONFIG", dir, 1), 0);
	store = open_store();
	make_image();
	cuts = 0;
	wrong = false;
	silent = false;
}

static void begin(void)
{
	begin_alone();
	web_start(&web, serve, NULL);
}

static void end(void)
{
	web_stop(&web);
	image_store_close(store);
	for (unsigned i = 0; i < LAYERS; i++)
		free(layers[i].data);
	mem_free(config);
	mem_free(manifest);
	teardown();
}

static int pull_into(struct image_store *s, const struct image_pull_options *o, bool *changed,
	holt_error **error)
{
	auto_free char *ref = str_printf("%s/app:1", web.host);
	struct image *img = NULL;
	const int code = image_pull(s, ref, o, &img, changed, error);

	image_free(img);
	return code;
}

static unsigned count_requests(const char *what)
{
	char *lines = web_lines(&web);
	unsigned n = 0;

	for (const char *at = lines; (at = strstr(at, what)); at++)
		n++;
	free(lines);
	return n;
}

static unsigned count_files(const char *name, const char *suffix)
{
	DIR *d = opendir(in_dir(name));
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	for (const struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.' && str_ends(e->d_name, suffix);
	(void)closedir(d);
	return n;
}

/* ---- what comes ---- */

struct told {
	unsigned resolved;
	unsigned converted;
	unsigned loaded;
	unsigned kept;
	unsigned retried;
	unsigned last; /* layer that was converted last */
	uint64_t total;
};

static void note(const struct pull_event *e, void *user)
{
	struct told *t = user;

	t->resolved += e->phase == PULL_RESOLVED;
	t->loaded += e->phase == PULL_LOADED;
	t->kept += e->phase == PULL_KEPT;
	t->retried += e->phase == PULL_RETRY;
	ck_assert_uint_eq(e->n_layers, LAYERS);
	if (e->phase == PULL_RESOLVED)
		t->total = e->total_bytes;
	if (e->phase != PULL_CONVERTED)
		return;
	/* Newest first, each once. */
	ck_assert_uint_eq(e->layer, t->converted ? t->last - 1 : LAYERS);
	t->last = e->layer;
	t->converted++;
}

START_TEST(layers_come_are_told_and_make_an_image)
{
	struct told t = {0};
	const struct image_pull_options o = {.event = note, .user_data = &t};
	auto_error error = NULL;
	bool changed = false;
	uint64_t total = 0;

	ck_assert_msg(pull_into(store, &o, &changed, &error) == 0, "%s", holt_error_message(error));
	ck_assert(changed);
	for (unsigned i = 0; i < LAYERS; i++)
		total += layers[i].len;
	ck_assert_uint_eq(t.total, total);
	ck_assert_uint_eq(t.resolved, 1);
	ck_assert_uint_eq(t.loaded, LAYERS);
	ck_assert_uint_eq(t.converted, LAYERS);
	ck_assert_uint_eq(t.last, 1);
	/* One that is there twice comes once. */
	ck_assert_uint_eq(count_requests(layer_digest[1]), 1);
	ck_assert_uint_eq(count_files("images/blobs", ""), LAYERS - 1);
	ck_assert_uint_eq(count_files("images/tmp", ""), 0);
	/* And then nothing is asked for but the manifest. */
	const unsigned before = count_requests("GET");
	ck_assert_int_eq(pull_into(store, NULL, &changed, NULL), 0);
	ck_assert(!changed);
	ck_assert_uint_eq(count_requests("GET"), before + 1);
}
END_TEST

START_TEST(what_is_there_is_not_loaded_again)
{
	struct told t = {0};
	const struct image_pull_options o = {.event = note, .user_data = &t};
	auto_free char *ref = str_printf("%s/app:1", web.host);

	ck_assert_int_eq(pull_into(store, NULL, NULL, NULL), 0);
	ck_assert_int_eq(image_remove(store, ref, NULL), 0);
	ck_assert_int_eq(pull_into(store, &o, NULL, NULL), 0);
	ck_assert_uint_eq(t.kept, LAYERS);
	ck_assert_uint_eq(t.converted, LAYERS);
	ck_assert_uint_eq(count_requests(layer_digest[0]), 1);
}
END_TEST

START_TEST(connections_that_break_go_on)
{
	struct told t = {0};
	const struct image_pull_options o = {.event = note, .user_data = &t};
	auto_error error = NULL;

	cuts = 6;
	ck_assert_msg(pull_into(store, &o, NULL, &error) == 0, "%s", holt_error_message(error));
	ck_assert_uint_gt(t.retried, 0);
	ck_assert_uint_gt(count_requests("range=bytes="), 0);
	ck_assert_uint_eq(count_files("images/blobs", ".part"), 0);
}
END_TEST

/* ---- what is wrong ---- */

START_TEST(a_wrong_layer_is_named_and_nothing_of_it_is_kept)
{
	auto_error error = NULL;

	wrong = true;
	ck_assert_int_eq(pull_into(store, NULL, NULL, &error), -HOLT_EINVALID);
	ck_assert_str_eq(holt_error_stage(error), "pull");
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), layer_digest[0]));
	ck_assert_uint_eq(count_files("images/rootfs", ""), 0);
	ck_assert_uint_eq(count_files("images/tmp", ""), 0);
	ck_assert_uint_eq(count_files("images/blobs", layer_digest[0] + 7), 0);
	wrong = false;
	ck_assert_int_eq(pull_into(store, NULL, NULL, NULL), 0);
}
END_TEST

START_TEST(a_blob_that_was_damaged_since_is_loaded_again)
{
	auto_free char *ref = str_printf("%s/app:1", web.host);
	auto_free char *path = str_printf("%s/%s", in_dir("images/blobs"), layer_digest[2] + 7);
	auto_error error = NULL;

	ck_assert_int_eq(pull_into(store, NULL, NULL, NULL), 0);
	ck_assert_int_eq(image_remove(store, ref, NULL), 0);
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(pwrite(fd, "damage", 6, 4000), 6);
	close(fd);
	ck_assert_msg(pull_into(store, NULL, NULL, &error) == 0, "%s", holt_error_message(error));
	ck_assert_uint_eq(count_requests(layer_digest[2]), 2);
}
END_TEST

/* ---- together, and in between ---- */

static void *trigger_later(void *flag)
{
	(void)usleep(200000);
	__atomic_store_n((volatile int *)flag, 1, __ATOMIC_RELAXED);
	return NULL;
}

START_TEST(a_cancel_ends_a_pull_that_waits)
{
	volatile int flag = 0;
	const struct image_pull_options o = {.cancel = &flag};
	auto_error error = NULL;
	pthread_t thread;

	silent = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, trigger_later, (void *)(uintptr_t)&flag), 0);
	const uint64_t began_ms = clock_mono_ms();
	ck_assert_int_eq(pull_into(store, &o, NULL, &error), -HOLT_ECANCELLED);
	ck_assert_uint_lt(clock_mono_ms() - began_ms, 200 + 10 * CANCEL_MS);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_uint_eq(count_files("images/tmp", ""), 0);
	ck_assert_uint_eq(count_files("images/rootfs", ""), 0);
}
END_TEST

/* A process that pulls as soon as it is told where. */
struct puller {
	pid_t pid;
	int tell;
};

static struct puller puller_make(void)
{
	int ends[2];
	struct puller p;

	ck_assert_int_eq(fd_pipe(ends), 0);
	p.pid = fork();
	if (p.pid == 0) {
		struct image_store *s = open_store();
		if (fd_read_full(ends[0], web.host, sizeof web.host) != sizeof web.host)
			_exit(2);
		const int code = pull_into(s, NULL, NULL, NULL);
		image_store_close(s);
		_exit(code == 0 ? 0 : 1);
	}
	(void)fd_close(ends[0]);
	p.tell = ends[1];
	return p;
}

static void puller_begin(struct puller *p)
{
	ck_assert_int_eq(fd_write_full(p->tell, web.host, sizeof web.host), 0);
	p->tell = fd_close(p->tell);
}

START_TEST(many_processes_load_each_layer_once)
{
	struct puller pullers[PULLERS];

	for (unsigned i = 0; i < PULLERS; i++)
		pullers[i] = puller_make();
	web_start(&web, serve, NULL);
	for (unsigned i = 0; i < PULLERS; i++)
		puller_begin(&pullers[i]);
	for (unsigned i = 0; i < PULLERS; i++) {
		int status = -1;
		ck_assert_int_eq(waitpid(pullers[i].pid, &status, 0), pullers[i].pid);
		ck_assert_int_eq(status, 0);
	}
	for (unsigned i = 0; i < LAYERS; i++)
		ck_assert_uint_eq(count_requests(layer_digest[i]), 1);
	ck_assert_uint_eq(count_requests(config_digest), 1);
}
END_TEST

/* K25: each goes on behind the one that was killed. */
START_TEST(killed_pulls_leave_what_the_next_one_goes_on_with)
{
	struct puller pullers[KILLED];

	for (unsigned i = 0; i < KILLED; i++)
		pullers[i] = puller_make();
	web_start(&web, serve, NULL);
	for (unsigned i = 0; i < KILLED; i++) {
		puller_begin(&pullers[i]);
		(void)usleep(3000 + i * 1500);
		(void)kill(pullers[i].pid, SIGKILL);
		ck_assert_int_eq(waitpid(pullers[i].pid, NULL, 0), pullers[i].pid);
		struct image_store *s = open_store();
		ck_assert_uint_eq(count_files("images/tmp", ""), 0);
		image_store_close(s);
	}
	ck_assert_int_eq(pull_into(store, NULL, NULL, NULL), 0);
	ck_assert_uint_eq(count_files("images/blobs", ".part"), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {layers_come_are_told_and_make_an_image,
		what_is_there_is_not_loaded_again, connections_that_break_go_on,
		a_wrong_layer_is_named_and_nothing_of_it_is_kept,
		a_blob_that_was_damaged_since_is_loaded_again, a_cancel_ends_a_pull_that_waits};
	Suite *s = suite_create("pull");
	TCase *c = tcase_create("pull");

	tcase_add_checked_fixture(c, begin, end);
	tcase_set_timeout(c, 120);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	TCase *many = tcase_create("processes");
	tcase_add_checked_fixture(many, begin_alone, end);
	tcase_set_timeout(many, 120);
	tcase_add_test(many, many_processes_load_each_layer_once);
	tcase_add_test(many, killed_pulls_leave_what_the_next_one_goes_on_with);
	suite_add_tcase(s, many);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
