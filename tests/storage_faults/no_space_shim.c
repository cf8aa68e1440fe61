// Refuses writes to some files of the process that it is preloaded into with ENOSPC. NO_SPACE_CONTROL names a file of
// two lines: what the path begins with, and what the rest of it contains. An empty file refuses nothing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define CONTROL_SIZE 4096
static volatile const char *control;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("NO_SPACE_CONTROL");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, CONTROL_SIZE, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) control = mapped;
    close(file);
}

static int is_refused(const char *path) {
    if (!control || !control[0] || !path) return 0;
    char wanted[CONTROL_SIZE];
    memcpy(wanted, (const char *)control, CONTROL_SIZE);
    wanted[CONTROL_SIZE - 1] = 0;
    char *second = strchr(wanted, '\n');
    if (!second) return 0;
    *second++ = 0;
    char *end = strchr(second, '\n');
    if (end) *end = 0;
    size_t length = strlen(wanted);
    return strncmp(path, wanted, length) == 0 && strstr(path + length, second) != NULL;
}

static int is_refused_fd(int fd) {
    if (!control || !control[0]) return 0;
    char link[64], path[CONTROL_SIZE];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return is_refused(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REFUSE_FD(fd) do { if (is_refused_fd(fd)) { errno = ENOSPC; return -1; } } while (0)

ssize_t write(int fd, const void *data, size_t size) { REFUSE_FD(fd); return REAL(write)(fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { REFUSE_FD(fd); return REAL(pwrite)(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { REFUSE_FD(fd); return REAL(pwrite64)(fd, data, size, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) { REFUSE_FD(fd); return REAL(writev)(fd, parts, count); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) { REFUSE_FD(fd); return REAL(pwritev)(fd, parts, count, at); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { REFUSE_FD(fd); return REAL(pwritev64)(fd, parts, count, at); }
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) { REFUSE_FD(fd); return REAL(pwritev2)(fd, parts, count, at, flags); }
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) { REFUSE_FD(fd); return REAL(pwritev64v2)(fd, parts, count, at, flags); }

// A file that grows needs space; one that shrinks does not.
static int grows(int fd, off64_t size) {
    struct stat now;
    return fstat(fd, &now) == 0 && size > now.st_size;
}
int ftruncate(int fd, off_t size) { if (grows(fd, size)) REFUSE_FD(fd); return REAL(ftruncate)(fd, size); }
int ftruncate64(int fd, off64_t size) { if (grows(fd, size)) REFUSE_FD(fd); return REAL(ftruncate64)(fd, size); }
int posix_fallocate(int fd, off_t at, off_t size) { return is_refused_fd(fd) ? ENOSPC : REAL(posix_fallocate)(fd, at, size); }
int posix_fallocate64(int fd, off64_t at, off64_t size) { return is_refused_fd(fd) ? ENOSPC : REAL(posix_fallocate64)(fd, at, size); }
int fallocate(int fd, int mode, off_t at, off_t size) { REFUSE_FD(fd); return REAL(fallocate)(fd, mode, at, size); }
int fallocate64(int fd, int mode, off64_t at, off64_t size) { REFUSE_FD(fd); return REAL(fallocate64)(fd, mode, at, size); }

// A file that is created needs a place in its directory.
static int creates(const char *path, int flags) {
    struct stat known;
    return (flags & O_CREAT) && is_refused(path) && stat(path, &known) != 0;
}
#define OPENED(name, ...) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
    if (creates(path, flags)) { errno = ENOSPC; return -1; } \
    return REAL(name)(__VA_ARGS__, flags, mode);
int open(const char *path, int flags, ...) { OPENED(open, path) }
int open64(const char *path, int flags, ...) { OPENED(open64, path) }
int openat(int directory, const char *path, int flags, ...) { OPENED(openat, directory, path) }
int openat64(int directory, const char *path, int flags, ...) { OPENED(openat64, directory, path) }
