/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_BASELINE_H
#define BENCH_BASELINE_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#define PLAIN_WORDS_MAX 64
#define PLAIN_TEXT_MAX  16384

/*
 * What the figures are compared with. One thread.
 *
 * plain_boot: a QEMU that does nothing but boot. Kernel file, machine, accelerator, cpu, memory and
 * kernel command line are those of a running box's own QEMU, read from its process: everything that
 * makes a box's kernel start quickly is granted to it, and the figure compares what is on top: the
 * keeper, devices, modules, mounts, the agent. What differs: there are no disks, ports or card, the
 * initramfs holds one program, and the serial port is on, since that program's one line has to come
 * out.
 *
 * stock_boot: the same without Holt's choices: the kernel package's image as it is, `-M microvm`,
 * and a kernel command line of what it needs to boot at all under emulation.
 */
struct plain {
	char qemu[PATH_MAX];
	char text[PLAIN_TEXT_MAX]; /* words of the box's QEMU, then changed ones */
	size_t text_len;
	const char *argv[PLAIN_WORDS_MAX];
	size_t n_words;
	char initrd[PATH_MAX];
	int kernel_fd; /* as the box's QEMU has it */
	int kernel_nr; /* number that the child gets it under; -1 where it has a path */
};

/* Read @vmm_pid's process and make the initramfs with @init in @dir. Says why it fails. */
int plain_init(struct plain *p, pid_t vmm_pid, const char *init, const char *dir);
/* The stock machine, for the same accelerator as @from; @kernel must live as long as @p. */
int plain_init_stock(struct plain *p, const struct plain *from, const char *kernel);
void plain_done(struct plain *p);

/* Boot once. *ret_ms: from the spawn until the line was read. *ret_pss_kib: of the QEMU at that
 * moment. */
int plain_boot(const struct plain *p, double *ret_ms, double *ret_pss_kib);

/* Run a program to its end with stdin from @stdin_path and its output thrown away. Returns its exit
 * status, or -1 where it could not be started or was killed. */
int program_run(const char *const *argv, const char *stdin_path, double *ret_ms);

/* Proportional memory of a process in KiB, or -1. */
double pss_kib(pid_t pid);
/* Of that, what no other process shares. */
double private_kib(pid_t pid);
/* Parent of a process, or -1. */
pid_t parent_of(pid_t pid);
double now_ms(void);

#endif
