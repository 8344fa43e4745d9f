/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_RECORD_H
#define BENCH_RECORD_H

#include <stddef.h>

#define RECORD_MAX 20000 /* values of one figure */

/*
 * The values of one figure and, where it has a baseline, the baseline's value that was measured
 * right before or after each of them.
 */
struct record {
	const char *name;
	const char *unit;
	const char *baseline; /* name, or NULL */
	int is_rate; /* more is better: ratio is baseline / value, always "cost against" */
	double target; /* largest ratio that is promised; 0: none */
	double target_median; /* likewise in the figure's own unit */
	double target_p99;
	double reference; /* what others have published, in the figure's unit; 0: none */
	size_t n;
	size_t n_base;
	double values[RECORD_MAX];
	double bases[RECORD_MAX];
};

/* What all lines of a run have in common. */
struct record_host {
	char cpu[128];
	char kernel[160];
	long cores;
	char accel[8];
	char qemu[64];
	char date[32];
};

/* Make a record; exits without memory. */
struct record *record_new(const char *name, const char *unit, const char *baseline);
void record_free(struct record *r);

void record_add(struct record *r, double value);
/* A value with its partner. */
void record_pair(struct record *r, double value, double base);

void record_host_init(struct record_host *h);
/* One JSON object and a line feed on stdout; the same for people on stderr. */
void record_print(struct record *r, const struct record_host *h);

/* Says that a figure could not be measured here, and why. */
void record_absent(const char *name, const char *reason);

#endif
