/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_PROBE_H
#define VMM_PROBE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Which accelerator really works here. Opening /dev/kvm proves nothing: some hosts answer every
 * KVM ioctl and then interpret ring 0. So a vCPU runs a ring-0 loop against a deadline. The verdict
 * with its reason is cached in @cache_dir by kernel release and boot id.
 */
struct probe_result {
	bool kvm_usable;
	bool cached;
	char reason[192]; /* one sentence: why KVM is or is not usable */
	double kvm_mips; /* measured ring-0 speed, million instructions per second; 0 = none */
	uint32_t tsc_khz; /* host TSC; 0 = unknown */
	uint32_t took_us; /* time this call spent */
};

/* @cache_dir may be NULL (no cache). Takes at most 150 ms. Fails only for lack of memory. */
int probe_accel(const char *cache_dir, struct probe_result *ret, holt_error **reterr);

/* Choose by @want ("auto", "kvm", "tcg"; NULL = auto): *ret_kvm. Asking for kvm where it does not
 * work fails with HOLT_EUNSUPPORTED and the reason; an unknown word with HOLT_EINVALID. */
int probe_choose(
	const char *want, const struct probe_result *probe, bool *ret_kvm, holt_error **reterr);

#endif
