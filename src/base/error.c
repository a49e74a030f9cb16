// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void error_write(struct error *err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(err->text, sizeof(err->text), fmt, args);
	va_end(args);
}

const char *error_reason(int code)
{
	switch (code) {
	case EMFILE: /* the soft limit was raised to the hard one at the start */
		return "no descriptors left; raise their limit (ulimit -Hn, LimitNOFILE= of the "
		       "service)";
	case ENFILE:
		return "no descriptors left on this host; raise their limit (sysctl fs.file-max)";
	default:
		return strerror(code);
	}
}
