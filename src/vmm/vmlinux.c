/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/vmlinux.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/kernel.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * Unpacking the kernel on the host. A bzImage unpacks itself in the guest, which under TCG takes
 * 0.3-0.6 s of every boot; QEMU can as well load the ELF inside and enter it by its PVH note. So
 * the ELF is unpacked once and cached under a name made of the image's path, size, time and inode.
 *
 * Only what Debian does is handled: LZ4 in the "legacy" stream format, PVH entry present. Any other
 * image is given to QEMU as it is; it boots too. The decoder trusts nothing: a broken image means
 * the same, never a read or write outside the buffers.
 */

#define IMAGE_BYTES_MAX (256u * 1024u * 1024u)
#define ELF_BYTES_MAX   (512u * 1024u * 1024u)
#define LZ4_MAGIC       UINT32_C(0x184c2102)
#define LZ4_MIN_MATCH   4
#define LZ4_LONG        15 /* a length of this value goes on in the next bytes */
#define NOTE_ALIGN      4
#define PVH_NOTE_TYPE   18 /* XEN_ELFNOTE_PHYS32_ENTRY */

/* Offsets in the real-mode part of an x86 image (the kernel's boot protocol). */
#define SETUP_SECTORS        0x1f1
#define SETUP_PAYLOAD_OFFSET 0x248
#define SETUP_PAYLOAD_LENGTH 0x24c

static uint32_t le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* A length that started with the nibble @n: false where the input ends. */
static bool lz4_length(const uint8_t **at, const uint8_t *end, size_t *n)
{
	uint8_t more = 255;

	if (*n != LZ4_LONG)
		return true;
	while (more == 255) {
		if (*at == end)
			return false;
		more = *(*at)++;
		*n += more;
	}
	return true;
}

/* Unpack one block to @out; the window reaches back to @out only, as blocks stand alone. Returns
 * the bytes written, or 0 for a broken block. */
static size_t lz4_block(const uint8_t *at, size_t len, uint8_t *out, size_t cap)
{
	const uint8_t *const end = at + len;
	size_t done = 0;

	while (at < end) {
		const uint8_t token = *at++;
		size_t literals = token >> 4;
		if (!lz4_length(&at, end, &literals) || literals > (size_t)(end - at) ||
			literals > cap - done)
			return 0;
		memcpy(out + done, at, literals);
		at += literals;
		done += literals;
		if (at == end)
			return done; /* the last sequence has no match */

		size_t match = token & 15;
		if (end - at < 2)
			return 0;
		const size_t back = (size_t)at[0] | (size_t)at[1] << 8;
		at += 2;
		if (!lz4_length(&at, end, &match))
			return 0;
		match += LZ4_MIN_MATCH;
		if (back == 0 || back > done || match > cap - done)
			return 0;
		for (size_t i = 0; i < match; i++, done++)
			out[done] = out[done - back];
	}
	return 0;
}

size_t vmlinux_unlz4(const void *stream, size_t len, void *out, size_t cap)
{
	const uint8_t *at = stream;
	const uint8_t *const end = at + len;
	size_t done = 0;

	if (len < 4 || le32(at) != LZ4_MAGIC)
		return 0;
	at += 4;
	while (end - at >= 4 && done < cap) {
		const size_t size = le32(at);
		at += 4;
		if (size == 0 || size > (size_t)(end - at))
			return 0;
		const size_t n = lz4_block(at, size, (uint8_t *)out + done, cap - done);
		if (n == 0)
			return 0;
		at += size;
		done += n;
	}
	return at == end ? done : 0;
}

/* The packed kernel inside an image: it ends with its unpacked size. NULL where there is none. */
static const uint8_t *image_payload(
	const uint8_t *image, size_t len, size_t *ret_len, size_t *ret_unpacked)
{
	if (len < SETUP_PAYLOAD_LENGTH + 4 || memcmp(image + 0x202, "HdrS", 4) != 0)
		return NULL;
	const uint64_t start = (image[SETUP_SECTORS] + 1u) * UINT64_C(512) +
			       le32(image + SETUP_PAYLOAD_OFFSET);
	const size_t size = le32(image + SETUP_PAYLOAD_LENGTH);
	if (size < 8 || start > len || size > len - start)
		return NULL;
	*ret_len = size - 4;
	*ret_unpacked = le32(image + start + size - 4);
	return image + start;
}

/* Whether a note segment has the PVH entry, without which QEMU refuses an ELF. */
static bool notes_have_pvh(const uint8_t *at, size_t len)
{
	while (len >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		memcpy(&note, at, sizeof(note));
		const uint64_t name = ((uint64_t)note.n_namesz + NOTE_ALIGN - 1) & ~UINT64_C(3);
		const uint64_t desc = ((uint64_t)note.n_descsz + NOTE_ALIGN - 1) & ~UINT64_C(3);
		if (name + desc > len - sizeof(note))
			return false;
		if (note.n_type == PVH_NOTE_TYPE && note.n_namesz == 4 &&
			memcmp(at + sizeof(note), "Xen", 4) == 0)
			return true;
		at += sizeof(note) + name + desc;
		len -= (size_t)(sizeof(note) + name + desc);
	}
	return false;
}

bool vmlinux_bootable(const void *elf, size_t len)
{
	const uint8_t *bytes = elf;
	Elf64_Ehdr header;

	if (len < sizeof(header))
		return false;
	memcpy(&header, elf, sizeof(header));
	if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
		header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
		header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phoff > len ||
		(uint64_t)header.e_phnum * sizeof(Elf64_Phdr) > len - header.e_phoff)
		return false;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr p;
		memcpy(&p, bytes + header.e_phoff + i * sizeof(p), sizeof(p));
		if (p.p_type == PT_NOTE && p.p_offset <= len && p.p_filesz <= len - p.p_offset &&
			notes_have_pvh(bytes + p.p_offset, p.p_filesz))
			return true;
	}
	return false;
}

/* Unpack the image @fd to the new file @path. False where that cannot be done, for any reason. */
static bool elf_make(int fd, size_t size, const char *path)
{
	auto_free uint8_t *image = mem_zalloc(size);
	if (!image || fd_read_full(fd, image, size) != (ssize_t)size)
		return false;
	size_t packed_len = 0;
	size_t len = 0;
	const uint8_t *packed = image_payload(image, size, &packed_len, &len);
	if (!packed || len == 0 || len > ELF_BYTES_MAX)
		return false;
	auto_free uint8_t *elf = mem_zalloc(len);
	if (!elf || vmlinux_unlz4(packed, packed_len, elf, len) != len ||
		!vmlinux_bootable(elf, len))
		return false;
	const int r = fs_write_atomic(AT_FDCWD, path, elf, len, 0400);
	if (r < 0)
		log_debug("vmm", "cannot cache the unpacked kernel '%s': %s", path,
			strerrordesc_np(-r));
	return r == 0;
}

/* Where the unpacked form of an image is cached: fresh memory. */
static char *elf_path(const struct kernel *k, const struct stat *st, const char *cache_dir)
{
	char digest[DIGEST_STR_LEN + 1];
	auto_free char *key = str_printf("%s %" PRIu64 " %" PRIu64 " %" PRIi64 ".%09ld", k->image,
		(uint64_t)st->st_size, (uint64_t)st->st_ino, (int64_t)st->st_mtim.tv_sec,
		st->st_mtim.tv_nsec);

	if (!key || digest_of(key, strlen(key), digest) < 0)
		return NULL;
	return str_printf("%s/vmlinux-%s", cache_dir, strchr(digest, ':') + 1);
}

/* Of any number of processes one unpacks it. A descriptor, or FD_NONE where that cannot be done. */
static int open_unpacked(int image_fd, size_t size, const char *cache_dir, const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 || size == 0 || size > IMAGE_BYTES_MAX)
		return fd;
	auto_fd lock = kernel_cache_lock(cache_dir);
	if (lock < 0 || (access(path, R_OK) < 0 && !elf_make(image_fd, size, path)))
		return FD_NONE;
	return open(path, O_RDONLY | O_CLOEXEC);
}

int kernel_open(const struct kernel *k, const char *cache_dir, int *ret_fd, holt_error **reterr)
{
	struct stat st;
	auto_fd fd = open(k->image, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0) {
		const int r = err_errno(reterr, errno, "cannot open kernel image '%s'", k->image);
		err_object(reterr, k->image);
		err_stage(reterr, "kernel");
		return r;
	}
	auto_free char *path = elf_path(k, &st, cache_dir);
	if (!path)
		return err_nomem(reterr);
	auto_fd elf = open_unpacked(fd, (size_t)st.st_size, cache_dir, path);
	*ret_fd = elf >= 0 ? take_fd(elf) : take_fd(fd);
	return 0;
}
