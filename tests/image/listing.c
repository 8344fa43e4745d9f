/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

/*
 * usage: listing DIR
 *        listing --mount FILE...
 *
 * Tells all of a tree, one line an entry, in the form of model.py's listing. Inside a guest it
 * tells what is in the images of file systems that were put into the box (a line "== FILE" before
 * each); on the host what another tool has unpacked. One program for both, so that what differs is
 * the tree. Works from descriptors: paths may be longer than the kernel takes.
 */

#define XATTRS_MAX 64
#define DEPTH_MAX  3000

static void die(const char *what)
{
	fprintf(stderr, "listing: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void put_escaped(const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++) {
		const unsigned char c = p[i];
		const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				    (c >= '0' && c <= '9');
		if (letter || (c && strchr("_./-+,", c)))
			putchar(c);
		else
			printf("\\x%02x", c);
	}
}

/* --- SHA-256, so that a static program needs no library for it -------------------------------- */

struct sha {
	uint32_t h[8];
	uint8_t block[64];
	uint64_t len;
};

static const uint32_t sha_k[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b,
	0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6,
	0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d,
	0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
	0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585,
	0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa,
	0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void sha_block(struct sha *s, const uint8_t *p)
{
	uint32_t w[64];
	uint32_t v[8];

	for (unsigned i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
		       (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (unsigned i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
		       (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
		       (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(v, s->h, sizeof v);
	for (unsigned i = 0; i < 64; i++) {
		const uint32_t a = v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) +
				   ((v[4] & v[5]) ^ (~v[4] & v[6])) + sha_k[i] + w[i];
		const uint32_t b = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) +
				   ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof *v);
		v[4] += a;
		v[0] = a + b;
	}
	for (unsigned i = 0; i < 8; i++)
		s->h[i] += v[i];
}

static void sha_begin(struct sha *s)
{
	*s = (struct sha){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
				  0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void sha_add(struct sha *s, const uint8_t *p, size_t n)
{
	size_t have = s->len % 64;

	s->len += n;
	while (have + n >= 64) {
		const size_t part = 64 - have;
		memcpy(s->block + have, p, part);
		sha_block(s, s->block);
		p += part;
		n -= part;
		have = 0;
	}
	memcpy(s->block + have, p, n);
}

static void sha_put(struct sha *s)
{
	const uint64_t bits = s->len * 8;
	uint8_t end[72] = {0x80};
	const size_t pad = 1 + (119 - s->len % 64) % 64;

	for (unsigned i = 0; i < 8; i++)
		end[pad + i] = (uint8_t)(bits >> (56 - 8 * i));
	sha_add(s, end, pad + 8);
	for (unsigned i = 0; i < 8; i++)
		printf("%08x", s->h[i]);
}

static void put_content(int dir, const char *name)
{
	static uint8_t buffer[1 << 16];
	struct sha s;
	ssize_t n;
	const int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW);

	if (fd < 0)
		die(name);
	sha_begin(&s);
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		sha_add(&s, buffer, (size_t)n);
	if (n < 0)
		die(name);
	close(fd);
	sha_put(&s);
}

/* --- Entries ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The attributes of what is at @name in the working directory. */
static void put_xattrs(const char *name)
{
	static char list[65536];
	static char value[65536];
	char *names[XATTRS_MAX];
	size_t n_names = 0;
	size_t shown = 0;
	const ssize_t n = llistxattr(name, list, sizeof list);

	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(list + at) + 1) {
		if (n_names == XATTRS_MAX)
			die("too many attributes");
		names[n_names++] = list + at;
	}
	qsort(names, n_names, sizeof *names, compare);
	for (size_t i = 0; i < n_names; i++) {
		const ssize_t len = lgetxattr(name, names[i], value, sizeof value);
		if (len < 0)
			die(names[i]);
		if (shown++ > 0)
			putchar(',');
		put_escaped(names[i], strlen(names[i]));
		putchar('=');
		put_escaped(value, (size_t)len);
	}
	if (shown == 0)
		putchar('-');
}

static void put_entry(const char *path, size_t len, const char *name, const struct stat *st)
{
	static const char types[16] = {
		[1] = 'p', [2] = 'c', [4] = 'd', [6] = 'b', [8] = 'f', [10] = 'l', [12] = 's'};
	static char target[8192];
	const mode_t type = st->st_mode & S_IFMT;

	put_escaped(len ? path : ".", len ? len : 1);
	printf("\t%c\t%o\t%u:%u\t%lld\t%lu\t", types[type >> 12], st->st_mode & 07777u, st->st_uid,
		st->st_gid, (long long)st->st_mtime, (unsigned long)st->st_nlink);
	if (type == S_IFCHR || type == S_IFBLK)
		printf("%u,%u\t", major(st->st_rdev), minor(st->st_rdev));
	else
		printf("0,0\t");
	if (type == S_IFLNK) {
		const ssize_t n = readlinkat(AT_FDCWD, name, target, sizeof target);
		if (n < 0)
			die(name);
		put_escaped(target, (size_t)n);
	} else {
		putchar('-');
	}
	putchar('\t');
	put_xattrs(name);
	if (type == S_IFREG) {
		printf("\t%lld\t", (long long)st->st_size);
		put_content(AT_FDCWD, name);
		putchar('\n');
	} else {
		printf("\t-\t-\n");
	}
}

/* All below the working directory, which has the path @path. */
static void walk(char *path, size_t len, unsigned depth)
{
	DIR *dir = opendir(".");
	struct dirent *d;
	struct stat st;

	if (!dir || depth > DEPTH_MAX)
		die("opendir");
	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		const size_t n = strlen(d->d_name);
		const size_t from = len ? len + 1 : 0;
		if (len)
			path[len] = '/';
		memcpy(path + from, d->d_name, n);
		if (lstat(d->d_name, &st) < 0)
			die(d->d_name);
		put_entry(path, from + n, d->d_name, &st);
		if (!S_ISDIR(st.st_mode))
			continue;
		const int back = dirfd(dir);
		if (chdir(d->d_name) < 0)
			die(d->d_name);
		walk(path, from + n, depth + 1);
		if (fchdir(back) < 0)
			die("fchdir");
	}
	closedir(dir);
}

static void list_dir(const char *dir)
{
	static char path[1 << 20];
	struct stat st;

	if (chdir(dir) < 0 || lstat(".", &st) < 0)
		die(dir);
	put_entry("", 0, ".", &st);
	walk(path, 0, 0);
	if (chdir("/") < 0)
		die("/");
}

static void list_file(const char *file, const char *dir)
{
	const int loop = open("/dev/loop0", O_RDWR | O_CLOEXEC);
	const int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (loop < 0 || fd < 0 || ioctl(loop, LOOP_SET_FD, fd) < 0)
		die(file);
	if (mount("/dev/loop0", dir, "squashfs", MS_RDONLY, NULL) < 0)
		die(file);
	printf("== %s\n", file);
	list_dir(dir);
	if (umount(dir) < 0 || ioctl(loop, LOOP_CLR_FD, 0) < 0)
		die(file);
	close(fd);
	close(loop);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/listing.XXXXXX";

	if (argc == 2 && argv[1][0] != '-') {
		list_dir(argv[1]);
		return 0;
	}
	if (argc < 3 || strcmp(argv[1], "--mount") != 0) {
		fprintf(stderr, "usage: listing DIR | --mount FILE...\n");
		return 2;
	}
	if (!mkdtemp(dir))
		die(dir);
	for (int i = 2; i < argc; i++)
		list_file(argv[i], dir);
	return 0;
}
