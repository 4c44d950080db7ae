/* Tests include/gpuzip_revolve.h with a program as it was written for Algorithm 799: the derivative of the
 * last state of x' = x - x^3/3 by its first, by explicit Euler steps, with the snapshots in an array. The
 * adjoint has the bits of keeping every state, every slot is below `snaps`, and the number of forward steps
 * is the least one, which a dynamic programme finds. The argument "few" leaves out long runs. The program
 * exits with 1 at the first failed check. */
#define GPUZIP_REVOLVE_NAMES
#include <gpuzip_revolve.h>

#include <pthread.h>

enum { MOST_STEPS = 60, MOST_SNAPS = 12 };

#define CHECK(condition)                                                                                    \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, gpuzip_last_error()); \
      exit(1);                                                                                              \
    }                                                                                                       \
  } while (0)

static double step(double x) { return x + 0.01 * (x - x * x * x / 3.0); }
static double adjoint_step(double x, double bar) { return bar * (1.0 + 0.01 * (1.0 - x * x)); }

static void *array(size_t count)
{
  void *memory = calloc(count, sizeof(double));
  CHECK(memory != NULL);
  return memory;
}

/* The derivative with every state kept. */
static double with_every_state(int steps, double x)
{
  double *kept = (double *)array((size_t)steps), bar = 1.0;

  for (int i = 0; i < steps; i++, x = step(x)) kept[i] = x;
  for (int i = steps; i-- > 0;) bar = adjoint_step(kept[i], bar);
  free(kept);
  return bar;
}

/* The derivative by the loop of the paper; counts the forward steps. `first` is the number of the first
 * step. */
static double with_snapshots(int first, int steps, int snaps, double x, long long *forward)
{
  int check = -1, capo = first, fine = first + steps, info = 0, turns = 0;
  double *shots = (double *)array((size_t)snaps), bar = 0.0;
  enum action what;

  *forward = 0;
  do {
    const int oldcapo = capo;
    what = revolve(&check, &capo, &fine, snaps, &info);
    switch (what) {
    case advance:
      CHECK(capo > oldcapo && capo < fine);
      for (int i = oldcapo; i < capo; i++, ++*forward) x = step(x);
      break;
    case takeshot:
      CHECK(check >= 0 && check < snaps && capo == oldcapo);
      shots[check] = x;
      break;
    case restore:
      CHECK(check >= 0 && check < snaps && capo < fine);
      x = shots[check];
      break;
    case firsturn:
      CHECK(turns == 0);
      bar = 1.0; /* the derivative of the last state by itself */
      /* fall through */
    case youturn:
      turns++;
      CHECK(capo == oldcapo && fine == capo && fine == first + steps - turns);
      bar = adjoint_step(x, bar);
      break;
    case terminate: CHECK(turns == steps && check == -1); break;
    default: CHECK(!"an error of revolve");
    }
  } while (what != terminate);
  free(shots);
  return bar;
}

static void reverses(int first, int steps, int snaps, long long least)
{
  long long forward;
  const double bar = with_snapshots(first, steps, snaps, 0.3, &forward), kept = with_every_state(steps, 0.3);

  CHECK(forward == least && numforw(steps, snaps) == least);
  CHECK(memcmp(&bar, &kept, sizeof bar) == 0);
  CHECK(expense(steps, snaps) == (double)least / steps);
}

/* All small runs, with the least number of forward steps from the recurrence
 * t(n, s) = min over j of j + t(n - j, s - 1) + t(j, s),  t(1, s) = 0, t(n, 0) infinite for n > 1. */
static void *small_runs(void *few)
{
  static const long long never = 1LL << 40;
  long long t[MOST_STEPS + 1][MOST_SNAPS + 1];

  for (int n = 1; n <= MOST_STEPS; n++)
    for (int s = 0; s <= MOST_SNAPS; s++) {
      t[n][s] = n == 1 ? 0 : never;
      for (int j = 1; s > 0 && j < n; j++) {
        const long long steps = j + t[n - j][s - 1] + t[j][s];
        if (steps < t[n][s]) t[n][s] = steps;
      }
      if (s > 0 && (few == NULL || n % 7 == 1)) reverses(n % 3, n, s, t[n][s]);
    }
  return NULL;
}

/* Large runs, with published numbers of forward steps. */
static void large_runs(int few)
{
  reverses(0, 1000, 10, 3636);
  reverses(0, 3001, 7, 18004);
  reverses(0, 3751, 149, 7351);
  if (few) return;
  reverses(0, 3751, 8, 21252);
  reverses(0, 6751, 177, 13323);
  reverses(0, 10000, 50, 28622);
  reverses(0, 100000, 100, 294747);
}

static void functions(void)
{
  CHECK(maxrange(3, 2) == 10 && maxrange(20, 3) == 1771 && maxrange(0, 9) == 1 && maxrange(-1, 3) == -1);
  CHECK(maxrange(31, 1) == 32 && maxrange(16, 16) == 601080390 && maxrange(17, 17) == INT_MAX && maxrange(INT_MAX, INT_MAX) == INT_MAX);
  for (int s = 1; s < 12; s++) CHECK(adjust(maxrange(s, s)) == s && adjust(maxrange(s, s) + 1) == s + 1);
  CHECK(numforw(0, 3) == -1 && numforw(3, 0) == -1 && expense(0, 3) < 0.0 && numforw(1, 1) == 0);
  CHECK(gpuzip_revolve_numforw(1000000, 10) == 11647922 && gpuzip_revolve_numforw(1000000, 100) == 3817896);
  CHECK(numforw(INT_MAX, 1) == INT_MAX && gpuzip_revolve_numforw(INT_MAX, 1) == (long long)INT_MAX * (INT_MAX - 1) / 2);
}

/* A call of the run that must be refused, with this status and a message that contains `part`. */
static void refused(gpuzip_revolve_t *run, int check, int capo, int fine, int snaps, int status, const char *part)
{
  int info = 0;

  CHECK(gpuzip_revolve(run, &check, &capo, &fine, snaps, &info) == GPUZIP_REVOLVE_ERROR);
  CHECK(info == status && strstr(run->message, part) != NULL && run->schedule == NULL);
}

static void errors_and_several_runs(void)
{
  gpuzip_revolve_t one, other;
  int check = -1, capo = 0, fine = 9, info = 0;
  int check2 = -1, capo2 = 4, fine2 = 6;

  memset(&one, 0, sizeof one);
  memset(&other, 0, sizeof other);
  refused(&one, 0, 0, 9, 3, GPUZIP_ERR_ARGUMENT, "begins with check = -1");
  refused(&one, -1, 9, 9, 3, GPUZIP_ERR_ARGUMENT, "begins with check = -1");
  refused(&one, -1, 0, 9, 0, GPUZIP_ERR_ARGUMENT, "snaps >= 1");
  refused(&one, -1, -2, 9, 3, GPUZIP_ERR_ARGUMENT, "capo >= 0");
  CHECK(gpuzip_revolve(&one, &check, &capo, &fine, 3, &info) == GPUZIP_REVOLVE_TAKESHOT && check == 0);
  CHECK(gpuzip_revolve(&other, &check2, &capo2, &fine2, 1, &info) == GPUZIP_REVOLVE_TAKESHOT && check2 == 0);
  CHECK(gpuzip_revolve(&one, &check, &capo, &fine, 3, &info) == GPUZIP_REVOLVE_ADVANCE && capo > 0);
  CHECK(gpuzip_revolve(&other, &check2, &capo2, &fine2, 1, &info) == GPUZIP_REVOLVE_ADVANCE && capo2 == 5);
  CHECK(gpuzip_revolve(&other, &check2, &capo2, &fine2, 1, &info) == GPUZIP_REVOLVE_FIRSTURN && fine2 == 5);
  refused(&one, check, capo + 1, fine, 3, GPUZIP_ERR_ARGUMENT, "was changed");
  refused(&other, check2, capo2, fine2, 3, GPUZIP_ERR_ARGUMENT, "was changed");
  check2 = -1, capo2 = 4, fine2 = 6;
  for (int call = 0; call < 4; call++) gpuzip_revolve(&other, &check2, &capo2, &fine2, 1, &info);
  CHECK(check2 == 0 && capo2 == 4 && fine2 == 5); /* after a RESTORE */
  /* A new run takes the place of one that has not ended. */
  check2 = -1, capo2 = 0, fine2 = 2;
  CHECK(gpuzip_revolve(&other, &check2, &capo2, &fine2, 2, &info) == GPUZIP_REVOLVE_TAKESHOT && check2 == 0);
  gpuzip_revolve_end(&other);
  gpuzip_revolve_end(&other);
}

int main(int argc, char **argv)
{
  pthread_t thread;

  (void)argv;
  functions();
  errors_and_several_runs();
  /* Each thread has a run of its own. */
  CHECK(pthread_create(&thread, NULL, small_runs, argc > 1 ? &thread : NULL) == 0);
  large_runs(argc > 1);
  CHECK(pthread_join(thread, NULL) == 0);
  puts("ok");
  return 0;
}
