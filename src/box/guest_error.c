/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest_error.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

static const struct {
	int code;
	const char *hint;
} classes[] = {
	[WIRE_FAIL_INTERNAL] = {HOLT_EIO, NULL},
	[WIRE_FAIL_INVALID] = {HOLT_EINVALID, NULL},
	[WIRE_FAIL_NOT_FOUND] = {HOLT_ENOT_FOUND,
		"check the name, the image's PATH, and that the image has it"},
	[WIRE_FAIL_NOT_EXEC] = {HOLT_EDENIED,
		"check that it is a program for this machine with mode +x"},
	[WIRE_FAIL_CWD] = {HOLT_EINVALID, "choose another working directory with -w"},
	[WIRE_FAIL_USER] = {HOLT_EINVALID, "name a user of the image's /etc/passwd, or a number"},
	[WIRE_FAIL_LIMIT] = {HOLT_ELIMIT, "wait until other commands of the box have ended"},
	[WIRE_FAIL_MOUNT] = {HOLT_EIO, NULL},
	[WIRE_FAIL_PAUSED] = {HOLT_EBUSY, "let the box go on with 'holt unpause'"},
	[WIRE_FAIL_NO_EXEC] = {HOLT_ENOT_FOUND,
		"only commands started with -d, and the program of the box, can be attached"},
	[WIRE_FAIL_BUSY] = {HOLT_EBUSY, "end the other client first"},
	[WIRE_FAIL_NO_SPACE] = {HOLT_ELIMIT,
		"free some space where the home is; the box then goes on by itself"},
	[WIRE_FAIL_ENDING] = {HOLT_ECLOSED, "start the box again with 'holt start'"},
};

/* Escaping makes a byte four at most. */
static char *text_of(struct wire_bytes b)
{
	const size_t cap = 4 * (size_t)b.len + 1;
	char *text = mem_zalloc(cap);

	if (text)
		(void)str_escape(text, cap, b.data, b.len, false);
	return text;
}

int guest_error(const struct wire_fail *m, holt_error **reterr)
{
	const bool known = m->class_ < sizeof classes / sizeof classes[0];
	const int code = known ? classes[m->class_].code : HOLT_EPROTOCOL;
	auto_free char *text = text_of(m->text);
	auto_free char *stage = text_of(m->stage);
	auto_free char *object = text_of(m->object);

	(void)err_make(reterr, code, "%s", text ? text : "the guest refused");
	err_stage(reterr, stage && *stage ? stage : "exec");
	/* Without one the caller's is the best there is. */
	if (object && *object)
		err_object(reterr, object);
	err_set_errno(reterr, (int)m->errnum);
	if (known && classes[m->class_].hint)
		err_hint(reterr, "%s", classes[m->class_].hint);
	return -code;
}
