/* SPDX-License-Identifier: Apache-2.0 */
/* Apart from the digests, so that the keeper, which computes none, does not load libcrypto. */
#include "base/random.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/types.h>

#include "base/banned.h"

int random_bytes(void *data, size_t len)
{
	uint8_t *p = data;

	while (len > 0) {
		const ssize_t n = getrandom(p, len, 0);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int random_hex(char *ret, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t raw[64];

	if (n > 2 * sizeof raw || n % 2)
		return -EINVAL;
	const int r = random_bytes(raw, n / 2);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n / 2; i++) {
		ret[2 * i] = digits[raw[i] >> 4];
		ret[2 * i + 1] = digits[raw[i] & 15];
	}
	ret[n] = 0;
	return 0;
}

int random_mac(uint8_t ret[6])
{
	const int r = random_bytes(ret, 6);

	ret[0] = (uint8_t)((ret[0] & 0xfc) | 2);
	return r;
}
