/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pulling costs, from registries on this machine (bench/images starts them), beside what
 * others need for the same image in the same run. One thread; every program is a child.
 *
 *   pull_to_first_output   `holt pull` into an empty home, then `holt run IMAGE echo` in one where
 *                          the template of that image is ready; baseline skopeo_umoci_clone:
 *                          `skopeo copy` and `umoci unpack` of it, then the same `holt run`
 *   pull_alone             the first half of it; baseline skopeo_umoci
 *   pull_throttled         `holt pull` over a link of 20 MB/s that all connections share, until the
 *                          image is converted; baseline download: curl of the same blobs, one
 *                          after the other, into files
 *   pull_unchanged         `holt pull` of a tag that has not moved; baseline one_request: curl of
 * its manifest pull_requests          requests of pull_unchanged pull_memory            largest
 * resident memory of pull_throttled's `holt pull`; promised is a base and so much for each entry of
 * the image's layers
 */
#include "pulls.h"

#include "baseline.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES    512
#define TARGET_OUTPUT     1.0
#define TARGET_THROTTLED  1.3
#define TARGET_REQUESTS   1
#define MEMORY_BASE_KIB   65536
#define MEMORY_ENTRY_BYTE 300

struct place {
	char ref[LINE_MAX_BYTES]; /* on a registry without a bound */
	char throttled[LINE_MAX_BYTES];
	char manifest[LINE_MAX_BYTES]; /* address of the throttled one's manifest */
	char curl[PATH_MAX]; /* options for all of its blobs */
	char requests[PATH_MAX]; /* a line for each request to the throttled one */
	char home[PATH_MAX]; /* of the pulls */
	char copied[PATH_MAX]; /* by skopeo */
	char unpacked[PATH_MAX];
	double entries;
};

static void must(const char *const *argv, double *ret_ms)
{
	double unused = 0;

	if (program_run(argv, NULL, ret_ms ? ret_ms : &unused) == 0)
		return;
	(void)fprintf(stderr, "bench: '%s %s' failed\n", argv[0], argv[1]);
	exit(1);
}

static void clear(const char *path)
{
	const char *const argv[] = {"rm", "-rf", path, NULL};

	must(argv, NULL);
}

static void read_line(const struct pulls *p, const char *name, char ret[LINE_MAX_BYTES])
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof path, "%s/%s", p->registries, name);
	FILE *file = fopen(path, "re");
	if (!file || !fgets(ret, LINE_MAX_BYTES, file)) {
		(void)fprintf(stderr, "bench: cannot read '%s'\n", path);
		exit(1);
	}
	(void)fclose(file);
	ret[strcspn(ret, "\n")] = 0;
}

static void place_init(const struct pulls *p, struct place *ret)
{
	char entries[LINE_MAX_BYTES];

	read_line(p, "ref", ret->ref);
	read_line(p, "throttled", ret->throttled);
	read_line(p, "manifest", ret->manifest);
	read_line(p, "entries", entries);
	ret->entries = strtod(entries, NULL);
	(void)snprintf(ret->curl, sizeof ret->curl, "%s/curl", p->registries);
	(void)snprintf(ret->requests, sizeof ret->requests, "%s/requests.jsonl", p->registries);
	(void)snprintf(ret->home, sizeof ret->home, "%s/pull-home", p->dir);
	(void)snprintf(ret->copied, sizeof ret->copied, "%s/copied", p->dir);
	(void)snprintf(ret->unpacked, sizeof ret->unpacked, "%s/unpacked", p->dir);
}

/* Pull into @home. *ret_kib: the largest memory that it had; may be NULL. */
static double pull(const struct pulls *p, const char *home, const char *ref, double *ret_kib)
{
	const char *const argv[] = {p->holt, "pull", "-q", ref, NULL};
	char setting[PATH_MAX + 16];
	const char *const envs[] = {"env", setting, p->holt, "pull", "-q", ref, NULL};
	struct rusage usage = {0};
	double ms = 0;

	(void)snprintf(setting, sizeof setting, "HOLT_HOME=%s", home);
	if (!ret_kib) {
		must(envs, &ms);
		return ms;
	}
	/* Of this child alone: after a fork, and not below what this process has itself. */
	const double start = now_ms();
	const pid_t pid = fork();
	if (pid == 0) {
		const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
		union {
			const char *const *in;
			char *const *out;
		} words = {.in = argv};

		(void)setenv("HOLT_HOME", home, 1);
		(void)dup2(null, 1);
		(void)execvp(argv[0], words.out);
		_exit(127);
	}
	int status = -1;
	if (pid < 0 || wait4(pid, &status, 0, &usage) < 0 || status != 0) {
		(void)fprintf(stderr, "bench: 'holt pull' failed\n");
		exit(1);
	}
	*ret_kib = (double)usage.ru_maxrss;
	return now_ms() - start;
}

static double first_output(const struct pulls *p)
{
	const char *const argv[] = {p->holt, "run", "--rm", p->image, "echo", "x", NULL};
	double ms = 0;

	must(argv, &ms);
	return ms;
}

/* What one does without holt: copy, then unpack. */
static double skopeo_umoci(const struct place *at)
{
	char from[LINE_MAX_BYTES + 16];
	char to[PATH_MAX + 16];
	char image[PATH_MAX + 16];
	const char *const copy[] = {
		"skopeo", "copy", "-q", "--src-tls-verify=false", from, to, NULL};
	const char *const root[] = {"umoci", "unpack", "--image", image, at->unpacked, NULL};
	const char *const user[] = {
		"umoci", "unpack", "--rootless", "--image", image, at->unpacked, NULL};
	double copy_ms = 0;
	double unpack_ms = 0;

	(void)snprintf(from, sizeof from, "docker://%s", at->ref);
	(void)snprintf(to, sizeof to, "oci:%s:bench", at->copied);
	(void)snprintf(image, sizeof image, "%s:bench", at->copied);
	must(copy, &copy_ms);
	must(geteuid() == 0 ? root : user, &unpack_ms);
	clear(at->copied);
	clear(at->unpacked);
	return copy_ms + unpack_ms;
}

static void bench_output(const struct pulls *p, const struct place *at)
{
	const char *const template[] = {p->holt, "template", "build", "-q", p->image, NULL};
	struct record *whole = record_new("pull_to_first_output", "ms", "skopeo_umoci_clone");
	struct record *alone = record_new("pull_alone", "ms", "skopeo_umoci");

	whole->target = TARGET_OUTPUT;
	must(template, NULL);
	(void)first_output(p);
	for (unsigned i = 0; i <= p->rounds; i++) {
		const double base = skopeo_umoci(at);
		const double base_clone = first_output(p);
		const double ms = pull(p, at->home, at->ref, NULL);
		const double clone = first_output(p);

		clear(at->home);
		(void)fprintf(stderr, "pull %u: %.0f + %.0f ms, skopeo and umoci %.0f + %.0f ms\n",
			i, ms, clone, base, base_clone);
		/* The first one fills the caches. */
		if (i == 0)
			continue;
		record_pair(whole, ms + clone, base + base_clone);
		record_pair(alone, ms, base);
	}
	record_print(whole, p->host);
	record_print(alone, p->host);
	record_free(whole);
	record_free(alone);
}

static void bench_throttled(const struct pulls *p, const struct place *at)
{
	const char *const download[] = {"curl", "-sSf", "-K", at->curl, NULL};
	struct record *r = record_new("pull_throttled", "ms", "download");
	struct record *memory = record_new("pull_memory", "KiB", NULL);

	r->target = TARGET_THROTTLED;
	memory->target_median = MEMORY_BASE_KIB + at->entries * MEMORY_ENTRY_BYTE / 1024;
	for (unsigned i = 0; i < p->rounds; i++) {
		double base = 0;
		double kib = 0;

		must(download, &base);
		const double ms = pull(p, at->home, at->throttled, &kib);
		clear(at->home);
		(void)fprintf(stderr,
			"throttled %u: %.0f ms, download %.0f ms, %.0f KiB, %.0f entries\n", i + 1,
			ms, base, kib, at->entries);
		record_pair(r, ms, base);
		record_add(memory, kib);
	}
	record_print(r, p->host);
	record_print(memory, p->host);
	record_free(r);
	record_free(memory);
}

/* Lines of the log that were not there at @from; *ret_end: where it ends. */
static unsigned requests_since(const struct place *at, long from, long *ret_end)
{
	unsigned n = 0;
	FILE *file = fopen(at->requests, "re");

	if (!file || fseek(file, from, SEEK_SET) < 0) {
		(void)fprintf(stderr, "bench: cannot read '%s'\n", at->requests);
		exit(1);
	}
	for (int c = 0; (c = fgetc(file)) != EOF;)
		n += c == '\n';
	*ret_end = ftell(file);
	(void)fclose(file);
	return n;
}

static void bench_unchanged(const struct pulls *p, const struct place *at)
{
	const char *const one[] = {"curl", "-sSf", "-H",
		"Accept: application/vnd.oci.image.manifest.v1+json", at->manifest, NULL};
	struct record *r = record_new("pull_unchanged", "ms", "one_request");
	struct record *requests = record_new("pull_requests", "", NULL);
	long end = 0;

	requests->target_median = TARGET_REQUESTS;
	(void)pull(p, at->home, at->throttled, NULL);
	for (unsigned i = 0; i < p->rounds * 5; i++) {
		double base = 0;

		must(one, &base);
		/* The log is written after an answer. */
		(void)usleep(20000);
		(void)requests_since(at, end, &end);
		const double ms = pull(p, at->home, at->throttled, NULL);
		(void)usleep(20000);
		record_pair(r, ms, base);
		record_add(requests, requests_since(at, end, &end));
	}
	clear(at->home);
	record_print(r, p->host);
	record_print(requests, p->host);
	record_free(r);
	record_free(requests);
}

void bench_pulls(const struct pulls *p)
{
	struct place at = {.entries = 0};

	place_init(p, &at);
	bench_output(p, &at);
	bench_throttled(p, &at);
	bench_unchanged(p, &at);
}
