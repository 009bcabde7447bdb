/* Sees and disturbs what a process does to the files of a queue; loaded by LD_PRELOAD, in tests alone.
 *
 * Every call that changes something below EFRIT_CHAOS_ROOTS is made and written down under one lock that all
 * processes share (EFRIT_CHAOS_STATE), so that the record (EFRIT_CHAOS_LOG) has the order in which things happened.
 * The lock is robust: a process may be killed while it holds it. Points in the shared state say at which call a
 * process is to be killed or stopped, or is to get an error of the disk. The test loads the same library and
 * calls the chaos_* functions. What a call does when no point is armed is what the C library does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define POINTS 16
#define FDS 65536
#define TEXT 512

enum action { NOTHING, KILL_BEFORE, KILL_AFTER, FAIL, SHORT, STOP_BEFORE, STOP_AFTER, HANG };

struct point {
  int action;      /* of enum action; NOTHING: the slot is free */
  int number;      /* errno of FAIL and SHORT */
  int skip;        /* matching calls to let pass before it strikes */
  int lasting;     /* strikes until it is cleared, not once */
  int struck;      /* how often it has struck */
  char program[64], operation[32], path[TEXT];
};

struct shared {
  pthread_mutex_t lock;
  int64_t number;             /* of the last record */
  int64_t clock_offset;       /* seconds added to the wall clock of every process */
  struct point points[POINTS];
};

static struct shared *shared;
static int log_fd = -1;
static char roots[8][PATH_MAX];
static int root_count;
static char *paths[FDS];
static const char *program = "?";

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* The system call itself: our own `syscall` below takes the place of the C library's. */
typedef long (*caller)(long, ...);
static caller raw_call(void) {
  static caller found;
  if (!found) found = (caller)dlsym(RTLD_NEXT, "syscall");
  return found;
}
#define raw(...) raw_call()(__VA_ARGS__)

/* ---- State and lock ---- */

static void take(void) {
  if (shared && pthread_mutex_lock(&shared->lock) == EOWNERDEAD) pthread_mutex_consistent(&shared->lock);
}

static void give(void) {
  if (shared) pthread_mutex_unlock(&shared->lock);
}

static int out_of_the_way(int fd) {
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 800);
  raw(SYS_close, fd);
  return high;
}

static int attach(const char *state, const char *log, int create) {
  int fd = raw(SYS_openat, AT_FDCWD, state, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0666);
  if (fd < 0) return -1;
  if (create && raw(SYS_ftruncate, fd, sizeof(struct shared))) return -1;
  void *memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  raw(SYS_close, fd);
  if (memory == MAP_FAILED) return -1;
  fd = raw(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CLOEXEC | (create ? O_CREAT : 0), 0666);
  if (fd < 0) return -1;
  log_fd = out_of_the_way(fd);
  shared = memory;
  if (create) {
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->lock, &kind);
  }
  return 0;
}

/* Called once more by a fork of a process that has loaded the library, with an environment of its own. */
__attribute__((constructor)) void chaos_begin(void) {
  const char *state = getenv("EFRIT_CHAOS_STATE"), *log = getenv("EFRIT_CHAOS_LOG");
  const char *list = getenv("EFRIT_CHAOS_ROOTS");
  program = program_invocation_short_name;
  if (!state || !log || !list || attach(state, log, 0)) return;
  while (*list && root_count < 8) {
    size_t length = strcspn(list, ":");
    snprintf(roots[root_count++], PATH_MAX, "%.*s", (int)length, list);
    list += length + (list[length] == ':');
  }
}

/* ---- Paths ---- */

static int below(const char *path) {
  for (int i = 0; i < root_count; i++) {
    size_t length = strlen(roots[i]);
    if (!strncmp(path, roots[i], length) && (path[length] == '/' || !path[length])) return 1;
  }
  return 0;
}

/* Returns whether the path, made absolute into OUT, lies below a root. */
static int resolve(int dir, const char *name, char *out) {
  if (!shared || !root_count || !name) return 0;
  if (name[0] == '/') {
    snprintf(out, PATH_MAX, "%s", name);
  } else if (dir == AT_FDCWD) {
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here)) return 0;
    snprintf(out, PATH_MAX, "%.2000s/%.2000s", here, name);
  } else if (dir >= 0 && dir < FDS && paths[dir]) {
    snprintf(out, PATH_MAX, "%.2000s/%.2000s", paths[dir], name);
  } else {
    return 0;
  }
  for (size_t n = strlen(out); n > 1 && out[n - 1] == '/';) out[--n] = 0;
  return below(out);
}

static void opened(int fd, const char *path) {
  if (fd < 0 || fd >= FDS) return;
  free(paths[fd]);
  paths[fd] = path ? strdup(path) : NULL;
}

static const char *path_of(int fd) {
  return shared && fd >= 0 && fd < FDS ? paths[fd] : NULL;
}

/* ---- Records ---- */

static void put(const char *data, size_t length) {
  while (length > 0) {
    ssize_t done = raw(SYS_write, log_fd, data, length);
    if (done <= 0) abort();
    data += done;
    length -= done;
  }
}

static void record(const char *operation, long result, int number, uint64_t inode, const char *one,
                   const char *two, long long where, const void *data, size_t length) {
  char head[2 * PATH_MAX + 256];
  int size = snprintf(head, sizeof head, "%lld\t%d\t%s\t%s\t%ld\t%d\t%llu\t%s\t%s\t%lld\t%zu\n",
                      (long long)++shared->number, (int)getpid(), program, operation, result, number,
                      (unsigned long long)inode, one ? one : "", two ? two : "", where, length);
  put(head, size);
  if (length) put(data, length);
  put("\n", 1);
}

static uint64_t inode_of(int fd) {
  struct stat found;
  return fstat(fd, &found) ? 0 : found.st_ino;
}

static uint64_t inode_at(const char *path) {
  struct stat found;
  return lstat(path, &found) ? 0 : found.st_ino;
}

/* ---- Points ---- */

static void die(void) {
  give();
  raw(SYS_tgkill, getpid(), raw(SYS_gettid), SIGKILL);
  for (;;) pause();
}

static void freeze(void) {
  give();
  raw(SYS_tgkill, getpid(), raw(SYS_gettid), SIGSTOP);
  take();
}

/* Waits until the point is taken away; others go on meanwhile. */
static void hang(struct point *at) {
  struct timespec moment = {0, 10 * 1000 * 1000};
  do {
    give();
    raw(SYS_nanosleep, &moment, NULL);
    take();
  } while (at->action == HANG);
}

/* Takes the lock; the point that strikes at this call, or NULL. What it does before the call is done here. */
static struct point *enter(const char *operation, const char *one, const char *two) {
  take();
  for (int i = 0; i < POINTS; i++) {
    struct point *at = &shared->points[i];
    if (at->action == NOTHING || (at->struck && !at->lasting)) continue;
    if (strcmp(at->operation, "*") && strcmp(at->operation, operation)) continue;
    if (strcmp(at->program, "*") && fnmatch(at->program, program, 0)) continue;
    if (fnmatch(at->path, two ? two : one, 0)) continue;
    if (at->skip-- > 0) continue;
    at->skip = 0;
    at->struck++;
    if (at->action == KILL_BEFORE) die();
    if (at->action == STOP_BEFORE) freeze();
    if (at->action == HANG) {
      hang(at);
      return NULL;
    }
    return at;
  }
  return NULL;
}

static int fails(struct point *at, const char *operation, const char *one, const char *two) {
  if (!at || at->action != FAIL) return 0;
  record(operation, -1, at->number, 0, one, two, 0, NULL, 0);
  return 1;
}

/* Gives the lock back; what a point does after the call is done here. */
static void leave(struct point *at, int number) {
  if (at && at->action == KILL_AFTER) die();
  if (at && at->action == STOP_AFTER) freeze();
  give();
  errno = number;
}

/* ---- Calls ---- */

static int open_at(int dir, const char *name, int flags, mode_t mode) {
  char path[PATH_MAX];
  int inside = resolve(dir, name, path), changing = flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC);
  if (!inside || !changing) {
    int fd = raw(SYS_openat, dir, name, flags, mode);
    if (shared) opened(fd, inside ? path : NULL);
    return fd;
  }
  struct stat found;
  struct point *at = enter("open", path, NULL);
  if (fails(at, "open", path, NULL)) {
    int number = at->number;
    leave(NULL, number);
    return -1;
  }
  int existed = !lstat(path, &found);
  int fd = raw(SYS_openat, dir, name, flags, mode), number = errno;
  opened(fd, path);
  int made = fd >= 0 && !existed, cut = fd >= 0 && existed && (flags & O_TRUNC);
  record(made ? "create" : cut ? "cut" : "open", fd, fd < 0 ? number : 0, fd < 0 ? 0 : inode_of(fd), path, NULL,
         0, NULL, 0);
  leave(at, number);
  return fd;
}

#define OPENING(name, declaration, dir) \
  int name declaration { \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
      va_list rest; \
      va_start(rest, flags); \
      mode = va_arg(rest, mode_t); \
      va_end(rest); \
    } \
    return open_at(dir, file, flags, mode); \
  }

OPENING(open, (const char *file, int flags, ...), AT_FDCWD)
OPENING(open64, (const char *file, int flags, ...), AT_FDCWD)
OPENING(openat, (int dir, const char *file, int flags, ...), dir)
OPENING(openat64, (int dir, const char *file, int flags, ...), dir)
int __open_2(const char *file, int flags) { return open_at(AT_FDCWD, file, flags, 0); }
int __open64_2(const char *file, int flags) { return open_at(AT_FDCWD, file, flags, 0); }
int creat(const char *file, mode_t mode) { return open_at(AT_FDCWD, file, O_WRONLY | O_CREAT | O_TRUNC, mode); }

int close(int fd) {
  REAL(close);
  if (path_of(fd)) opened(fd, NULL);
  return real(fd);
}

/* A shell opens a file and makes it its standard output. */
int dup2(int from, int to) {
  REAL(dup2);
  int made = real(from, to);
  if (made >= 0 && from != to && shared) opened(made, path_of(from));
  return made;
}

static ssize_t write_at(int fd, const void *data, size_t length, off_t where, int positioned) {
  const char *path = paths[fd];
  struct point *at = enter("write", path, NULL);
  if (fails(at, "write", path, NULL)) {
    int number = at->number;
    leave(NULL, number);
    return -1;
  }
  struct stat found;
  if (!positioned) {
    where = lseek(fd, 0, SEEK_CUR);
    if (fcntl(fd, F_GETFL) & O_APPEND && !fstat(fd, &found)) where = found.st_size;
  }
  /* A volume that fills up: half of the data, and no room for the rest. */
  if (at && at->action == SHORT) {
    if (length < 2 || at->struck > 1) {
      int number = at->number;
      at->lasting = 0;
      record("write", -1, number, inode_of(fd), path, NULL, 0, NULL, 0);
      leave(NULL, number);
      return -1;
    }
    length /= 2;
    at->lasting = 1;
  }
  ssize_t done = positioned ? raw(SYS_pwrite64, fd, data, length, where) : raw(SYS_write, fd, data, length);
  int number = errno;
  record("write", done, done < 0 ? number : 0, inode_of(fd), path, NULL, where, data, done > 0 ? done : 0);
  leave(at, number);
  return done;
}

ssize_t write(int fd, const void *data, size_t length) {
  REAL(write);
  return path_of(fd) ? write_at(fd, data, length, 0, 0) : real(fd, data, length);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t where) {
  REAL(pwrite);
  return path_of(fd) ? write_at(fd, data, length, where, 1) : real(fd, data, length, where);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t where) { return pwrite(fd, data, length, where); }

/* A call on one descriptor or one path: fault, call, record. */
#define SIMPLE(operation, inode, path, where, call) \
  struct point *at = enter(operation, path, NULL); \
  if (fails(at, operation, path, NULL)) { \
    int number = at->number; \
    leave(NULL, number); \
    return -1; \
  } \
  uint64_t known = inode; \
  int result = call, number = errno; \
  record(operation, result, result < 0 ? number : 0, known ? known : inode, path, NULL, where, NULL, 0); \
  leave(at, number); \
  return result;

int fsync(int fd) {
  REAL(fsync);
  if (!path_of(fd)) return real(fd);
  SIMPLE("fsync", inode_of(fd), paths[fd], 0, real(fd))
}

int fdatasync(int fd) {
  REAL(fdatasync);
  if (!path_of(fd)) return real(fd);
  SIMPLE("fsync", inode_of(fd), paths[fd], 0, real(fd))
}

int ftruncate(int fd, off_t length) {
  REAL(ftruncate);
  if (!path_of(fd)) return real(fd, length);
  SIMPLE("truncate", inode_of(fd), paths[fd], length, real(fd, length))
}

int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

int truncate(const char *file, off_t length) {
  REAL(truncate);
  char path[PATH_MAX];
  if (!resolve(AT_FDCWD, file, path)) return real(file, length);
  SIMPLE("truncate", inode_at(path), path, length, real(file, length))
}

int mkdirat(int dir, const char *file, mode_t mode) {
  char path[PATH_MAX];
  if (!resolve(dir, file, path)) return raw(SYS_mkdirat, dir, file, mode);
  SIMPLE("mkdir", inode_at(path), path, 0, raw(SYS_mkdirat, dir, file, mode))
}

int mkdir(const char *file, mode_t mode) { return mkdirat(AT_FDCWD, file, mode); }

int symlinkat(const char *what, int dir, const char *file) {
  char path[PATH_MAX];
  if (!resolve(dir, file, path)) return raw(SYS_symlinkat, what, dir, file);
  SIMPLE("symlink", inode_at(path), path, 0, raw(SYS_symlinkat, what, dir, file))
}

int symlink(const char *what, const char *file) { return symlinkat(what, AT_FDCWD, file); }

int unlinkat(int dir, const char *file, int flags) {
  char path[PATH_MAX];
  if (!resolve(dir, file, path)) return raw(SYS_unlinkat, dir, file, flags);
  SIMPLE("unlink", inode_at(path), path, 0, raw(SYS_unlinkat, dir, file, flags))
}

int unlink(const char *file) { return unlinkat(AT_FDCWD, file, 0); }
int rmdir(const char *file) { return unlinkat(AT_FDCWD, file, AT_REMOVEDIR); }

static int two_names(const char *operation, int from_dir, const char *from, int to_dir, const char *to, long call,
                     int flags) {
  char one[PATH_MAX], two[PATH_MAX];
  int inside = resolve(from_dir, from, one) | resolve(to_dir, to, two) << 1;
  if (inside != 3) return raw(call, from_dir, from, to_dir, to, flags);
  struct point *at = enter(operation, one, two);
  if (fails(at, operation, one, two)) {
    int number = at->number;
    leave(NULL, number);
    return -1;
  }
  uint64_t inode = inode_at(one);
  int result = raw(call, from_dir, from, to_dir, to, flags), number = errno;
  record(operation, result, result < 0 ? number : 0, inode, one, two, 0, NULL, 0);
  leave(at, number);
  return result;
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  return two_names("rename", from_dir, from, to_dir, to, SYS_renameat2, flags);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
  return renameat2(from_dir, from, to_dir, to, 0);
}

int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
  return two_names("link", from_dir, from, to_dir, to, SYS_linkat, flags);
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

/* Emacs 28 asks for renameat2 by its number. */
long syscall(long which, ...) {
  va_list rest;
  va_start(rest, which);
  long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
  long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
  va_end(rest);
  char one[PATH_MAX];
  if (which == SYS_renameat2 && resolve((int)a, (const char *)b, one))
    return renameat2((int)a, (const char *)b, (int)c, (const char *)d, (unsigned)e);
  return raw(which, a, b, c, d, e, f);
}

/* ---- The wall clock ---- */

int clock_gettime(clockid_t id, struct timespec *now) {
  REAL(clock_gettime);
  int result = real(id, now);
  if (!result && shared && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += shared->clock_offset;
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  REAL(gettimeofday);
  int result = real(now, zone);
  if (!result && shared && now) now->tv_sec += shared->clock_offset;
  return result;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}

/* ---- For the test ---- */

int chaos_open(const char *state, const char *log) { return attach(state, log, 1); }
void chaos_lock(void) { take(); }
void chaos_unlock(void) { give(); }

void chaos_mark(const char *text) {
  take();
  record("mark", 0, 0, 0, NULL, NULL, 0, text, strlen(text));
  give();
}

void chaos_arm(int slot, int action, int number, int skip, int lasting, const char *who, const char *operation,
               const char *path) {
  take();
  struct point *at = &shared->points[slot];
  at->action = NOTHING;
  at->number = number;
  at->skip = skip;
  at->lasting = lasting;
  at->struck = 0;
  snprintf(at->program, sizeof at->program, "%s", who);
  snprintf(at->operation, sizeof at->operation, "%s", operation);
  snprintf(at->path, sizeof at->path, "%s", path);
  at->action = action;
  give();
}

int chaos_struck(int slot) { return shared->points[slot].struck; }
void chaos_set_clock(int64_t seconds) { shared->clock_offset = seconds; }
