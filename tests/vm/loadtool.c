/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: loadtool BOX VERB [ARGUMENT...]
 *
 * For tests: what many threads, or a program without blocking calls, do to one running box, and
 * what cannot be seen from the command line.
 *
 *   make IMAGE [MIB]          makes BOX, without a program, kept, and starts it detached
 *   parallel THREADS ROUNDS   each thread starts an exec a round; output, order and exit code are
 *                             checked: execs=N p50_ms=N p99_ms=N max_ms=N
 *   ping COUNT MIB SPAMMERS   COUNT pings alone, then pings while MIB flow out of the box and
 *                             SPAMMERS execs write small lines: idle_p50_us=N bulk_p95_us=N ...
 *   beside PROGRAM ARG...     pings while PROGRAM runs on the host: beside_n=N beside_p95_us=N ...
 *                             code=N, of PROGRAM
 *   oom ROUNDS COMMAND        COMMAND runs out of memory while another exec counts
 *   eventloop BYTES           cat, driven by its event descriptor alone, both ways
 *   cancel                    cancellation and deadline of each blocking call; a signal from
 *                             another thread
 *   kept COUNT                as many kept execs end; the newest 64 can still be had
 *   streams                   starts execs until the box refuses: streams=N
 *   clients                   connects until the box refuses: clients=N
 *
 * Exit status: 0 where everything was as it should be; else 1, with what was not on stderr.
 */
#include "holt.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 256
#define SAMPLES_MAX 200000
#define BESIDE_MS   120000 /* what pings run beside takes no longer */
#define LINES       20
#define LONG_MS     60000 /* whoever waits as long as that hangs */

static holt_box *box;

/* ---- helpers ---- */

static uint64_t now_us(void)
{
	struct timespec ts = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void __attribute__((noreturn)) bad(const char *what, holt_error *error)
{
	fprintf(stderr, "%s: %s %s\nhint: %s\n", what, holt_code_name(holt_error_code(error)),
		holt_error_message(error), holt_error_hint(error));
	exit(1);
}

static void must(int ok, const char *what)
{
	if (!ok)
		bad(what, NULL);
}

static holt_exec *start(const char *command, uint32_t flags, holt_cancel *cancel)
{
	const char *const argv[] = {"/bin/sh", "-c", command, NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exec *exec = NULL;
	holt_error *error = NULL;

	options.argv = argv;
	options.flags = flags;
	options.cancel = cancel;
	if (holt_exec_start(box, &options, &exec, &error) < 0)
		bad("start", error);
	return exec;
}

/* All of a stream, up to @size - 1 bytes, as text. */
static void read_text(holt_exec *exec, int stream, char *text, size_t size)
{
	holt_error *error = NULL;
	size_t have = 0;
	size_t n = 1;

	while (n > 0 && have < size - 1) {
		if (holt_exec_read(
			    exec, stream, text + have, size - 1 - have, LONG_MS, &n, &error) < 0)
			bad("read", error);
		have += n;
	}
	text[have] = 0;
}

static holt_exit end_of(holt_exec *exec)
{
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;

	if (holt_exec_wait(exec, LONG_MS, &result, &error) < 0)
		bad("wait", error);
	holt_exec_free(exec);
	return result;
}

static uint64_t ping_us(void)
{
	holt_error *error = NULL;
	uint64_t us = 0;

	if (holt_box_ping(box, 0, &us, &error) < 0)
		bad("ping", error);
	return us;
}

static pthread_t spawn(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	must(pthread_create(&thread, NULL, fn, arg) == 0, "a thread cannot be started");
	return thread;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a;
	const uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Of sorted samples. */
static unsigned long long quantile(const uint64_t *samples, size_t n, unsigned percent)
{
	return samples[(n - 1) * percent / 100];
}

/* ---- parallel ---- */

struct worker {
	pthread_t thread;
	unsigned number;
	unsigned rounds;
	uint64_t *took_us; /* of each round */
};

/* A program whose every line and code follow from its number. */
static void one_exec(unsigned number)
{
	char command[256];
	char want[1024] = "";
	char text[1024];

	(void)snprintf(command, sizeof command,
		"i=0; while [ $i -lt %d ]; do echo \"%u $i\"; i=$((i + 1)); done; echo e%u >&2; "
		"exit %u",
		LINES, number, number, number % 251);
	for (int i = 0; i < LINES; i++) {
		const size_t len = strlen(want);
		(void)snprintf(want + len, sizeof want - len, "%u %d\n", number, i);
	}
	holt_exec *exec = start(command, 0, NULL);
	read_text(exec, HOLT_STDOUT, text, sizeof text);
	must(strcmp(text, want) == 0, "output is wrong or out of order");
	(void)snprintf(want, sizeof want, "e%u\n", number);
	read_text(exec, HOLT_STDERR, text, sizeof text);
	must(strcmp(text, want) == 0, "stderr is wrong");
	const holt_exit result = end_of(exec);
	must(result.code == (int)(number % 251) && result.flags == 0, "an exit code is wrong");
}

static void *work(void *arg)
{
	struct worker *w = arg;

	for (unsigned i = 0; i < w->rounds; i++) {
		const uint64_t begin = now_us();
		one_exec(w->number * 1000 + i);
		w->took_us[i] = now_us() - begin;
	}
	return NULL;
}

static void parallel(unsigned threads, unsigned rounds)
{
	static struct worker workers[THREADS_MAX];
	static uint64_t samples[SAMPLES_MAX];
	const size_t n = (size_t)threads * rounds;

	must(threads <= THREADS_MAX && n > 0 && n <= SAMPLES_MAX, "too many threads or rounds");
	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){
			.number = i, .rounds = rounds, .took_us = samples + (size_t)i * rounds};
		workers[i].thread = spawn(work, &workers[i]);
	}
	for (unsigned i = 0; i < threads; i++)
		(void)pthread_join(workers[i].thread, NULL);
	qsort(samples, n, sizeof *samples, by_value);
	printf("execs=%zu\np50_ms=%llu\np99_ms=%llu\nmax_ms=%llu\n", n,
		quantile(samples, n, 50) / 1000, quantile(samples, n, 99) / 1000,
		quantile(samples, n, 100) / 1000);
}

/* ---- ping ---- */

struct transfer {
	holt_exec *exec;
	uint64_t bytes; /* that came */
	volatile int over;
};

static void *drain(void *arg)
{
	static _Thread_local char waste[65536];
	struct transfer *t = arg;
	size_t n = 1;

	while (n > 0) {
		if (holt_exec_read(t->exec, HOLT_STDOUT, waste, sizeof waste, LONG_MS, &n, NULL) <
			0)
			break;
		t->bytes += n;
	}
	t->over = 1;
	return NULL;
}

static void tell_pings(const char *when, uint64_t *samples, size_t n)
{
	qsort(samples, n, sizeof *samples, by_value);
	printf("%s_n=%zu\n", when, n);
	printf("%s_p50_us=%llu\n", when, quantile(samples, n, 50));
	printf("%s_p95_us=%llu\n", when, quantile(samples, n, 95));
	printf("%s_max_us=%llu\n", when, quantile(samples, n, 100));
}

static void nap_us(unsigned us)
{
	const struct timespec ts = {.tv_nsec = (long)us * 1000};

	(void)nanosleep(&ts, NULL);
}

static void ping(size_t count, unsigned mib, unsigned spammers)
{
	static uint64_t samples[SAMPLES_MAX];
	struct transfer bulk = {0};
	struct transfer spam[16] = {0};
	pthread_t threads[17];
	char command[64];
	size_t n = 0;

	must(count <= SAMPLES_MAX && spammers <= 16, "too many pings or spammers");
	for (size_t i = 0; i < count; i++) {
		samples[i] = ping_us();
		nap_us(2000);
	}
	tell_pings("idle", samples, count);
	for (unsigned i = 0; i < spammers; i++) {
		spam[i].exec = start("while :; do echo spam; done", 0, NULL);
		threads[i] = spawn(drain, &spam[i]);
	}
	(void)snprintf(
		command, sizeof command, "exec dd if=/dev/zero bs=1M count=%u 2>/dev/null", mib);
	bulk.exec = start(command, 0, NULL);
	const uint64_t begin = now_us();
	threads[spammers] = spawn(drain, &bulk);
	while (!bulk.over && n < SAMPLES_MAX) {
		samples[n++] = ping_us();
		nap_us(2000);
	}
	(void)pthread_join(threads[spammers], NULL);
	printf("bulk_mb_s=%llu\n", (unsigned long long)(bulk.bytes / (now_us() - begin + 1)));
	tell_pings("bulk", samples, n);
	must(bulk.bytes == (uint64_t)mib << 20, "the transfer is not whole");
	must(end_of(bulk.exec).code == 0, "the transfer failed");
	for (unsigned i = 0; i < spammers; i++) {
		(void)holt_exec_signal(spam[i].exec, SIGKILL);
		(void)pthread_join(threads[i], NULL);
		must(spam[i].bytes > 0, "a spammer got nothing through");
		must(end_of(spam[i].exec).code == 128 + SIGKILL, "a spammer ended by itself");
	}
}

/* ---- beside ---- */

static void beside(char **argv)
{
	extern char **environ;
	static uint64_t samples[SAMPLES_MAX];
	const uint64_t begin = now_us();
	pid_t pid = 0;
	int status = 0;
	size_t n = 0;

	must(posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0, "cannot start a program");
	while (waitpid(pid, &status, WNOHANG) == 0) {
		must(n < SAMPLES_MAX && now_us() - begin < BESIDE_MS * 1000ull,
			"the program does not end");
		samples[n++] = ping_us();
		nap_us(2000);
	}
	must(n > 0 && WIFEXITED(status), "the program was over at once, or killed");
	tell_pings("beside", samples, n);
	printf("code=%d\n", WEXITSTATUS(status));
}

/* ---- oom ---- */

struct pinger {
	volatile int stop;
	unsigned n;
	uint64_t max_us;
};

static void *ping_on(void *arg)
{
	struct pinger *p = arg;

	while (!p->stop) {
		const uint64_t us = ping_us();
		p->max_us = us > p->max_us ? us : p->max_us;
		p->n++;
		nap_us(5000);
	}
	return NULL;
}

static void oom(unsigned rounds, const char *command)
{
	char text[65536];
	struct pinger pinger = {0};
	holt_exec *witness = start("i=0; while read -r l; do echo \"$i $l\"; i=$((i + 1)); done",
		HOLT_EXEC_STDIN, NULL);
	const pthread_t thread = spawn(ping_on, &pinger);

	for (unsigned i = 0; i < rounds; i++) {
		const unsigned before = pinger.n;
		holt_exec *eater = start(command, 0, NULL);
		read_text(eater, HOLT_STDERR, text, sizeof text);
		const holt_exit result = end_of(eater);
		fprintf(stderr, "code=%d flags=%u pings=%u said '%s'\n", result.code, result.flags,
			pinger.n - before, text);
		must(result.code == 128 + SIGKILL && (result.flags & HOLT_EXIT_OOM),
			"not told as out of memory");
		must(pinger.n > before, "the agent did not answer meanwhile");
		must(holt_exec_write(witness, "x\n", 2, LONG_MS, NULL, NULL) == 0,
			"the other exec does not take its input");
	}
	pinger.stop = 1;
	(void)pthread_join(thread, NULL);
	(void)holt_exec_close_stdin(witness);
	read_text(witness, HOLT_STDOUT, text, sizeof text);
	unsigned lines = 0;
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	const holt_exit result = end_of(witness);
	must(lines == rounds && result.code == 0 && result.flags == 0, "the other exec suffered");
	printf("rounds=%u\npings=%u\nping_max_us=%llu\n", rounds, pinger.n,
		(unsigned long long)pinger.max_us);
}

/* ---- eventloop ---- */

struct cat {
	holt_exec *exec;
	uint64_t bytes;
	uint64_t written;
	uint64_t got;
	int eof;
	int over;
};

static unsigned char byte_at(uint64_t pos)
{
	return (unsigned char)(pos * 7 + pos / 253);
}

/* Never blocks: as much as goes at once. */
static void write_some(struct cat *c)
{
	static unsigned char data[30000];
	holt_error *error = NULL;
	int r = 0;

	while (r == 0 && c->written < c->bytes) {
		const uint64_t left = c->bytes - c->written;
		const size_t want = left < sizeof data ? (size_t)left : sizeof data;
		size_t n = 0;

		for (size_t i = 0; i < want; i++)
			data[i] = byte_at(c->written + i);
		r = holt_exec_write(c->exec, data, want, 0, &n, &error);
		if (r < 0 && r != -HOLT_ETIMEOUT)
			bad("write", error);
		holt_error_free(error);
		error = NULL;
		c->written += n;
		if (c->written == c->bytes)
			(void)holt_exec_close_stdin(c->exec);
	}
}

static void read_some(struct cat *c)
{
	static unsigned char data[30000];
	holt_error *error = NULL;
	size_t n = 0;
	int r = 0;

	while (!c->eof && r == 0) {
		r = holt_exec_read(c->exec, HOLT_STDOUT, data, sizeof data, 0, &n, &error);
		if (r < 0 && r != -HOLT_ETIMEOUT)
			bad("read", error);
		holt_error_free(error);
		error = NULL;
		for (size_t i = 0; r == 0 && i < n; i++)
			must(data[i] == byte_at(c->got + i), "a byte came back changed");
		c->got += r == 0 ? n : 0;
		c->eof = r == 0 && n == 0;
	}
}

static void eventloop(uint64_t bytes)
{
	struct cat c = {.exec = start("cat; exit 7", HOLT_EXEC_STDIN, NULL), .bytes = bytes};
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	unsigned turns = 0;
	int fd = -1;

	if (holt_exec_event_fd(c.exec, &fd, &error) < 0)
		bad("event fd", error);
	while (!c.over) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t count = 0;

		must(poll(&p, 1, LONG_MS) == 1, "no event came");
		must(read(fd, &count, sizeof count) == sizeof count && count > 0, "no count");
		turns++;
		write_some(&c);
		read_some(&c);
		c.over = holt_exec_wait(c.exec, 0, &result, NULL) == 0;
	}
	/* The end may come with the last output. */
	read_some(&c);
	must(c.eof && c.got == bytes && result.code == 7, "not all came back");
	holt_exec_free(c.exec);
	printf("turns=%u\n", turns);
}

/* ---- cancel ---- */

struct later {
	unsigned ms;
	holt_cancel *cancel;
	holt_exec *exec;
};

static void *act_later(void *arg)
{
	const struct later *l = arg;

	for (unsigned i = 0; i < l->ms; i++)
		nap_us(1000);
	if (l->cancel)
		holt_cancel_trigger(l->cancel);
	if (l->exec)
		must(holt_exec_signal(l->exec, SIGTERM) == 0, "a signal was not sent");
	return NULL;
}

enum call { CALL_READ, CALL_WRITE, CALL_WAIT };

static int call(enum call which, holt_exec *exec, uint64_t timeout_ms, holt_error **reterr)
{
	static char data[1 << 20];
	holt_exit result = HOLT_EXIT_INIT;
	size_t n = 0;

	switch (which) {
	case CALL_READ:
		return holt_exec_read(exec, HOLT_STDOUT, data, sizeof data, timeout_ms, &n, reterr);
	case CALL_WRITE:
		return holt_exec_write(exec, data, sizeof data, timeout_ms, &n, reterr);
	case CALL_WAIT:
		break;
	}
	return holt_exec_wait(exec, timeout_ms, &result, reterr);
}

/* Each call against a program that neither reads nor writes nor ends. */
static void expect(enum call which, holt_exec *exec, uint64_t timeout_ms, int want,
	unsigned least_ms, const char *what)
{
	holt_error *error = NULL;
	const uint64_t begin = now_us();
	const int r = call(which, exec, timeout_ms, &error);
	const uint64_t took_ms = (now_us() - begin) / 1000;

	if (r != -want)
		bad(what, error);
	must(holt_error_message(error)[0] != 0, "an error without a text");
	if (took_ms + 1 < least_ms || took_ms > least_ms + 1000) {
		fprintf(stderr, "%s: took %llu ms\n", what, (unsigned long long)took_ms);
		exit(1);
	}
	holt_error_free(error);
}

static void cancel_all(void)
{
	static const char *const names[] = {"read", "write", "wait"};

	for (int i = CALL_READ; i <= CALL_WAIT; i++) {
		holt_cancel *cancel = NULL;
		must(holt_cancel_new(&cancel, NULL) == 0, "no token");
		holt_exec *exec = start("exec sleep 1000", HOLT_EXEC_STDIN, cancel);
		struct later l = {.ms = 200, .cancel = cancel};

		expect((enum call)i, exec, 0, HOLT_ETIMEOUT, 0, names[i]);
		expect((enum call)i, exec, 300, HOLT_ETIMEOUT, 300, names[i]);
		const pthread_t thread = spawn(act_later, &l);
		expect((enum call)i, exec, HOLT_FOREVER, HOLT_ECANCELLED, 200, names[i]);
		(void)pthread_join(thread, NULL);
		/* From now on at once. */
		expect((enum call)i, exec, HOLT_FOREVER, HOLT_ECANCELLED, 0, names[i]);
		holt_exec_free(exec);
		holt_cancel_free(cancel);
	}
	holt_exec *exec = start("exec sleep 1000", 0, NULL);
	struct later l = {.ms = 100, .exec = exec};
	const pthread_t thread = spawn(act_later, &l);
	const holt_exit result = end_of(exec);
	(void)pthread_join(thread, NULL);
	must(result.code == 128 + SIGTERM && result.signal == SIGTERM, "not ended by the signal");
	printf("calls=3\n");
}

/* ---- kept ---- */

#define KEPT_ENDED 64 /* that a box remembers */

/* The output and the end of a kept exec, from a program that wrote 600,000 bytes. */
static void read_kept(unsigned i, uint32_t number)
{
	static char data[65536];
	holt_exec *exec = NULL;
	holt_error *error = NULL;
	uint64_t got = 0;
	size_t n = 1;

	if (holt_exec_attach(box, number, NULL, &exec, &error) < 0)
		bad("attach", error);
	while (n > 0) {
		error = NULL;
		if (holt_exec_read(exec, HOLT_STDOUT, data, sizeof data, LONG_MS, &n, &error) < 0)
			bad("read", error);
		got += n;
	}
	must(got + holt_exec_gap(exec, HOLT_STDOUT) == 600000, "gap and output do not fit");
	must(got >= HOLT_REPLAY_BYTES_DEFAULT, "less is kept than was asked for");
	must(end_of(exec).code == (int)(i % 200), "the code is wrong");
}

/* Wait until no exec runs. */
static void await_idle(void)
{
	const uint64_t begin = now_us();
	holt_box_stats stats = HOLT_BOX_STATS_INIT;

	while (holt_box_get_stats(box, &stats, NULL) == 0 && stats.execs > 0) {
		must(now_us() - begin < LONG_MS * 1000ull, "the execs do not end");
		nap_us(20000);
	}
}

static void kept(unsigned count)
{
	static uint32_t numbers[1024];
	char command[128];

	must(count <= 1024 && count > KEPT_ENDED, "too many or too few");
	for (unsigned i = 0; i < count; i++) {
		(void)snprintf(
			command, sizeof command, "head -c 600000 /dev/zero; exit %u", i % 200);
		holt_exec *exec = start(command, HOLT_EXEC_KEEP, NULL);
		numbers[i] = holt_exec_number(exec);
		must(numbers[i] > (i ? numbers[i - 1] : 0), "numbers do not grow");
		/* Nobody reads: it must not be held up. */
		holt_exec_free(exec);
		/* One after the other, so that the oldest is known. */
		await_idle();
	}
	for (unsigned i = 0; i < count - KEPT_ENDED; i++) {
		holt_exec *exec = NULL;
		holt_error *error = NULL;
		must(holt_exec_attach(box, numbers[i], NULL, &exec, &error) == -HOLT_ENOT_FOUND,
			"one of the oldest is still there");
		holt_error_free(error);
	}
	for (unsigned i = count - KEPT_ENDED; i < count; i++)
		read_kept(i, numbers[i]);
	printf("kept=%u\n", count);
}

/* ---- limits ---- */

static void streams(void)
{
	static holt_exec *execs[2048];
	const char *const argv[] = {"/bin/sleep", "1000", NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_error *error = NULL;
	unsigned n = 0;

	options.argv = argv;
	while (n < 2048 && holt_exec_start(box, &options, &execs[n], &error) == 0)
		n++;
	must(holt_error_code(error) == HOLT_ELIMIT && holt_error_hint(error)[0],
		"not refused as a limit, with a hint");
	fprintf(stderr, "%s\n", holt_error_message(error));
	holt_error_free(error);
	printf("streams=%u\n", n);
	while (n > 0)
		holt_exec_free(execs[--n]);
	/* Once they are gone it goes on. */
	for (int i = 0; i < 1000; i++) {
		holt_exec *exec = NULL;

		if (holt_exec_start(box, &options, &exec, NULL) == 0) {
			holt_exec_free(exec);
			return;
		}
		nap_us(20000);
	}
	bad("the box takes no command any more", NULL);
}

static void clients(holt_home *home, const char *name)
{
	static holt_box *boxes[512];
	holt_error *error = NULL;
	unsigned n = 0;
	int r = 0;

	while (n < 512 && r == 0) {
		if (holt_box_get(home, name, &boxes[n], &error) < 0)
			bad("get", error);
		r = holt_box_ping(boxes[n++], 0, NULL, &error);
	}
	fprintf(stderr, "%s %s: %s\n", holt_code_name(holt_error_code(error)),
		holt_error_stage(error), holt_error_message(error));
	must(holt_error_code(error) == HOLT_ELIMIT, "not refused as a limit");
	holt_error_free(error);
	printf("clients=%u\n", n - 1);
	while (n > 0)
		holt_box_close(boxes[--n]);
	/* The keeper may take a moment to see them go. */
	for (int i = 0; i < 100 && holt_box_ping(box, 0, NULL, NULL) < 0; i++)
		nap_us(20000);
	(void)ping_us();
}

static void make(holt_home *home, const char *name, const char *image, unsigned memory_mib)
{
	holt_box_options options = HOLT_BOX_OPTIONS_INIT;
	holt_start_options start_options = HOLT_START_OPTIONS_INIT;
	holt_error *error = NULL;

	options.name = name;
	options.flags = HOLT_BOX_KEEP;
	options.memory_mib = memory_mib;
	start_options.flags = HOLT_START_DETACHED;
	if (holt_box_create(home, image, &options, &box, &error) < 0 ||
		holt_box_start(box, &start_options, NULL, &error) < 0)
		bad("make", error);
}

static unsigned number(const char *text)
{
	return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static int run(holt_home *home, char **argv)
{
	const char *verb = argv[2];
	char **args = argv + 3;

	if (strcmp(verb, "parallel") == 0 && args[0] && args[1])
		parallel(number(args[0]), number(args[1]));
	else if (strcmp(verb, "ping") == 0 && args[0] && args[1] && args[2])
		ping(number(args[0]), number(args[1]), number(args[2]));
	else if (strcmp(verb, "beside") == 0 && args[0])
		beside(args);
	else if (strcmp(verb, "oom") == 0 && args[0] && args[1])
		oom(number(args[0]), args[1]);
	else if (strcmp(verb, "eventloop") == 0 && args[0])
		eventloop(number(args[0]));
	else if (strcmp(verb, "cancel") == 0)
		cancel_all();
	else if (strcmp(verb, "kept") == 0 && args[0])
		kept(number(args[0]));
	else if (strcmp(verb, "streams") == 0)
		streams();
	else if (strcmp(verb, "clients") == 0)
		clients(home, argv[1]);
	else
		return 2;
	return 0;
}

int main(int argc, char **argv)
{
	holt_home *home = NULL;
	holt_error *error = NULL;

	if (argc < 3) {
		fprintf(stderr, "usage: loadtool BOX VERB [ARGUMENT...]\n");
		return 2;
	}
	if (holt_home_open(NULL, &home, &error) < 0)
		bad("open", error);
	int status = 0;
	if (strcmp(argv[2], "make") == 0 && argc > 3)
		make(home, argv[1], argv[3], number(argv[4]));
	else if (holt_box_get(home, argv[1], &box, &error) < 0)
		bad("get", error);
	else
		status = run(home, argv);
	holt_box_close(box);
	holt_home_close(home);
	return status;
}
