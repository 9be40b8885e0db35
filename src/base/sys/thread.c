/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sys/thread.h"

#include <signal.h>

int sal_thread_start(pthread_t *out_thread, const char *name, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run, arg);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc != 0)
		return rc;
	(void)pthread_setname_np(thread, name);
	if (out_thread)
		*out_thread = thread;
	else
		(void)pthread_detach(thread);
	return 0;
}
