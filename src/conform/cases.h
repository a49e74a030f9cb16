/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind the table of cases (cases.c). */
#ifndef RINGWAY_CONFORM_CASES_H
#define RINGWAY_CONFORM_CASES_H

#include "conform/kit.h"

/* handshake.c: what is said before rings run. */
int case_features(struct kit *k);
int case_features_least(struct kit *k);
int case_protocol_features(struct kit *k);
int case_queue_num(struct kit *k);
int case_no_protocol_features(struct kit *k);
int case_need_reply_early(struct kit *k);
int case_acks(struct kit *k);
int case_no_acks(struct kit *k);
int case_one_answer(struct kit *k);
int case_refusal(struct kit *k);
int case_status(struct kit *k);
int case_orders(struct kit *k);
int case_regions(struct kit *k);
int case_slots(struct kit *k);
int case_reconnect(struct kit *k);

/* lifecycle.c: rings start, stop, go on and change. */
int case_base_stops(struct kit *k);
int case_base_value(struct kit *k);
int case_base_resume(struct kit *k);
int case_base_any(struct kit *k);
int case_kick_before_enable(struct kit *k);
int case_no_kick_fd(struct kit *k);
int case_no_call_fd(struct kit *k);
int case_call_replaced(struct kit *k);
int case_memory_again(struct kit *k);
int case_tx_disabled(struct kit *k);
int case_rx_disabled(struct kit *k);
int case_queues(struct kit *k);

/* rings.c: the ring formats, without a look at frames. */
int case_wrap(struct kit *k);
int case_full(struct kit *k);
int case_sizes(struct kit *k);
int case_odd_sizes(struct kit *k);
int case_in_order(struct kit *k);
int case_calls_wanted(struct kit *k);
int case_calls_unwanted(struct kit *k);
int case_calls_by_index(struct kit *k);
int case_kicks_as_asked(struct kit *k);

/* frames.c: from one port to another. */
int case_frames(struct kit *k);
int case_pieces(struct kit *k);
int case_indirect(struct kit *k);
int case_indirect_behind_direct(struct kit *k);
int case_indirect_write_flag(struct kit *k);
int case_across_regions(struct kit *k);
int case_mergeable(struct kit *k);
int case_not_mergeable(struct kit *k);
int case_header_clean(struct kit *k);
int case_rx_by_call(struct kit *k);
int case_csum(struct kit *k);
int case_gso(struct kit *k);

/* attack_chains.c: a guest that writes what it must not. */
int case_loops(struct kit *k);
int case_next_outside(struct kit *k);
int case_outside_memory(struct kit *k);
int case_direction(struct kit *k);
int case_tables(struct kit *k);
int case_lengths(struct kit *k);
int case_headers_lie(struct kit *k);
int case_rx_chains(struct kit *k);
int case_rx_small(struct kit *k);
int case_heads_outside(struct kit *k);
int case_index_jumps(struct kit *k);
int case_packed_ids(struct kit *k);
int case_packed_endless(struct kit *k);
int case_packed_tables(struct kit *k);

/* attack_messages.c: a front-end that says what it must not. */
int case_unknown_request(struct kit *k);
int case_request_sizes(struct kit *k);
int case_length_lies(struct kit *k);
int case_versions(struct kit *k);
int case_too_many_fds(struct kit *k);
int case_fds_unasked(struct kit *k);
int case_ring_index(struct kit *k);
int case_ring_size(struct kit *k);
int case_ring_nowhere(struct kit *k);
int case_memory_bad(struct kit *k);
int case_memory_no_file(struct kit *k);
int case_memory_truncated(struct kit *k);
int case_wrong_kind_of_fd(struct kit *k);
int case_fragments(struct kit *k);
int case_answers_unread(struct kit *k);
int case_nothing_set_up(struct kit *k);
int case_gone_under_load(struct kit *k);

#endif
