/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent does in a sandbox: natively, and the way of sandboxes that have only a shell
 * (shell_way.h), in turns in the same box. Both have to yield the same.
 *
 *   sandbox_write_1m, _64m      holt_sandbox_write of so many MiB of noise; baseline shell_write
 *   sandbox_read_1m, _64m       holt_sandbox_read of them; baseline shell_read (`cat`)
 *   sandbox_download_1m, _64m   holt_sandbox_download; baseline shell_download (`base64`)
 *   sandbox_read_small          one of 1,000 small files; baseline shell_read
 *   sandbox_list_10000          holt_sandbox_list of 100 directories with 99 files each; baseline
 *                               shell_find
 *   sandbox_glob_100000         holt_sandbox_glob of every tenth of 100,000 files; baseline
 *                               shell_find of all, which then still would have to be matched
 *   sandbox_grep_literal        50 lines in 10,000 files of 2 KiB, holt_sandbox_grep; baseline
 *                               shell_grep; and as sandbox_grep_literal again beside guest_grep:
 * what GNU grep itself takes in the box, from its execve to its end sandbox_grep_regex          the
 * same with a regular expression sandbox_rss_64m             by how much the memory of this process
 * grows while 64 MiB stream into a file and out of it
 *
 * 64 MiB take the shell more than a minute, so they are measured twice at most. One thread.
 */
#include "sandboxes.h"

#include "baseline.h"
#include "shell_way.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB              1048576u
#define LARGE            64u
#define LARGE_ROUNDS_MAX 2u
#define SMALL_FILES      1000u
#define SMALL_ROUNDS_MAX 1u
#define LISTED           10100u /* 100 directories, 100 files in each but one */
#define GLOBBED          100000u
#define NEEDLES          50u
#define RESULTS_MAX      200000u
#define TARGET_WRITE     0.04
#define TARGET_SMALL     0.1
#define TARGET_BULK      0.2
#define TARGET_LITERAL   1.2
#define TARGET_REGEX     2.5
#define TARGET_RSS_KIB   8192
#define LITERAL          "NeedleInHay"
#define REGEX            "Needle(In|Of)[A-Z][a-z]+ [0-9]+$"

struct sandboxes {
	holt_box *box;
	holt_sandbox *sandbox;
	const struct record_host *host;
	unsigned rounds;
	char *noise; /* LARGE MiB */
};

/* Files that are the same in each run; lines of about 50 bytes. */
static const char corpus[] =
	"import os\n"
	"def fill(path, text):\n"
	"    with open(path, 'w') as f: f.write(text)\n"
	"os.makedirs('/bench/small')\n"
	"for i in range(1000): fill(f'/bench/small/{i}', f'small file number {i}\\n' * 8)\n"
	"for d in range(100):\n"
	"    os.makedirs(f'/bench/list/d{d}'); os.makedirs(f'/bench/grep/d{d}')\n"
	"    for f in range(100):\n"
	"        fill(f'/bench/list/d{d}/f{f}', '')\n"
	"        hit = (d * 100 + f) % 200 == 7\n"
	"        text = ''.join(f'line {l} of {d}/{f}: the quick brown fox and so on\\n' for l in "
	"range(40))\n"
	"        fill(f'/bench/grep/d{d}/f{f}.txt', text + (f'NeedleInHay {f}\\n' if hit else "
	"''))\n"
	"for d in range(1000):\n"
	"    os.makedirs(f'/bench/glob/d{d}')\n"
	"    for f in range(100):\n"
	"        os.close(os.open(f'/bench/glob/d{d}/f{f}.' + ('py' if f % 10 == 0 else 'txt'), "
	"os.O_CREAT | os.O_WRONLY))\n";

static void sandbox_die(const char *what, const holt_error *error)
{
	(void)fprintf(stderr, "bench: %s: %s; hint: %s\n", what, holt_error_message(error),
		holt_error_hint(error));
	exit(1);
}

static void same(const char *what, size_t native, size_t shell)
{
	if (native == shell)
		return;
	(void)fprintf(stderr, "bench: %s: %zu natively, %zu by the shell\n", what, native, shell);
	exit(1);
}

static void finish_record(const struct sandboxes *s, struct record *r)
{
	record_print(r, s->host);
	record_free(r);
}

static unsigned rounds_at_most(const struct sandboxes *s, unsigned max)
{
	return s->rounds < max ? s->rounds : max;
}

/* ---- content ---- */

static double write_native(const struct sandboxes *s, const char *path, size_t len)
{
	holt_error *error = NULL;
	const double start = now_ms();

	if (holt_sandbox_write(s->sandbox, path, s->noise, len, NULL, &error) < 0)
		sandbox_die("cannot write", error);
	return now_ms() - start;
}

static double write_shell(const struct sandboxes *s, const char *path, size_t len)
{
	const double start = now_ms();

	shell_write(s->box, path, s->noise, len);
	return now_ms() - start;
}

/* @download: how else bytes come out. */
static double read_native(const struct sandboxes *s, const char *path, size_t len, int download)
{
	holt_error *error = NULL;
	char *data = NULL;
	size_t n = 0;
	const double start = now_ms();

	if ((download ? holt_sandbox_download(s->sandbox, path, NULL, &data, &n, &error)
		      : holt_sandbox_read(s->sandbox, path, NULL, &data, &n, &error)) < 0)
		sandbox_die("cannot read", error);
	const double ms = now_ms() - start;
	if (n != len || memcmp(data, s->noise, len) != 0)
		sandbox_die("what was read is not what was written", NULL);
	holt_free(data);
	return ms;
}

static double read_shell(const struct sandboxes *s, const char *path, size_t len, int download)
{
	char *data = NULL;
	const double start = now_ms();
	const size_t n = (download ? shell_download : shell_read)(s->box, path, &data);
	const double ms = now_ms() - start;

	if (n != len || memcmp(data, s->noise, len) != 0)
		sandbox_die("what was read by the shell is not what was written", NULL);
	free(data);
	return ms;
}

static void bench_content(const struct sandboxes *s, size_t len, unsigned rounds,
	const char *const names[3], double write_target, double read_target)
{
	static const char path[] = HOLT_USER_DATA_DEFAULT "/outputs/noise";
	struct record *w = record_new(names[0], "ms", "shell_write");
	struct record *r = record_new(names[1], "ms", "shell_read");
	struct record *d = record_new(names[2], "ms", "shell_download");

	w->target = write_target;
	r->target = d->target = read_target;
	(void)write_native(s, path, len);
	for (unsigned i = 0; i < rounds; i++) {
		const double base = write_shell(s, path, len);
		record_pair(w, write_native(s, path, len), base);
		const double cat = read_shell(s, path, len, 0);
		record_pair(r, read_native(s, path, len, 0), cat);
		const double base64 = read_shell(s, path, len, 1);
		record_pair(d, read_native(s, path, len, 1), base64);
	}
	finish_record(s, w);
	finish_record(s, r);
	finish_record(s, d);
}

static void bench_small(const struct sandboxes *s)
{
	struct record *r = record_new("sandbox_read_small", "ms", "shell_read");
	holt_error *error = NULL;
	char path[64];

	r->target = TARGET_SMALL;
	for (unsigned i = 0; i < SMALL_FILES * rounds_at_most(s, SMALL_ROUNDS_MAX); i++) {
		char *natively = NULL;
		char *shelled = NULL;
		size_t n = 0;

		(void)snprintf(path, sizeof path, "/bench/small/%u", i % SMALL_FILES);
		const double before = now_ms();
		same("a small file", 1, shell_read(s->box, path, &shelled) > 0);
		const double between = now_ms();
		if (holt_sandbox_read(s->sandbox, path, NULL, &natively, &n, &error) < 0)
			sandbox_die("cannot read", error);
		record_pair(r, now_ms() - between, between - before);
		same("a small file", n, strlen(shelled));
		holt_free(natively);
		free(shelled);
	}
	finish_record(s, r);
}

/* ---- searching ---- */

static int count_entry(const holt_entry *entry, void *user)
{
	*(size_t *)user += entry->type == HOLT_FILE_REGULAR || entry->type == HOLT_FILE_DIRECTORY;
	return 0;
}

static int count_match(const holt_match *match, void *user)
{
	*(size_t *)user += match->line_number > 0;
	return 0;
}

static double list_native(const struct sandboxes *s, size_t *ret)
{
	holt_list_options options = HOLT_LIST_OPTIONS_INIT;
	holt_error *error = NULL;
	const double start = now_ms();

	options.max_entries = RESULTS_MAX;
	if (holt_sandbox_list(s->sandbox, "/bench/list", &options, count_entry, ret, NULL, &error) <
		0)
		sandbox_die("cannot list", error);
	return now_ms() - start;
}

static double glob_native(const struct sandboxes *s, size_t *ret)
{
	holt_glob_options options = HOLT_GLOB_OPTIONS_INIT;
	holt_error *error = NULL;
	const double start = now_ms();

	options.max_results = RESULTS_MAX;
	if (holt_sandbox_glob(s->sandbox, "/bench/glob", "**/*.py", &options, count_entry, ret,
		    NULL, &error) < 0)
		sandbox_die("cannot glob", error);
	return now_ms() - start;
}

static double grep_native(
	const struct sandboxes *s, const char *pattern, uint32_t flags, size_t *ret)
{
	holt_grep_options options = HOLT_GREP_OPTIONS_INIT;
	holt_error *error = NULL;
	const double start = now_ms();

	options.flags = flags;
	options.max_results = RESULTS_MAX;
	if (holt_sandbox_grep(s->sandbox, "/bench/grep", pattern, &options, count_match, ret, NULL,
		    &error) < 0)
		sandbox_die("cannot grep", error);
	return now_ms() - start;
}

/* GNU grep alone, milliseconds from its execve to its end. */
static double guest_grep(const struct sandboxes *s, const char *flags, const char *pattern)
{
	const char *const argv[] = {"grep", "-rnIH", flags, "-e", pattern, "/bench/grep", NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;
	char sink[4096];
	size_t n = 0;

	options.argv = argv;
	if (holt_exec_start(s->box, &options, &exec, &error) < 0)
		sandbox_die("cannot run grep", error);
	do {
		if (holt_exec_read(exec, HOLT_STDOUT, sink, sizeof sink, HOLT_FOREVER, &n, &error) <
			0)
			sandbox_die("cannot read from grep", error);
	} while (n > 0);
	if (holt_exec_wait(exec, HOLT_FOREVER, &result, &error) < 0 || result.code != 0)
		sandbox_die("grep failed", error);
	holt_exec_free(exec);
	return (double)result.duration_us / 1e3;
}

static void bench_walks(const struct sandboxes *s)
{
	struct record *list = record_new("sandbox_list_10000", "ms", "shell_find");
	struct record *glob = record_new("sandbox_glob_100000", "ms", "shell_find");

	list->target = glob->target = TARGET_BULK;
	for (unsigned i = 0; i <= s->rounds; i++) {
		size_t listed = 0;
		size_t globbed = 0;
		const double t0 = now_ms();
		const size_t found = shell_find(
			s->box, "/bench/list", 2, "\\( -type f -o -type d \\)", RESULTS_MAX);
		const double t1 = now_ms();
		const double list_ms = list_native(s, &listed);
		same("entries", listed - 1, found); /* without the root */
		same("entries", found, LISTED);
		const double t2 = now_ms();
		same("files", GLOBBED,
			shell_find(s->box, "/bench/glob", 1000, "-type f", RESULTS_MAX));
		const double t3 = now_ms();
		const double glob_ms = glob_native(s, &globbed);
		same("files", globbed, GLOBBED / 10);
		if (i == 0)
			continue;
		record_pair(list, list_ms, t1 - t0);
		record_pair(glob, glob_ms, t3 - t2);
	}
	finish_record(s, list);
	finish_record(s, glob);
}

static void bench_grep(const struct sandboxes *s, const char *name, const char *pattern,
	uint32_t flags, const char *shell_flags, double target)
{
	struct record *shell = record_new(name, "ms", "shell_grep");
	struct record *guest = record_new(name, "ms", "guest_grep");

	guest->target = target;
	for (unsigned i = 0; i <= s->rounds; i++) {
		size_t n = 0;
		const double t0 = now_ms();
		same("lines", NEEDLES,
			shell_grep(s->box, "/bench/grep", shell_flags, pattern, RESULTS_MAX));
		const double t1 = now_ms();
		const double alone = guest_grep(s, shell_flags, pattern);
		const double ms = grep_native(s, pattern, flags, &n);
		same("lines", n, NEEDLES);
		if (i == 0)
			continue;
		record_pair(shell, ms, t1 - t0);
		record_pair(guest, ms, alone);
	}
	finish_record(s, shell);
	finish_record(s, guest);
}

/* ---- memory ---- */

static int give(void *data, size_t size, size_t *ret_len, void *user)
{
	size_t *left = user;
	const size_t n = *left < size ? *left : size;

	memset(data, 'x', n);
	*left -= n;
	*ret_len = n;
	return 0;
}

static int take(const void *data, size_t len, void *user)
{
	(void)data;
	*(size_t *)user += len;
	return 0;
}

/* The number behind @key of this process, KiB. */
static double own_kib(const char *key)
{
	char line[256];
	double value = -1;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && value < 0 && fgets(line, sizeof line, f)) {
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtod(line + strlen(key), NULL);
	}
	if (f)
		(void)fclose(f);
	return value;
}

/* From here on VmHWM is of what follows. */
static void forget_peak(void)
{
	const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "5", 1) != 1)
		sandbox_die("cannot reset the peak of the memory", NULL);
	(void)close(fd);
}

static void bench_memory(const struct sandboxes *s)
{
	static const char path[] = "/bench/stream";
	struct record *r = record_new("sandbox_rss_64m", "KiB", NULL);

	r->target_median = TARGET_RSS_KIB;
	for (unsigned i = 0; i < rounds_at_most(s, LARGE_ROUNDS_MAX); i++) {
		size_t left = (size_t)LARGE * MIB;
		size_t got = 0;
		holt_error *error = NULL;

		forget_peak();
		const double before = own_kib("VmRSS:");
		if (holt_sandbox_write_from(s->sandbox, path, give, &left, NULL, &error) < 0 ||
			holt_sandbox_read_to(s->sandbox, path, NULL, take, &got, &error) < 0)
			sandbox_die("cannot stream", error);
		same("bytes", got, (size_t)LARGE * MIB);
		record_add(r, own_kib("VmHWM:") - before);
	}
	finish_record(s, r);
}

/* ---- */

static void fill_noise(char *data, size_t len)
{
	uint64_t x = 88172645463325252u;

	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		data[i] = (char)x;
	}
}

static void make_corpus(const struct sandboxes *s)
{
	holt_error *error = NULL;
	char *output = NULL;

	if (holt_sandbox_write(
		    s->sandbox, "/bench/corpus.py", corpus, sizeof corpus - 1, NULL, &error) < 0)
		sandbox_die("cannot write", error);
	(void)shell_run(s->box, "python3 /bench/corpus.py", &output);
	free(output);
}

void bench_sandboxes(
	holt_home *home, const char *image, unsigned rounds, const struct record_host *host)
{
	static const char *const small[] = {
		"sandbox_write_1m", "sandbox_read_1m", "sandbox_download_1m"};
	static const char *const large[] = {
		"sandbox_write_64m", "sandbox_read_64m", "sandbox_download_64m"};
	struct sandboxes s = {.host = host, .rounds = rounds};
	holt_error *error = NULL;

	if (!image) {
		record_absent("sandbox_write_1m", "no image with bash and python3 here");
		return;
	}
	if (holt_box_create(home, image, NULL, &s.box, &error) < 0 ||
		holt_box_start(s.box, NULL, NULL, &error) < 0 ||
		holt_sandbox_open(s.box, NULL, &s.sandbox, &error) < 0)
		sandbox_die("cannot start a sandbox", error);
	s.noise = malloc((size_t)LARGE * MIB);
	if (!s.noise)
		sandbox_die("no memory", NULL);
	fill_noise(s.noise, (size_t)LARGE * MIB);
	(void)fprintf(stderr, "sandboxes: making 120,000 files\n");
	make_corpus(&s);
	bench_content(&s, MIB, rounds, small, TARGET_WRITE, TARGET_SMALL);
	bench_small(&s);
	bench_walks(&s);
	bench_grep(&s, "sandbox_grep_literal", LITERAL, HOLT_GREP_LITERAL, "-iF", TARGET_LITERAL);
	bench_grep(&s, "sandbox_grep_regex", REGEX, 0, "-iE", TARGET_REGEX);
	bench_content(&s, (size_t)LARGE * MIB, rounds_at_most(&s, LARGE_ROUNDS_MAX), large,
		TARGET_BULK, TARGET_BULK);
	bench_memory(&s);
	free(s.noise);
	holt_sandbox_free(s.sandbox);
	holt_box_close(s.box);
}
