/* Preloaded into one server: its wall clock reads the kernel's plus an offset, which another
 * process moves by writing 8 bytes (signed nanoseconds) into a file mapped here. Only the wall
 * clock moves: monotonic clocks and waits with an absolute time keep the kernel's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

/* Unset until the constructor ran: jemalloc reads the clock before that. */
static const volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("LOCKKEEPER_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) offset = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    /* By number: dlsym(RTLD_NEXT) allocates, and malloc may be who is asking. */
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result != 0 || !offset) return result;
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE && clock != CLOCK_TAI) return 0;
    int64_t nanos = now->tv_nsec + *offset % SECOND;
    now->tv_sec += *offset / SECOND + (nanos >= SECOND) - (nanos < 0);
    now->tv_nsec = nanos + (nanos < 0 ? SECOND : 0) - (nanos >= SECOND ? SECOND : 0);
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (seconds) *seconds = exact.tv_sec;
    return exact.tv_sec;
}
