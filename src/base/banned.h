/* SPDX-License-Identifier: Apache-2.0 */
/* Included last by every .c file of the host side: what must not be called at all. */
#ifndef HOLT_BANNED_H
#define HOLT_BANNED_H

/* Fortified libraries define some of them as macros. */
#undef printf
#undef sprintf
#undef vsprintf
#undef strcpy
#undef strcat
#undef strncpy
#undef strncat

#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strncat strtok gets atoi atol
#pragma GCC poison system popen mktemp tmpnam setenv putenv dup
#ifndef HOLT_ALLOW_MALLOC
#pragma GCC poison malloc calloc realloc
#endif
#ifndef HOLT_ALLOW_FORK
#pragma GCC poison fork vfork
#endif
#ifndef HOLT_ALLOW_PRINTF
#pragma GCC poison printf puts
#endif

#endif
