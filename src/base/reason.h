/* SPDX-License-Identifier: Apache-2.0 */
/* What a counter is called by programs, and what it means to people. */
#ifndef RINGWAY_BASE_REASON_H
#define RINGWAY_BASE_REASON_H

struct reason {
	const char *name, *text;
};

#endif
