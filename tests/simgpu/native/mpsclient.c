/*
 * A client command for inside a container: one command to the control daemon whose socket CUDA would find there.
 *
 * Linked statically, since the images of tests hold no libraries. It speaks what Debian's 550 speaks on its socket: one
 * SEQPACKET connection, a greeting that carries credentials, ours in return, then commands with their length before
 * them. Whoever looks in that daemon's output finds the command there, and so knows that this one was reached.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define GREETING "OUTBHELL"
#define CREDENTIALS "OUTBCRED"
#define USER_INTERFACE 4
#define ANSWER_SECONDS 5

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int connect_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {.tv_sec = ANSWER_SECONDS};
    int on = 1;
    int line = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (line < 0 || strlen(path) >= sizeof address.sun_path) fail("socket");
    strcpy(address.sun_path, path);
    setsockopt(line, SOL_SOCKET, SO_PASSCRED, &on, sizeof on);
    setsockopt(line, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(line, (struct sockaddr *)&address, sizeof address) != 0) fail(path);
    return line;
}

static void send_credentials(int line) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(struct ucred))];
    } control = {0};
    struct iovec text = {.iov_base = CREDENTIALS, .iov_len = sizeof CREDENTIALS};
    struct msghdr message = {
        .msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct ucred self = {.pid = getpid(), .uid = getuid(), .gid = getgid()};
    control.header = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof self), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS};
    memcpy(CMSG_DATA(&control.header), &self, sizeof self);
    if (sendmsg(line, &message, 0) < 0) fail("credentials");
}

static void send_command(int line, const char *command) {
    uint64_t length = strlen(command) + 2;
    char *text = NULL;
    if (asprintf(&text, "%s\n", command) < 0) abort();
    if (send(line, &length, sizeof length, 0) < 0 || send(line, text, length, 0) < 0) fail("command");
    length = 0;
    if (send(line, &length, sizeof length, 0) < 0) fail("end of commands");
}

/* An answer's first word tells text (0) from the end (1). */
static void print_answers(int line) {
    char answer[4096 + sizeof(uint32_t)];
    for (ssize_t got; (got = recv(line, answer, sizeof answer - 1, 0)) > (ssize_t)sizeof(uint32_t);) {
        uint32_t kind;
        memcpy(&kind, answer, sizeof kind);
        if (kind != 0) return;
        answer[got] = '\0';
        puts(answer + sizeof kind);
    }
}

int main(int argc, char **argv) {
    const char *directory = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char *path = NULL, greeting[sizeof GREETING];
    uint32_t kind = USER_INTERFACE;
    if (argc != 2) return 2;
    /* The CUDA library's own default. */
    if (asprintf(&path, "%s/control", directory ? directory : "/tmp/nvidia-mps") < 0) abort();
    int line = connect_to(path);
    if (recv(line, greeting, sizeof greeting, 0) != sizeof greeting || strcmp(greeting, GREETING) != 0) fail("greeting");
    send_credentials(line);
    if (send(line, &kind, sizeof kind, 0) < 0) fail("kind");
    send_command(line, argv[1]);
    print_answers(line);
    return 0;
}
