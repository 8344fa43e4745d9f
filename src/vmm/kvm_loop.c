/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/kvm_loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/banned.h"

/*
 * The smallest machine that proves something: one page of memory, one virtual CPU in flat 32-bit
 * protected mode at ring 0 (real mode would be emulated on old hardware that virtualizes well),
 * which counts a register down and halts. Each HLT is an exit to us, where the clock is read.
 *
 * A chunk of the loop is started only if, at the speed seen so far, it ends before the deadline.
 * The best chunk counts: a busy host may take the CPU away from some of them.
 */

#define API_VERSION       12
#define CODE_BYTES        4096
#define CODE_ADDRESS      0x1000
#define TSS_ADDRESS       0xfffbd000ul /* three pages that the guest does not use */
#define FIRST_CHUNK       1000u /* instructions */
#define LAST_CHUNK        400000u /* below 1 ms where it is real */
#define CHUNK_GROWTH      4
#define DEADLINE_US       40000u
#define NATIVE_MIN_KIPS   100000u /* interpreters: 10 M/s at most; hardware: 1000 M/s */
#define CHUNKS_MAX        1000 /* against a clock that stands still */
#define LOOP_INSTRUCTIONS 2 /* dec, jnz */

struct machine {
	int vm;
	int vcpu;
	void *code;
	struct kvm_run *run;
	size_t run_size;
};

static void machine_done(struct machine *m)
{
	if (m->run)
		(void)munmap(m->run, m->run_size);
	m->vcpu = fd_close(m->vcpu);
	m->vm = fd_close(m->vm);
	if (m->code)
		(void)munmap(m->code, CODE_BYTES);
}
#define auto_machine __attribute__((cleanup(machine_done))) struct machine

int kvm_open(struct kvm_verdict *ret)
{
	const int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd >= 0)
		return fd;
	*ret = (struct kvm_verdict){.outcome = KVM_NO_MACHINE, .errnum = errno};
	if (errno == ENOENT || errno == ENXIO || errno == ENODEV)
		ret->outcome = KVM_NO_DEVICE;
	else if (errno == EACCES || errno == EPERM)
		ret->outcome = KVM_NO_PERMISSION;
	return FD_NONE;
}

static void *map_shared(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static bool machine_make(struct machine *m, int kvm)
{
	/* again: dec ecx; jnz again; hlt; jmp again */
	static const uint8_t loop[] = {0x49, 0x75, 0xfd, 0xf4, 0xeb, 0xfa};

	m->vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (m->vm < 0)
		return false;
	(void)fcntl(m->vm, F_SETFD, FD_CLOEXEC);
	/* Wanted by Intel processors that cannot run without paging; no matter elsewhere. */
	(void)ioctl(m->vm, KVM_SET_TSS_ADDR, TSS_ADDRESS);
	m->code = map_shared(-1, CODE_BYTES);
	if (!m->code)
		return false;
	memcpy(m->code, loop, sizeof(loop));
	const struct kvm_userspace_memory_region region = {
		.guest_phys_addr = CODE_ADDRESS,
		.memory_size = CODE_BYTES,
		.userspace_addr = (uintptr_t)m->code,
	};
	if (ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return false;
	m->vcpu = ioctl(m->vm, KVM_CREATE_VCPU, 0);
	if (m->vcpu < 0)
		return false;
	(void)fcntl(m->vcpu, F_SETFD, FD_CLOEXEC);
	const int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (size < (int)sizeof(struct kvm_run))
		return false;
	m->run_size = (size_t)size;
	m->run = map_shared(m->vcpu, m->run_size);
	return m->run != NULL;
}

/* Flat segments, ring 0, protected mode. */
static bool machine_enter_ring0(const struct machine *m)
{
	struct kvm_sregs s;
	const struct kvm_segment flat = {.limit = 0xffffffff,
		.selector = 0x10,
		.type = 3, /* data, writable, accessed */
		.present = 1,
		.db = 1,
		.s = 1,
		.g = 1};

	if (ioctl(m->vcpu, KVM_GET_SREGS, &s) < 0)
		return false;
	s.ds = s.es = s.fs = s.gs = s.ss = flat;
	s.cs = flat;
	s.cs.selector = 0x08;
	s.cs.type = 11; /* code, readable, accessed */
	s.cr0 |= 1; /* protected mode */
	return ioctl(m->vcpu, KVM_SET_SREGS, &s) == 0;
}

/* Run about @instructions: the microseconds taken, or 0 with *ret saying what went wrong. */
static uint64_t chunk_run(const struct machine *m, unsigned instructions, struct kvm_verdict *ret)
{
	const struct kvm_regs regs = {
		.rip = CODE_ADDRESS, .rcx = instructions / LOOP_INSTRUCTIONS, .rflags = 2};
	const uint64_t start_us = clock_mono_us();
	int r = ioctl(m->vcpu, KVM_SET_REGS, &regs);

	do {
		r = r < 0 ? r : ioctl(m->vcpu, KVM_RUN, 0);
	} while (r < 0 && errno == EINTR && clock_mono_us() - start_us < DEADLINE_US);
	if (r < 0) {
		*ret = (struct kvm_verdict){.outcome = KVM_NO_MACHINE, .errnum = errno};
		return 0;
	}
	if (m->run->exit_reason != KVM_EXIT_HLT) {
		*ret = (struct kvm_verdict){
			.outcome = KVM_BAD_EXIT, .detail = (int)m->run->exit_reason};
		return 0;
	}
	const uint64_t took_us = clock_mono_us() - start_us;
	return took_us ? took_us : 1;
}

struct kvm_verdict kvm_verdict_of(uint64_t kips)
{
	return (struct kvm_verdict){
		.outcome = kips >= NATIVE_MIN_KIPS ? KVM_NATIVE : KVM_INTERPRETED, .kips = kips};
}

void kvm_loop_run(int kvm, struct kvm_verdict *ret)
{
	auto_machine m = {.vm = FD_NONE, .vcpu = FD_NONE};
	const uint64_t start_us = clock_mono_us();
	const int version = ioctl(kvm, KVM_GET_API_VERSION, 0);
	uint64_t kips = 0;

	if (version != API_VERSION) {
		*ret = (struct kvm_verdict){.outcome = KVM_BAD_VERSION, .detail = version};
		return;
	}
	if (!machine_make(&m, kvm) || !machine_enter_ring0(&m)) {
		*ret = (struct kvm_verdict){.outcome = KVM_NO_MACHINE, .errnum = errno};
		return;
	}
	unsigned chunk = FIRST_CHUNK;
	for (int i = 0; i < CHUNKS_MAX && kips < NATIVE_MIN_KIPS; i++) {
		const uint64_t spent_us = clock_mono_us() - start_us;
		if (spent_us >= DEADLINE_US ||
			(kips > 0 && UINT64_C(1000) * chunk / kips > DEADLINE_US - spent_us))
			break;
		const uint64_t took_us = chunk_run(&m, chunk, ret);
		if (took_us == 0)
			return;
		const uint64_t now_kips = UINT64_C(1000) * chunk / took_us;
		kips = now_kips > kips ? now_kips : kips;
		if (chunk < LAST_CHUNK)
			chunk *= CHUNK_GROWTH;
	}
	*ret = kvm_verdict_of(kips);
}
