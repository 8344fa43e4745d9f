/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a provider costs an agent: a turn is acquire, run, release, and each of the three and their
 * sum is a figure, turn_<scenario>_<workload>_<part>.
 *
 *   warm        the same thread turn after turn, its sandbox warm in between. The acquire has a
 *               real sign of life of the guest in it (health_check_skip_seconds is 0)
 *   cold        each turn is a new thread's, so a sandbox is made, and the oldest warm one evicted
 *   miss        six threads in turn, of which the pool keeps three: always the ones that come later
 *   idle        the thread comes back after its idle time: its sandbox is gone
 *   killed      its machine was killed (SIGKILL) while it was warm: found out, made anew
 *   no_pool     warm without a warm pool: a provider per turn, which destroys at its end
 *   pressure    four threads at once, each another user's thread per turn, and room for two
 *
 *   workloads   noop: `true`; python: a line of python3 (Debian); file: 1 MiB written and read
 *               back; sleep: 2 s; state: a counter in a file, whose value is checked
 *
 * Baseline of the acquires that make a sandbox: box_cold, holt_box_create and holt_box_start of a
 * box that boots; of warm ones: box_clone, the same from a template. Both are measured here.
 * `reference` is the median that another provider of virtual machines has published for hardware
 * virtualization. Everything but pressure is on one thread; the first turn of each is not counted.
 */
#include "agent_turns.h"

#include "baseline.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB              1048576u
#define MISS_THREADS     6
#define PRESSURE_THREADS 4
#define IDLE_S           1
#define GONE_TIMEOUT_MS  20000
#define POLL_US          20000
#define TARGET_WARM      3
#define TARGET_WARM_P99  15
#define TARGET_COLD      100
#define REFERENCE_COLD   856
#define REFERENCE_WARM   14.6
#define REFERENCE_TURN   29.9

static void need(int r, const char *what, holt_error *error)
{
	if (r == 0)
		return;
	(void)fprintf(stderr, "bench: %s: %s: %s\n", what, holt_error_object(error),
		holt_error_message(error));
	exit(1);
}

/* ---- a provider ---- */

holt_provider *turns_open(
	const struct turns *t, const char *pool, const char *image, const char *lines)
{
	char text[1024];
	holt_config *config = NULL;
	holt_provider *p = NULL;
	holt_error *error = NULL;

	const int len = snprintf(text, sizeof text,
		"sandbox:\n  image: %s\n  pool: %s\n  acquire_timeout: 60\n%s", image, pool, lines);
	need(holt_config_parse(text, (size_t)len, NULL, &config, &error),
		"cannot use the configuration", error);
	need(holt_provider_open(t->home, config, NULL, &p, &error), "cannot open a provider",
		error);
	holt_config_free(config);
	return p;
}

void turns_acquire(holt_provider *p, unsigned thread, char ret_id[HOLT_SANDBOX_ID_MAX + 1])
{
	holt_scope scope = HOLT_SCOPE_INIT;
	holt_error *error = NULL;
	char name[32];

	scope.user = "bench";
	scope.user_len = strlen(scope.user);
	scope.thread = name;
	scope.thread_len = (size_t)snprintf(name, sizeof name, "thread-%u", thread);
	need(holt_provider_acquire(p, &scope, NULL, ret_id, &error), "cannot acquire", error);
}

void turns_release(holt_provider *p, const char *id)
{
	holt_error *error = NULL;

	need(holt_provider_release(p, id, &error), "cannot release", error);
}

void turns_close(holt_provider *p)
{
	holt_error *error = NULL;

	need(holt_provider_shutdown(p, &error), "cannot shut down a provider", error);
	holt_provider_free(p);
}

/* ---- workloads ---- */

struct workload {
	const char *name;
	const char *command; /* NULL: the file */
	const char *output; /* that it has to have; NULL: any. "N": the number of turns so far */
	int python; /* it needs the Debian image */
	unsigned share; /* turns for ten rounds */
};

static const struct workload workloads[] = {
	{"noop", "true", "", 0, 100},
	{"python", "python3 -c 'print(sum(range(1000)))'", "499500\n", 1, 20},
	{"file", NULL, NULL, 0, 30},
	{"sleep", "sleep 2", "", 0, 4},
	{"state",
		"n=$(cat /mnt/user-data/workspace/n 2>/dev/null || echo 0); "
		"echo $((n + 1)) | tee /mnt/user-data/workspace/n",
		"N", 0, 30},
};

#define N_WORKLOADS (sizeof workloads / sizeof workloads[0])
#define NOOP        (&workloads[0])

static void run_command(holt_sandbox *s, const struct workload *w, unsigned turns)
{
	holt_exit result = HOLT_EXIT_INIT;
	holt_command *command = NULL;
	holt_error *error = NULL;
	char number[32];
	size_t len = 0;

	(void)snprintf(number, sizeof number, "%u\n", turns);
	const char *const want = strcmp(w->output, "N") == 0 ? number : w->output;
	need(holt_sandbox_execute(s, w->command, NULL, &command, &error), w->name, error);
	(void)holt_command_exit(command, &result);
	const char *out = holt_command_output(command, HOLT_STDOUT, &len, NULL);
	if (result.code != 0 || len != strlen(want) || memcmp(out, want, len) != 0) {
		(void)fprintf(stderr, "bench: '%s' ended with %d and wrote '%.*s', not '%s'\n",
			w->name, result.code, (int)len, out, want);
		exit(1);
	}
	holt_command_free(command);
}

static void run_file(holt_sandbox *s)
{
	static char data[MIB];
	static const char path[] = "/mnt/user-data/workspace/file";
	holt_error *error = NULL;
	char *back = NULL;
	size_t len = 0;

	memset(data, 'x', sizeof data);
	need(holt_sandbox_write(s, path, data, sizeof data, NULL, &error), "cannot write", error);
	need(holt_sandbox_read(s, path, NULL, &back, &len, &error), "cannot read", error);
	if (len != sizeof data || memcmp(back, data, len) != 0)
		need(-1, "what was read differs", NULL);
	holt_free(back);
}

/* ---- turns ---- */

enum part { ACQUIRE, RUN, RELEASE, TOTAL, N_PARTS };

/* The four figures of one scenario with one workload. */
struct series {
	char names[N_PARTS][64];
	struct record *parts[N_PARTS];
};

static struct series series_new(const char *scenario, const char *workload, const char *baseline)
{
	static const char *const parts[N_PARTS] = {"acquire", "run", "release", "total"};
	struct series s;

	for (int i = 0; i < N_PARTS; i++) {
		(void)snprintf(s.names[i], sizeof s.names[i], "turn_%s_%s_%s", scenario, workload,
			parts[i]);
		s.parts[i] = record_new(NULL, "ms", i == ACQUIRE ? baseline : NULL);
	}
	return s;
}

static void series_add(struct series *s, const double ms[N_PARTS], double base)
{
	record_pair(s->parts[ACQUIRE], ms[ACQUIRE], base);
	for (int i = RUN; i < N_PARTS; i++)
		record_add(s->parts[i], ms[i]);
}

static void series_end(struct series *s, const struct record_host *host)
{
	for (int i = 0; i < N_PARTS; i++) {
		s->parts[i]->name = s->names[i];
		record_print(s->parts[i], host);
		record_free(s->parts[i]);
	}
}

/* @turns: how many the sandbox has seen with this one. */
static void turn(holt_provider *p, unsigned thread, const struct workload *w, unsigned turns,
	double ms[N_PARTS])
{
	char id[HOLT_SANDBOX_ID_MAX + 1];
	const double start = now_ms();

	turns_acquire(p, thread, id);
	const double acquired = now_ms();
	holt_sandbox *s = holt_provider_get(p, id);
	if (!s)
		need(-1, "an acquired sandbox is not active", NULL);
	if (w->command)
		run_command(s, w, turns);
	else
		run_file(s);
	holt_sandbox_free(s);
	const double ran = now_ms();
	turns_release(p, id);
	const double end = now_ms();
	ms[ACQUIRE] = acquired - start;
	ms[RUN] = ran - acquired;
	ms[RELEASE] = end - ran;
	ms[TOTAL] = end - start;
}

static const char *image_of(const struct turns *t, const struct workload *w)
{
	return w->python ? t->debian : t->image;
}

static unsigned count_of(const struct turns *t, const struct workload *w)
{
	return (t->rounds * w->share + 9) / 10;
}

/* ---- baselines ---- */

/* A box that is made and started without a provider. */
static double box_ms(const struct turns *t, const char *image, uint32_t flags)
{
	holt_start_options options = HOLT_START_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_box *box = NULL;
	const double start = now_ms();

	options.flags = flags;
	need(holt_box_create(t->home, image, NULL, &box, &error), "cannot create a box", error);
	need(holt_box_start(box, &options, NULL, &error), "cannot start a box", error);
	const double ms = now_ms() - start;
	holt_box_close(box);
	return ms;
}

/* ---- scenarios ---- */

static void bench_warm(const struct turns *t, const struct workload *w)
{
	const char *const image = image_of(t, w);
	struct series s = series_new("warm", w->name, "box_clone");
	holt_provider *p = turns_open(t, "bench-warm", image, "");
	double ms[N_PARTS];

	s.parts[ACQUIRE]->target_median = TARGET_WARM;
	s.parts[ACQUIRE]->target_p99 = TARGET_WARM_P99;
	s.parts[ACQUIRE]->reference = REFERENCE_WARM;
	if (w == NOOP)
		s.parts[TOTAL]->reference = REFERENCE_TURN;
	turn(p, 0, w, 1, ms);
	const double clone_ms = box_ms(t, image, 0);
	for (unsigned i = 0; i < count_of(t, w); i++) {
		turn(p, 0, w, i + 2, ms);
		series_add(&s, ms, clone_ms);
	}
	turns_close(p);
	series_end(&s, t->host);
}

/* @threads take turns; 0: each turn is another one's. */
static void bench_cold(const struct turns *t, const char *scenario, unsigned threads, unsigned n)
{
	struct series s = series_new(scenario, NOOP->name, "box_cold");
	holt_provider *p = turns_open(t, "bench-cold", t->image, "  replicas: 3\n");
	const double cold_ms = box_ms(t, t->image, HOLT_START_NO_TEMPLATE);
	double ms[N_PARTS];

	s.parts[ACQUIRE]->target_median = TARGET_COLD;
	s.parts[ACQUIRE]->reference = REFERENCE_COLD;
	for (unsigned i = 0; i <= n; i++) {
		turn(p, threads ? i % threads : i, NOOP, 1, ms);
		if (i > 0)
			series_add(&s, ms, cold_ms);
	}
	turns_close(p);
	series_end(&s, t->host);
}

static void bench_no_pool(const struct turns *t, const struct workload *w)
{
	/* The counter begins anew each time. */
	const char *const image = image_of(t, w);
	struct series s = series_new("no_pool", w->name, "box_cold");
	const double cold_ms = box_ms(t, image, HOLT_START_NO_TEMPLATE);
	const unsigned n = (count_of(t, w) + 4) / 5;
	double ms[N_PARTS];

	for (unsigned i = 0; i <= n; i++) {
		holt_provider *p = turns_open(t, "bench-none", image, "");

		turn(p, 0, w, 1, ms);
		const double before = now_ms();
		turns_close(p);
		const double close_ms = now_ms() - before;
		ms[RELEASE] += close_ms;
		ms[TOTAL] += close_ms;
		if (i > 0)
			series_add(&s, ms, cold_ms);
	}
	series_end(&s, t->host);
}

struct count {
	unsigned boxes;
};

static int count_entry(const holt_pool_entry *entry, void *user)
{
	(void)entry;
	((struct count *)user)->boxes++;
	return 0;
}

static unsigned pool_size(holt_provider *p)
{
	struct count c = {0};
	holt_error *error = NULL;

	need(holt_provider_list(p, count_entry, &c, &error), "cannot list the pool", error);
	return c.boxes;
}

static void await_empty(holt_provider *p)
{
	const double end = now_ms() + GONE_TIMEOUT_MS;

	while (pool_size(p) > 0) {
		if (now_ms() > end)
			need(-1, "an idle sandbox does not end", NULL);
		(void)usleep(POLL_US);
	}
}

/* Besides: idle_end, how long after its idle time a sandbox is gone. */
static void bench_idle(const struct turns *t)
{
	struct series s = series_new("idle", NOOP->name, "box_cold");
	struct record *gone = record_new("idle_end", "ms", NULL);
	holt_provider *p = turns_open(t, "bench-idle", t->image, "  idle_timeout: 1\n");
	const double cold_ms = box_ms(t, t->image, HOLT_START_NO_TEMPLATE);
	double ms[N_PARTS];

	for (unsigned i = 0; i <= (t->rounds + 2) / 3; i++) {
		turn(p, 0, NOOP, 1, ms);
		const double released = now_ms();
		await_empty(p);
		if (i == 0)
			continue;
		record_add(gone, now_ms() - released - IDLE_S * 1e3);
		series_add(&s, ms, cold_ms);
	}
	turns_close(p);
	series_end(&s, t->host);
	record_print(gone, t->host);
	record_free(gone);
}

static void kill_vm(const struct turns *t, const char *pool)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_error *error = NULL;
	holt_box *box = NULL;
	char name[128];
	char id[HOLT_SCOPE_TOKEN_LEN + 1];

	need(holt_scope_token("bench", strlen("bench"), "thread-0", strlen("thread-0"), id, &error),
		"cannot make an id", error);
	(void)snprintf(name, sizeof name, "holt-%s-%s", pool, id);
	need(holt_box_get(t->home, name, &box, &error), "cannot find the warm box", error);
	need(holt_box_get_info(box, &info), "cannot look at the warm box", NULL);
	if (info.vmm_pid <= 0 || kill((pid_t)info.vmm_pid, SIGKILL) < 0)
		need(-1, "cannot kill the virtual machine", NULL);
	holt_box_close(box);
}

static void bench_killed(const struct turns *t, const struct workload *w)
{
	struct series s = series_new("killed", w->name, "box_cold");
	const char *const image = image_of(t, w);
	holt_provider *p = turns_open(t, "bench-killed", image, "");
	const double cold_ms = box_ms(t, image, HOLT_START_NO_TEMPLATE);
	const unsigned n = (count_of(t, w) + 4) / 5;
	double ms[N_PARTS];

	turn(p, 0, w, 1, ms);
	for (unsigned i = 0; i < n; i++) {
		kill_vm(t, "bench-killed");
		turn(p, 0, w, 1, ms);
		series_add(&s, ms, cold_ms);
	}
	turns_close(p);
	series_end(&s, t->host);
}

/* ---- pressure ---- */

struct presser {
	holt_provider *p;
	unsigned first; /* thread of its first turn */
	unsigned n;
	double (*ms)[N_PARTS];
	pthread_t thread;
};

static void *press(void *arg)
{
	struct presser *x = arg;

	for (unsigned i = 0; i < x->n; i++)
		turn(x->p, x->first + i, NOOP, 1, x->ms[i]);
	return NULL;
}

static void bench_pressure(const struct turns *t)
{
	struct series s = series_new("pressure", NOOP->name, "box_cold");
	holt_provider *p = turns_open(t, "bench-pressure", t->image, "  replicas: 2\n");
	const double cold_ms = box_ms(t, t->image, HOLT_START_NO_TEMPLATE);
	struct presser pressers[PRESSURE_THREADS];
	holt_provider_stats stats = HOLT_PROVIDER_STATS_INIT;
	holt_error *error = NULL;

	for (unsigned i = 0; i < PRESSURE_THREADS; i++) {
		struct presser *const x = &pressers[i];

		*x = (struct presser){.p = p, .first = i * 10000, .n = t->rounds};
		x->ms = calloc(x->n, sizeof *x->ms);
		if (!x->ms || pthread_create(&x->thread, NULL, press, x) != 0)
			need(-1, "cannot start a thread", NULL);
	}
	for (unsigned i = 0; i < PRESSURE_THREADS; i++)
		(void)pthread_join(pressers[i].thread, NULL);
	for (unsigned i = 0; i < PRESSURE_THREADS; i++) {
		for (unsigned k = 0; k < pressers[i].n; k++)
			series_add(&s, pressers[i].ms[k], cold_ms);
		free(pressers[i].ms);
	}
	need(holt_provider_get_stats(p, &stats, &error), "cannot count", error);
	(void)fprintf(stderr, "pressure: %llu made, %llu evicted, %llu above replicas\n",
		(unsigned long long)stats.created, (unsigned long long)stats.evicted,
		(unsigned long long)stats.overshot);
	turns_close(p);
	series_end(&s, t->host);
}

static void bench_baselines(const struct turns *t)
{
	struct record *clone = record_new("box_clone", "ms", "box_cold");

	(void)box_ms(t, t->image, 0);
	for (unsigned i = 0; i < t->rounds; i++) {
		const double cold_ms = box_ms(t, t->image, HOLT_START_NO_TEMPLATE);

		record_pair(clone, box_ms(t, t->image, 0), cold_ms);
	}
	record_print(clone, t->host);
	record_free(clone);
}

void bench_turns(const struct turns *t)
{
	bench_baselines(t);
	for (size_t i = 0; i < N_WORKLOADS; i++) {
		const struct workload *const w = &workloads[i];

		if (!image_of(t, w)) {
			record_absent(
				"turn_warm_python_total", "no Debian image here; run 'make setup'");
			continue;
		}
		bench_warm(t, w);
		bench_no_pool(t, w);
		bench_killed(t, w);
	}
	bench_cold(t, "cold", 0, t->rounds * 2);
	bench_cold(t, "miss", MISS_THREADS, t->rounds * 2);
	bench_idle(t);
	bench_pressure(t);
}
