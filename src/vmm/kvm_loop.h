/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_KVM_LOOP_H
#define VMM_KVM_LOOP_H

#include <stdint.h>

/* What came of running a loop in ring 0 of a real virtual CPU. */
enum kvm_outcome {
	KVM_NATIVE, /* as fast as hardware */
	KVM_INTERPRETED, /* it runs, at the speed of an interpreter */
	KVM_NO_DEVICE,
	KVM_NO_PERMISSION,
	KVM_BAD_VERSION,
	KVM_NO_MACHINE, /* a step of making the machine failed: errnum */
	KVM_BAD_EXIT /* the virtual CPU stopped for another reason than HLT: detail */
};

struct kvm_verdict {
	enum kvm_outcome outcome;
	int errnum;
	int detail; /* API version or exit reason */
	uint64_t kips; /* thousand instructions per second; 0 = did not run */
};

/* Open the device alone: a descriptor, or FD_NONE with *ret saying why not. */
int kvm_open(struct kvm_verdict *ret);

/* Run the loop on @kvm for at most about 40 ms. No signal is used, so a run that has begun cannot
 * be cut short: the first one is 1000 instructions long, the next as long as the last permits. */
void kvm_loop_run(int kvm, struct kvm_verdict *ret);

/* The verdict that a measured speed means. */
struct kvm_verdict kvm_verdict_of(uint64_t kips);

#endif
