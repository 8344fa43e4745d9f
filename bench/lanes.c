/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast bytes get into a box and out of it, and how long a word takes meanwhile.
 *
 *   throughput_to_guest     holt_exec_write to a busybox `dd` that throws away, from the start of
 *                           the program to its end
 *   throughput_to_file      the same into a file of the box; baseline guest_dd: busybox `dd` of
 *                           zeros into that file inside the guest
 *   throughput_from_guest   holt_exec_read from a busybox `dd` of zeros, likewise
 *   throughput_from_pinged  the same while the box is pinged every few milliseconds
 *   ping                    holt_box_ping of a box that does nothing else
 *   ping_bulk_in, _bulk_out the same while bytes flow into it, or out of it
 *
 * The baseline of the other throughputs is guest_pipe: the same number of zeros from `dd` to `cat`
 * through a pipe inside the guest, so it holds what the guest's processor can do. That of the pings
 * is host_echo: a byte to another thread and back over a socket pair. Everything here runs on the
 * main thread; while something else is measured, one more thread moves the bytes.
 */
#include "lanes.h"

#include "baseline.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK            (256u * 1024)
#define CHUNKS           256u /* of one transfer: 64 MiB */
#define BLOCKS           "1024" /* of 64 KiB: the same */
#define FILE_IN_BOX      "/root/lanes"
#define TARGET_TO_FILE   1.25 /* 0.8 of what the guest does by itself */
#define PINGS            50 /* a round */
#define PING_PAUSE_US    3000
#define LANES_TIMEOUT_MS 120000

static char chunk[CHUNK];

static void lanes_die(const char *what, const holt_error *error)
{
	(void)fprintf(stderr, "bench: %s: %s\n", what, error ? holt_error_message(error) : "");
	exit(1);
}

static holt_exec *run(holt_box *box, const char *const *argv, uint32_t flags)
{
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;

	options.argv = argv;
	options.flags = flags;
	if (holt_exec_start(box, &options, &exec, &error) < 0)
		lanes_die("cannot run a program", error);
	return exec;
}

/* Returns how long the program itself ran, milliseconds. */
static double finish(holt_exec *exec)
{
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;

	if (holt_exec_wait(exec, LANES_TIMEOUT_MS, &result, &error) < 0)
		lanes_die("a transfer did not end", error);
	if (result.code != 0)
		lanes_die("a transfer failed inside the box", NULL);
	holt_exec_free(exec);
	return (double)result.duration_us / 1e3;
}

/* MB/s of one transfer that took so long. */
static double rate(double ms)
{
	return (double)CHUNK * CHUNKS / 1e3 / ms;
}

static double into(holt_box *box, const char *of)
{
	const char *const argv[] = {"dd", "bs=64k", of, NULL};
	holt_exec *exec = run(box, argv, HOLT_EXEC_STDIN);
	const double start = now_ms();
	holt_error *error = NULL;

	for (unsigned i = 0; i < CHUNKS; i++) {
		if (holt_exec_write(exec, chunk, CHUNK, LANES_TIMEOUT_MS, NULL, &error) < 0)
			lanes_die("cannot write into the box", error);
	}
	(void)holt_exec_close_stdin(exec);
	(void)finish(exec);
	return rate(now_ms() - start);
}

double lanes_to_guest(holt_box *box)
{
	return into(box, "of=/dev/null");
}

static double to_file(holt_box *box)
{
	return into(box, "of=" FILE_IN_BOX);
}

static double guest_dd(holt_box *box)
{
	static const char *const argv[] = {
		"dd", "if=/dev/zero", "bs=64k", "count=" BLOCKS, "of=" FILE_IN_BOX, NULL};

	return rate(finish(run(box, argv, 0)));
}

/* So that each write finds the same disk. */
static void remove_file(holt_box *box)
{
	static const char *const argv[] = {"rm", "-f", FILE_IN_BOX, NULL};

	(void)finish(run(box, argv, 0));
}

double lanes_from_guest(holt_box *box)
{
	static const char *const argv[] = {"dd", "if=/dev/zero", "bs=64k", "count=" BLOCKS, NULL};
	static char sink[CHUNK];
	holt_exec *exec = run(box, argv, 0);
	const double start = now_ms();
	holt_error *error = NULL;
	size_t total = 0;
	size_t len = 0;

	do {
		if (holt_exec_read(exec, HOLT_STDOUT, sink, CHUNK, LANES_TIMEOUT_MS, &len, &error) <
			0)
			lanes_die("cannot read from the box", error);
		total += len;
	} while (len > 0);
	(void)finish(exec);
	if (total != (size_t)CHUNK * CHUNKS)
		lanes_die("bytes are missing", NULL);
	return rate(now_ms() - start);
}

static double guest_pipe(holt_box *box)
{
	static const char *const argv[] = {"sh", "-c",
		"dd if=/dev/zero bs=64k count=" BLOCKS " 2>/dev/null | cat >/dev/null", NULL};

	return rate(finish(run(box, argv, 0)));
}

/* ---- words ---- */

static double ping(holt_box *box)
{
	holt_error *error = NULL;
	uint64_t us = 0;

	if (holt_box_ping(box, 0, &us, &error) < 0)
		lanes_die("cannot ping the box", error);
	return (double)us / 1e3;
}

struct echo {
	int fds[2];
	pthread_t thread;
};

static void *echo_main(void *arg)
{
	const struct echo *e = arg;
	char byte = 0;

	while (read(e->fds[1], &byte, 1) == 1)
		(void)!write(e->fds[1], &byte, 1);
	return NULL;
}

static void echo_start(struct echo *e)
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->fds) < 0 ||
		pthread_create(&e->thread, NULL, echo_main, e) != 0)
		lanes_die("cannot start the echo", NULL);
}

static void echo_stop(struct echo *e)
{
	(void)close(e->fds[0]);
	(void)pthread_join(e->thread, NULL);
	(void)close(e->fds[1]);
}

static double host_echo(const struct echo *e)
{
	const double start = now_ms();
	char byte = 0;

	if (write(e->fds[0], &byte, 1) != 1 || read(e->fds[0], &byte, 1) != 1)
		lanes_die("the echo is gone", NULL);
	return now_ms() - start;
}

static void ping_once(holt_box *box, const struct echo *e, struct record *r)
{
	const double base = host_echo(e);

	record_pair(r, ping(box), base);
	(void)usleep(PING_PAUSE_US);
}

/* ---- both at once ---- */

struct flow {
	holt_box *box;
	double (*transfer)(holt_box *box);
	double rate;
	pthread_t thread;
	atomic_bool over;
};

static void *flow_main(void *arg)
{
	struct flow *f = arg;

	f->rate = f->transfer(f->box);
	atomic_store(&f->over, true);
	return NULL;
}

/* Ping as long as one transfer takes; returns its rate. */
static double ping_beside(
	holt_box *box, double (*transfer)(holt_box *), const struct echo *e, struct record *r)
{
	struct flow f = {.box = box, .transfer = transfer};

	if (pthread_create(&f.thread, NULL, flow_main, &f) != 0)
		lanes_die("cannot start a thread", NULL);
	while (!atomic_load(&f.over))
		ping_once(box, e, r);
	(void)pthread_join(f.thread, NULL);
	return f.rate;
}

struct lane_records {
	struct record *to;
	struct record *file;
	struct record *from;
	struct record *pinged;
	struct record *idle;
	struct record *in;
	struct record *out;
};

static void lane_round(holt_box *box, const struct echo *e, const struct lane_records *r)
{
	const double base = guest_pipe(box);

	record_pair(r->to, lanes_to_guest(box), base);
	record_pair(r->from, lanes_from_guest(box), base);
	const double base_file = guest_dd(box);
	remove_file(box);
	record_pair(r->file, to_file(box), base_file);
	remove_file(box);
	for (int i = 0; i < PINGS; i++)
		ping_once(box, e, r->idle);
	(void)ping_beside(box, lanes_to_guest, e, r->in);
	record_pair(r->pinged, ping_beside(box, lanes_from_guest, e, r->out), base);
}

void bench_lanes(holt_box *box, unsigned rounds, const struct record_host *host)
{
	const struct lane_records r = {
		.to = record_new("throughput_to_guest", "MB/s", "guest_pipe"),
		.file = record_new("throughput_to_file", "MB/s", "guest_dd"),
		.from = record_new("throughput_from_guest", "MB/s", "guest_pipe"),
		.pinged = record_new("throughput_from_pinged", "MB/s", "guest_pipe"),
		.idle = record_new("ping", "ms", "host_echo"),
		.in = record_new("ping_bulk_in", "ms", "host_echo"),
		.out = record_new("ping_bulk_out", "ms", "host_echo"),
	};
	struct record *const all[] = {r.to, r.file, r.from, r.pinged, r.idle, r.in, r.out};
	struct echo echo;

	r.to->is_rate = r.file->is_rate = r.from->is_rate = r.pinged->is_rate = 1;
	echo_start(&echo);
	r.file->target = TARGET_TO_FILE;
	(void)lanes_to_guest(box);
	(void)lanes_from_guest(box);
	for (unsigned i = 0; i < rounds; i++) {
		lane_round(box, &echo, &r);
		(void)fprintf(stderr, "lanes %u of %u: in %.0f MB/s, out %.0f MB/s\n", i + 1,
			rounds, r.to->values[i], r.from->values[i]);
	}
	echo_stop(&echo);
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		record_print(all[i], host);
		record_free(all[i]);
	}
}
