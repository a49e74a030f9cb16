/* SPDX-License-Identifier: Apache-2.0 */
/* What the switch does apart is done at once, so that a test can count what is left of it. */
#ifndef RINGWAY_TEST_AT_ONCE_H
#define RINGWAY_TEST_AT_ONCE_H

#include "base/apart.h"

void apart_do(void *(*work)(void *arg), void *arg)
{
	work(arg);
}

#endif
