/* SPDX-License-Identifier: Apache-2.0 */
#include "box/host_names.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/net_link.h"
#include "base/banned.h"

#define BLANKS " \t\r"

json_t *host_file_text(const char *path)
{
	auto_free char *text = mem_zalloc(NET_TEXT_MAX + 1);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const ssize_t n = fd >= 0 && text ? fd_read_full(fd, text, NET_TEXT_MAX) : 0;
	size_t len = n > 0 ? (size_t)n : 0;

	if (!text)
		return NULL;
	if (len == NET_TEXT_MAX) {
		const char *end = memrchr(text, '\n', len);
		len = end ? (size_t)(end - text) + 1 : 0;
	}
	for (size_t i = 0; i < len; i++) {
		const unsigned char c = (unsigned char)text[i];
		if (c >= 0x7f || (c < ' ' && c != '\n' && c != '\t'))
			text[i] = '?';
	}
	return json_stringn(text, len);
}

/* As the resolvers of C libraries have it: a keyword is in the first column. What follows it, NULL
 * where the line begins with another word or with this one alone. */
static const char *value_of(const char *line, const char *keyword)
{
	const size_t len = strlen(keyword);

	if (strncmp(line, keyword, len) != 0 || !line[len] || !strchr(BLANKS, line[len]))
		return NULL;
	const char *value = line + len + strspn(line + len, BLANKS);
	return *value && *value != '\n' ? value : NULL;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return line + (*line == '\n');
}

static void copy_words(const char *value, char *ret, size_t cap)
{
	size_t at = 0;

	while (*value && *value != '\n') {
		const size_t len = strcspn(value, BLANKS "\n");

		if (at + !!at + len >= cap)
			break;
		if (at)
			ret[at++] = ' ';
		memcpy(ret + at, value, len);
		at += len;
		value += len + strspn(value + len, BLANKS);
	}
	ret[at] = 0;
}

void host_search(const char *resolv, char *ret, size_t cap)
{
	*ret = 0;
	for (; *resolv; resolv = next_line(resolv)) {
		const char *value = value_of(resolv, "search");

		value = value ? value : value_of(resolv, "domain");
		if (value)
			copy_words(value, ret, cap);
	}
}

bool host_names_server(const char *resolv)
{
	for (; *resolv; resolv = next_line(resolv)) {
		if (value_of(resolv, "nameserver"))
			return true;
	}
	return false;
}
