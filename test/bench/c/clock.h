/* The processor's own clock, whose reading is no system call. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
#error "no clock for this processor"
#endif
}

static inline double clock_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

/* clock_ns_per_tick measures for a tenth of a second. */
static inline double clock_ns_per_tick(void)
{
	struct timespec tenth = { .tv_nsec = 100 * 1000 * 1000 };
	double ns = clock_monotonic_ns();
	uint64_t ticks = clock_ticks();

	nanosleep(&tenth, NULL);
	return (clock_monotonic_ns() - ns) / (clock_ticks() - ticks);
}

#endif
