// A disk that forgets what was not synced, for tests: preloaded into the service, it keeps a copy of every
// file and folder under FORGETFUL_ROOT as it was at its last fsync, under FORGETFUL_SHADOW. After the process
// was killed the test puts these copies where the files were: that is what a loss of power leaves at worst.
//
//   inode-N      the bytes of the file with inode N when it was last synced
//   link-PATH    a symbolic link that says N: the file PATH (/ written as %) is that one; "D" is a folder
//
// Syncing a file makes its name last too, as common file systems do; a name that was removed or given to
// another file is gone when its folder was synced.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    DIR *folder = opendir(full);
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
    DIR *links = opendir(shadow);
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

int fsync(int fd) { return keep(fd); }
int fdatasync(int fd) { return keep(fd); }
