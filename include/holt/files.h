/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_FILES_H
#define HOLT_FILES_H

/*
 * Files of a sandbox, as its user; and copying between the host and a box, as root.
 *
 * Reading, writing and looking. A path is not empty and has no ".." segment, also not between
 * backslashes (HOLT_EDENIED); a backslash is an ordinary byte otherwise. Relative paths begin at
 * the sandbox's working directory. Symbolic links are followed, unless the call says otherwise.
 *
 * Writing replaces the content in one step: the bytes are collected first, then a new file with all
 * of them takes the place of the old one (of a link's last target) with the old one's mode and
 * owner, but without set-uid and set-gid unless root writes; a new file has mode 0644. Content of
 * more than 1 MiB needs its size twice for a moment, and a call that is given up in that moment may
 * leave a file ".holt-XXXXXXXX", which a later write in the same directory removes. Other names of
 * the same file (hard links) keep the old content, extended attributes are not taken over. In
 * place, and so not in one step, is written: a file in a directory that the user may not write to,
 * a file whose owner the user cannot keep, a mount point, and what is no regular file. Missing
 * directories are made (0755) and stay. Without permission to write the old file it is refused.
 *
 * Appending of up to 1 MiB is one write at the end; more is added in pieces under a lock of the
 * file (flock), so that appends through a sandbox do not mix, however long. What other programs
 * append meanwhile is not lost; where they do not take the lock, it may land between two pieces. An
 * append that fails leaves nothing behind unless somebody else has written behind it.
 *
 * Reading takes regular files only, by lines where asked for: a line ends with LF and with nothing
 * else; the LF and all CRs before it are not part of it.
 *
 * Copying between the host and a box, by docker's rules:
 *
 *   a file to a name that does not exist   makes that file; its directory must exist
 *   a file to a directory                  makes the file of the same name in it
 *   a file to a name that ends in '/'      must be a directory
 *   a directory to a name that does not exist   makes it and copies what is inside
 *   a directory to a directory             makes the directory of the same name in it, or, where
 *                                          the source ends in "/.", copies what is inside
 *   a directory to a file                  is refused
 *
 * A target that is a symbolic link means what it leads to. Beneath it nothing is followed: links
 * are copied as links, a file takes the place of a file or link that is there, and a directory is
 * merged into a directory but never into a link to one. A device or socket is no source and no
 * target. What is copied out can never leave the destination, whatever the box does meanwhile;
 * names are bytes. In the box, root does the work.
 *
 * Kept: modes, times, symbolic and hard links, fifos. On the host directories may be 256 deep
 * (HOLT_ELIMIT beyond); of a file with several names that are more than 65,536, some become files
 * of their own. A file that is interrupted is removed on the host, and what stood there is gone.
 */

#include "sandbox.h"
#include "sys/backend.h" /* flags of the calls */

#ifdef __cplusplus
extern "C" {
#endif

enum holt_copy_flags {
	HOLT_COPY_FOLLOW = 1 << 0, /* a source that is a symbolic link means its target */
	HOLT_COPY_ARCHIVE = 1 << 1 /* keep owner and group (out: needs root); otherwise root owns
				      what is copied in, and the caller what is copied out */
};

/**
 * holt_copy_in - copy a file or a directory into a box.
 * @box: a running box; must not be NULL.
 * @source: path on the host; must not be NULL.
 * @target: absolute path in the box; must not be NULL.
 * @flags: enum holt_copy_flags.
 * @cancel: ends the copy with HOLT_ECANCELLED; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENOT_FOUND for a source or a target's directory that does not exist;
 * -HOLT_EINVALID for a directory on a file; -HOLT_EDENIED; -HOLT_ELIMIT (disk full), -HOLT_ECLOSED
 * for a box that does not run; -HOLT_EBUSY for a paused one; -HOLT_EGUEST_LOST, -HOLT_ECANCELLED,
 * -HOLT_EIO, -HOLT_ENO_MEMORY. What was copied before a failure stays.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: until all is copied.
 * Since: 0.1
 */
HOLT_API int holt_copy_in(holt_box *box, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);

/**
 * holt_copy_out - copy a file or a directory out of a box.
 * @box: a running box; must not be NULL.
 * @source: absolute path in the box; must not be NULL.
 * @target: path on the host; must not be NULL.
 * @flags: enum holt_copy_flags.
 * @cancel: ends the copy with HOLT_ECANCELLED; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Device nodes and sockets are left out.
 *
 * Returns: as holt_copy_in; -HOLT_EPROTOCOL where the box sends what no copy holds.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: until all is copied.
 * Since: 0.1
 */
HOLT_API int holt_copy_out(holt_box *box, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);

/**
 * holt_copy_in_tar - unpack a tar archive in a box.
 * @box: a running box; must not be NULL.
 * @fd: read to its end; not compressed.
 * @target: absolute path of a directory in the box; must not be NULL.
 * @flags: enum holt_copy_flags.
 * @cancel: ends the copy with HOLT_ECANCELLED; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_copy_in; -HOLT_EINVALID for what is not a tar archive.
 * Ownership: @fd stays the caller's.
 * Threads: any thread.
 * Blocks: until all is copied.
 * Since: 0.1
 */
HOLT_API int holt_copy_in_tar(holt_box *box, int fd, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);

/**
 * holt_copy_out_tar - write a file or a directory of a box as a tar archive.
 * @box: a running box; must not be NULL.
 * @source: absolute path in the box; must not be NULL.
 * @fd: receives a POSIX.1-2001 archive with owners and modes.
 * @flags: enum holt_copy_flags.
 * @cancel: ends the copy with HOLT_ECANCELLED; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_copy_in.
 * Ownership: @fd stays the caller's.
 * Threads: any thread.
 * Blocks: until all is copied.
 * Since: 0.1
 */
HOLT_API int holt_copy_out_tar(holt_box *box, const char *source, int fd, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);

#define HOLT_READ_BYTES_DEFAULT    104857600u
#define HOLT_LIST_DEPTH_DEFAULT    2u
#define HOLT_LIST_DEPTH_ROOT       UINT32_MAX /* the root alone, where 0 is the default */
#define HOLT_DEPTH_MAX             1000u /* of a tree that is listed, searched or removed */
#define HOLT_LIST_ENTRIES_DEFAULT  10000u
#define HOLT_LIST_ENTRIES_MAX      1000000u
#define HOLT_LIST_ENTRIES_CONTRACT 500u /* what clients of the contract's text form expect */

enum holt_read_flags {
	HOLT_READ_LINES =
		1 << 0 /* first_line to last_line, with LF between them and none at the end */
};

typedef struct holt_read_options {
	size_t struct_size; /* set by HOLT_READ_OPTIONS_INIT */
	uint32_t flags; /* enum holt_read_flags */
	int64_t first_line; /* from 1; less counts as 1 */
	int64_t last_line; /* the last one wanted; 0: to the end; negative: none, so a binding
			      for which line 0 comes before the first one hands -1 over */
	uint64_t max_bytes; /* more is -HOLT_ELIMIT; 0: 104,857,600 where the bytes are collected,
			       else none */
	uint64_t timeout_ms; /* of the whole call; 0: 600,000; HOLT_FOREVER */
	holt_cancel *cancel; /* ends the call with HOLT_ECANCELLED; may be NULL */
} holt_read_options;

#define HOLT_READ_OPTIONS_INIT                                 \
	{                                                      \
		sizeof(holt_read_options), 0, 0, 0, 0, 0, NULL \
	}

typedef struct holt_list_options {
	size_t struct_size; /* set by HOLT_LIST_OPTIONS_INIT */
	uint32_t flags; /* enum holt_list_flags */
	uint32_t max_depth; /* 1: the root's children; up to HOLT_DEPTH_MAX; 0: 2;
			       HOLT_LIST_DEPTH_ROOT */
	uint32_t max_entries; /* with the root, up to HOLT_LIST_ENTRIES_MAX; 0: 10,000 */
	uint64_t timeout_ms; /* of the whole call; 0: 600,000; HOLT_FOREVER */
	holt_cancel *cancel; /* ends the call with HOLT_ECANCELLED; may be NULL */
} holt_list_options;

#define HOLT_LIST_OPTIONS_INIT                              \
	{                                                   \
		sizeof(holt_list_options), 0, 0, 0, 0, NULL \
	}

/**
 * holt_sandbox_read - read a file, or lines of it.
 * @sandbox: a sandbox; must not be NULL.
 * @path: a path in the sandbox; must not be NULL.
 * @options: may be NULL.
 * @ret: receives the bytes, with a NUL behind them; must not be NULL.
 * @ret_len: receives their number; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * A line that is out of range is no error: the result is empty.
 *
 * Returns: 0; -HOLT_EINVALID for a bad path or option or a file of another type;
 * -HOLT_EDENIED; -HOLT_ENOT_FOUND; -HOLT_ELIMIT (a stated limit, the disk is full); -HOLT_ETIMEOUT,
 * -HOLT_ECANCELLED, -HOLT_ECLOSED, -HOLT_EGUEST_LOST, -HOLT_EBUSY for a paused box,
 * -HOLT_EUNAVAILABLE for one that was not started yet, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_free.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_read(holt_sandbox *sandbox, const char *path,
	const holt_read_options *options, char **ret, size_t *ret_len, holt_error **reterr);

/**
 * holt_sandbox_read_to - read a file of any size, or lines of it, piece by piece.
 * @sandbox: a sandbox; must not be NULL.
 * @path: a path in the sandbox; must not be NULL.
 * @options: may be NULL.
 * @data: gets the bytes; must not be NULL.
 * @user: handed to @data; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_read.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_read_to(holt_sandbox *sandbox, const char *path,
	const holt_read_options *options, holt_data_fn data, void *user, holt_error **reterr);

/**
 * holt_sandbox_download - read a file beneath the user-data directory, of at most
 * HOLT_DOWNLOAD_BYTES_MAX bytes.
 * @sandbox: a sandbox; must not be NULL.
 * @path: likewise; must not be NULL. Slashes in front do not matter: "mnt/user-data/x" is
 * "/mnt/user-data/x", whatever the working directory.
 * @options: may be NULL.
 * @ret: receives the bytes, with a NUL behind them; must not be NULL.
 * @ret_len: receives their number; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * A path whose text leads elsewhere is refused before anything is read, with -HOLT_EDENIED;
 * symbolic links in the sandbox are followed, wherever they lead, as its user may. A file that is
 * too large is refused with -HOLT_ELIMIT (EFBIG). options.flags is 0.
 *
 * Returns: as holt_sandbox_read.
 * Ownership: the caller frees *@ret with holt_free.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_download(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, char **ret, size_t *ret_len, holt_error **reterr);

/**
 * holt_sandbox_download_to - the same, piece by piece.
 * @sandbox: a sandbox; must not be NULL.
 * @path: as for holt_sandbox_download; must not be NULL.
 * @options: may be NULL.
 * @data: gets the bytes; must not be NULL.
 * @user: handed to @data; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_read.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_download_to(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, holt_data_fn data, void *user, holt_error **reterr);

/**
 * holt_sandbox_write - replace the content of a file, or make it.
 * @sandbox: a sandbox; must not be NULL.
 * @path: a path in the sandbox; must not be NULL.
 * @data: @len bytes; may be NULL where @len is 0.
 * @len: number of bytes.
 * @options: flags: HOLT_WRITE_EXCLUSIVE; missing directories are made in any case; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_read; -HOLT_EEXISTS.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_write(holt_sandbox *sandbox, const char *path, const void *data,
	size_t len, const holt_call_options *options, holt_error **reterr);

/**
 * holt_sandbox_append - add bytes at the end of a file, or make it.
 * @sandbox: a sandbox; must not be NULL.
 * @path: a path in the sandbox; must not be NULL.
 * @data: @len bytes; may be NULL where @len is 0.
 * @len: number of bytes.
 * @options: flags: HOLT_WRITE_EXCLUSIVE; missing directories are made in any case; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_read; -HOLT_EEXISTS.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_append(holt_sandbox *sandbox, const char *path, const void *data,
	size_t len, const holt_call_options *options, holt_error **reterr);

/**
 * holt_sandbox_update - write bytes that are no text; the same as holt_sandbox_write for a box.
 * @sandbox: a sandbox; must not be NULL.
 * @path: a path in the sandbox; must not be NULL.
 * @data: @len bytes; may be NULL where @len is 0.
 * @len: number of bytes.
 * @options: flags: HOLT_WRITE_EXCLUSIVE; missing directories are made in any case; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_read; -HOLT_EEXISTS.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_update(holt_sandbox *sandbox, const char *path, const void *data,
	size_t len, const holt_call_options *options, holt_error **reterr);

/**
 * holt_sandbox_write_from - replace the content of a file by what comes piece by piece.
 * @sandbox: a sandbox; must not be NULL.
 * @path: a path in the sandbox; must not be NULL.
 * @source: gives the bytes; where it fails the old content stays; must not be NULL.
 * @user: handed to @source; may be NULL.
 * @options: as for holt_sandbox_write; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_write.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_write_from(holt_sandbox *sandbox, const char *path, holt_source_fn source,
	void *user, const holt_call_options *options, holt_error **reterr);

/**
 * holt_sandbox_append_from - add what comes piece by piece at the end of a file.
 * @sandbox: a sandbox; must not be NULL.
 * @path: a path in the sandbox; must not be NULL.
 * @source: gives the bytes; where it fails the old content stays; must not be NULL.
 * @user: handed to @source; may be NULL.
 * @options: as for holt_sandbox_write; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_write.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_append_from(holt_sandbox *sandbox, const char *path,
	holt_source_fn source, void *user, const holt_call_options *options, holt_error **reterr);

/**
 * holt_sandbox_list - list a directory.
 * @sandbox: a sandbox; must not be NULL.
 * @path: the root; a symbolic link means its target; must not be NULL.
 * @options: may be NULL.
 * @entry: gets the root first, as it was asked for, then the directories and regular files beneath
 * it, in no particular order; must not be NULL.
 * @user: handed to @entry; may be NULL.
 * @ret: filled in as far as its struct_size goes; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Symbolic links and special files are left out, and what holt_sandbox_ignored names. A root that
 * is a regular file is the only entry. A directory that cannot be read is an error. What @entry got
 * before a failure stays true.
 *
 * Returns: as holt_sandbox_read.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_list(holt_sandbox *sandbox, const char *path,
	const holt_list_options *options, holt_entry_fn entry, void *user, holt_search_result *ret,
	holt_error **reterr);

/**
 * holt_sandbox_stat - look at a file.
 * @sandbox: a sandbox; must not be NULL.
 * @path: a path in the sandbox; must not be NULL.
 * @options: flags: enum holt_stat_flags; may be NULL.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_read.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_stat(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, holt_file_info *ret, holt_error **reterr);

/**
 * holt_sandbox_make_directory - make a directory (0755).
 * @sandbox: a sandbox; must not be NULL.
 * @path: a path in the sandbox; must not be NULL.
 * @options: flags: enum holt_mkdir_flags; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_read; -HOLT_EEXISTS.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_make_directory(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, holt_error **reterr);

/**
 * holt_sandbox_move - give a file or directory another name.
 * @sandbox: a sandbox; must not be NULL.
 * @from: its path; a symbolic link itself is moved; must not be NULL.
 * @to: the new path, not a directory to move into; must not be NULL.
 * @options: flags: enum holt_move_flags; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * What is at @to is replaced: a file by a file, an empty directory by a directory. Nothing is moved
 * from one file system to another (-HOLT_EUNSUPPORTED).
 *
 * Returns: as holt_sandbox_read; -HOLT_EEXISTS, -HOLT_EUNSUPPORTED.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_move(holt_sandbox *sandbox, const char *from, const char *to,
	const holt_call_options *options, holt_error **reterr);

/**
 * holt_sandbox_remove - remove a file, an empty directory, or a tree.
 * @sandbox: a sandbox; must not be NULL.
 * @path: a symbolic link itself is removed; must not be NULL.
 * @options: flags: enum holt_remove_flags; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_read.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_remove(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, holt_error **reterr);

#ifdef __cplusplus
}
#endif
#endif
