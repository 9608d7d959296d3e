// A server's own clock, by LD_PRELOAD: the real time of the machine, moved by what a file says. Only the calls that ask for
// the time of day are replaced, those for the monotonic clock are not. The calls use neither dlsym nor malloc, so that
// they can come from within an allocator that sets itself up.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

// The file. The sequence is odd while the rest changes. See clock_linux.go.
struct control {
	uint64_t sequence;
	int64_t base;   // real time, in ns
	int64_t offset; // at the base, in ns
	uint64_t drift; // a double, in ns for each ns since the base
};

static const struct control *control;

__attribute__((constructor)) static void open_control(void) {
	const char *name = getenv("QUORUMLOCK_CHAOS_CLOCK");
	if (name == NULL) return;
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		static const char message[] = "clock: its file cannot be read\n";
		if (write(2, message, sizeof message - 1) < 0) _exit(126);
		_exit(127);
	}
	close(fd);
	control = at;
}

static int64_t moved(int64_t real) {
	const struct control *c = control;
	if (c == NULL) return real;
	uint64_t before, after, bits;
	int64_t base, offset;
	do {
		before = __atomic_load_n(&c->sequence, __ATOMIC_ACQUIRE);
		base = __atomic_load_n(&c->base, __ATOMIC_RELAXED);
		offset = __atomic_load_n(&c->offset, __ATOMIC_RELAXED);
		bits = __atomic_load_n(&c->drift, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		after = __atomic_load_n(&c->sequence, __ATOMIC_RELAXED);
	} while (before != after || (before & 1));
	double drift;
	memcpy(&drift, &bits, sizeof drift);
	return real + offset + (int64_t)((double)(real - base) * drift);
}

int clock_gettime(clockid_t id, struct timespec *ts) {
	if (syscall(SYS_clock_gettime, id, ts) != 0) return -1;
	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) {
		int64_t now = moved((int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec);
		ts->tv_sec = now / 1000000000;
		ts->tv_nsec = now % 1000000000;
	}
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
	if (zone != NULL) memset(zone, 0, sizeof(struct timezone));
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *at) {
	struct timespec ts;
	if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
	if (at != NULL) *at = ts.tv_sec;
	return ts.tv_sec;
}
