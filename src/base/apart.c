// SPDX-License-Identifier: Apache-2.0
#include "base/apart.h"

#include <pthread.h>
#include <signal.h>

void apart_do(void *(*work)(void *arg), void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all); /* a signal that it got might never be seen */
	pthread_attr_setsigmask_np(&attr, &all);
	r = pthread_create(&thread, &attr, work, arg);
	pthread_attr_destroy(&attr);
	if (r)
		work(arg);
}
