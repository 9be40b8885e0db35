/* SPDX-License-Identifier: Apache-2.0 */
/* thread - starts threads that take no signals and have a name. */
#ifndef SAL_BASE_SYS_THREAD_H
#define SAL_BASE_SYS_THREAD_H

#include <pthread.h>

/*
 * Starts a thread in which all signals are blocked: they are for other threads. The name, at most
 * 15 characters, is what ps and debuggers show. out_thread is to be joined; NULL: the thread is
 * detached. Returns 0 or an errno.
 */
int sal_thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *), void *arg);

#endif
