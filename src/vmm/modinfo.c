/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/modinfo.h"

#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

/* What the kernel's build appends: signature, then this, then the marker. Big-endian length. */
#define SIGNATURE_MARKER     "~Module signature appended~\n"
#define SIGNATURE_MARKER_LEN (sizeof(SIGNATURE_MARKER) - 1)
#define SIGNATURE_INFO_LEN   12 /* struct module_signature; its last 4 bytes are the length */

static bool range_ok(size_t len, uint64_t offset, uint64_t size)
{
	return offset <= len && size <= len - offset;
}

static bool header_ok(const uint8_t *data, size_t len, Elf64_Ehdr *ret)
{
	if (len < sizeof(*ret))
		return false;
	memcpy(ret, data, sizeof(*ret));
	return memcmp(ret->e_ident, ELFMAG, SELFMAG) == 0 && ret->e_ident[EI_CLASS] == ELFCLASS64 &&
	       ret->e_ident[EI_DATA] == ELFDATA2LSB && ret->e_machine == EM_X86_64 &&
	       ret->e_shentsize == sizeof(Elf64_Shdr) &&
	       range_ok(len, ret->e_shoff, (uint64_t)ret->e_shnum * sizeof(Elf64_Shdr));
}

static Elf64_Shdr section_at(const uint8_t *data, const Elf64_Ehdr *header, unsigned i)
{
	Elf64_Shdr section;

	memcpy(&section, data + header->e_shoff + (size_t)i * sizeof(section), sizeof(section));
	return section;
}

/* Find section @name: its bytes lie inside the file. */
static bool section_find(const uint8_t *data, size_t len, const Elf64_Ehdr *header,
	const char *name, Elf64_Shdr *ret)
{
	if (header->e_shstrndx >= header->e_shnum)
		return false;
	const Elf64_Shdr names = section_at(data, header, header->e_shstrndx);
	const size_t name_size = strlen(name) + 1;
	if (!range_ok(len, names.sh_offset, names.sh_size))
		return false;
	for (unsigned i = 0; i < header->e_shnum; i++) {
		const Elf64_Shdr s = section_at(data, header, i);
		if (s.sh_type == SHT_NOBITS || !range_ok(names.sh_size, s.sh_name, name_size) ||
			!range_ok(len, s.sh_offset, s.sh_size))
			continue;
		if (memcmp(data + names.sh_offset + s.sh_name, name, name_size) == 0) {
			*ret = s;
			return true;
		}
	}
	return false;
}

const char *modinfo_get(const void *data, size_t len, const char *key, bool *ret_elf)
{
	const uint8_t *bytes = data;
	const size_t key_len = strlen(key);
	Elf64_Ehdr header;
	Elf64_Shdr info;
	const bool elf = header_ok(bytes, len, &header);

	if (ret_elf)
		*ret_elf = elf;
	if (!elf || !section_find(bytes, len, &header, ".modinfo", &info))
		return NULL;
	const char *at = (const char *)bytes + info.sh_offset;
	const char *const end = at + info.sh_size;
	while (at < end) {
		const char *nul = memchr(at, '\0', (size_t)(end - at));
		if (!nul)
			return NULL;
		if ((size_t)(nul - at) > key_len && memcmp(at, key, key_len) == 0 &&
			at[key_len] == '=')
			return at + key_len + 1;
		at = nul + 1;
	}
	return NULL;
}

size_t module_unsigned_len(const void *data, size_t len)
{
	const uint8_t *bytes = data;
	const size_t tail = SIGNATURE_MARKER_LEN + SIGNATURE_INFO_LEN;

	if (len < tail || memcmp(bytes + len - SIGNATURE_MARKER_LEN, SIGNATURE_MARKER,
				  SIGNATURE_MARKER_LEN) != 0)
		return len;
	const uint8_t *be = bytes + len - SIGNATURE_MARKER_LEN - 4;
	const size_t signature = (size_t)be[0] << 24 | (size_t)be[1] << 16 | (size_t)be[2] << 8 |
				 (size_t)be[3];
	return signature <= len - tail ? len - tail - signature : len;
}
