// SPDX-License-Identifier: Apache-2.0
#include "frame/cut.h"

enum drop frame_cut(const struct batch *b, const struct frame *f, struct segments *ret,
		    struct source *ret_from)
{
	struct parsed p;
	enum parse parse = parse_frame(f->head, f->head_len, f->len, &p);

	if (parse == PARSE_DONE)
		parse = segment_begin(ret, f->head, &p, &f->hdr, f->len);
	if (parse)
		return parse == PARSE_TOO_LONG ? DROP_HEADER_TOO_LONG : DROP_HEADER_LIES;
	*ret_from = source_from(b, f, ret->header_len + f->segments * ret->size);
	return DROP_NONE;
}
