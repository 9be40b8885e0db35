/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake - a device without hardware: deterministic, small, and failing where it is told to.
 *
 * Its "programs" are lines of text, in any format name; options are ignored. Words are separated by one
 * space, '#' starts a comment, and arguments and outputs are counted from 0:
 *
 *     fake 1                          the first line
 *     name NAME
 *     output TYPE[ DIM...] = OP       the next output; TYPE as f32, s64, pred, or a PJRT_Buffer_Type
 *         copy A                        argument A, of the same size
 *         add A B                       A plus B, element by element, both of the output's type and size
 *         fill N                        every byte is N
 *     donate A K                      output K takes over argument A, of the same size
 *     temp BYTES                      needed while it runs, on top of arguments and outputs
 *     time NS                         how long it runs; default: what the device is configured to
 *     fail CODE TEXT                  each iteration ends with this error
 *     refuse CODE TEXT                execute itself fails with it
 *     hang                            an iteration never ends; when its stream is closed, it is CANCELLED
 *     reject CODE TEXT                compile fails with it
 *     crash                           compile aborts the process
 *     spin                            compile never ends, and keeps a core busy
 *     burn MS                         compile first takes that much processor time
 *     gulp                            compile asks for more memory than there is, at once, then aborts
 *     gorge                           compile takes memory until there is none, then aborts
 *     shout N                         compile prints N lines to stderr first
 *
 * Its configuration: memory_bytes is what all streams share (0: no limit), fake_ns how long an iteration
 * runs, and plugin_path may be NULL, "fake", or "fake:" and words, separated by commas:
 *
 *     CALL@N=CODE          the N-th call (from 1) of that kind fails with a code; without =CODE: INTERNAL
 *     slow@N:MS            every N-th call of any kind takes MS milliseconds longer
 *     slow:CALL@N:MS       every N-th call of that kind
 *     endless@N            every N-th call of any kind does not return before its stream (for open_stream:
 *     endless:CALL@N       the device) is closed; then it fails with CANCELLED
 *     inline               execute computes inside the call and calls done there, as XLA:CPU does with cheap
 *                          programs, if all that was asked of its stream before is over
 *     chained              declares that execute may be called from within done (can_execute_in_done)
 *     strict               any call from within done, on the thread of a stream, is a bug and aborts
 *
 * CALL is open_stream, load, unload, upload, download, copy, when_ready, free_buffer, save, restore, empty,
 * refill or execute; unload and free_buffer can be held up but cannot fail. A call that is held up holds no
 * lock: all others go on. As in "fake:save@3,slow:execute@10:500".
 *
 * A stream has one thread, which does everything in the order in which it was asked for and calls all done
 * functions; inline is the exception. The image of a program, and its "optimised" form, is its text.
 */
#ifndef SAL_DEVICE_FAKE_FAKE_H
#define SAL_DEVICE_FAKE_FAKE_H

#include "device/device.h"

#endif
