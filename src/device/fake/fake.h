/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake - a device without hardware: deterministic, small, and able to fail on request.
 *
 * Its "programs" are lines of text, in any format name; options are ignored. Words are separated by
 * one space, '#' starts a comment, and arguments and outputs are counted from 0:
 *
 *     fake 1                          the first line
 *     name NAME
 *     output TYPE[ DIM...] = OP       the next output; TYPE is f32, s64, ... or a PJRT_Buffer_Type
 *         copy A                        argument A, of the same size
 *         add A B                       A plus B, element by element, of the output's type and size
 *         fill N                        every byte is N
 *     donate A K                      output K takes over argument A, of the same size
 *     host K                          output K is in the memory pinned_host
 *     temp BYTES                      scratch memory of an iteration, on each chip
 *     chips N                         runs on the first N chips, on each with arguments of its own
 *     chip K                          runs on chip K; default: chip 0
 *     time NS                         duration of an iteration; default: the device's fake_ns
 *     fail CODE TEXT                  each iteration ends with this error
 *     refuse CODE TEXT                execute fails with this error
 *     hang                            an iteration never ends; closing its stream cancels it
 *     reject CODE TEXT                compile fails with this error
 *     crash                           compile aborts the process
 *     spin                            compile never ends, and uses one core
 *     burn MS                         compile first uses this much processor time
 *     gulp                            compile requests more memory than exists, then aborts
 *     gorge                           compile allocates memory until it fails, then aborts
 *     shout N                         compile first prints N lines to stderr
 *
 * Its configuration: memory_bytes is the memory of all streams together (0: no limit), fake_ns the
 * duration of an iteration. plugin_path may be NULL, "fake", or "fake:" and words, separated by
 * commas:
 *
 *     CALL@N=CODE          the N-th call (from 1) of this kind fails with a code; default: INTERNAL
 *     slow@N:MS            every N-th call of any kind takes MS milliseconds longer
 *     slow:CALL@N:MS       every N-th call of this kind
 *     endless@N            every N-th call of any kind does not return before its stream (for
 *     endless:CALL@N       open_stream: the device) is closed; then it fails with CANCELLED
 *     inline               execute computes inside the call and calls done there, as XLA:CPU does
 *                          with cheap programs, if all earlier work of its stream is done
 *     chained              done functions may call execute (can_execute_in_done)
 *     strict               any call from a done function, on the thread of a stream, is a bug and
 *                          aborts
 *
 * CALL is open_stream, load, unload, upload, download, copy, when_ready, free_buffer, save,
 * restore, empty, refill, adopt or execute; unload and free_buffer can be delayed but cannot fail. A
 * delayed call holds no lock: all others continue. Example: "fake:save@3,slow:execute@10:500".
 *
 * A stream has one thread. The thread does all work in the order of the calls, and calls all done
 * functions; inline is the exception, in tier 0. The thread of a stream of tier 1 has
 * SAL_TIER_NICE. busy_ns is the sum of the durations of the stream's iterations. The image of a program, and its "optimised" form, is its
 * text.
 */
#ifndef SAL_DEVICE_FAKE_FAKE_H
#define SAL_DEVICE_FAKE_FAKE_H

#include "device/device.h"

#endif
