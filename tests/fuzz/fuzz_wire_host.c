/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from a hostile guest, and from a hostile keeper. */
#include "fuzz_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_wire(WIRE_AS_HOST, WIRE_AS_CLIENT, data, size);
	return 0;
}
