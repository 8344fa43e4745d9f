/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file workers of a box on the fake engine: who is kept, who is killed, who is replaced, many
 * calls at once, memory, and the end of the box.
 */
#include "backend_fixture.h"

#include "box/box_files.h"

#define THREADS 8
#define ROUNDS  10
/* What a call may take of this process's memory, however much it moves. */
#define STREAM_KIB_MAX 8192

/* ---- workers ---- */

/* The children of the box's agent: its workers, where no command runs. Returns their number. */
static unsigned workers(int *ret, unsigned cap)
{
	const int agent = info_of(box).vmm_pid;
	DIR *d = opendir("/proc");
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));) {
		char path[300], state = 'X';
		int parent = 0;

		snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
		FILE *f = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		if (fscanf(f, "%*d (%*[^)]) %c %d", &state, &parent) == 2 && parent == agent &&
			state != 'Z' && n < cap)
			ret[n++] = atoi(e->d_name);
		(void)fclose(f);
	}
	closedir(d);
	return n;
}

/* Until there are at most @most. */
static unsigned await_workers(int *ret, unsigned most)
{
	const uint64_t until = clock_mono_ms() + 10000;
	unsigned n = workers(ret, 64);

	for (; n > most; n = workers(ret, 64)) {
		ck_assert_uint_lt(clock_mono_ms(), until);
		nap_ms(5);
	}
	return n;
}

static int the_worker(void)
{
	int pids[64];

	ck_assert_uint_eq(await_workers(pids, 1), 1);
	return pids[0];
}

static int look(const holt_call *call, holt_error **reterr)
{
	holt_file_info info = HOLT_FILE_INFO_INIT;

	return box_backend.stat(self, work, 0, call, &info, reterr);
}

START_TEST(one_worker_does_all_that_is_asked_in_turn)
{
	const holt_backend_read all = {.first_line = 0};
	struct found f = {.stop_at = 1};
	holt_backend_search what = {.root = work, .max_results = 10, .max_depth = 1};
	int pids[64];

	ck_assert_uint_eq(workers(pids, 64), 0);
	ok(look(&soon, E));
	const int first = the_worker();
	ok(put(in("a"), "x", 0, E));
	/* A failure that the worker tells is no reason to end it, */
	fails(HOLT_ENOT_FOUND,
		box_backend.read(self, in("none"), &all, to_nowhere, NULL, &soon, E));
	ck_assert_int_eq(the_worker(), first);
	/* an answer that nobody hears out is. */
	fails(HOLT_ECANCELLED, box_backend.list(self, &what, to_found, &f, &soon, NULL, E));
	ck_assert_uint_eq(await_workers(pids, 0), 0);
	ok(look(&soon, E));
	ck_assert_int_ne(the_worker(), first);
}
END_TEST

static int gives_up(void *data, size_t size, size_t *ret_len, void *user)
{
	unsigned *pieces = user;

	memset(data, 'x', size);
	*ret_len = size;
	return --*pieces == 0;
}

/* Never ends by itself; counts. */
static int endless(void *data, size_t size, size_t *ret_len, void *user)
{
	memset(data, 'x', size);
	*ret_len = size;
	*(size_t *)user += size;
	return *(size_t *)user > ((size_t)1 << 31);
}

static int too_much(void *data, size_t size, size_t *ret_len, void *user)
{
	(void)data;
	(void)user;
	*ret_len = size + 1;
	return 0;
}

START_TEST(a_write_that_is_given_up_leaves_the_old)
{
	unsigned pieces = 20;

	ok(put(in("a"), "old", 0, E));
	const int worker = the_worker();
	fails(HOLT_ECANCELLED, box_backend.write(self, in("a"), 0, gives_up, &pieces, &soon, E));
	fails(HOLT_EINVALID, box_backend.write(self, in("a"), 0, too_much, NULL, &soon, E));
	check_text(in("a"), "old");
	pieces = 1;
	fails(HOLT_ECANCELLED, box_backend.append(self, in("a"), 0, gives_up, &pieces, &soon, E));
	check_text(in("a"), "old");
	ck_assert_uint_eq(count_dir(work), 1);
	ck_assert_int_eq(the_worker(), worker);
}
END_TEST

START_TEST(a_write_that_cannot_work_ends_early)
{
	size_t drawn = 0;

	ok(look(&soon, E));
	const int worker = the_worker();
	fails(HOLT_EINVALID, box_backend.write(self, work, 0, endless, &drawn, &soon, E));
	/* No more than what was under way. */
	ck_assert_uint_lt(drawn, 64u << 20);
	ck_assert_int_eq(the_worker(), worker);
}
END_TEST

static void *trigger_later(void *arg)
{
	nap_ms(150);
	holt_cancel_trigger(arg);
	return NULL;
}

START_TEST(a_worker_that_hangs_holds_up_nobody)
{
	const holt_call brief = {.timeout_ms = 300};
	holt_call call = {.timeout_ms = HOLT_FOREVER};
	pthread_t t;
	int pids[64];

	ok(look(&soon, E));
	ck_assert_int_eq(kill(the_worker(), SIGSTOP), 0);
	uint64_t before = clock_mono_ms();
	fails(HOLT_ETIMEOUT, look(&brief, E));
	ck_assert_uint_lt(clock_mono_ms() - before, 2300);
	ck_assert_uint_eq(await_workers(pids, 0), 0);
	ok(look(&soon, E));
	ck_assert_int_eq(kill(the_worker(), SIGSTOP), 0);
	ok(holt_cancel_new(&call.cancel, E));
	ck_assert_int_eq(pthread_create(&t, NULL, trigger_later, call.cancel), 0);
	before = clock_mono_ms();
	fails(HOLT_ECANCELLED, look(&call, E));
	ck_assert_uint_lt(clock_mono_ms() - before, 2150);
	pthread_join(t, NULL);
	/* A token that has fired already ends a call before it begins. */
	fails(HOLT_ECANCELLED, look(&call, E));
	holt_cancel_free(call.cancel);
	ck_assert_uint_eq(await_workers(pids, 0), 0);
	ok(look(&soon, E));
}
END_TEST

static void *kill_later(void *arg)
{
	nap_ms(150);
	ck_assert_int_eq(kill(*(int *)arg, SIGKILL), 0);
	return NULL;
}

/* It has the request and does not answer; then it is killed. */
static void doomed(pthread_t *t, int *pid)
{
	ok(look(&soon, E));
	*pid = the_worker();
	ck_assert_int_eq(kill(*pid, SIGSTOP), 0);
	ck_assert_int_eq(pthread_create(t, NULL, kill_later, pid), 0);
}

START_TEST(a_killed_worker_is_replaced_where_that_does_no_harm)
{
	size_t drawn = 0;
	pthread_t t;
	int pid;

	/* Killed while it was idle, even if that is not known yet. */
	ok(look(&soon, E));
	ck_assert_int_eq(kill(the_worker(), SIGKILL), 0);
	ok(look(&soon, E));
	doomed(&t, &pid);
	ok(look(&soon, E));
	pthread_join(t, NULL);
	ck_assert_int_ne(the_worker(), pid);
	doomed(&t, &pid);
	fails(HOLT_EIO, box_backend.make_directory(self, in("d"), 0, &soon, E));
	pthread_join(t, NULL);
	doomed(&t, &pid);
	fails(HOLT_EIO, box_backend.write(self, in("a"), 0, endless, &drawn, &soon, E));
	pthread_join(t, NULL);
	ck_assert_uint_gt(drawn, 0);
	ck_assert_uint_eq(count_dir(work), 0);
	ok(look(&soon, E));
}
END_TEST

START_TEST(a_paused_box_uses_no_idle_worker)
{
	char path[200];
	int pids[64];

	ok(look(&soon, E));
	const int first = the_worker();
	/* The fake engine has nothing that could be paused: only its state says so. */
	snprintf(path, sizeof path, "sed -i 's/\"running\"/\"paused\"/' %s/boxes/%s/state.json",
		home_path, holt_box_id(box));
	shell(path);
	ck_assert_int_eq(info_of(box).state, HOLT_BOX_PAUSED);
	ok(look(&soon, E));
	ck_assert_uint_eq(workers(pids, 64), 2);
	ck_assert(pids[0] == first || pids[1] == first);
}
END_TEST

/* ---- many at once ---- */

/* Its own file, written, appended to, moved, listed, searched and removed. */
static void work_once(long id, int round)
{
	char name[32], other[32], text[64];
	struct found f = {.n = 0};
	struct output o = {.total = 0};
	struct text more = {"more\n", 5};
	holt_exit result = HOLT_EXIT_INIT;
	holt_backend_search what = {.max_results = 10, .line_bytes = 100};

	snprintf(name, sizeof name, "t%ld/f%d", id, round);
	snprintf(other, sizeof other, "t%ld/g%d", id, round);
	snprintf(text, sizeof text, "thread %ld round %d\n", id, round);
	ok(put(in(name), text, HOLT_WRITE_PARENTS, E));
	ok(box_backend.append(self, in(name), 0, from_text, &more, &soon, E));
	ok(box_backend.move(self, in(name), in(other), 0, &soon, E));
	what.root = in(other);
	what.pattern = "thread";
	ok(box_backend.grep(self, &what, to_matches, &f, &soon, NULL, E));
	ck_assert_uint_eq(f.n, 1);
	text[strlen(text) - 1] = 0;
	ck_assert_ptr_nonnull(strstr(f.text, text));
	ok(command("printf $WORD; exit 3", &soon, HOLT_FOREVER, &o, &result, E));
	ck_assert_str_eq(o.text[HOLT_STDOUT], "value");
	ck_assert_int_eq(result.code, 3);
	ok(box_backend.remove(self, in(other), 0, &soon, E));
	fails(HOLT_ENOT_FOUND, box_backend.remove(self, in(other), 0, &soon, E));
}

static void *worker(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		work_once((long)arg, i);
	return NULL;
}

START_TEST(eight_threads_of_10_rounds_share_the_workers)
{
	pthread_t threads[THREADS];
	int pids[64];

	for (long i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, worker, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_le(await_workers(pids, FILES_IDLE_MAX), FILES_IDLE_MAX);
	/* With the backend they go. */
	box_backend.close(self);
	self = NULL;
	ck_assert_uint_eq(await_workers(pids, 0), 0);
}
END_TEST

/* ---- memory ---- */

struct bulk {
	size_t left;
	uint8_t next;
};

static int from_bulk(void *data, size_t size, size_t *ret_len, void *user)
{
	struct bulk *b = user;
	const size_t n = b->left < size ? b->left : size;

	for (size_t i = 0; i < n; i++)
		((uint8_t *)data)[i] = b->next++;
	b->left -= n;
	*ret_len = n;
	return 0;
}

static int to_bulk(const void *data, size_t len, void *user)
{
	struct bulk *b = user;

	bool same = len <= b->left;

	for (size_t i = 0; i < len; i++)
		same &= ((const uint8_t *)data)[i] == b->next++;
	b->left -= len;
	return !same;
}

static long peak_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[128];
	long kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	ck_assert_ptr_nonnull(f);
	(void)fclose(f);
	return kib;
}

START_TEST(content_of_64_MiB_takes_less_than_8_MiB_of_memory)
{
	struct bulk b = {.left = 64u << 20};
	const holt_backend_read all = {.first_line = 0};

	ok(put(in("a"), "x", 0, E));
	check_text(in("a"), "x");
	const long before = peak_kib();
	ok(box_backend.write(self, in("a"), 0, from_bulk, &b, &forever, E));
	b = (struct bulk){.left = 64u << 20};
	ok(box_backend.read(self, in("a"), &all, to_bulk, &b, &forever, E));
	ck_assert_uint_eq(b.left, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	ck_assert_int_lt(peak_kib() - before, STREAM_KIB_MAX);
#else
	(void)before; /* a sanitizer keeps what was freed */
#endif
}
END_TEST

/* ---- the box ---- */

static void *stop_later(void *arg)
{
	nap_ms(150);
	ok(holt_box_stop(arg, 300, E));
	return NULL;
}

/* The worker of a box is stopped, so that what it is asked for does not come. */
static void stun(holt_box *b)
{
	holt_box *const mine = box;

	box = b;
	ck_assert_int_eq(kill(the_worker(), SIGSTOP), 0);
	box = mine;
}

START_TEST(a_box_that_ends_ends_its_calls_and_works_again_after_a_start)
{
	holt_box *kept = make("kept", HOLT_BOX_KEEP, NULL);
	holt_file_info info = HOLT_FILE_INFO_INIT;
	size_t drawn = 0;
	void *other = NULL;
	pthread_t t;

	ok(box_backend_new(kept, NULL, work, &other, E));
	fails(HOLT_EUNAVAILABLE, box_backend.stat(other, "/", 0, &soon, &info, E));
	start_box(kept, HOLT_START_DETACHED);
	ok(box_backend.stat(other, "/", 0, &soon, &info, E));
	/* An idle worker does not hold up the end. */
	const uint64_t before = clock_mono_ms();
	ok(holt_box_stop(kept, 5000, E));
	ck_assert_uint_lt(clock_mono_ms() - before, 3000);
	fails(HOLT_EGUEST_LOST, box_backend.stat(other, "/", 0, &soon, &info, E));
	start_box(kept, HOLT_START_DETACHED);
	ok(box_backend.stat(other, "/", 0, &soon, &info, E));
	stun(kept);
	ck_assert_int_eq(pthread_create(&t, NULL, stop_later, kept), 0);
	fails(HOLT_EGUEST_LOST, box_backend.make_directory(other, in("d"), 0, &soon, E));
	pthread_join(t, NULL);
	start_box(kept, HOLT_START_DETACHED);
	ok(box_backend.stat(other, "/", 0, &soon, &info, E));
	ck_assert_int_eq(kill(info_of(kept).vmm_pid, SIGKILL), 0);
	fails(HOLT_EGUEST_LOST, box_backend.write(other, in("a"), 0, endless, &drawn, &soon, E));
	box_backend.close(other);
	check_end(kept, HOLT_BOX_EXITED, HOLT_END_CRASHED, 137);
	drop(kept);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {one_worker_does_all_that_is_asked_in_turn,
		a_write_that_is_given_up_leaves_the_old, a_write_that_cannot_work_ends_early,
		a_worker_that_hangs_holds_up_nobody,
		a_killed_worker_is_replaced_where_that_does_no_harm,
		a_paused_box_uses_no_idle_worker, eight_threads_of_10_rounds_share_the_workers,
		content_of_64_MiB_takes_less_than_8_MiB_of_memory,
		a_box_that_ends_ends_its_calls_and_works_again_after_a_start};

	return run_backend_tests("box files", tests, sizeof tests / sizeof tests[0]);
}
