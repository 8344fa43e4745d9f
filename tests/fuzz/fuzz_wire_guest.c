/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from a hostile host, and from a hostile client. */
#include "fuzz_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_wire(WIRE_AS_GUEST, WIRE_AS_KEEPER, data, size);
	return 0;
}
