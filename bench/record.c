/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define DIGITS 5 /* of a number in the output; the noise is larger */

struct record *record_new(const char *name, const char *unit, const char *baseline)
{
	struct record *r = calloc(1, sizeof *r);

	if (!r) {
		fprintf(stderr, "bench: no memory\n");
		exit(1);
	}
	r->name = name;
	r->unit = unit;
	r->baseline = baseline;
	return r;
}

void record_free(struct record *r)
{
	free(r);
}

void record_add(struct record *r, double value)
{
	if (r->n < RECORD_MAX)
		r->values[r->n++] = value;
}

void record_pair(struct record *r, double value, double base)
{
	/* Partners have the same index. */
	if (r->n_base == r->n && r->n < RECORD_MAX)
		r->bases[r->n_base++] = base;
	record_add(r, value);
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a;
	const double y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The smallest value that at least @share of all do not exceed. */
static double sorted_at(const double *sorted, size_t n, double share)
{
	const size_t rank = (size_t)ceil(share * (double)n);

	return sorted[rank > 0 ? rank - 1 : 0];
}

static double median(const double *sorted, size_t n)
{
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* Median of the ratios of partners, so that a drift of the host hits both halves alike. */
static double ratio_median(const struct record *r)
{
	static double ratios[RECORD_MAX];

	for (size_t i = 0; i < r->n_base; i++)
		ratios[i] = r->is_rate ? r->bases[i] / r->values[i] : r->values[i] / r->bases[i];
	qsort(ratios, r->n_base, sizeof *ratios, ascending);
	return median(ratios, r->n_base);
}

static void first_cpu(char *ret, size_t cap)
{
	char line[512];
	FILE *file = fopen("/proc/cpuinfo", "re");

	(void)snprintf(ret, cap, "unknown");
	while (file && fgets(line, sizeof line, file)) {
		char *colon = strchr(line, ':');
		if (!colon || strncmp(line, "model name", 10) != 0)
			continue;
		line[strcspn(line, "\n")] = 0;
		(void)snprintf(ret, cap, "%s", colon + 2);
		break;
	}
	if (file)
		(void)fclose(file);
}

void record_host_init(struct record_host *h)
{
	struct utsname names;
	struct tm tm;
	const time_t now = time(NULL);

	first_cpu(h->cpu, sizeof h->cpu);
	h->cores = sysconf(_SC_NPROCESSORS_ONLN);
	if (uname(&names) == 0)
		(void)snprintf(h->kernel, sizeof h->kernel, "%s %s", names.sysname, names.release);
	if (gmtime_r(&now, &tm))
		(void)strftime(h->date, sizeof h->date, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

static json_t *number(double value)
{
	const double scale = value == 0 ? 1 : pow(10, DIGITS - 1 - floor(log10(fabs(value))));

	return json_real(round(value * scale) / scale);
}

static json_t *record_json(struct record *r, const struct record_host *h)
{
	json_t *o = json_object();

	qsort(r->values, r->n, sizeof *r->values, ascending);
	(void)json_object_set_new(o, "name", json_string(r->name));
	(void)json_object_set_new(o, "unit", json_string(r->unit));
	(void)json_object_set_new(o, "n", json_integer((json_int_t)r->n));
	(void)json_object_set_new(o, "median", number(median(r->values, r->n)));
	(void)json_object_set_new(
		o, "p95", number(sorted_at(r->values, r->n, r->is_rate ? 0.05 : 0.95)));
	(void)json_object_set_new(
		o, "p99", number(sorted_at(r->values, r->n, r->is_rate ? 0.01 : 0.99)));
	(void)json_object_set_new(o, "min", number(r->values[0]));
	(void)json_object_set_new(o, "max", number(r->values[r->n - 1]));
	(void)json_object_set_new(o, "machine",
		json_pack("{s:s, s:I, s:s}", "cpu", h->cpu, "cores", (json_int_t)h->cores, "kernel",
			h->kernel));
	(void)json_object_set_new(o, "accel", json_string(h->accel));
	(void)json_object_set_new(o, "qemu", json_string(h->qemu));
	(void)json_object_set_new(o, "date", json_string(h->date));
	return o;
}

static void set_target(json_t *o, const char *name, double target)
{
	(void)json_object_set_new(o, name, target > 0 ? json_real(target) : json_null());
}

static void tell_target(const char *what, double target, double value)
{
	(void)fprintf(stderr, " (%s %.6g: %.6g, %s)", what, target, value,
		value <= target ? "met" : "MISSED");
}

/* Sorts the values: partners are no longer such afterwards, so the ratio comes first. */
void record_print(struct record *r, const struct record_host *h)
{
	const double ratio = r->n_base ? ratio_median(r) : 0;
	json_t *base_name = r->n_base ? json_string(r->baseline) : json_null();

	if (r->n == 0)
		return;
	json_t *o = record_json(r, h);
	(void)json_object_set_new(o, "baseline", base_name);
	qsort(r->bases, r->n_base, sizeof *r->bases, ascending);
	(void)json_object_set_new(o, "baseline_median",
		r->n_base ? number(median(r->bases, r->n_base)) : json_null());
	(void)json_object_set_new(o, "ratio", r->n_base ? number(ratio) : json_null());
	set_target(o, "target", r->target);
	set_target(o, "target_median", r->target_median);
	set_target(o, "target_p99", r->target_p99);
	if (r->reference > 0)
		(void)json_object_set_new(o, "reference", json_real(r->reference));
	(void)json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
	(void)fputs("\n", stdout);
	(void)fflush(stdout);
	json_decref(o);

	(void)fprintf(stderr, "%-22s %10.3f %-5s", r->name, median(r->values, r->n), r->unit);
	if (r->n_base)
		(void)fprintf(stderr, "  %.3g x %s", ratio, r->baseline);
	if (r->target > 0 && r->n_base)
		tell_target("target", r->target, ratio);
	if (r->target_median > 0)
		tell_target("p50", r->target_median, median(r->values, r->n));
	if (r->target_p99 > 0)
		tell_target("p99", r->target_p99, sorted_at(r->values, r->n, 0.99));
	(void)fputs("\n", stderr);
}

void record_absent(const char *name, const char *reason)
{
	json_t *o = json_pack("{s:s, s:n, s:s}", "name", name, "median", "not_measured", reason);

	(void)json_dumpf(o, stdout, JSON_COMPACT);
	(void)fputs("\n", stdout);
	(void)fflush(stdout);
	json_decref(o);
	(void)fprintf(stderr, "%-22s not measured: %s\n", name, reason);
}
