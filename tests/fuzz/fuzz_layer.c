/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Merging of layers. The first byte chooses: odd, and the rest is one layer as it stands (the tar
 * reader is met); even, and the rest is a script of entries for up to four layers, three bytes an
 * entry and more for its names, so that changed bytes are still archives.
 *
 * What must hold for everything that is accepted:
 *  - no name in the tree is empty, ".", ".." or has a slash; none begins with ".wh.";
 *  - every name is what it says: an entry with an inode, or a directory, or nothing; no hard link
 *    is left open, none leads to a directory;
 *  - parents of what exists exist and are directories;
 *  - the squashfs can be written.
 */

#define LAYERS_MAX 4
#define OUT_MAX    (1u << 20)

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct layer {
	uint8_t *data;
	size_t len;
};

static const char *const names[] = {"a", "b", "c", "s", "..", ".", "", ".wh.a", ".wh.b",
	".wh..wh..opq", ".wh.", ".wh..", ".wh..wh.x", "\xff\n", "a/b", "/"};

/* A path of up to three names out of a byte or two. */
static size_t take_path(const uint8_t *data, size_t size, size_t at, char *dst, size_t cap)
{
	const uint8_t head = at < size ? data[at++] : 0;
	const uint8_t more = head & 0x80 && at < size ? data[at++] : 0;

	if (head & 0x80)
		(void)snprintf(
			dst, cap, "%s/%s/%s", names[head & 15], names[more & 15], names[more >> 4]);
	else if (head & 0x40)
		(void)snprintf(dst, cap, "%s/%s", names[head & 3], names[(head >> 2) & 15]);
	else
		(void)snprintf(dst, cap, "%s", names[head & 15]);
	return at;
}

static size_t add_entry(struct archive *a, const uint8_t *data, size_t size, size_t at)
{
	struct archive_entry *e = archive_entry_new();
	const uint8_t op = data[at++];
	char path[64];
	char target[64];
	size_t len = 0;

	at = take_path(data, size, at, path, sizeof path);
	archive_entry_set_pathname(e, path);
	archive_entry_set_perm(e, op >> 4 & 7);
	switch (op & 7) {
	case 0:
	case 1:
		archive_entry_set_filetype(e, AE_IFDIR);
		break;
	case 2:
		at = take_path(data, size, at, target, sizeof target);
		archive_entry_set_filetype(e, AE_IFLNK);
		archive_entry_set_symlink(e, target);
		break;
	case 3:
		at = take_path(data, size, at, target, sizeof target);
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_set_hardlink(e, target);
		break;
	case 4:
		archive_entry_set_filetype(e, AE_IFCHR);
		archive_entry_set_rdevmajor(e, op);
		break;
	default:
		archive_entry_set_filetype(e, AE_IFREG);
		archive_entry_xattr_add_entry(
			e, op & 8 ? "user.x" : "system.posix_acl_access", &op, 1);
		len = strlen(path);
		break;
	}
	archive_entry_set_size(e, (la_int64_t)len);
	if (archive_write_header(a, e) >= ARCHIVE_WARN && len > 0)
		(void)archive_write_data(a, path, len);
	archive_entry_free(e);
	return at;
}

/* Entries up to a zero byte make one layer. */
static size_t make_layer(const uint8_t *data, size_t size, size_t at, struct layer *ret)
{
	struct archive *a = archive_write_new();

	ret->data = malloc(OUT_MAX);
	REQUIRE(ret->data && a);
	REQUIRE(archive_write_set_format_pax_restricted(a) == ARCHIVE_OK);
	REQUIRE(archive_write_set_bytes_in_last_block(a, 1) == ARCHIVE_OK);
	REQUIRE(archive_write_open_memory(a, ret->data, OUT_MAX, &ret->len) == ARCHIVE_OK);
	for (unsigned n = 0; n < 64 && at < size && data[at] != 0; n++)
		at = add_entry(a, data, size, at);
	(void)archive_write_close(a);
	(void)archive_write_free(a);
	return at + 1;
}

static int read_layer(struct merge *m, const struct layer *l, uint32_t layer, bool again)
{
	const struct tar_source src = {.data = l->data, .size = l->len};
	char blob[DIGEST_STR_LEN + 1];
	char stream[DIGEST_STR_LEN + 1];
	struct tar_reader *tar = NULL;
	auto_error error = NULL;
	int code = tar_open(&src, NULL, &tar, &error);

	if (code == 0)
		code = again ? merge_rescan(m, tar, layer, &error)
			     : merge_layer(m, tar, layer, &error);
	if (code == 0)
		code = tar_finish(tar, blob, stream, &error);
	tar_close(tar);
	/* Success and failure say so in one way only. */
	REQUIRE((code == 0) == (error == NULL));
	REQUIRE(code != -HOLT_EINTERNAL);
	return code;
}

static void check_tree(const struct tree *t)
{
	for (struct tree_node *n = t->root; n; n = tree_walk(t->root, n)) {
		if (n->kind == TREE_GHOST)
			continue;
		REQUIRE(n->kind != TREE_LINK);
		REQUIRE(n->kind != TREE_ENTRY || n->inode);
		if (n == t->root) {
			REQUIRE(tree_is_dir(n));
			continue;
		}
		REQUIRE(n->name_len > 0 && strlen(n->name) == n->name_len);
		REQUIRE(strcmp(n->name, ".") != 0 && strcmp(n->name, "..") != 0);
		REQUIRE(!strchr(n->name, '/') && strncmp(n->name, ".wh.", 4) != 0);
		REQUIRE(tree_is_dir(n->parent));
	}
}

static void merge(const struct layer *layers, uint32_t n_layers)
{
	struct tree *tree = NULL;
	struct rootfs *rootfs = NULL;
	struct merge *m = NULL;
	uint64_t size = 0;
	uint32_t from = 0;
	const int fd = memfd_create("fuzz", MFD_CLOEXEC);

	REQUIRE(fd >= 0);
	REQUIRE(tree_new(&tree, NULL) == 0);
	REQUIRE(rootfs_new(fd, 1, &rootfs, NULL) == 0);
	REQUIRE(merge_new(tree, rootfs, &m, NULL) == 0);
	int code = 0;
	for (uint32_t at = n_layers; code == 0 && at > 0; at--)
		code = read_layer(m, &layers[at - 1], at, false);
	if (code == 0)
		code = merge_resolve(m, &from, NULL);
	while (code == 0 && from > 0) {
		REQUIRE(from <= n_layers);
		for (uint32_t at = from; code == 0 && at > 0; at--)
			code = read_layer(m, &layers[at - 1], at, true);
		if (code == 0)
			code = merge_resolve(m, &from, NULL);
	}
	if (code == 0) {
		check_tree(tree);
		REQUIRE(rootfs_finish(rootfs, tree, &size, NULL) == 0);
	}
	rootfs_free(rootfs);
	merge_free(m);
	tree_free(tree);
	(void)close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct layer layers[LAYERS_MAX] = {{0}};
	uint32_t n = 0;

	if (size == 0)
		return 0;
	if (data[0] & 1) {
		/* A copy, so that a sanitizer sees its end. */
		layers[0] = (struct layer){malloc(size), size - 1};
		REQUIRE(layers[0].data);
		memcpy(layers[0].data, data + 1, size - 1);
		n = 1;
	} else {
		for (size_t at = 1; at < size && n < LAYERS_MAX; n++)
			at = make_layer(data, size, at, &layers[n]);
	}
	merge(layers, n);
	for (uint32_t i = 0; i < n; i++)
		free(layers[i].data);
	return 0;
}
