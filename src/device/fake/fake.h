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
 *
 * Its configuration: memory_bytes is what all streams share (0: no limit), fake_ns how long an iteration
 * runs, and plugin_path may be NULL, "fake", or "fake:" and faults, separated by commas: WHAT@N=CODE lets the
 * N-th call (from 1) of upload, download, load or execute fail with a code, as in "fake:upload@3=14".
 *
 * A stream has one thread, which does everything in the order in which it was asked for and calls all done
 * functions. The image of a program, and its "optimised" form, is its text.
 */
#ifndef SAL_DEVICE_FAKE_FAKE_H
#define SAL_DEVICE_FAKE_FAKE_H

#include "device/device.h"

#endif
