/* SPDX-License-Identifier: Apache-2.0 */
/* What the machine itself takes, without which no figure of a run means anything. */
#ifndef RINGWAY_BENCH_LINE_H
#define RINGWAY_BENCH_LINE_H

/*
 * Time for a cache line to go to another CPU and back, in ns; 0 if there is one CPU only. Takes
 * about 50 ms. It tells whether two CPUs of a virtual machine are separate cores at the moment
 * ("X") or threads of one ("S"): only figures of one class can be compared.
 */
double line_round_trip(void);
const char *line_class(double round_trip_ns);

/*
 * Time for a thread on CPU 0 to wake one that sleeps on CPU 1, through an eventfd, in ns: half of
 * there and back. 0 if there is one CPU only. Takes up to 50 ms.
 */
double line_wake_up(void);

#endif
