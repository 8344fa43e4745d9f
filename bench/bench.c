/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures that SPECIFICATION.md promises, each beside its baseline, which is measured in the
 * same run: the two take turns, and the ratio is the median of the ratios of neighbours. bench/run
 * prepares everything and starts this program. One JSON object a figure goes to stdout, progress to
 * stderr. One thread (but for lanes.c); only the public API and child processes.
 *
 *   boot_to_agent         of a box that boots: from QEMU's start to the agent's first word
 * (holt_box_get_info: hello_us) boot_to_first_output  from the call that makes it until the first
 * byte that `echo` wrote is here: image lookup, disk, keeper, boot, mounts, exec cli_boot `holt run
 * --no-template IMAGE true`, from spawn to exit: also the opening of the home, the end of the
 * machine and the removal of the box exec_true             busybox `true` in a running box, from
 * holt_exec_start until holt_exec_wait has returned; baseline host_exec: the same busybox, spawned
 * and awaited on the host exec_share            of that, what is neither the program's own time
 * (from its execve to its end) nor one way to the agent and back (a ping): cgroup, pipes, fork
 *   pss_idle_box          QEMU and keeper of a box that booted and did nothing for two seconds;
 * baseline: the plain machine's QEMU at its line of output import                a plain tar of one
 * layer into a new home: bytes of the tar by the time of holt_image_import; baseline: `tar2sqfs -c
 * lz4` on the same file, which neither computes a digest nor forces anything to the disk
 *
 * jail_cost.c has what the jail costs a clone, network.c what its network costs a box,
 * python_calls.c what a call costs through Python,
 * clones.c has the figures of boxes that begin as clones, density.c what these cost while they run,
 * boxes.c those of boxes that live on, lanes.c throughput and latency of a running box,
 * pulls.c what pulling costs, many_boxes.c the opening of a home with a thousand, sandboxes.c what
 * agents do in a box, agent_turns.c what a provider costs them.
 *
 * The baseline of the first three is plain_boot, the strictest one: a machine with all of Holt's
 * choices for kernel and QEMU. What these are worth shows stock_boot, which is measured beside it;
 * baseline.h describes both. Of every kind one turn that is not
 * counted comes first and fills the caches (kernel, initramfs, blank disk, page cache).
 */
#include <holt.h>

#include "baseline.h"
#include "boxes.h"
#include "clones.h"
#include "jail_cost.h"
#include "lanes.h"
#include "many_boxes.h"
#include "network.h"
#include "pulls.h"
#include "python_calls.h"
#include "record.h"
#include "sandboxes.h"
#include "agent_turns.h"

#include <ftw.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROUNDS_DEFAULT      15 /* of boots: under TCG less than six minutes in all */
#define ROUNDS_MAX          1000
#define EXECS_PER_ROUND     20
#define PULL_ROUNDS_MAX     5 /* each takes half a minute */
#define IDLE_S              2
#define TARGET_FIRST_OUTPUT 1.3
#define TARGET_IMPORT       1.5
#define READ_TIMEOUT_MS     60000

struct bench {
	unsigned rounds;
	const char *image;
	const char *debian; /* another one; NULL: none here */
	const char *rootfs; /* a directory with the files of the first */
	const char *layer; /* tar */
	const char *init; /* plainboot-init */
	const char *holt; /* the CLI */
	const char *busybox; /* on the host */
	const char *dir; /* for scratch files */
	const char *keepers; /* with and without a jail; NULL: none here */
	const char *python; /* an interpreter with the package; NULL: none here */
	const char *worker; /* what it runs */
	const char *registries; /* what to pull from; NULL: none here */
	int networked; /* this process has a network of its own, with a neighbour */
	holt_home *home;
	struct plain plain;
	struct plain stock;
	char kernel[PATH_MAX]; /* as its package has it */
	struct record_host host;
};

static void die(const char *what, holt_error *error)
{
	(void)fprintf(stderr, "bench: %s: %s: %s%s%s\n", what,
		holt_code_name(holt_error_code(error)), holt_error_message(error),
		*holt_error_hint(error) ? "; hint: " : "", holt_error_hint(error));
	exit(1);
}

static void die_plain(const char *what)
{
	(void)fprintf(stderr, "bench: %s\n", what);
	exit(1);
}

/* One box, from nothing through a boot to the first byte of output. */

struct start {
	holt_box_info info;
	double output_ms;
};

static holt_box *start_box(struct bench *b, const char *image, uint32_t flags, struct start *s)
{
	static const char *const argv[] = {"echo", "x", NULL};
	holt_start_options how = HOLT_START_OPTIONS_INIT;
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;
	holt_box *box = NULL;
	char byte = 0;
	size_t len = 0;

	how.flags = flags;
	options.argv = argv;
	const double start = now_ms();
	if (holt_box_create(b->home, image, NULL, &box, &error) < 0 ||
		holt_box_start(box, &how, NULL, &error) < 0)
		die("cannot start a box", error);
	if (holt_exec_start(box, &options, &exec, &error) < 0 ||
		holt_exec_read(exec, HOLT_STDOUT, &byte, 1, READ_TIMEOUT_MS, &len, &error) < 0)
		die("cannot run 'echo'", error);
	s->output_ms = now_ms() - start;
	if (len != 1 || byte != 'x')
		die_plain("'echo' did not write what it should");
	char rest[16];
	if (holt_exec_read(exec, HOLT_STDOUT, rest, sizeof rest, READ_TIMEOUT_MS, &len, &error) <
			0 ||
		holt_exec_wait(exec, READ_TIMEOUT_MS, &result, &error) < 0)
		die("'echo' did not end", error);
	holt_exec_free(exec);
	(void)holt_box_get_info(box, &info);
	s->info = info;
	return box;
}

static double cli_boot(struct bench *b)
{
	const char *const argv[] = {b->holt, "run", "--no-template", b->image, "true", NULL};
	double ms = 0;

	if (program_run(argv, NULL, &ms) != 0)
		die_plain("'holt run' failed");
	return ms;
}

static void bench_boots(struct bench *b)
{
	struct record *agent = record_new("boot_to_agent", "ms", "plain_boot");
	struct record *output = record_new("boot_to_first_output", "ms", "plain_boot");
	struct record *cli = record_new("cli_boot", "ms", "plain_boot");
	struct record *plain = record_new("plain_boot", "ms", "stock_boot");

	/* The same as the figure before, against the other baseline. */
	struct record *stock = record_new("boot_to_first_output", "ms", "stock_boot");

	output->target = TARGET_FIRST_OUTPUT;
	(void)cli_boot(b);
	for (unsigned i = 0; i < b->rounds; i++) {
		double plain_ms = 0;
		double stock_ms = 0;
		double unused = 0;
		struct start s;
		if (plain_boot(&b->stock, &stock_ms, &unused) < 0 ||
			plain_boot(&b->plain, &plain_ms, &unused) < 0)
			exit(1);
		holt_box_close(start_box(b, b->image, HOLT_START_NO_TEMPLATE, &s));
		const double cli_ms = cli_boot(b);
		if (s.info.attempts != 1)
			(void)fprintf(stderr, "bench: this boot took two attempts\n");
		record_pair(plain, plain_ms, stock_ms);
		record_pair(stock, s.output_ms, stock_ms);
		record_pair(agent, (double)s.info.hello_us / 1e3, plain_ms);
		record_pair(output, s.output_ms, plain_ms);
		record_pair(cli, cli_ms, plain_ms);
		(void)fprintf(stderr,
			"round %u of %u: stock %.0f ms, plain %.0f ms, agent %.0f ms, output %.0f "
			"ms, "
			"cli %.0f ms\n",
			i + 1, b->rounds, stock_ms, plain_ms, (double)s.info.hello_us / 1e3,
			s.output_ms, cli_ms);
	}
	record_print(plain, &b->host);
	record_print(agent, &b->host);
	record_print(output, &b->host);
	record_print(stock, &b->host);
	record_print(cli, &b->host);
	record_free(plain);
	record_free(stock);
	record_free(agent);
	record_free(output);
	record_free(cli);
}

/* *ret_own_ms: from the exec of the program to its end, as the agent saw it. */
static double exec_true(holt_box *box, double *ret_own_ms)
{
	static const char *const argv[] = {"/bin/true", NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;

	options.argv = argv;
	const double start = now_ms();
	if (holt_exec_start(box, &options, &exec, &error) < 0 ||
		holt_exec_wait(exec, READ_TIMEOUT_MS, &result, &error) < 0)
		die("cannot run 'true'", error);
	const double ms = now_ms() - start;
	if (result.code != 0)
		die_plain("'true' failed");
	holt_exec_free(exec);
	*ret_own_ms = (double)result.duration_us / 1e3;
	return ms;
}

static void bench_exec(struct bench *b)
{
	struct record *r = record_new("exec_true", "ms", "host_exec");
	struct record *share = record_new("exec_share", "ms", NULL);
	double own_ms = 0;
	const char *const argv[] = {b->busybox, "true", NULL};
	struct start s;
	holt_box *box = start_box(b, b->image, HOLT_START_NO_TEMPLATE, &s);

	(void)exec_true(box, &own_ms);
	for (unsigned i = 0; i < b->rounds * EXECS_PER_ROUND; i++) {
		double base = 0;
		if (program_run(argv, NULL, &base) != 0)
			die_plain("the host's busybox failed");
		uint64_t ping_us = 0;
		holt_error *error = NULL;
		if (holt_box_ping(box, 0, &ping_us, &error) < 0)
			die("cannot ping", error);
		const double ms = exec_true(box, &own_ms);
		record_pair(r, ms, base);
		record_add(share, ms - own_ms - (double)ping_us / 1e3);
	}
	holt_box_close(box);
	record_print(r, &b->host);
	record_print(share, &b->host);
	record_free(r);
	record_free(share);
}

static void bench_pss(struct bench *b)
{
	struct record *r = record_new("pss_idle_box", "KiB", "plain_boot");
	holt_start_options how = HOLT_START_OPTIONS_INIT;

	how.flags = HOLT_START_NO_TEMPLATE;
	for (unsigned i = 0; i < (b->rounds + 3) / 4; i++) {
		double unused = 0;
		double base = -1;
		holt_error *error = NULL;
		holt_box *box = NULL;
		holt_box_info info = HOLT_BOX_INFO_INIT;
		if (plain_boot(&b->plain, &unused, &base) < 0)
			exit(1);
		if (holt_box_create(b->home, b->image, NULL, &box, &error) < 0 ||
			holt_box_start(box, &how, NULL, &error) < 0)
			die("cannot start a box", error);
		(void)sleep(IDLE_S);
		(void)holt_box_get_info(box, &info);
		const double vmm = pss_kib(info.vmm_pid);
		const double keeper = pss_kib(parent_of(info.vmm_pid));
		holt_box_close(box);
		if (vmm < 0 || keeper < 0)
			die_plain("cannot read the memory of QEMU or keeper");
		(void)fprintf(
			stderr, "box %u: QEMU %.0f KiB, keeper %.0f KiB\n", i + 1, vmm, keeper);
		if (base > 0)
			record_pair(r, vmm + keeper, base);
		else
			record_add(r, vmm + keeper);
	}
	record_print(r, &b->host);
	record_free(r);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* Time of one import into a home of its own. */
static double import_once(struct bench *b)
{
	char path[PATH_MAX];
	holt_home_options options = HOLT_HOME_OPTIONS_INIT;
	holt_image_import_options import = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_home *home = NULL;

	(void)snprintf(path, sizeof path, "%s/import-home", b->dir);
	options.path = path;
	import.name = "layer";
	if (holt_home_open(&options, &home, &error) < 0)
		die("cannot open a home", error);
	const double start = now_ms();
	if (holt_image_import(home, b->layer, &import, NULL, &error) < 0)
		die("cannot import the layer", error);
	const double ms = now_ms() - start;
	holt_home_close(home);
	(void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return ms;
}

static double tar2sqfs_once(struct bench *b)
{
	char path[PATH_MAX];
	const char *const argv[] = {"tar2sqfs", "-q", "-f", "-c", "lz4", path, NULL};
	double ms = 0;

	(void)snprintf(path, sizeof path, "%s/tar2sqfs.sqfs", b->dir);
	const int status = program_run(argv, b->layer, &ms);
	(void)unlink(path);
	return status == 0 ? ms : -1;
}

static void bench_import(struct bench *b)
{
	struct record *r = record_new("import", "MB/s", "tar2sqfs");
	struct stat st;

	r->is_rate = 1;
	r->target = TARGET_IMPORT;
	if (stat(b->layer, &st) < 0)
		die_plain("the layer is not there");
	const double kbytes = (double)st.st_size / 1e3; /* by ms: MB/s */
	const int has_base = tar2sqfs_once(b) >= 0;
	if (!has_base)
		(void)fprintf(stderr, "bench: no tar2sqfs here, so import has no baseline\n");
	(void)import_once(b);
	for (unsigned i = 0; i < (b->rounds + 1) / 2; i++) {
		const double base = has_base ? tar2sqfs_once(b) : -1;
		const double ms = import_once(b);
		(void)fprintf(stderr, "import %u: %.0f ms, tar2sqfs %.0f ms\n", i + 1, ms, base);
		if (base > 0)
			record_pair(r, kbytes / ms, kbytes / base);
		else
			record_add(r, kbytes / ms);
	}
	record_print(r, &b->host);
	record_free(r);
}

/* Why the accelerator is what it is, from the library's own findings. */
static int print_accel(const char *accel)
{
	holt_doctor *doctor = NULL;
	holt_error *error = NULL;

	if (holt_doctor_run(NULL, &doctor, &error) < 0)
		die("cannot look at the host", error);
	json_t *o = json_loads(holt_doctor_json(doctor), 0, NULL);
	const char *reason = json_string_value(
		json_object_get(json_object_get(o, "accelerator"), "reason"));
	(void)printf("accelerator %s (%s)\n", accel, reason ? reason : "no reason known");
	json_decref(o);
	holt_doctor_free(doctor);
	return 0;
}

/* The last line of `make demo`: a boot, and a box as everybody gets it, with the template that is
 * there by then. */
static int demo(struct bench *b)
{
	struct start boot;
	struct start clone;

	holt_box_close(start_box(b, b->image, HOLT_START_NO_TEMPLATE, &boot));
	holt_box_close(start_box(b, b->image, 0, &clone));
	(void)printf("first output of a boot after %.2f s, of a clone after %.2f s, ",
		boot.output_ms / 1e3, clone.output_ms / 1e3);
	return print_accel(clone.info.accel);
}

/* What the library found: the version is the first word about QEMU, and the path of the kernel
 * stands in quotes. */
static void take_findings(struct bench *b)
{
	holt_doctor *doctor = NULL;
	holt_error *error = NULL;

	if (holt_doctor_run(NULL, &doctor, &error) < 0)
		die("cannot look at the host", error);
	for (size_t i = 0; i < holt_doctor_count(doctor); i++) {
		const char *name = "";
		const char *text = "";
		(void)holt_doctor_check(doctor, i, &name, &text, NULL);
		const char *quote = strchr(text, '\'');
		if (strcmp(name, "qemu") == 0)
			(void)snprintf(b->host.qemu, sizeof b->host.qemu, "%.*s",
				(int)strcspn(text, " "), text);
		else if (strcmp(name, "kernel") == 0 && quote)
			(void)snprintf(b->kernel, sizeof b->kernel, "%.*s",
				(int)strcspn(quote + 1, "'"), quote + 1);
	}
	holt_doctor_free(doctor);
}

static void measure_clones(struct bench *b)
{
	const struct clones c = {.home = b->home,
		.image = b->image,
		.debian = b->debian,
		.holt = b->holt,
		.rootfs = b->rootfs,
		.rounds = b->rounds,
		.host = &b->host};

	bench_clones(&c);
	bench_density(&c);
}

static void measure_jail(struct bench *b)
{
	const struct clones c = {
		.home = b->home, .image = b->image, .rounds = b->rounds, .host = &b->host};

	if (b->keepers)
		bench_jail(&c, b->keepers);
	else
		record_absent("jail", "no keeper without a jail was given");
}

static void measure_python(struct bench *b)
{
	const struct python_calls p = {.home = b->home,
		.image = b->image,
		.python = b->python,
		.worker = b->worker,
		.rounds = b->rounds,
		.host = &b->host};

	if (b->python && b->worker)
		bench_python_calls(&p);
	else
		record_absent("python", "no package here; run tools/python-venv");
}

static void measure_pulls(struct bench *b)
{
	const struct pulls p = {.holt = b->holt,
		.image = "pulled",
		.registries = b->registries,
		.dir = b->dir,
		.rounds = b->rounds < PULL_ROUNDS_MAX ? b->rounds : PULL_ROUNDS_MAX,
		.host = &b->host};

	if (b->registries)
		bench_pulls(&p);
	else
		record_absent("pulls", "no registry or no Debian image here; run 'make setup'");
}

static void measure_network(struct bench *b)
{
	if (!b->debian)
		record_absent("network", "no Debian image here; run 'make setup'");
	else if (b->networked)
		bench_network(b->home, b->debian, b->rounds, &b->host);
}

static void lanes_of_box(struct bench *b)
{
	struct start s;
	holt_box *box = start_box(b, b->image, HOLT_START_NO_TEMPLATE, &s);

	(void)snprintf(b->host.accel, sizeof b->host.accel, "%s", s.info.accel);
	bench_lanes(box, b->rounds, &b->host);
	holt_box_close(box);
}

/* Only these. */
static int lanes(struct bench *b)
{
	record_host_init(&b->host);
	take_findings(b);
	lanes_of_box(b);
	return 0;
}

static void take_host(struct bench *b)
{
	struct start s;

	record_host_init(&b->host);
	take_findings(b);
	holt_box_close(start_box(b, b->image, HOLT_START_NO_TEMPLATE, &s));
	(void)snprintf(b->host.accel, sizeof b->host.accel, "%s", s.info.accel);
}

/* Only these. */
static int clones(struct bench *b)
{
	take_host(b);
	measure_clones(b);
	return 0;
}

/* Only this. */
static int jail(struct bench *b)
{
	take_host(b);
	measure_jail(b);
	return 0;
}

/* Only these. */
static int images(struct bench *b)
{
	take_host(b);
	measure_pulls(b);
	return 0;
}

/* Only these. */
static int network(struct bench *b)
{
	take_host(b);
	measure_network(b);
	return 0;
}

/* Only these. */
static int python(struct bench *b)
{
	take_host(b);
	measure_python(b);
	return 0;
}

/* Only these. */
static int sandboxes(struct bench *b)
{
	take_host(b);
	if (b->debian)
		bench_sandboxes(b->home, b->debian, b->rounds, &b->host);
	else
		record_absent("sandboxes", "no Debian image here; run 'make setup'");
	return 0;
}

static void turns_of_provider(struct bench *b)
{
	const struct turns t = {.home = b->home,
		.image = b->image,
		.debian = b->debian,
		.rounds = b->rounds,
		.host = &b->host};

	bench_turns(&t);
	bench_known_threads(&t);
}

/* Only these. */
static int provider(struct bench *b)
{
	take_host(b);
	turns_of_provider(b);
	return 0;
}

/* Only this. */
static int known(struct bench *b)
{
	take_host(b);
	const struct turns t = {
		.home = b->home, .image = b->image, .rounds = b->rounds, .host = &b->host};

	bench_known_threads(&t);
	return 0;
}

static int bench_all(struct bench *b)
{
	struct start s;

	record_host_init(&b->host);
	take_findings(b);
	holt_box *box = start_box(b, b->image, HOLT_START_NO_TEMPLATE, &s);
	(void)snprintf(b->host.accel, sizeof b->host.accel, "%s", s.info.accel);
	int r = plain_init(&b->plain, s.info.vmm_pid, b->init, b->dir);
	if (r == 0)
		r = plain_init_stock(&b->stock, &b->plain, b->kernel);
	holt_box_close(box);
	if (r < 0)
		return 1;
	bench_boots(b);
	measure_clones(b);
	measure_jail(b);
	measure_network(b);
	bench_exec(b);
	bench_boxes(b->home, b->image, b->holt, b->rounds, &b->host);
	lanes_of_box(b);
	bench_pss(b);
	bench_import(b);
	measure_pulls(b);
	bench_many_boxes(b->dir, b->layer, b->rounds, &b->host);
	(void)sandboxes(b);
	turns_of_provider(b);
	measure_python(b);
	plain_done(&b->plain);
	return 0;
}

static int usage(void)
{
	(void)fprintf(stderr,
		"usage: bench [-n ROUNDS] --image REF --layer TAR --init FILE --holt FILE\n"
		"             --busybox FILE --dir DIR [--debian REF] [--rootfs DIR]\n"
		"             [--registries DIR]\n"
		"       bench --demo --image REF\n"
		"       bench --lanes [-n ROUNDS] --image REF\n"
		"       bench --clones [-n ROUNDS] --image REF --holt FILE [--debian REF]\n"
		"             [--rootfs DIR]\n"
		"       bench --contract [-n ROUNDS] --image REF --debian REF\n"
		"       bench --images [-n ROUNDS] --image REF --holt FILE --dir DIR\n"
		"             [--registries DIR]\n"
		"       bench --jail [-n ROUNDS] --image REF --keepers DIR\n"
		"       bench --network [-n ROUNDS] --image REF --debian REF\n"
		"       bench --provider [-n ROUNDS] --image REF [--debian REF]\n"
		"       bench --overhead [-n ROUNDS] --image REF --python FILE --worker FILE\n"
		"       bench --known [-n ROUNDS] --image REF\n"
		"bench/run prepares all of it\n");
	return 2;
}

int main(int argc, char **argv)
{
	static struct bench b = {.rounds = ROUNDS_DEFAULT, .plain.kernel_fd = -1};
	static const struct option options[] = {{"busybox", required_argument, NULL, 'b'},
		{"clones", no_argument, NULL, 'C'}, {"contract", no_argument, NULL, 'S'},
		{"debian", required_argument, NULL, 'e'}, {"demo", no_argument, NULL, 'D'},
		{"dir", required_argument, NULL, 'd'}, {"holt", required_argument, NULL, 'h'},
		{"image", required_argument, NULL, 'i'}, {"images", no_argument, NULL, 'M'},
		{"registries", required_argument, NULL, 'R'},
		{"init", required_argument, NULL, 'I'}, {"lanes", no_argument, NULL, 'L'},
		{"layer", required_argument, NULL, 'l'}, {"jail", no_argument, NULL, 'J'},
		{"keepers", required_argument, NULL, 'k'}, {"network", no_argument, NULL, 'N'},
		{"known", no_argument, NULL, 'K'}, {"provider", no_argument, NULL, 'P'},
		{"overhead", no_argument, NULL, 'O'}, {"python", required_argument, NULL, 'p'},
		{"worker", required_argument, NULL, 'w'}, {"rootfs", required_argument, NULL, 'r'},
		{0}};
	holt_error *error = NULL;
	int (*only)(struct bench *) = NULL; /* a part, which needs no more than the image */
	int c;

	while ((c = getopt_long(argc, argv, "n:", options, NULL)) != -1) {
		switch (c) {
		case 'b':
			b.busybox = optarg;
			break;
		case 'C':
			only = clones;
			break;
		case 'S':
			only = sandboxes;
			break;
		case 'D':
			only = demo;
			break;
		case 'e':
			b.debian = optarg;
			break;
		case 'r':
			b.rootfs = optarg;
			break;
		case 'd':
			b.dir = optarg;
			break;
		case 'h':
			b.holt = optarg;
			break;
		case 'i':
			b.image = optarg;
			break;
		case 'I':
			b.init = optarg;
			break;
		case 'M':
			only = images;
			break;
		case 'R':
			b.registries = optarg;
			break;
		case 'L':
			only = lanes;
			break;
		case 'J':
			only = jail;
			break;
		case 'k':
			b.keepers = optarg;
			break;
		case 'N':
			only = network;
			break;
		case 'K':
			only = known;
			break;
		case 'P':
			only = provider;
			break;
		case 'O':
			only = python;
			break;
		case 'p':
			b.python = optarg;
			break;
		case 'w':
			b.worker = optarg;
			break;
		case 'l':
			b.layer = optarg;
			break;
		case 'n':
			b.rounds = (unsigned)strtoul(optarg, NULL, 10);
			break;
		default:
			return usage();
		}
	}
	const int complete = b.layer && b.init && b.holt && b.busybox && b.dir;
	if (optind != argc || !b.image || b.rounds < 1 || b.rounds > ROUNDS_MAX ||
		(!only && !complete) || ((only == clones || only == images) && !b.holt) ||
		(only == images && !b.dir))
		return usage();
	/* What has a network of its own has it before there is any thread. */
	b.networked = (!only || only == network) && network_make() == 0;
	if (holt_home_open(NULL, &b.home, &error) < 0)
		die("cannot open the home", error);
	const int status = only ? only(&b) : bench_all(&b);
	holt_home_close(b.home);
	return status;
}
