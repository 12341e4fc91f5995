// A disk that forgets what was not synced, for tests: preloaded into the service, it keeps a copy of every
// file and folder under FORGETFUL_ROOT as it was at its last fsync, under FORGETFUL_SHADOW. After the process
// was killed the test puts these copies where the files were: that is what a loss of power leaves at worst.
//
//   inode-N      the bytes of the file with inode N when it was last synced
//   link-PATH    a symbolic link that says N: the file PATH (/ written as %) is that one; "D" is a folder
//
// Syncing a file makes its name last too, as common file systems do; a name that was removed or given to
// another file is gone when its folder was synced.
//
// FORGETFUL_FAIL="ERRNO STEP COUNT" lets COUNT calls on what is under the root fail, from the STEP-th on: ENOSPC those that
// write, make or rename, EMFILE those that open, EIO all of them, reading, removing and syncing too. FORGETFUL_STEPS names a file
// of eight bytes in which these calls are counted.
//
// FORGETFUL_FULL names a file: while its first byte is not 0 the disk is full, whatever becomes free being taken by others at
// once: what is written over is written, and no file becomes longer (ENOSPC).
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what) {
    perror(what);
    abort();
}

// PATH below the root as the name of its link.
static void link_name(char *out, size_t size, const char *shadow, const char *path) {
    int begin = snprintf(out, size, "%s/link-", shadow);
    snprintf(out + begin, size - begin, "%s", path);
    for (char *c = out + begin; *c; c++)
        if (*c == '/') *c = '%';
}

static void set_link(const char *shadow, const char *path, const char *target) {
    char name[4096], temporary[4096];
    link_name(name, sizeof name, shadow, path);
    snprintf(temporary, sizeof temporary, "%s/temporary-link", shadow);
    unlink(temporary);
    if (symlink(target, temporary) || rename(temporary, name)) fail("link");
}

static void keep_bytes(const char *shadow, int fd, const struct stat *found) {
    char name[4096], temporary[4096];
    snprintf(name, sizeof name, "%s/inode-%lu", shadow, (unsigned long)found->st_ino);
    snprintf(temporary, sizeof temporary, "%s/temporary-inode", shadow);
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    int from = open(own, O_RDONLY | O_CLOEXEC);
    int to = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (from < 0 || to < 0 || ftruncate(to, found->st_size)) fail("copy");
    static char buffer[1 << 16];
    off_t at = 0;
    while ((at = lseek(from, at, SEEK_DATA)) >= 0 && at < found->st_size) {
        off_t end = lseek(from, at, SEEK_HOLE);
        while (at < end) {
            size_t want = end - at < (off_t)sizeof buffer ? (size_t)(end - at) : sizeof buffer;
            ssize_t got = pread(from, buffer, want, at);
            if (got <= 0) break;
            if (pwrite(to, buffer, got, at) != got) fail("copy");
            at += got;
        }
        if (at < end) break;
    }
    close(from);
    close(to);
    if (rename(temporary, name)) fail("copy");
}

static void keep_names(const char *root, const char *shadow, const char *path) {
    char full[4096], below[4096], prefix[4096], target[64];
    snprintf(full, sizeof full, "%s%s%s", root, *path ? "/" : "", path);
    DIR *folder = NEXT(opendir)(full);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        struct stat found;
        if (fstatat(dirfd(folder), entry->d_name, &found, AT_SYMLINK_NOFOLLOW)) continue;
        snprintf(below, sizeof below, "%s%s%s", path, *path ? "/" : "", entry->d_name);
        if (S_ISDIR(found.st_mode)) snprintf(target, sizeof target, "D");
        else snprintf(target, sizeof target, "%lu", (unsigned long)found.st_ino);
        set_link(shadow, below, target);
    }
    closedir(folder);
    // Names that are no more.
    snprintf(below, sizeof below, "%s%s", path, *path ? "/" : "");
    link_name(prefix, sizeof prefix, shadow, below);
    const char *start = strrchr(prefix, '/') + 1;
    DIR *links = NEXT(opendir)(shadow);
    for (struct dirent *entry; links && (entry = readdir(links));) {
        size_t length = strlen(start);
        if (strncmp(entry->d_name, start, length) || strchr(entry->d_name + length, '%')) continue;
        char still[8192];
        snprintf(still, sizeof still, "%s/%s", full, entry->d_name + length);
        if (access(still, F_OK)) unlinkat(dirfd(links), entry->d_name, 0);
    }
    if (links) closedir(links);
}

static int keep(int fd) {
    const char *root = getenv("FORGETFUL_ROOT"), *shadow = getenv("FORGETFUL_SHADOW");
    char own[64], path[4096];
    struct stat found;
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(own, path, sizeof path - 1);
    if (!root || !shadow || length < 0 || fstat(fd, &found)) return 0;
    path[length] = 0;
    size_t above = strlen(root);
    if (strncmp(path, root, above) || (path[above] && path[above] != '/')) return 0;
    const char *below = path[above] ? path + above + 1 : path + above;
    pthread_mutex_lock(&one_at_a_time);
    if (S_ISDIR(found.st_mode)) {
        keep_names(root, shadow, below);
    } else {
        char target[64];
        keep_bytes(shadow, fd, &found);
        snprintf(target, sizeof target, "%lu", (unsigned long)found.st_ino);
        // A file that was removed meanwhile has no name to keep.
        if (found.st_nlink) set_link(shadow, below, target);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return 0;
}

enum kind { OPENS, WRITES, SYNCS, READS, REMOVES };

static int is_below(const char *path) {
    const char *root = getenv("FORGETFUL_ROOT");
    size_t above = root ? strlen(root) : 0;
    return root && !strncmp(path, root, above) && (!path[above] || path[above] == '/');
}

static atomic_long *steps;

// Where steps are counted: what is written there stays when the process is killed.
__attribute__((constructor)) static void begin(void) {
    static atomic_long here;
    const char *path = getenv("FORGETFUL_STEPS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *there = file < 0 ? MAP_FAILED : mmap(0, sizeof here, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    steps = there == MAP_FAILED ? &here : there;
}

// Whether a call fails now.
static int fails(enum kind kind, int fd, const char *path) {
    const char *how = getenv("FORGETFUL_FAIL");
    int code;
    long first, count;
    if (!how || !steps || sscanf(how, "%d %ld %ld", &code, &first, &count) != 3) return 0;
    if ((code == ENOSPC && kind != WRITES) || (code == EMFILE && kind != OPENS)) return 0;
    char own[64], found[4096];
    if (!path) {
        snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(own, found, sizeof found - 1);
        if (length < 0) return 0;
        found[length] = 0;
        path = found;
    }
    if (!is_below(path)) return 0;
    long step = atomic_fetch_add(steps, 1);
    if (step < first || step - first >= count) return 0;
    errno = code;
    return 1;
}

static volatile const char *full;

__attribute__((constructor)) static void begin_full(void) {
    static const char is_not[1];
    const char *path = getenv("FORGETFUL_FULL");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *there = file < 0 ? MAP_FAILED : mmap(0, 1, PROT_READ, MAP_SHARED, file, 0);
    if (file >= 0) close(file);
    full = there == MAP_FAILED ? is_not : there;
}

// Whether a file would become longer on a disk that is full.
static int lacks_room(int fd, off64_t end) {
    struct stat found;
    char own[64], path[4096];
    if (!full || !*full || fstat(fd, &found) || !S_ISREG(found.st_mode) || end <= found.st_size) return 0;
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(own, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (!is_below(path)) return 0;
    errno = ENOSPC;
    return 1;
}

int fsync(int fd) { return fails(SYNCS, fd, 0) ? -1 : keep(fd); }
int fdatasync(int fd) { return fails(SYNCS, fd, 0) ? -1 : keep(fd); }

ssize_t write(int fd, const void *bytes, size_t count) {
    int is_refused = lacks_room(fd, lseek(fd, 0, SEEK_CUR) + (off64_t)count) || fails(WRITES, fd, 0);
    return is_refused ? -1 : NEXT(write)(fd, bytes, count);
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    return fails(WRITES, fd, 0) ? -1 : NEXT(writev)(fd, pieces, count);
}

ssize_t read(int fd, void *bytes, size_t count) {
    return fails(READS, fd, 0) ? -1 : NEXT(read)(fd, bytes, count);
}

ssize_t pread64(int fd, void *bytes, size_t count, off64_t at) {
    return fails(READS, fd, 0) ? -1 : NEXT(pread64)(fd, bytes, count, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    int is_refused = lacks_room(fd, at + (off64_t)count) || fails(WRITES, fd, 0);
    return is_refused ? -1 : NEXT(pwrite64)(fd, bytes, count, at);
}

int ftruncate64(int fd, off64_t length) {
    return fails(WRITES, fd, 0) ? -1 : NEXT(ftruncate64)(fd, length);
}

int rename(const char *from, const char *to) {
    return fails(WRITES, -1, to) ? -1 : NEXT(rename)(from, to);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return fails(OPENS, -1, path) ? -1 : NEXT(open64)(path, flags, mode);
}

DIR *opendir(const char *path) {
    return fails(OPENS, -1, path) ? 0 : NEXT(opendir)(path);
}

int mkdir(const char *path, mode_t mode) {
    return fails(WRITES, -1, path) ? -1 : NEXT(mkdir)(path, mode);
}

int unlink(const char *path) {
    return fails(REMOVES, -1, path) ? -1 : NEXT(unlink)(path);
}

int rmdir(const char *path) {
    return fails(REMOVES, -1, path) ? -1 : NEXT(rmdir)(path);
}
