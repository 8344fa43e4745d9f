/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_DOCTOR_H
#define HOLT_DOCTOR_H

/*
 * Finding out whether, and how well, boxes can run on this host. Nothing is changed but caches.
 */

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_doctor holt_doctor;

enum holt_check_status {
	HOLT_CHECK_OK = 0,
	HOLT_CHECK_WARN = 1, /* boxes run, something is missing or slow */
	HOLT_CHECK_FAIL = 2 /* no box can run */
};

/**
 * holt_doctor_run - look at the host.
 * @home: directory that would be the home; NULL: the default as in holt_home_open.
 * @ret: receives the findings; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0 whatever was found; -HOLT_EINVALID, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_doctor_free.
 * Threads: any thread.
 * Blocks: less than a second.
 * Since: 0.1
 */
HOLT_API int holt_doctor_run(const char *home, holt_doctor **ret, holt_error **reterr);

/**
 * holt_doctor_count - tell how many checks were made.
 * @doctor: findings; must not be NULL.
 *
 * Returns: a number.
 * Ownership: nothing changes hands.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API size_t holt_doctor_count(const holt_doctor *doctor);

/**
 * holt_doctor_check - tell one finding.
 * @doctor: findings; must not be NULL.
 * @index: 0 to holt_doctor_count - 1.
 * @ret_name: receives what was checked, such as "accelerator"; may be NULL.
 * @ret_text: receives the finding in a sentence; may be NULL.
 * @ret_advice: receives what to do, "" where nothing; may be NULL.
 *
 * Returns: a value of enum holt_check_status, or -HOLT_EINVALID for an index out of range.
 * Ownership: strings are borrowed until @doctor is freed.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_doctor_check(const holt_doctor *doctor, size_t index, const char **ret_name,
	const char **ret_text, const char **ret_advice);

/**
 * holt_doctor_ok - tell whether a box can run here.
 * @doctor: findings; must not be NULL.
 *
 * Returns: 1 or 0.
 * Ownership: nothing changes hands.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_doctor_ok(const holt_doctor *doctor);

/**
 * holt_doctor_json - tell all findings as one JSON object.
 * @doctor: findings; must not be NULL.
 *
 * Members: ok, version, accelerator {use, kvm_usable, reason, kvm_mips, tsc_khz}, checks [{name,
 * status, text, advice}].
 *
 * Returns: a NUL-terminated string, or NULL without memory.
 * Ownership: borrowed until @doctor is freed.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_doctor_json(const holt_doctor *doctor);

/**
 * holt_doctor_free - free findings.
 * @doctor: findings, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @doctor.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_doctor_free(holt_doctor *doctor);

#ifdef __cplusplus
}
#endif
#endif
