/* SPDX-License-Identifier: Apache-2.0 */
/* Included last by every .c file of the guest: what must not be called there. The host's list is
 * src/base/banned.h; this one leaves out names that the protocol uses for its messages. */
#ifndef GUEST_GUEST_BANNED_H
#define GUEST_GUEST_BANNED_H

/* Some are macros with some compilers. */
#undef alloca
#undef sprintf
#undef vsprintf
#undef printf
#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strncat strtok gets atoi atol
#pragma GCC poison system popen mktemp tmpnam alloca setenv putenv dup printf puts
/* These would drag name services into a static binary. */
#pragma GCC poison getpwnam getpwuid getgrnam getgrgid initgroups getgrouplist
#ifndef GUEST_ALLOW_MALLOC
#pragma GCC poison malloc calloc realloc
#endif
#ifndef GUEST_ALLOW_FORK
#pragma GCC poison fork vfork
#endif

#endif
