/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CONTRACT_CASE_H
#define TESTS_CONTRACT_CASE_H

/*
 * The parts of the runner of contract cases; README.md describes the cases, run_cases.c the
 * program. Every function that returns false has said why with case_fail.
 */
#include <holt.h>

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CASE_PATH_MAX  4096
#define CASE_VALUE_MAX 268435456u /* bytes of one value */
#define CASE_OP_MS     120000u /* no operation takes longer, unless the step says so */

/* Bytes with a NUL behind them. */
struct bytes {
	const char *data;
	size_t len;
};

/* Grows; ends the program without memory. */
struct pile {
	char *data;
	size_t len;
	size_t cap;
};

void pile_add(struct pile *p, const void *data, size_t len);

/* What the cases run on. */
struct world {
	holt_home *home;
	holt_box *box;
	holt_sandbox *sandbox; /* without options */
	holt_sandbox *text; /* with HOLT_SANDBOX_TEXT */
	const char *image; /* for cases that want a box of their own */
	const char *has[8]; /* what the needs of cases are held against; NULL-terminated */
	char dir[64]; /* on the host: home and scratch files */
	char cases_dir[128]; /* in the box: $T are in here */
	char user_data[128]; /* $VP */
	char home_env[96]; /* a variable of every sandbox; empty: none */
	bool is_fake;
};

/* Functions of case_world.c end the program where the world cannot be made. */
void world_init_fake(struct world *w);
void world_init_box(struct world *w, const char *ref);
void world_done(struct world *w);
bool world_has(const struct world *w, const char *need);

/* A case while it runs, or a thread of it. */
struct run {
	const struct world *world;
	holt_box *box;
	holt_sandbox *sandbox;
	unsigned thread; /* $N */
	unsigned *terminal_calls;
	void *memory; /* freed with the case */
	char dir[192]; /* $T */
	char why[2048]; /* the first failure */
};

/* Says why the case has failed, unless that is known. Always false. */
bool case_fail(struct run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void *case_alloc(struct run *run, size_t size);
void case_free_all(struct run *run);

/* case_value.c: what a value of the data stands for. */
bool value_get(struct run *run, json_t *json, struct bytes *ret);
/* The value of @key as text without NUL; NULL where it is missing and not @required. */
bool value_text(struct run *run, json_t *step, const char *key, bool required, const char **ret);
bool value_uint(struct run *run, json_t *step, const char *key, uint64_t *ret);
bool value_flag(struct run *run, json_t *step, const char *key, uint32_t flag, uint32_t *flags);

/* case_tar.c: an archive of what the entries say, as a descriptor that is to be read. */
bool tar_make(struct run *run, json_t *entries, int *ret_fd, bool *ret_owners);

/* case_expect.c */
/* What callbacks collect. */
struct found {
	struct pile *items;
	size_t n;
	const char *root;
	bool first_is_root; /* of a listing */
	const char *wrong; /* what does not fit the root */
};

/* The text of a match in a set: PATH NUL NUMBER NUL LINE. */
void found_add(struct found *f, const void *data, size_t len);
void found_free(struct found *f);
bool expect_keys(struct run *run, json_t *object, const char *what, const char *allowed);
/* Whether the result is what @expect says; *ret_more: it succeeded, so look at what it gave. */
bool expect_result(struct run *run, json_t *expect, int r, const holt_error *error, bool *ret_more);
bool expect_bytes(struct run *run, json_t *expect, const char *key, const void *data, size_t len);
/* An array of values, one of which it is. */
bool expect_one_of(struct run *run, json_t *expect, const char *key, const void *data, size_t len);
bool expect_uint(struct run *run, json_t *expect, const char *key, uint64_t value);
/* Like expect_uint, but a missing @key stands for @usual. */
bool expect_flag(struct run *run, json_t *expect, const char *key, bool usual, bool value);
/* An array of texts, or one, that have to be in it. */
bool expect_has(struct run *run, json_t *expect, const char *key, const void *data, size_t len);
bool expect_lacks(struct run *run, json_t *expect, const char *key, const void *data, size_t len);
bool expect_set(struct run *run, json_t *expect, const char *key, struct found *found);

/* case_box.c, case_files.c and case_find.c: the operations. */
typedef bool (*op_fn)(struct run *run, json_t *step, json_t *expect);
struct op {
	const char *name;
	op_fn run;
	const char *keys; /* of the step, besides op, expect and within_ms */
	const char *expects; /* besides error */
};
extern const struct op ops_of_box[];
extern const struct op ops_of_files[];
extern const struct op ops_of_finding[];

/* case_run.c: all steps of a case. */
bool case_run(struct run *run, json_t *c);

#endif
