/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent does in a sandbox, natively and beside it the shell-driven way (shell_way.h) in the
 * same box, turn by turn. The two have to come to the same result, and the shell's `head` is raised
 * so far that it cuts nothing off.
 *
 *   write_1m, read_1m, download_1m      a file of 1 MiB of bytes of every value
 *   write_64m, read_64m, download_64m   likewise of 64 MiB, piece by piece
 *   read_small         a file of 200 bytes; a thousand reads in 15 rounds
 *   list_10k           10,000 entries two levels deep
 *   glob_100k          the 1,000 files of 100,000 whose names end with ".py"; the shell way lists
 * all of them and takes its pick here grep_literal, grep_regex    1,000 lines in 10,000 files of 2
 * KB, case not counting; also against gnu_grep: the time of GNU grep alone, as a shell in the box
 * sees it, without any way to the host. grep_literal_case, grep_regex_case: with case counting
 *   stream_memory      by how much the most memory of this process and of the keeper together grows
 *                      while 64 MiB go in and come out
 *
 * Of each the first turn is not counted, but for 64 MiB, where the shell way takes minutes. One
 * thread.
 */
#include "sandboxes.h"

#include "baseline.h"
#include "shell_way.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB           1048576u
#define BULK_BYTES    (64 * MIB)
#define SMALL_FILES   1000
#define SMALL_READS   67 /* a round */
#define SMALL_BYTES   200
#define LIST_ENTRIES  10001 /* with the root */
#define GLOB_MATCHES  1000
#define GREP_MATCHES  1000
#define NO_LIMIT      1000000u
#define TIMES_10      0.1 /* targets are what share of the baseline's time it may take */
#define TIMES_25      0.04
#define TIMES_5       0.2
#define TARGET_TEXT   1.2
#define TARGET_REGEX  2.5
#define TARGET_STREAM 8192

struct sandboxes {
	holt_box *box;
	holt_sandbox *sandbox;
	char *data; /* BULK_BYTES */
	unsigned rounds;
	unsigned bulk_rounds;
	const struct record_host *host;
};

static void need(int r, const char *what, const holt_error *error)
{
	if (r == 0)
		return;
	(void)fprintf(stderr, "bench: %s: %s\n", what, holt_error_message(error));
	exit(1);
}

static void need_same(size_t got, size_t want, const char *what)
{
	if (got == want)
		return;
	(void)fprintf(stderr, "bench: %s: %zu instead of %zu\n", what, got, want);
	exit(1);
}

/* ---- what lies in the box ---- */

static const char make_trees[] =
	"python3 - <<'END'\n"
	"import os\n"
	"def put(path, text):\n"
	"    with open(path, 'w') as f:\n"
	"        f.write(text)\n"
	"words = 'the quick brown fox jumps over a lazy dog again and again'.split()\n"
	"lines = [' '.join(words[(i + k) % 12] for k in range(9)) for i in range(40)]\n"
	"for i in range(100):\n"
	"    for tree in ('list', 'glob', 'text'):\n"
	"        os.makedirs(f'/bench/{tree}/d{i}')\n"
	"    for k in range(99):\n"
	"        put(f'/bench/list/d{i}/f{k}', '')\n"
	"    for k in range(1000):\n"
	"        put(f'/bench/glob/d{i}/f{k}.' + ('py' if k % 100 == 0 else 'txt'), '')\n"
	"    for k in range(100):\n"
	"        body = list(lines)\n"
	"        if k % 10 == 0:\n"
	"            body[k % 40] = f'here is Needle{k} in the hay'\n"
	"        put(f'/bench/text/d{i}/f{k}', '\\n'.join(body) + '\\n')\n"
	"os.makedirs('/bench/small')\n"
	"for i in range(1000):\n"
	"    put(f'/bench/small/f{i}', f'{i:<199}\\n')\n"
	"END\n"
	"sync";

static void prepare(struct sandboxes *s)
{
	uint32_t x = 1;

	for (size_t i = 0; i < BULK_BYTES; i++) {
		x = x * 1664525u + 1013904223u;
		s->data[i] = (char)(x >> 24);
	}
	(void)fprintf(stderr, "sandbox: making 121,000 files\n");
	free(shell_run(s->box, make_trees).data);
}

/* ---- files ---- */

static double native_write(struct sandboxes *s, size_t len)
{
	holt_error *error = NULL;
	const double start = now_ms();

	need(holt_sandbox_write(
		     s->sandbox, "/mnt/user-data/native/file", s->data, len, NULL, &error),
		"cannot write", error);
	return now_ms() - start;
}

static double shell_write_timed(struct sandboxes *s, size_t len)
{
	const double start = now_ms();

	shell_write(s->box, "/mnt/user-data/shell/file", s->data, len);
	return now_ms() - start;
}

/* Pieces of a stream are compared with what was written as they come. */
struct compared {
	const char *data;
	size_t at;
};

static int compare(const void *data, size_t len, void *user)
{
	struct compared *c = user;
	const int differs = memcmp(c->data + c->at, data, len) != 0;

	c->at += len;
	return differs;
}

static double native_read(struct sandboxes *s, size_t len)
{
	struct compared c = {.data = s->data};
	holt_error *error = NULL;
	const double start = now_ms();

	need(holt_sandbox_read_to(
		     s->sandbox, "/mnt/user-data/native/file", NULL, compare, &c, &error),
		"cannot read", error);
	const double ms = now_ms() - start;
	need_same(c.at, len, "bytes that were read");
	return ms;
}

static double native_download(struct sandboxes *s, size_t len)
{
	struct compared c = {.data = s->data};
	holt_error *error = NULL;
	const double start = now_ms();

	need(holt_sandbox_download_to(
		     s->sandbox, "/mnt/user-data/native/file", NULL, compare, &c, &error),
		"cannot download", error);
	const double ms = now_ms() - start;
	need_same(c.at, len, "bytes that were downloaded");
	return ms;
}

static double shell_timed(struct sandboxes *s,
	struct shell_output (*call)(holt_box *box, const char *path), size_t len)
{
	const double start = now_ms();
	struct shell_output out = call(s->box, "/mnt/user-data/shell/file");
	const double ms = now_ms() - start;

	need_same(out.len, len, "bytes that the shell way read");
	need_same((size_t)memcmp(out.data, s->data, len), 0, "what the shell way read");
	free(out.data);
	return ms;
}

static void bench_files(struct sandboxes *s, size_t len, unsigned rounds,
	const char *const names[3], const double targets[3])
{
	struct record *const write = record_new(names[0], "ms", "shell_write");
	struct record *const read = record_new(names[1], "ms", "shell_cat");
	struct record *const download = record_new(names[2], "ms", "shell_base64");
	struct record *const all[] = {write, read, download};

	for (unsigned i = len > MIB; i <= rounds; i++) {
		const double w = native_write(s, len);
		const double shell_w = shell_write_timed(s, len);
		const double r = native_read(s, len);
		const double shell_r = shell_timed(s, shell_read, len);
		const double d = native_download(s, len);
		const double shell_d = shell_timed(s, shell_download, len);

		(void)fprintf(stderr, "%s %u of %u: %.1f ms, shell %.0f ms\n", names[0], i, rounds,
			w, shell_w);
		if (i == 0)
			continue;
		record_pair(write, w, shell_w);
		record_pair(read, r, shell_r);
		record_pair(download, d, shell_d);
	}
	for (size_t i = 0; i < 3; i++) {
		all[i]->target = targets[i];
		record_print(all[i], s->host);
		record_free(all[i]);
	}
}

static void bench_small(struct sandboxes *s)
{
	struct record *r = record_new("read_small", "ms", "shell_cat");

	r->target = TIMES_10;
	for (unsigned i = 0; i < s->rounds * SMALL_READS; i++) {
		char path[64];
		char *data = NULL;
		size_t len = 0;
		holt_error *error = NULL;

		(void)snprintf(path, sizeof path, "/bench/small/f%u", i % SMALL_FILES);
		const double start = now_ms();
		need(holt_sandbox_read(s->sandbox, path, NULL, &data, &len, &error), "cannot read",
			error);
		const double middle = now_ms();
		struct shell_output out = shell_read(s->box, path);
		const double end = now_ms();
		need_same(len, SMALL_BYTES, "bytes of a small file");
		need_same(out.len, len, "bytes of a small file, the shell way");
		if (i > 0)
			record_pair(r, middle - start, end - middle);
		free(out.data);
		holt_free(data);
	}
	record_print(r, s->host);
	record_free(r);
}

/* ---- searching ---- */

static int count_entry(const holt_entry *entry, void *user)
{
	(void)entry;
	(*(size_t *)user)++;
	return 0;
}

static int count_match(const holt_match *match, void *user)
{
	(void)match;
	(*(size_t *)user)++;
	return 0;
}

static size_t native_list(struct sandboxes *s)
{
	holt_list_options options = HOLT_LIST_OPTIONS_INIT;
	holt_error *error = NULL;
	size_t n = 0;

	options.max_entries = NO_LIMIT;
	need(holt_sandbox_list(s->sandbox, "/bench/list", &options, count_entry, &n, NULL, &error),
		"cannot list", error);
	return n;
}

static size_t shell_list(struct sandboxes *s)
{
	struct shell_output out = shell_run(s->box, "find -H /bench/list -maxdepth 2 \\( -type f "
						    "-o -type d \\) -print | head -n 1000000");
	const size_t n = shell_count_lines(&out, "");

	free(out.data);
	return n;
}

static size_t native_glob(struct sandboxes *s)
{
	holt_glob_options options = HOLT_GLOB_OPTIONS_INIT;
	holt_error *error = NULL;
	size_t n = 0;

	options.max_results = NO_LIMIT;
	need(holt_sandbox_glob(
		     s->sandbox, "/bench/glob", "*.py", &options, count_entry, &n, NULL, &error),
		"cannot glob", error);
	return n;
}

static size_t shell_glob(struct sandboxes *s)
{
	struct shell_output out = shell_run(
		s->box, "find -H /bench/glob -type f -print | head -n 1000000");
	const size_t n = shell_count_lines(&out, ".py");

	free(out.data);
	return n;
}

static void bench_search(struct sandboxes *s, const char *name, const char *baseline,
	size_t (*native)(struct sandboxes *s), size_t (*shell)(struct sandboxes *s), size_t want)
{
	struct record *r = record_new(name, "ms", baseline);

	r->target = TIMES_5;
	for (unsigned i = 0; i <= s->rounds; i++) {
		const double start = now_ms();
		need_same(native(s), want, name);
		const double middle = now_ms();
		need_same(shell(s), want, baseline);
		const double end = now_ms();

		if (i > 0)
			record_pair(r, middle - start, end - middle);
	}
	record_print(r, s->host);
	record_free(r);
}

struct grep {
	const char *name;
	const char *pattern;
	uint32_t flags;
	const char *options; /* the same for GNU grep */
	double target; /* against that */
};

static const struct grep greps[] = {
	{"grep_literal", "needle", HOLT_GREP_LITERAL, "-F -i", TARGET_TEXT},
	{"grep_regex", "nee[a-f]le[0-9]+ in", 0, "-E -i", TARGET_REGEX},
	{"grep_literal_case", "Needle", HOLT_GREP_LITERAL | HOLT_GREP_CASE_SENSITIVE, "-F",
		TARGET_TEXT},
	{"grep_regex_case", "Nee[a-f]le[0-9]+ in", HOLT_GREP_CASE_SENSITIVE, "-E", TARGET_REGEX},
};

static double native_grep(struct sandboxes *s, const struct grep *g)
{
	holt_grep_options options = HOLT_GREP_OPTIONS_INIT;
	holt_error *error = NULL;
	size_t n = 0;

	options.flags = g->flags;
	options.max_results = NO_LIMIT;
	const double start = now_ms();
	need(holt_sandbox_grep(s->sandbox, "/bench/text", g->pattern, &options, count_match, &n,
		     NULL, &error),
		"cannot grep", error);
	const double ms = now_ms() - start;
	need_same(n, GREP_MATCHES, g->name);
	return ms;
}

static double shell_grep(struct sandboxes *s, const struct grep *g)
{
	char command[512];
	const double start = now_ms();

	(void)snprintf(command, sizeof command,
		"grep -rnHI %s -e '%s' /bench/text | head -n 1000000", g->options, g->pattern);
	struct shell_output out = shell_run(s->box, command);
	const double ms = now_ms() - start;
	need_same(shell_count_lines(&out, ""), GREP_MATCHES, "matches of grep");
	free(out.data);
	return ms;
}

/* Into a file, since for /dev/null grep would stop at the first match. */
static double gnu_grep(struct sandboxes *s, const struct grep *g)
{
	char command[512];

	(void)snprintf(command, sizeof command,
		"exec bash -c 'a=$EPOCHREALTIME; grep -rnHI %s -e \"%s\" /bench/text "
		">/tmp/grep.out; "
		"b=$EPOCHREALTIME; echo $((${b/./} - ${a/./}))'",
		g->options, g->pattern);
	struct shell_output out = shell_run(s->box, command);
	out.data[out.len] = 0;
	const double ms = strtod(out.data, NULL) / 1e3;
	free(out.data);
	return ms;
}

static void bench_grep(struct sandboxes *s, const struct grep *g)
{
	struct record *shell = record_new(g->name, "ms", "shell_grep");
	struct record *gnu = record_new(g->name, "ms", "gnu_grep");

	gnu->target = g->target;
	for (unsigned i = 0; i <= s->rounds; i++) {
		const double first = native_grep(s, g);
		const double by_shell = shell_grep(s, g);
		const double second = native_grep(s, g);
		const double by_gnu = gnu_grep(s, g);

		if (i == 0)
			continue;
		record_pair(shell, first, by_shell);
		record_pair(gnu, second, by_gnu);
	}
	record_print(shell, s->host);
	record_print(gnu, s->host);
	record_free(shell);
	record_free(gnu);
}

/* ---- memory ---- */

static double status_kib(pid_t pid, const char *key)
{
	char line[256];
	char path[64];
	double kib = 0;

	(void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, key, strlen(key)) == 0)
			kib = strtod(line + strlen(key), NULL);
	if (f)
		(void)fclose(f);
	return kib;
}

/* From now on the most memory is counted anew. */
static void forget_peak(pid_t pid)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/%d/clear_refs", (int)pid);
	FILE *f = fopen(path, "we");
	if (f) {
		(void)fputs("5", f);
		(void)fclose(f);
	}
}

static int give(void *data, size_t size, size_t *ret_len, void *user)
{
	size_t *left = user;
	const size_t n = size < *left ? size : *left;

	memset(data, 'x', n);
	*left -= n;
	*ret_len = n;
	return 0;
}

static int drop(const void *data, size_t len, void *user)
{
	(void)data;
	*(size_t *)user += len;
	return 0;
}

static void stream(struct sandboxes *s)
{
	holt_error *error = NULL;
	size_t left = BULK_BYTES;
	size_t came = 0;

	need(holt_sandbox_write_from(s->sandbox, "/bench/stream", give, &left, NULL, &error),
		"cannot write a stream", error);
	need(holt_sandbox_read_to(s->sandbox, "/bench/stream", NULL, drop, &came, &error),
		"cannot read a stream", error);
	need_same(came, BULK_BYTES, "bytes of a stream");
}

static void bench_memory(struct sandboxes *s)
{
	struct record *r = record_new("stream_memory", "KiB", NULL);
	holt_box_info info = HOLT_BOX_INFO_INIT;

	(void)holt_box_get_info(s->box, &info);
	const pid_t pids[] = {getpid(), info.keeper_pid};
	r->target_median = TARGET_STREAM;
	for (unsigned i = 0; i <= s->bulk_rounds; i++) {
		double grown = 0;

		for (size_t k = 0; k < 2; k++) {
			forget_peak(pids[k]);
			grown -= status_kib(pids[k], "VmRSS:");
		}
		stream(s);
		for (size_t k = 0; k < 2; k++)
			grown += status_kib(pids[k], "VmHWM:");
		record_add(r, grown);
	}
	record_print(r, s->host);
	record_free(r);
}

static void open_sandbox(struct sandboxes *s, holt_home *home, const char *image)
{
	holt_error *error = NULL;

	need(holt_box_create(home, image, NULL, &s->box, &error), "cannot create a box", error);
	need(holt_box_start(s->box, NULL, NULL, &error), "cannot start a box", error);
	need(holt_sandbox_open(s->box, NULL, &s->sandbox, &error), "cannot open a sandbox", error);
	s->data = malloc(BULK_BYTES);
	if (!s->data)
		need(-1, "no memory", NULL);
}

void bench_sandboxes(
	holt_home *home, const char *image, unsigned rounds, const struct record_host *host)
{
	static const char *const small[] = {"write_1m", "read_1m", "download_1m"};
	static const char *const bulk[] = {"write_64m", "read_64m", "download_64m"};
	static const double small_targets[] = {TIMES_25, TIMES_10, TIMES_10};
	static const double bulk_targets[] = {TIMES_5, TIMES_5, TIMES_5};
	struct sandboxes s = {.rounds = rounds, .bulk_rounds = (rounds + 7) / 8, .host = host};

	open_sandbox(&s, home, image);
	prepare(&s);
	bench_files(&s, MIB, s.rounds, small, small_targets);
	bench_small(&s);
	bench_search(&s, "list_10k", "shell_find", native_list, shell_list, LIST_ENTRIES);
	bench_search(&s, "glob_100k", "shell_find", native_glob, shell_glob, GLOB_MATCHES);
	for (size_t i = 0; i < sizeof greps / sizeof greps[0]; i++)
		bench_grep(&s, &greps[i]);
	bench_memory(&s);
	bench_files(&s, BULK_BYTES, s.bulk_rounds, bulk, bulk_targets);
	holt_sandbox_free(s.sandbox);
	holt_box_close(s.box);
	free(s.data);
}
