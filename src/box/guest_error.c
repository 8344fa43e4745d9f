/* SPDX-License-Identifier: Apache-2.0 */
#include "box/guest_error.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

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
	[WIRE_FAIL_PATH] = {HOLT_EIO, "check what is there in the box"},
	[WIRE_FAIL_ENDING] = {HOLT_ECLOSED, "start the box again with 'holt start'"},
};

/* Escaping makes a byte four at most. */
char *guest_text(struct wire_bytes b)
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
	const int code = !known                        ? HOLT_EPROTOCOL
			 : m->class_ == WIRE_FAIL_PATH ? guest_errno_code(m->errnum)
						       : classes[m->class_].code;
	auto_free char *text = guest_text(m->text);
	auto_free char *stage = guest_text(m->stage);
	auto_free char *object = guest_text(m->object);

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

int guest_errno_code(uint64_t errnum)
{
	switch (errnum) {
	case ENOENT:
		return HOLT_ENOT_FOUND;
	case EEXIST:
		return HOLT_EEXISTS;
	case EACCES:
	case EPERM:
	case EROFS:
		return HOLT_EDENIED;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case E2BIG:
	case EMLINK:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return HOLT_ELIMIT;
	case EXDEV:
	case ENOSYS:
	case EOPNOTSUPP:
		return HOLT_EUNSUPPORTED;
	/* A path that is in use does not become free by waiting, as HOLT_EBUSY would promise. */
	case EBUSY:
	case ETXTBSY:
	case EINVAL:
	case ENOTDIR:
	case EISDIR:
	case ENOTEMPTY:
	case ELOOP:
	case ENAMETOOLONG:
	case ENXIO:
	case ENODEV:
	case EBADMSG:
	case EPROTO:
		return HOLT_EINVALID;
	default:
		return HOLT_EIO;
	}
}

/* ---- failures of file requests ---- */

static bool searches(uint16_t op)
{
	return op == WIRE_OP_file_list || op == WIRE_OP_file_glob || op == WIRE_OP_file_grep;
}

static const char *errno_hint(uint32_t errnum, uint16_t op)
{
	if (op == WIRE_OP_file_move && (errnum == EISDIR || errnum == ENOTEMPTY))
		return "nothing is moved into a directory: name the whole target, with the last "
		       "name";
	if (op == WIRE_OP_file_mkdir && errnum == ENOENT)
		return "make the directory above it first, or ask for its parents, too";
	switch (errnum) {
	case ENOENT:
		return "check the path in the box";
	case EACCES:
	case EPERM:
		return searches(op) ? "results would be incomplete: use a narrower path, or a user "
				      "who may read all of it"
				    : "use a user who may do that, or change the mode in the box";
	case EROFS:
		return "choose a place that can be written to";
	case EEXIST:
		return "choose another name, or remove what is there first";
	case EXDEV:
		return "this is another file system: copy it, then remove the old one";
	case EFBIG:
		return "ask for a part of it, or allow more bytes";
	case ENOSPC:
	case EDQUOT:
		return "make room in the box, or make a box with a larger disk";
	case ENOMEM:
	case EMFILE:
	case ENFILE:
		return "end something in the box, or make a box with more memory";
	case EBUSY:
		return "something is mounted there in the box";
	case ETXTBSY:
		return "a program that runs in the box is not written to: remove it first";
	case ENOTEMPTY:
		return "remove what is in it first, or remove it recursively";
	case ELOOP:
		return "check the symbolic links in the box";
	case EIO:
		return "look at the box's disk";
	default:
		return "check what is there in the box";
	}
}

static const struct {
	int code;
	const char *hint;
} file_classes[] = {
	[WIRE_FILE_FAIL_ERRNO] = {HOLT_EIO, NULL}, /* by the errno */
	[WIRE_FILE_FAIL_REQUEST] = {HOLT_EINVALID, "check path and options"},
	[WIRE_FILE_FAIL_PATTERN] = {HOLT_EINVALID,
		"correct the pattern, or search for it literally"},
	[WIRE_FILE_FAIL_STEPS] = {HOLT_ELIMIT, "write the pattern so that there are fewer ways to "
					       "match it, or search for it literally"},
	[WIRE_FILE_FAIL_TIME] = {HOLT_ETIMEOUT, "search a narrower path, or allow more time"},
	[WIRE_FILE_FAIL_LIMIT] = {HOLT_ELIMIT, "ask for less at once"},
	[WIRE_FILE_FAIL_ABORTED] = {HOLT_ECANCELLED, NULL},
};

/* What Linux knows as an error. */
static bool errno_ok(uint32_t errnum)
{
	return errnum > 0 && errnum < 4096;
}

int guest_file_error(const struct wire_file_fail *m, uint16_t op, holt_error **reterr)
{
	const bool plain = m->class_ == WIRE_FILE_FAIL_ERRNO;
	const bool known = m->class_ < sizeof file_classes / sizeof file_classes[0] &&
			   (!plain || errno_ok(m->errnum));
	const int code = !known  ? HOLT_EPROTOCOL
			 : plain ? guest_errno_code(m->errnum)
				 : file_classes[m->class_].code;
	const char *hint = !known  ? "the box cannot be trusted any more: make another one"
			   : plain ? errno_hint(m->errnum, op)
				   : file_classes[m->class_].hint;
	auto_free char *text = guest_text(m->text);
	auto_free char *stage = guest_text(m->stage);
	auto_free char *object = guest_text(m->object);

	(void)err_make(reterr, code, "%s", text && *text ? text : "the box could not do it");
	err_set_errno(reterr, errno_ok(m->errnum) ? (int)m->errnum : 0);
	err_stage(reterr, stage && *stage ? stage : wire_op_name(op) + strlen("file_"));
	/* Without one the caller's is the best there is. */
	err_object(reterr, object && *object ? object : NULL);
	if (hint)
		err_hint(reterr, "%s", hint);
	return -code;
}
