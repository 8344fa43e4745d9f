/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/qemu_argv.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * Why the machine looks as it does.
 *
 * microvm has no PCI and boots directly. Debian's kernel has no virtio_mmio.device= parameter, so
 * the devices are announced by ACPI tables. The PIT stays: the kernel calibrates its APIC timer
 * against it. The PIC goes, since ACPI brings the IO-APIC. The RTC gives the first wall clock.
 *
 * Files are descriptors that QEMU inherits (enum qemu_fd); no path of the host is ever opened.
 * Where QEMU takes a path only, it is /proc/self/fd/N, see openshim.c. `locking=off`: vm.lock does
 * that. Queues are few, since each one costs memory and start time in the guest.
 *
 * Console: none. A machine that dies in its start is silent, so a second attempt is made with
 * @loud, where the serial port speaks from the first instruction on (and under TCG costs an exit
 * per character). A virtio console would cost each start 50 ms, for a text that nobody reads.
 *
 * Templates. The memory of one is a file: shared while it is made (VM_FREEZE), private in a clone
 * of it (VM_CLONE), which needs neither kernel nor initramfs, since both are in that memory; they
 * are left out, because QEMU would read and keep them. Which network card address was frozen is of
 * no interest, as the agent sets the box's own. A clone waits for "migrate-incoming" (migrate.h):
 * that the memory is not in the stream can only be said through the monitor, not by an option.
 */

#define ARGS_MAX         96 /* words of a command line; a fixed set, far below this */
#define CMDLINE_MAX      1024
#define TCG_BUFFER_MIB   32 /* translated code; QEMU's default would grow the process by 80 MiB */
#define SERIAL_PORTS_MAX 4 /* ports of the virtio console: 0 is unused, two lanes, one to spare */
#define ROOTFS_SET       1 /* QEMU's own numbers for sets of one descriptor each */
#define DISK_SET         2

/* The network card's address in every template. */
static const uint8_t template_mac[] = {0x02, 0x68, 0x6f, 0x6c, 0x74, 0x01};

struct args {
	char **words;
	size_t n;
	bool failed;
};

static void args_take(struct args *a, char *word)
{
	if (!word || a->n + 1 >= ARGS_MAX) {
		mem_free(word);
		a->failed = true;
		return;
	}
	a->words[a->n++] = word;
}

static void args_add(struct args *a, const char *word)
{
	args_take(a, str_dup(word));
}

/* An option and its value. */
static void args_opt(struct args *a, const char *option, const char *fmt, ...)
	__attribute__((format(__printf__, 3, 4)));
static void args_opt(struct args *a, const char *option, const char *fmt, ...)
{
	char value[CMDLINE_MAX];
	va_list ap;

	va_start(ap, fmt);
	const int len = vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	if (len < 0 || (size_t)len >= sizeof(value)) {
		a->failed = true;
		return;
	}
	args_add(a, option);
	args_add(a, value);
}

/* A template has the devices of its clones, so it never speaks. */
static bool has_serial(const struct vm_spec *spec)
{
	return spec->loud && spec->origin == VM_COLD;
}

char *qemu_kernel_cmdline(const struct vm_spec *spec)
{
	auto_buf b = BUF_INIT(CMDLINE_MAX);
	int r = 0;

	if (has_serial(spec))
		r |= buf_appends(&b, "console=ttyS0 earlyprintk=serial,ttyS0 ignore_loglevel");
	else
		r |= buf_appends(&b, "quiet");
	/* A guest that dies resets at once, which -no-reboot turns into the end of QEMU. No
	 * security module is configured by anybody, yet each one costs time at every system call.
	 */
	r |= buf_appends(&b, " panic=-1 reboot=t pci=off lsm=landlock random.trust_cpu=on");
	if (!spec->kvm) {
		/* Saved under TCG: self-tests of ciphers 0.25 s, rewriting lock prefixes for one
		 * cpu 0.3 s, rewriting branches against attacks that an emulated processor does not
		 * have 0.4 s, zeroing memory twice 0.1 s. With kaslr a boot was seen to hang. */
		r |= buf_appends(&b, " nokaslr mitigations=off noreplace-smp cryptomgr.notests"
				     " init_on_alloc=0");
	}
	if (!spec->kvm && spec->tsc_khz > 0) {
		/* Under TCG the guest's TSC is the host's. Calibrating it against an emulated clock
		 * never ends on a busy host, so the answer is given. */
		r |= buf_printf(&b, " tsc_early_khz=%u tsc=reliable", spec->tsc_khz);
	}
	if (spec->origin == VM_FREEZE && spec->bare)
		r |= buf_appends(&b, " " QEMU_BARE_ENV);
	if (r < 0)
		return NULL;
	return str_dup((const char *)b.data);
}

static void add_machine(struct args *a, const struct vm_spec *spec)
{
	args_opt(a, "-machine",
		"microvm,acpi=on,pit=on,pic=off,rtc=on,pcie=off,usb=off,"
		"isa-serial=%s,x-option-roms=off,dump-guest-core=off%s",
		has_serial(spec) ? "on" : "off",
		spec->origin == VM_COLD ? "" : ",memory-backend=memory");
	if (spec->kvm) {
		args_opt(a, "-accel", "kvm");
		args_opt(a, "-cpu", "host");
	} else {
		args_opt(a, "-accel", "tcg,tb-size=%d", TCG_BUFFER_MIB);
		/* Without "enhanced rep" guests clear and copy by words: TCG runs the byte-wise
		 * form one byte at a time. */
		args_opt(a, "-cpu", "max,-erms");
	}
	args_opt(a, "-smp", "%u", spec->cpus);
	args_opt(a, "-m", "%uM", spec->memory_mib);
	if (spec->origin != VM_COLD) {
		args_opt(a, "-object",
			"memory-backend-file,id=memory,size=%uM,mem-path=" QEMU_MEMORY_PATH
			",share=%s",
			spec->memory_mib, spec->origin == VM_FREEZE ? "on" : "off");
	}
	args_opt(a, "-rtc", "base=utc,clock=host");
	args_opt(a, "-global", "virtio-mmio.force-legacy=false");
	if (!spec->kvm) {
		/* Handle a guest's notification at once: handing it to another thread, as is right
		 * for KVM, costs more than the work (0.2 s of a boot). */
		args_opt(a, "-global", "virtio-mmio.ioeventfd=off");
	}
}

static void add_kernel(struct args *a, const char *cmdline)
{
	args_opt(a, "-kernel", "%s", QEMU_KERNEL_PATH);
	args_opt(a, "-initrd", "%s", QEMU_INITRD_PATH);
	args_opt(a, "-append", "%s", cmdline);
}

/* Five times in the first half second QEMU would tell the world the template's network address, and
 * wake the guest to do the same: 10 ms of work and 2 MiB of pages, for an address that is not the
 * box's. */
static void add_incoming(struct args *a)
{
	args_opt(a, "-incoming", "defer");
	args_opt(a, "-global", "migration.announce-rounds=0");
}

static void add_console(struct args *a, const struct vm_spec *spec)
{
	if (has_serial(spec)) {
		args_opt(a, "-chardev", "socket,id=console,fd=%d", QEMU_FD_CONSOLE);
		args_opt(a, "-serial", "chardev:console");
	}
}

static void add_monitor(struct args *a)
{
	args_opt(a, "-chardev", "socket,id=qmp,fd=%d", QEMU_FD_QMP);
	args_opt(a, "-mon", "chardev=qmp,mode=control");
}

static void add_lane(struct args *a, const char *id, int fd, int nr)
{
	args_opt(a, "-chardev", "socket,id=%s,fd=%d", id, fd);
	args_opt(a, "-device", "virtserialport,bus=ports.0,nr=%d,chardev=%s", nr, id);
}

static void add_disks(struct args *a)
{
	args_opt(a, "-add-fd", "fd=%d,set=%d", QEMU_FD_ROOTFS, ROOTFS_SET);
	args_opt(a, "-blockdev",
		"driver=file,node-name=rootfs,filename=/dev/fdset/%d,"
		"read-only=on,auto-read-only=off,locking=off,aio=threads,"
		"cache.direct=off",
		ROOTFS_SET);
	args_opt(a, "-device", "virtio-blk-device,drive=rootfs,serial=%s,num-queues=1",
		QEMU_SERIAL_ROOTFS);
	args_opt(a, "-add-fd", "fd=%d,set=%d", QEMU_FD_DISK, DISK_SET);
	args_opt(a, "-blockdev",
		"driver=file,node-name=disk,filename=/dev/fdset/%d,"
		"read-only=off,auto-read-only=off,locking=off,aio=threads,"
		"cache.direct=off,cache.no-flush=off,discard=unmap",
		DISK_SET);
	/* A write that fails stops the machine and is kept: the keeper lets it try again. */
	args_opt(a, "-device", "virtio-blk-device,drive=disk,serial=%s,num-queues=1,werror=stop",
		QEMU_SERIAL_DISK);
}

static void add_network(struct args *a, const struct vm_spec *spec)
{
	const uint8_t *m = spec->origin == VM_COLD ? spec->mac : template_mac;

	args_opt(a, "-netdev", "dgram,id=net,local.type=fd,local.str=%d", QEMU_FD_NET);
	args_opt(a, "-device", "virtio-net-device,netdev=net,mac=%02x:%02x:%02x:%02x:%02x:%02x",
		m[0], m[1], m[2], m[3], m[4], m[5]);
}

static int spec_check(const struct vm_spec *spec, holt_error **reterr)
{
	if (spec->memory_mib < QEMU_MEMORY_MIN_MIB || spec->memory_mib > QEMU_MEMORY_MAX_MIB) {
		err_make(reterr, HOLT_EINVALID, "%u MiB of memory is not between %d and %d",
			spec->memory_mib, QEMU_MEMORY_MIN_MIB, QEMU_MEMORY_MAX_MIB);
		err_hint(reterr, "choose a memory size within these limits");
	} else if (spec->cpus < 1 || spec->cpus > QEMU_CPUS_MAX) {
		err_make(reterr, HOLT_EINVALID, "%u cpus is not between 1 and %d", spec->cpus,
			QEMU_CPUS_MAX);
		err_hint(reterr, "choose a number of cpus within these limits");
	} else {
		return 0;
	}
	err_stage(reterr, "vm start");
	err_object(reterr, "shape");
	return -HOLT_EINVALID;
}

int qemu_argv_build(const struct vm_spec *spec, char ***ret_argv, holt_error **reterr)
{
	const int r = spec_check(spec, reterr);
	if (r < 0)
		return r;

	auto_free char *cmdline = qemu_kernel_cmdline(spec);
	struct args a = {.words = mem_array(ARGS_MAX, sizeof(char *))};
	if (!cmdline || !a.words) {
		mem_free(a.words);
		return err_nomem(reterr);
	}
	args_add(&a, "qemu-system-x86_64");
	args_add(&a, "-nodefaults");
	args_add(&a, "-no-user-config");
	args_opt(&a, "-display", "none");
	args_add(&a, "-no-reboot");
	if (!spec->no_sandbox)
		args_opt(&a, "-sandbox",
			"on,obsolete=deny,elevateprivileges=deny,spawn=deny,"
			"resourcecontrol=deny");
	if (spec->chroot_dir && spec->run_with)
		args_opt(&a, "-run-with", "chroot=%s", spec->chroot_dir);
	else if (spec->chroot_dir)
		args_opt(&a, "-chroot", "%s", spec->chroot_dir);
	add_machine(&a, spec);
	if (spec->origin == VM_CLONE)
		add_incoming(&a);
	else
		add_kernel(&a, cmdline);
	add_console(&a, spec);
	add_monitor(&a);
	args_opt(&a, "-device", "virtio-serial-device,id=ports,max_ports=%d", SERIAL_PORTS_MAX);
	add_lane(&a, "control", QEMU_FD_CONTROL, QEMU_PORT_CONTROL);
	add_lane(&a, "bulk", QEMU_FD_BULK, QEMU_PORT_BULK);
	add_disks(&a);
	add_network(&a, spec);
	args_opt(&a, "-object", "rng-builtin,id=rng");
	args_opt(&a, "-device", "virtio-rng-device,rng=rng");
	if (a.failed) {
		strv_free(a.words);
		return err_nomem(reterr);
	}
	*ret_argv = a.words;
	return 0;
}
