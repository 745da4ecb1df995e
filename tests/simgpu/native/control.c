/*
 * nvidia-cuda-mps-control as of r615, simulated: r615's command line in front of Debian's real control daemon.
 *
 * As a daemon (-f) it checks the configuration, leaves a helper behind for what the real one does not do, and becomes
 * the real one, so that whoever started it watches, stops and kills the real process. As a client it translates r615's
 * commands to the real one's, and answers about clients from the state, since without a GPU no client ever attaches.
 */
#define _GNU_SOURCE
#include "mps.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#define MAX_CLIENTS 4096

struct options {
    const char *protocol, *configuration;
    int foreground, multiuser, quit;
};

static const struct option LONG_OPTIONS[] = {
    {"foreground", no_argument, NULL, 'f'},  {"multiuser", no_argument, NULL, 'm'},
    {"apply", required_argument, NULL, 'a'}, {"protocol", required_argument, NULL, 'p'},
    {"quit", no_argument, NULL, 'q'},        {NULL, 0, NULL, 0},
};

static void fail(const char *what, const char *which) {
    fprintf(stderr, "simulated r615: %s: %s\n", what, which);
    exit(1);
}

static struct options parse(int argc, char **argv) {
    struct options options = {0};
    for (int letter; (letter = getopt_long(argc, argv, "+fma:p:q", LONG_OPTIONS, NULL)) != -1;) {
        switch (letter) {
        case 'f': options.foreground = 1; break;
        case 'm': options.multiuser = 1; break;
        case 'q': options.quit = 1; break;
        case 'a': options.configuration = optarg; break;
        case 'p':
            if (strcmp(optarg, "2") != 0 && strcmp(optarg, "3") != 0) fail("protocol is neither 2 nor 3", optarg);
            options.protocol = optarg;
            break;
        default: exit(1);
        }
    }
    return options;
}

/* Whoever starts us may have closed or shared anything; the checker must find neither. Prints its own line on refusal. */
static void check_configuration(const char *path) {
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
        execl(PYTHON, PYTHON, "-I", "-S", beside_wrapper(CHECK_PROGRAM), path, (char *)NULL);
        perror(PYTHON);
        _exit(127);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (status != 0) exit(1);
}

static void start_helper(const struct options *options) {
    pid_t control = getpid();
    pid_t child = fork();
    if (child < 0) abort();
    if (child > 0) return;
    /* It ends with the control daemon, however that ends. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != control) _exit(0);
    char pid[16];
    snprintf(pid, sizeof pid, "%d", control);
    const char *helper = beside_wrapper(HELPER_PROGRAM);
    execl(helper, helper, pid, options->configuration ? options->configuration : "", (char *)NULL);
    perror(helper);
    _exit(127);
}

static int run_daemon(const struct options *options, const struct state *state) {
    pause_ms(state_number(state, "mps.start_ms", 0));
    const char *refusal = state_get(state, "mps.start_error");
    if (refusal) fail("told to refuse the start", refusal);
    if (strlen(pipe_directory()) > MAX_PIPE_DIRECTORY) fail("control daemon failed to start", "internal error");
    if (options->configuration) check_configuration(options->configuration);
    fprintf(stdout, "simulated r615: protocol %s, %s, configuration %s\n", options->protocol ? options->protocol : "2",
            options->multiuser ? "multi-user" : "single-user",
            options->configuration ? options->configuration : "none");
    fflush(stdout);
    start_helper(options);
    const char *real = beside_wrapper(REAL_PROGRAM);
    /* Its own first argument decides what the real one is: with -p 3 before it, it would be a client. */
    execl(real, real, "-f", (char *)NULL);
    perror(real);
    return 127;
}

/* Pass on what the real one says when it is not there, does not answer, or breaks off. */
static void require_real(int status) {
    if (status == 0) return;
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static int list_clients(int argc, char **argv, const struct state *state) {
    const char *format = argc > 2 ? argv[2] : "--format=table";
    int csv = strncmp(format, "--format=csv", 12) == 0;
    if (argc > 3 || (!csv && strcmp(format, "--format=table") != 0)) fail("client list: unknown format", format);
    require_real(run_real("get_server_list\n", STDERR_FILENO));
    pid_t pids[MAX_CLIENTS];
    size_t count = attached_clients(state, pids, MAX_CLIENTS);
    if (csv && strstr(format, ",noheader") == NULL) puts("pid,server,namespace");
    if (!csv) puts("PID     SERVER  NAMESPACE");
    for (size_t i = 0; i < count && i < MAX_CLIENTS; i++) {
        char pid[16];
        snprintf(pid, sizeof pid, "%d", pids[i]);
        /* As in r615, whose table has no room for seven digits. */
        if (csv) printf("%s,shared,default\n", pid);
        else printf(strlen(pid) > 6 ? "%.3s...  shared  default\n" : "%-8s shared  default\n", pid);
    }
    return 0;
}

static int terminate_client(int argc, char **argv, const struct state *state) {
    if (argc != 3) fail("client terminate", "one PID is wanted");
    require_real(run_real("get_server_list\n", STDERR_FILENO));
    char key[64];
    snprintf(key, sizeof key, "mps.terminate_ms.%.32s", argv[2]);
    pause_ms(state_number(state, key, 0));
    pid_t wanted = (pid_t)strtol(argv[2], NULL, 10);
    pid_t pids[MAX_CLIENTS];
    size_t count = attached_clients(state, pids, MAX_CLIENTS);
    for (size_t i = 0; i < count && i < MAX_CLIENTS; i++)
        if (pids[i] == wanted && mark_terminated(wanted) == 0) return 0;
    printf("Invalid process %s!\n", argv[2]);
    return 1;
}

static int run_client(int argc, char **argv, const struct state *state) {
    const char *error = state_get(state, "mps.error");
    if (state_get(state, "mps.hang")) pause();
    pause_ms(state_number(state, "mps.latency_ms", 0));
    if (error) {
        printf("%s\n", error);
        return 1;
    }
    if (argc == 0) {
        const char *real = beside_wrapper(REAL_PROGRAM);
        execl(real, real, (char *)NULL);
        perror(real);
        return 127;
    }
    if (argc >= 2 && strcmp(argv[0], "client") == 0) {
        if (strcmp(argv[1], "list") == 0) return list_clients(argc, argv, state);
        if (strcmp(argv[1], "terminate") == 0) return terminate_client(argc, argv, state);
    }
    fail("unknown command", argv[0]);
    return 1;
}

int main(int argc, char **argv) {
    struct options options = parse(argc, argv);
    struct state state;
    read_state(&state);
    if (options.foreground) return run_daemon(&options, &state);
    if (options.quit) return run_real("quit\n", -1) == 0 ? 0 : 1;
    return run_client(argc - optind, argv + optind, &state);
}
