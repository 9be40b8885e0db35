/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.pml - publish, sleep and wake of src/link/ring.c, for every order in which two processors can do it.
 *
 * Each side has a store buffer, as x86 has: what it stores is seen by itself at once and by the other side later, in the
 * same order. A fence or an exchange waits until the buffer is empty. A record is a number; bells are level-triggered, as the
 * real ones are. A lost wake-up is a state in which nobody can move: spin reports it.
 *
 * Each of these leaves a step out, and must make the model fail (tests/model/check_ring tries them all):
 *
 *     NO_PUBLISH_FENCE NO_SLEEP_FENCE NO_ADVANCE_FENCE NO_WAIT_FENCE   a fence
 *     NO_LOOK_AGAIN NO_LOOK_FOR_ROOM                                   the second look before sleeping
 *     NO_RING NO_ROOM_RING                                             the bell
 */
#ifndef RECORDS
#define RECORDS 4
#endif
#ifndef ROOM
#define ROOM 2
#endif

/* Variables in shared memory, and a buffer of stores for each side. */
#define HEAD 0
#define TAIL 1
#define SLEEPS 2
#define WAITS 3
#define PRODUCER 0
#define CONSUMER 1
#define DEPTH 4

byte memory[4];
chan stores[2] = [DEPTH] of { byte, byte };
bool bell, room_bell;
byte consumed;

/* The other side's variables are read from memory; our own are copies, as in struct sal_ring. */
#define store(side, variable, value) stores[side]!variable, value
#define fence(side) empty(stores[side])

proctype buffer(byte side)
{
	byte variable, value;

end:	do
	:: atomic { stores[side]?variable, value -> memory[variable] = value }
	od
}

active proctype producer()
{
	byte head, tail;

	run buffer(PRODUCER);
	run buffer(CONSUMER);
	do
	:: head < RECORDS ->
		/* sal_ring_reserve, sal_ring_wait_for_room */
		tail = memory[TAIL];
		do
		:: head - tail < ROOM -> break
		:: else ->
			store(PRODUCER, WAITS, 1);
#ifndef NO_WAIT_FENCE
			fence(PRODUCER);
#endif
#ifndef NO_LOOK_FOR_ROOM
			tail = memory[TAIL];
#endif
			if
			:: head - tail < ROOM
			:: else -> atomic { room_bell -> room_bell = false }
			fi;
			tail = memory[TAIL]
		od;
		/* sal_ring_publish */
		head++;
		store(PRODUCER, HEAD, head);
#ifndef NO_PUBLISH_FENCE
		fence(PRODUCER);
#endif
		if
		:: memory[SLEEPS] == 1 ->
			/* the exchange */
			if
			:: atomic { empty(stores[PRODUCER]) && memory[SLEEPS] == 1 -> memory[SLEEPS] = 0 };
#ifndef NO_RING
				bell = true
#else
				skip
#endif
			:: atomic { empty(stores[PRODUCER]) && memory[SLEEPS] == 0 -> skip }
			fi
		:: else
		fi
	:: else -> break
	od
}

active proctype consumer()
{
	byte tail;

	do
	:: tail == RECORDS -> break
	:: tail < RECORDS && memory[HEAD] != tail ->
		/* sal_ring_take, advance */
		assert(memory[HEAD] > tail && memory[HEAD] - tail <= ROOM);
		tail++;
		store(CONSUMER, TAIL, tail);
#ifndef NO_ADVANCE_FENCE
		fence(CONSUMER);
#endif
		if
		:: memory[WAITS] == 1 ->
			if
			:: atomic { empty(stores[CONSUMER]) && memory[WAITS] == 1 -> memory[WAITS] = 0 };
#ifndef NO_ROOM_RING
				room_bell = true
#else
				skip
#endif
			:: atomic { empty(stores[CONSUMER]) && memory[WAITS] == 0 -> skip }
			fi
		:: else
		fi
	:: tail < RECORDS && memory[HEAD] == tail ->
		/* sal_ring_sleep */
		store(CONSUMER, SLEEPS, 1);
#ifndef NO_SLEEP_FENCE
		fence(CONSUMER);
#endif
		if
#ifndef NO_LOOK_AGAIN
		:: memory[HEAD] != tail
		:: memory[HEAD] == tail -> atomic { bell -> bell = false }
#else
		:: atomic { bell -> bell = false }
#endif
		fi;
		/* sal_ring_awake */
		store(CONSUMER, SLEEPS, 0)
	od;
	consumed = tail;
	assert(consumed == RECORDS)
}
